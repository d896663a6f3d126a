"""Records written: whole columns as record batches, librdkafka's producer, transactions, the fenced writer.

Owns batches in flight, retries and their order, and when a record counts as written. Must not choose topics or
settings by itself.
"""

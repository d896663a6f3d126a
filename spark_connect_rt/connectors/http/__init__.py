"""The HTTP source and sink: pages of a REST service read, records sent to one.

Owns requests, retries by status, pages and their positions. Must not know Kafka, Spark or the worker.
"""

"""Sinks that keep open table formats in step with Kafka: Iceberg and Delta, appended or upserted, exactly once.

Read `table_port.py` first, then `guard.py`: they say how a commit stays exact.
"""

"""MirrorMaker 2: its three connectors, and the rules of replication.

Owns names, filters and records of replication (pure), and the connectors' rounds and tasks. The tasks use the
clients of ``spark_connect_rt.kafka``, and nothing else of the worker.
"""

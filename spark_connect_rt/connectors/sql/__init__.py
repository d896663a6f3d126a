"""The SQL source and sink (PostgreSQL, SQLite) under the settings and offsets of the JDBC connectors.

Owns queries, columns, plans, progress, tables and writes of one database, and its URLs. Must not know Kafka, Spark
or the worker: rows go out and come in as records and batches of ``api``.
"""

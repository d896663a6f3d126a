"""Files as sources and sinks: lines, delimited rows, JSON lines and Parquet, one file or a directory.

Owns positions in files, formats of rows and what becomes of a file that has been read. Must not know Kafka, Spark
or the worker.
"""

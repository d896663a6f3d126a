"""Files as sources and sinks: lines, delimited rows, JSON lines and Parquet, one file or a directory.

Owns positions in files, formats of rows, and the moving or deleting of files that have been read. Must not know Kafka,
Spark or the worker.
"""

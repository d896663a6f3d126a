"""Tasks that the driver runs itself, as jobs of Spark's own: any format as a source, tables as sinks.

Owns batches and their memory in tables and checkpoints. Must not know slots or task writers: the engine treats these
tasks as any other.
"""

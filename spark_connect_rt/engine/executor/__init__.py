"""Code that runs on executors: picklable, imports nothing of the driver side.

Owns the life of a task there: the order of poll, send and commit of a source, of put, flush and report of a sink.
Must not plan: the driver decides which task runs where.
"""

"""`ObjectStoreSink`: topics as files in object stores and folders, each record in one file, exactly once."""

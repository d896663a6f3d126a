"""One Python that has imported everything; the Python processes of a local Spark are forked from it."""

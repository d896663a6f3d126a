"""The only door to Spark: driver side, executor side."""

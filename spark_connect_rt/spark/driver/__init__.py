"""Runs tasks as Spark jobs: the only door to SparkSession."""

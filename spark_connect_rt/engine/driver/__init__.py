"""The driver's side of the engine: runs tasks as Spark jobs, and owns the SparkSession."""

"""Where the sources of a worker group are, as CSV: ``spark-submit jobs/offsets_report.py worker.properties FOLDER``.

The program: docs/tutorial/pipelines.md.
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from spark_connect_rt.config.java_properties import load_properties


def main(properties: str, folder: str) -> None:
    """Write a row for each connector that has offsets, deleted ones included."""
    spark = SparkSession.builder.appName("offsets").getOrCreate()
    group = spark.read.format("connectrt").options(**load_properties(Path(properties)))
    group.load("offsets").createOrReplaceTempView("offsets")
    group.load("connectors").createOrReplaceTempView("connectors")
    report = spark.sql(
        "SELECT connector, first(state) AS state, count(*) AS partitions, max(written) AS last_written, "
        "max_by(offset, written) AS last_offset, NOT any_value(configured) AS deleted "
        "FROM offsets LEFT JOIN connectors ON connector = name GROUP BY connector ORDER BY connector"
    )
    report.coalesce(1).write.mode("overwrite").option("header", True).csv(folder)


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Reads tables with Spark and writes their rows as JSON, in an environment with a Spark that the formats support.

Run as ``python -m tests.support.spark_table_reader JARS OUT FORMAT=PATH ...`` with jars between colons. `OUT` gets one
JSON list of rows for each table, in order.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
}


def main(jars: str, out: str, *tables: str) -> None:
    """Read each table. Prints nothing."""
    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(jars.split(os.pathsep)))
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    found = []
    for table in tables:
        kind, _, path = table.partition("=")
        found.append([json.loads(row) for row in spark.read.format(kind).load(path).toJSON().collect()])
    Path(out).write_text(json.dumps(found), encoding="utf-8")
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

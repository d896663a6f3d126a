"""Appends topics to a table through Spark: Parquet, Delta, any format that ``df.write`` knows.

Configuration only: the driver runs it as bounded Spark jobs (spark/driver/spark_sink.py). Files and Delta are
exactly once; other formats repeat a batch after a crash between the write and the offset commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.connector import SparkSinkConnector, SparkSinkTask
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast

CONFIG = ConfigDef(
    [
        ConfigKey(
            "spark.format",
            Type.STRING,
            "parquet",
            Importance.HIGH,
            "The table's format: parquet, json, csv, orc, delta, jdbc, or any other that Spark can append to.",
        ),
        ConfigKey("path", Type.STRING, "", Importance.HIGH, "The table's folder, any Hadoop file system."),
        ConfigKey("table", Type.STRING, "", Importance.HIGH, "The table's name in Spark's catalog, instead of path."),
        ConfigKey(
            "table.schema",
            Type.STRING,
            "",
            Importance.MEDIUM,
            "Columns as Spark DDL (`year INT, carrier STRING`). Empty: taken from the first batch.",
        ),
        ConfigKey(
            "flush.size",
            Type.INT,
            "100000",
            Importance.MEDIUM,
            "Append as soon as so many records wait.",
            check=AtLeast(1),
        ),
        ConfigKey(
            "flush.interval.ms",
            Type.LONG,
            "10000",
            Importance.MEDIUM,
            "Append when the oldest record has waited so long, ms.",
            check=AtLeast(0),
        ),
        ConfigKey(
            "batch.max.records",
            Type.INT,
            "1000000",
            Importance.LOW,
            "The most records one append holds.",
            check=AtLeast(1),
        ),
    ]
)


class SparkTableSinkConnector(SparkSinkConnector):
    """Splits the topics' partitions between its tasks by their consumer group."""

    def config_def(self) -> ConfigDef:
        """Return the settings; ``spark.option.*`` go to Spark's writer as they are."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the marker of a task that the driver runs."""
        return SparkSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """The group divides the work: every task has the same configuration."""
        return [dict(self.config) for _ in range(max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """A file format needs a folder, any table needs a place."""
        path, table = config.get("path", ""), config.get("table", "")
        if path and table:
            return {"table": ["set either path or table, not both"]}
        if (
            not path
            and not table
            and config.get("spark.format", "parquet") in ("parquet", "json", "csv", "orc", "delta")
        ):
            return {"path": ["set the table's folder (path) or its name in Spark's catalog (table)"]}
        return {}

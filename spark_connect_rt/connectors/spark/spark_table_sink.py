"""A table that Spark writes: the configuration of it (the driver does the work: engine/formats/spark_sink.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.connector import SparkSinkConnector, SparkSinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.spark_connectors import OPTION_PREFIX, TABLE_SINK


class SparkTableSinkConnector(SparkSinkConnector):
    """Appends records to a table that Spark writes: Parquet, Delta Lake, Iceberg and others."""

    def config_def(self) -> ConfigDef:
        """Declare the settings; ``spark.option.*`` go to Spark's writer as they are."""
        return TABLE_SINK

    def task_class(self) -> type[Any]:
        """Return the marker of tasks that Spark itself runs."""
        return SparkSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task."""
        return [dict(self.config) for _ in range(max_tasks)]

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Accept the offsets.

        The worker removes those in the table before the group's offsets change (decision 0001).
        """
        return True

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Reject a sink without a target, and an invalid schema."""
        problems: dict[str, list[str]] = {}
        if not config.get("path") and not config.get("table") and not _has_options(config):
            problems["path"] = ["path or table must be set"]
        schema = (config.get("table.schema") or "").strip()
        if schema and any(len(column.split()) < 2 for column in _columns(schema)):
            problems["table.schema"] = [f"must be columns as 'name TYPE, name TYPE', not {schema!r}"]
        return problems


def _has_options(config: Mapping[str, str]) -> bool:
    """A format such as jdbc takes its place from options alone."""
    return any(name.startswith(OPTION_PREFIX) for name in config)


def _columns(ddl: str) -> list[str]:
    """Return the columns of a DDL text; commas inside ``<>`` and ``()`` do not part columns."""
    columns, depth = [""], 0
    for letter in ddl:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and depth == 0:
            columns.append("")
        else:
            columns[-1] += letter
    return columns

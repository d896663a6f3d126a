"""A class with the interface of Databricks' Lakeflow community connectors: a table without rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql import types as spark


class Orders:
    """One table, in which nothing happens."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Take the options of the connector; none is used."""

    def list_tables(self) -> list[str]:
        """Return the names of the tables."""
        return ["orders", "returns"]

    def get_table_schema(self, table: str, options: Mapping[str, str]) -> spark.StructType:
        """Return the columns of a table."""
        return spark.StructType([spark.StructField("id", spark.LongType(), False)])

    def read_table_metadata(self, table: str, options: Mapping[str, str]) -> dict[str, Any]:
        """Return how a table is read."""
        return {"primary_keys": ["id"], "cursor_field": "id", "ingestion_type": "append"}

    def read_table(self, table: str, start: Any, options: Mapping[str, str]) -> tuple[Iterator[Any], Any]:
        """Return no rows, and the offset that was given."""
        return iter(()), start

"""The quickstart's two connector configurations, as anybody would POST them."""

from __future__ import annotations

from pathlib import Path

SOURCE, SINK, TOPIC = "flights-source", "flights-table", "flights"

COLUMNS = {
    "year": "int32",
    "month": "int32",
    "day": "int32",
    "dep_time": "int32",
    "sched_dep_time": "int32",
    "dep_delay": "float64",
    "arr_time": "int32",
    "sched_arr_time": "int32",
    "arr_delay": "float64",
    "carrier": "string",
    "flight": "int32",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "air_time": "float64",
    "distance": "float64",
    "hour": "int32",
    "minute": "int32",
    "time_hour": "string",
}
_SPARK_TYPES = {"int32": "INT", "float64": "DOUBLE", "string": "STRING"}


def source_config(csv: Path) -> dict[str, str]:
    """Return the file source's configuration: one record a row, as schemaless JSON."""
    return {
        "connector.class": "DelimitedFileSource",
        "tasks.max": "1",
        "file": str(csv),
        "format": "csv",
        "topic": TOPIC,
        "schema": ",".join(f"{name}:{kind}" for name, kind in COLUMNS.items()),
        "null.values": "NA",
    }


def sink_config(table: Path, table_format: str) -> dict[str, str]:
    """Return the table sink's configuration."""
    return {
        "connector.class": "SparkTableSink",
        "tasks.max": "1",
        "topics": TOPIC,
        "spark.format": table_format,
        "path": str(table),
        "table.schema": ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in COLUMNS.items()),
        "flush.size": "200000",
        "flush.interval.ms": "2000",
    }

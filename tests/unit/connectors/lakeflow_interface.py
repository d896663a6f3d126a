"""What Databricks' Lakeflow community connectors can be asked: names of methods and of their arguments, as of 2026."""

from __future__ import annotations

from collections.abc import Mapping

_ROWS = ("table_name", "start_offset", "table_options")
METHODS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "LakeflowConnect": {
        "__init__": ("options",),
        "list_tables": (),
        "get_table_schema": ("table_name", "table_options"),
        "read_table_metadata": ("table_name", "table_options"),
        "read_table": _ROWS,
        "read_table_deletes": _ROWS,
    },
    "SupportsPartition": {
        "get_partitions": ("table_name", "table_options"),
        "read_partition": ("table_name", "partition", "table_options"),
    },
    "SupportsPartitionedStream": {
        "is_partitioned": ("table_name",),
        "latest_offset": ("table_name", "table_options", "start_offset"),
        "get_partitions": ("table_name", "table_options", "start_offset", "end_offset"),
    },
}

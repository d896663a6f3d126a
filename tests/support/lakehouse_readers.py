"""Readers of lakehouse tables other than the code under test. DuckDB's extensions come from wheels, no download."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import duckdb


def duckdb_session(*extensions: str) -> duckdb.DuckDBPyConnection:
    """Return a session with extensions of the wheels `duckdb-ext-*`, in the order that they need."""
    session = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    spec = importlib.util.find_spec("duckdb_ext")
    assert spec is not None
    assert spec.submodule_search_locations
    for name in extensions:
        found = [path for folder in spec.submodule_search_locations for path in Path(folder).rglob(f"{name}.duckdb_*")]
        session.load_extension(str(found[0]))
    return session


def duckdb_rows(metadata_location: str, order_by: str, columns: str = "*") -> list[dict[str, Any]]:
    """Return the rows of the Iceberg table whose metadata file this is."""
    session = duckdb_session("avro", "iceberg")
    path = metadata_location.removeprefix("file://")
    found = session.sql(f"select {columns} from iceberg_scan('{path}') order by {order_by}")
    rows: list[dict[str, Any]] = found.to_arrow_table().to_pylist()
    return rows

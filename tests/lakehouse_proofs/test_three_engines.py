"""Spark 4.1 reads the same rows as pyiceberg, delta-rs and DuckDB, after random histories of both sinks.

Iceberg's and Delta's jars for Spark end at 4.1, so Spark runs in an environment with that (`tests.suite.other_spark`).
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.base.cache import resolve_jars
from tests.suite.other_spark import environment, variables
from tests.support.table_histories import DeltaHistory, IcebergHistory, Rows, normal

SPARK = "4.1"
ICEBERG_SPARK = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0!"
DELTA_SPARK = "io.delta:delta-spark_4.1_2.13:4.4.0!"
DELTA_STORAGE = "io.delta:delta-storage:4.4.0!"
STEPS, CHANGES = 8, 100
CASES = (
    (1, False, ""),
    (2, False, "region"),
    (3, True, ""),
    (4, True, "region, bucket(3, id)"),
    (5, True, "bucket(4, id)"),
)
pytestmark = pytest.mark.timeout(1800)


def by_spark(folder: Path, tables: Sequence[str]) -> list[Rows]:
    """Return the rows that Spark reads of each table, `format=path`."""
    jars = [*resolve_jars((ICEBERG_SPARK,)), *resolve_jars((DELTA_SPARK, DELTA_STORAGE))]
    python, out = environment(SPARK), folder / "rows.json"
    command = [str(python), "-m", "tests.support.spark_table_reader", os.pathsep.join(map(str, jars)), str(out)]
    done = subprocess.run(
        [*command, *tables], env={**os.environ, **variables(python)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[list[dict[str, Any]]] = json.loads(out.read_text(encoding="utf-8"))
    return [normal(rows) for rows in found]


def test_spark_reads_the_rows_of_every_history(tmp_path: Path) -> None:
    histories: list[tuple[str, Rows]] = []
    for seed, upsert, partition_by in CASES:
        iceberg = IcebergHistory(tmp_path / f"iceberg{seed}", seed, upsert=upsert, partition_by=partition_by)
        iceberg.folder.mkdir()
        iceberg.run(STEPS, CHANGES, lambda: None)
        assert iceberg.by_pyiceberg() == iceberg.by_duckdb() == iceberg.expected()
        histories.append((f"iceberg={iceberg.metadata}", iceberg.expected()))
        delta = DeltaHistory(
            tmp_path / f"delta{seed}", seed, upsert=upsert, partition_by="" if "(" in partition_by else partition_by
        )
        delta.run(STEPS, CHANGES, lambda: None)
        assert delta.by_delta_rs() == delta.by_duckdb() == delta.expected()
        histories.append((f"delta={delta.path}", delta.expected()))
    found = by_spark(tmp_path, [table for table, _ in histories])
    for (table, expected), rows in zip(histories, found, strict=True):
        assert rows == expected, table

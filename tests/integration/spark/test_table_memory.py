"""What a table remembers is forgotten for good when offsets are altered (decision 0001, KIP-875)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.formats.table_files import Declared, TableFiles
from spark_connect_rt.engine.formats.table_writer import SparkTables, writer_for

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


SPARK = {"group.id": "table-memory-tests"}


class _Runner:
    """As the late runner: the session, once somebody needs it."""

    def __init__(self, session: SparkSession) -> None:
        self.session = lambda: session

    def real(self) -> _Runner:
        return self


def _rows(spark: SparkSession, config: dict[str, str]) -> int:
    if config["spark.format"] == "delta":
        from deltalake import DeltaTable

        return int(DeltaTable(config["path"]).to_pyarrow_table().num_rows)
    return spark.read.format(config["spark.format"]).load(config["path"]).count()


@pytest.mark.parametrize("format_name", ["parquet", "delta"])
def test_the_rows_stay_and_the_offsets_are_forgotten(spark: SparkSession, tmp_path: Path, format_name: str) -> None:
    config = {"spark.format": format_name, "path": str(tmp_path / "table")}
    tables, name = SparkTables(_Runner(spark)), "../s %"  # a connector's name is no path
    for task, ranges in ((0, {P0: (0, 5)}), (1, {P1: (3, 8)})):
        writer_for(spark, config, ConnectorTaskId(name, task)).append(spark.range(5), f"batch{task}", ranges)
    writer_for(spark, config, ConnectorTaskId("other", 0)).append(spark.range(1), "batch", {P0: (9, 10)})
    assert tables.held(name, config) == {P0: (0, 5), P1: (3, 8)}
    tables.forget(name, config)
    assert tables.held(name, config) == {}
    assert tables.held("other", config) == {P0: (9, 10)}
    assert _rows(spark, config) == 11
    writer = writer_for(spark, config, ConnectorTaskId(name, 0))
    writer.append(spark.range(2), "later", {P0: (0, 2)})
    assert (writer.holds("later"), writer.holds("batch0")) == (True, False)
    assert tables.held(name, config) == {P0: (0, 2)}


def test_a_batch_that_was_declared_and_not_moved_is_finished_first(spark: SparkSession, tmp_path: Path) -> None:
    config = {"spark.format": "parquet", "path": str(tmp_path / "table")}
    tables, files = SparkTables(_Runner(spark)), TableFiles(spark, config["path"], "s", 1)
    spark.range(4).write.parquet(files.staging_path("crashed"))
    files.declare(Declared("crashed", {P1: (0, 4)}))
    assert tables.held("s", config) == {P1: (0, 4)}
    tables.forget("s", config)
    assert (tables.held("s", config), _rows(spark, config)) == ({}, 4)


def test_a_table_that_is_not_there_remembers_nothing(spark: SparkSession, tmp_path: Path) -> None:
    for format_name in ("parquet", "delta", "jdbc"):
        config = {"spark.format": format_name, "path": str(tmp_path / "none")}
        tables = SparkTables(_Runner(spark))
        tables.forget("s", config)
        assert tables.held("s", config) == {}

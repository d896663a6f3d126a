"""Spark-written sinks on a real broker and a real Spark: rows exactly once through every kind of crash."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from chispa import assert_df_equality
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.executor_clients import FACTORY
from spark_connect_rt.engine.formats.spark_sink import SparkSinkRunner
from spark_connect_rt.engine.formats.table_files import Declared, TableFiles
from spark_connect_rt.engine.task_runner import (
    Assign,
    BatchDurable,
    PartitionsReleased,
    Pause,
    Resume,
    Revoke,
    Start,
    Stop,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskKind,
    TaskLaunch,
    TaskPaused,
    TaskRunning,
)

LIMIT_S = 90.0
JSON = {
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


SPARK = {"group.id": "spark-sink-tests"}


@pytest.fixture
def topic(broker: EmbeddedKafka) -> str:
    name = f"rows-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result()
    return name


class Sink:
    """Plays the worker around one task."""

    def __init__(
        self, spark: SparkSession, broker: EmbeddedKafka, topic: str, path: Path | None, **config: str
    ) -> None:
        self.topic = topic
        self.events: list[TaskEvent] = []
        self.changed = threading.Condition()
        self.runner = SparkSinkRunner(FACTORY)
        self.runner.open(self._hear, lambda: spark)
        self.task = ConnectorTaskId("table", 0)
        place = {} if path is None else {"path": str(path)}
        settings = {"topics": topic, **place, "flush.interval.ms": "1", **JSON, **config}
        self.launch = TaskLaunch(
            self.task,
            1,
            1,
            TaskKind.SPARK_SINK,
            "spark_connect_rt.api.connector:SparkSinkTask",
            settings,
            settings,
            {},
            {"bootstrap.servers": broker.bootstrap_servers},
        )

    def start(self, offsets: Mapping[int, int]) -> None:
        self.runner.do(Start(self.launch))
        self.runner.do(Assign(self.task, {TopicPartition(self.topic, number): at for number, at in offsets.items()}))

    def _hear(self, event: TaskEvent) -> None:
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def until(self, fact: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(fact, LIMIT_S), f"last events: {self.events[-3:]}"

    def committed(self) -> dict[int, int]:
        durable = [event for event in self.events if isinstance(event, BatchDurable)]
        return {partition.partition: offset for event in durable for partition, offset in event.sink_offsets}

    def records(self) -> int:
        return sum(event.records for event in self.events if isinstance(event, BatchDurable))

    def failure(self) -> str:
        return next((event.trace for event in self.events if isinstance(event, TaskFailed)), "")

    def stop(self, *, commits: bool = True) -> None:
        self.runner.do(Stop(self.task, 30_000))
        self.until(lambda: any(isinstance(event, TaskEnded) for event in self.events))
        ended = self.events[-1]
        if commits and isinstance(ended, TaskEnded) and ended.on_committed is not None:
            ended.on_committed()  # as the worker does behind the group's last commit


def produce(broker: EmbeddedKafka, topic: str, values: list[Any], partition: int = 0) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value if isinstance(value, bytes) else json.dumps(value).encode(), partition=partition)
    assert producer.flush(30) == 0


def ids(spark: SparkSession, path: Path, table_format: str = "parquet") -> list[int]:
    if table_format == "delta":
        from deltalake import DeltaTable

        frame = spark.read.parquet(*DeltaTable(str(path)).file_uris())
    else:
        frame = spark.read.format(table_format).load(str(path))
    return sorted(row["id"] for row in frame.collect())


def rows(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}", "half": number / 2} for number in range(first, last)]


def test_rows_become_a_typed_table_and_offsets_are_reported_after(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, rows(0, 30), 0)
    produce(broker, topic, rows(30, 50), 1)
    sink = Sink(spark, broker, topic, tmp_path / "t", **{"table.schema": "id INT, name STRING, half DOUBLE"})
    sink.start({0: -1, 1: -1})
    sink.until(lambda: sink.committed() == {0: 30, 1: 20})
    assert isinstance(sink.events[0], TaskRunning)
    expected = spark.createDataFrame([(n, f"n{n}", n / 2) for n in range(50)], "id INT, name STRING, half DOUBLE")
    assert_df_equality(spark.read.parquet(str(tmp_path / "t")).orderBy("id"), expected, ignore_nullable=True)
    sink.stop()
    assert sink.events[-1] == TaskEnded(sink.task, 1, True, 50)
    assert not (tmp_path / "t" / "_connectrt" / "table" / "0").exists()


def test_columns_are_taken_from_the_first_batch_when_no_schema_is_given(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, rows(0, 3))
    sink = Sink(spark, broker, topic, tmp_path / "t")
    sink.start({0: 0})
    sink.until(lambda: sink.committed() == {0: 3})
    types = dict(spark.read.parquet(str(tmp_path / "t")).dtypes)
    assert types == {"id": "bigint", "name": "string", "half": "double"}
    sink.stop()


def test_pause_resume_and_revocation(spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path) -> None:
    sink = Sink(spark, broker, topic, tmp_path / "t", **{"table.schema": "id INT"})
    sink.start({0: -1, 1: -1})
    sink.runner.do(Pause(sink.task))
    sink.until(lambda: any(isinstance(event, TaskPaused) for event in sink.events))
    produce(broker, topic, rows(0, 5), 0)
    produce(broker, topic, rows(5, 9), 1)
    sink.runner.do(Revoke(sink.task, (TopicPartition(topic, 1),), 30_000))
    sink.until(lambda: any(isinstance(event, PartitionsReleased) for event in sink.events))
    sink.runner.do(Resume(sink.task))
    sink.until(lambda: sink.committed() == {0: 5})
    assert ids(spark, tmp_path / "t") == [0, 1, 2, 3, 4]
    sink.stop()


def test_a_crash_before_the_declaration_leaves_nothing_and_loses_nothing(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, rows(0, 10))
    files = TableFiles(spark, str(tmp_path / "t"), "table", 0)
    spark.createDataFrame([(n,) for n in range(10)], "id INT").write.parquet(files.staging_path("halfway"))
    sink = Sink(spark, broker, topic, tmp_path / "t", **{"table.schema": "id INT"})
    sink.start({0: 0})
    sink.until(lambda: sink.committed() == {0: 10})
    assert ids(spark, tmp_path / "t") == list(range(10))
    sink.stop()


def test_crash_after_the_declaration_is_finished_by_the_next_start_without_repeats(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, rows(0, 10))
    files = TableFiles(spark, str(tmp_path / "t"), "table", 0)
    spark.createDataFrame([(n,) for n in range(10)], "id INT").write.parquet(files.staging_path("declared"))
    files.declare(Declared("declared", {TopicPartition(topic, 0): (0, 10)}))
    produce(broker, topic, rows(10, 12))
    sink = Sink(spark, broker, topic, tmp_path / "t", **{"table.schema": "id INT"})
    sink.start({0: 0})  # the group's commit was lost with the crash
    sink.until(lambda: sink.committed() == {0: 12})
    assert ids(spark, tmp_path / "t") == list(range(12))
    assert sink.records() == 2
    sink.stop()


def test_another_task_that_takes_over_the_partition_knows_what_the_first_wrote(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, rows(0, 4))
    first = TableFiles(spark, str(tmp_path / "t"), "table", 7)
    spark.createDataFrame([(n,) for n in range(4)], "id INT").write.parquet(first.staging_path("declared"))
    first.declare(Declared("declared", {TopicPartition(topic, 0): (0, 4)}))
    sink = Sink(spark, broker, topic, tmp_path / "t", **{"table.schema": "id INT"})
    sink.start({0: 2})
    sink.until(lambda: sink.committed() == {0: 4})
    assert ids(spark, tmp_path / "t") == [0, 1, 2, 3]
    sink.stop()


def test_offsets_set_back_by_a_user_after_an_orderly_stop_are_obeyed(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, rows(0, 4))
    for expected in (4, 8):
        sink = Sink(spark, broker, topic, tmp_path / "t", **{"table.schema": "id INT"})
        sink.start({0: 0})
        sink.until(lambda sink=sink: sink.committed() == {0: 4})
        sink.stop()
        assert len(ids(spark, tmp_path / "t")) == expected


def test_delta_appends_once_after_a_lost_commit_and_again_after_an_offset_reset(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, rows(0, 6))
    for commits, expected in ((False, 6), (True, 6), (True, 12)):  # the third time its owner has set the group back
        sink = Sink(spark, broker, topic, tmp_path / "t", **{"table.schema": "id INT", "spark.format": "delta"})
        sink.start({0: 0})
        sink.until(lambda sink=sink: sink.committed() == {0: 6})
        sink.stop(commits=commits)
        assert len(ids(spark, tmp_path / "t", "delta")) == expected


def test_any_other_format_is_appended_and_a_lost_commit_repeats_its_batch(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, rows(0, 5))
    url = f"jdbc:derby:{tmp_path / 'db'};create=true"  # a database that Spark itself brings
    spark.sparkContext._jvm.System.setProperty("derby.stream.error.file", os.devnull)  # type: ignore[union-attr]
    options = {"spark.format": "jdbc", "spark.option.url": url, "spark.option.dbtable": "T"}
    options["table.schema"] = "id INT, name STRING"
    for expected in (5, 10):
        sink = Sink(spark, broker, topic, None, **options)
        sink.start({0: 0})  # the second time: the commit to the group was lost
        sink.until(lambda sink=sink: sink.committed() == {0: 5})
        sink.stop()
        found = spark.read.format("jdbc").option("url", url).option("dbtable", "T").load().collect()
        assert sorted(row["id"] for row in found) == sorted([*range(5)] * (expected // 5))
    options["spark.option.url"] = "jdbc:nowhere:x"
    sink = Sink(spark, broker, topic, None, **options)
    sink.start({0: 0})
    sink.until(lambda: bool(sink.failure()))
    assert "cannot append to jdbc" in sink.failure()
    sink.until(lambda: isinstance(sink.events[-1], TaskEnded))
    assert sink.committed() == {}


def test_a_value_that_fits_no_column_fails_the_task_naming_its_place(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, [*rows(0, 2), {"id": "seven"}])
    sink = Sink(spark, broker, topic, tmp_path / "t", **{"table.schema": "id INT"})
    sink.start({0: 0})
    sink.until(lambda: bool(sink.failure()))
    assert f"{topic}-0@2: column id (int32)" in sink.failure()
    sink.until(lambda: any(isinstance(event, TaskEnded) for event in sink.events))
    assert sink.committed() == {}


def test_errant_records_are_skipped_and_counted_when_tolerated(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    produce(broker, topic, [*rows(0, 2), {"id": "seven"}, b"{oops", *rows(2, 3)])
    sink = Sink(spark, broker, topic, tmp_path / "t", **{"table.schema": "id INT", "errors.tolerance": "all"})
    sink.start({0: 0})
    sink.until(lambda: sink.committed() == {0: 5})
    assert ids(spark, tmp_path / "t") == [0, 1, 2]
    assert sum(event.skipped for event in sink.events if isinstance(event, BatchDurable)) == 2
    sink.stop()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_fails_the_task_clearly_and_commits_nothing(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, small_disk: Path
) -> None:
    produce(broker, topic, [{"id": n, "name": os.urandom(300).hex()} for n in range(5_000)])
    sink = Sink(spark, broker, topic, small_disk / "t", **{"table.schema": "id INT, name STRING"})
    sink.start({0: 0})
    sink.until(lambda: bool(sink.failure()))
    assert "no space left on its device" in sink.failure()
    assert sink.committed() == {}

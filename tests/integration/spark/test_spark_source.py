"""Sources that Spark reads, on a real broker and a real Spark: no gap through restarts, crashes and lost folders."""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.connectors.spark.spark_format_source import SparkFormatSourceConnector
from spark_connect_rt.engine.executor_clients import FACTORY
from spark_connect_rt.engine.formats.spark_source import TASK_CLASS, SparkSourceRunner
from spark_connect_rt.engine.task_runner import (
    BatchDurable,
    Pause,
    Resume,
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
from tests.e2e.commands import until
from tests.topics import count_records, read_records

LIMIT_S = 240.0
JSON = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "value.converter.decimal.format": "NUMERIC",
}


SPARK = {"group.id": "spark-source-tests"}


@pytest.fixture
def topic(broker: EmbeddedKafka) -> str:
    name = f"source-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result()
    return name


class Source:
    """Plays the worker around one task; ``offset`` is what the offset topic would hold."""

    def __init__(self, spark: SparkSession, broker: EmbeddedKafka, topic: str, **config: str) -> None:
        self.topic = topic
        self.servers = broker.bootstrap_servers
        self.offset: Mapping[str, Any] | None = None
        self.partition: Mapping[str, Any] | None = None
        self.events: list[TaskEvent] = []
        self.changed = threading.Condition()
        self.spark = spark
        self.task = ConnectorTaskId("source", 0)
        self.runs = 0
        self.worker: dict[str, str] = {}
        given = {name.replace("_", "."): value for name, value in config.items()}
        self.settings = {"topic": topic, "poll.interval.ms": "200", **JSON, **given}

    def start(self, paused: bool = False) -> None:
        assert SparkFormatSourceConnector().validate(self.settings) == {}
        self.runs += 1
        self.events.clear()
        self.runner = SparkSourceRunner(FACTORY)
        self.runner.read_offsets = self._read_offsets
        self.runner.open(self._hear, lambda: self.spark)
        client = {"bootstrap.servers": self.servers}
        parts = (TaskKind.SOURCE, TASK_CLASS, self.settings, self.settings, self.worker, client)
        self.runner.do(Start(TaskLaunch(self.task, self.runs, 1, *parts, paused=paused)))

    def _read_offsets(self, task: ConnectorTaskId, partitions: Sequence[Mapping[str, Any]]) -> list[Any]:
        (self.partition,) = partitions
        return [self.offset]

    def _hear(self, event: TaskEvent) -> None:
        with self.changed:
            self.events.append(event)
            for _, offset in event.source_offsets if isinstance(event, BatchDurable) else ():
                self.offset = json.loads(json.dumps(offset))  # as it comes back from the offset topic
            self.changed.notify_all()

    def until(self, fact: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(fact, LIMIT_S), f"last events: {self.events[-3:]}, offset {self.offset}"

    def until_last(self, kind: type[Any]) -> TaskEvent:
        self.until(lambda: bool(self.events) and isinstance(self.events[-1], kind))
        return self.events[-1]

    def until_records(self, count: int) -> None:
        self.until(lambda: self.failure() != "" or self.sent() >= count)
        assert not self.failure(), self.failure()

    def sent(self) -> int:
        return sum(event.records for event in self.events if isinstance(event, BatchDurable))

    def failure(self) -> str:
        return next((event.trace for event in self.events if isinstance(event, TaskFailed)), "")

    def stop(self, timeout_ms: int = 60_000) -> TaskEnded:
        self.runner.do(Stop(self.task, timeout_ms))
        ended = self.until_last(TaskEnded)
        assert isinstance(ended, TaskEnded)
        return ended

    def values(self, count: int) -> list[Any]:
        assert count_records(self.servers, self.topic) == count
        return [json.loads(record.value() or b"") for record in read_records(self.servers, self.topic, count)]

    def ids(self, count: int) -> list[int]:
        return [value["id"] for value in self.values(count)]


def write(folder: Path, name: str, ids: Sequence[int], **columns: Any) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), **columns}), folder / f"{name}.parquet")


def test_new_rows_follow_in_the_columns_order_and_a_restart_repeats_none(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    folder = tmp_path / "t"
    write(folder, "a", list(range(50, 100)))
    write(folder, "b", list(range(50)))
    incremental = {"spark_mode": "incremental", "spark_incremental_column": "id", "batch_max_records": "30"}
    source = Source(spark, broker, topic, spark_format="parquet", path=str(folder), key_columns="id", **incremental)
    source.start()
    source.until_records(100)
    assert isinstance(source.events[0], TaskRunning)
    assert source.partition == {"format": "parquet", "path": str(folder)}
    assert source.offset == {"column": "id", "type": "bigint", "value": 99}
    ends = [event.source_offsets[0][1] for event in source.events if isinstance(event, BatchDurable)]
    assert [end["value"] for end in ends if end] == [29, 59, 89, 99]

    source.runner.do(Pause(source.task))
    source.until_last(TaskPaused)
    write(folder, "c", [100, 101])
    source.runner.do(Resume(source.task))
    source.until_records(102)
    assert source.stop() == TaskEnded(source.task, 1, True, 102)
    write(folder, "d", [102])
    source.start()
    source.until_records(1)
    source.stop()
    assert source.ids(103) == list(range(103))
    keys = [record.key() for record in read_records(broker.bootstrap_servers, topic, 103)]
    assert keys == [str(number).encode() for number in range(103)]


def test_a_batch_whose_offset_was_lost_is_repeated_completely(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    write(tmp_path / "t", "a", list(range(20)))
    incremental = {"spark_mode": "incremental", "spark_incremental_column": "id", "batch_max_records": "10"}
    source = Source(spark, broker, topic, spark_format="parquet", path=str(tmp_path / "t"), **incremental)
    source.start()
    source.until_records(20)
    source.stop()
    source.offset = {"column": "id", "type": "bigint", "value": 9}  # the last batch's was not stored: kill -9
    source.start()
    source.until_records(10)
    source.stop()
    assert source.ids(30) == [*range(20), *range(10, 20)]


def test_types_of_spark_are_logical_types_and_typed_offsets_come_back(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    at = [dt.datetime(2026, 11, 21, 20, 0, 0, micro, dt.UTC) for micro in (1, 2_500)]
    columns = {
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "at": pa.array(at, pa.timestamp("us", "UTC")),
        "tags": pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int32())),
    }
    write(tmp_path / "t", "a", [1, 2], **columns)
    config = {"spark_mode": "incremental", "spark_incremental_column": "at"}
    source = Source(spark, broker, topic, spark_format="parquet", path=str(tmp_path / "t"), **config)
    source.settings["value.converter.schemas.enable"] = "true"
    source.start()
    source.until_records(2)
    assert source.offset == {"column": "at", "type": "timestamp", "value": "2026-11-21 20:00:00.0025"}
    source.stop()
    source.offset = {**source.offset, "value": "2026-11-21 20:00:00.000001"}
    source.start()
    source.until_records(1)
    source.stop()
    first, _, again = source.values(3)
    payload = {"id": 1, "price": 1.5, "at": 1795291200000, "tags": {"a": 1}}
    assert first["payload"] == payload
    assert again["payload"]["id"] == 2
    assert again["payload"]["price"] is None
    names = {field["field"]: field.get("name") for field in first["schema"]["fields"]}
    kind = "org.apache.kafka.connect.data"
    assert names == {"id": None, "price": f"{kind}.Decimal", "at": f"{kind}.Timestamp", "tags": None}


def derby(spark: SparkSession, url: str, *statements: str) -> None:
    """Run SQL in the database that Spark's own class path has; it is a folder."""
    jvm = spark._jvm
    assert jvm is not None
    jvm.System.setProperty("derby.stream.error.file", os.devnull)
    connection = jvm.java.sql.DriverManager.getConnection(url)
    try:
        for text in statements:
            statement = connection.createStatement()
            statement.execute(text)
            statement.close()
    finally:
        connection.close()


def test_a_database_by_jdbc_incremental_once_and_in_bulk(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    url = f"jdbc:derby:{tmp_path / 'db'};create=true"
    derby(spark, url, "create table ORDERS (ID int, NAME varchar(9))", "insert into ORDERS values (1,'a'), (2,null)")
    jdbc = {"spark_format": "jdbc", "spark_option_url": url, "spark_option_dbtable": "ORDERS"}
    column = {"spark_mode": "incremental", "spark_incremental_column": "ID"}
    source = Source(spark, broker, topic, **jdbc, **column)
    source.start()
    source.until_records(2)
    assert source.partition == {"format": "jdbc", "table": "ORDERS"}  # no URL: it may hold a password
    derby(spark, url, "insert into ORDERS values (3,'c')")
    source.until_records(3)
    source.stop()
    assert source.offset == {"column": "ID", "type": "int", "value": 3}
    assert source.values(3) == [{"ID": 1, "NAME": "a"}, {"ID": 2, "NAME": None}, {"ID": 3, "NAME": "c"}]

    text = Source(spark, broker, topic, **jdbc, spark_mode="incremental", spark_incremental_column="NAME")
    text.start()
    text.until(lambda: "column NAME is text" in text.failure())
    text.until_last(TaskEnded)

    once = Source(spark, broker, topic, **jdbc, spark_mode="once")
    for _ in range(2):
        once.start()
        once.until(lambda: once.offset == {"rows": 3})
        once.stop()
    assert count_records(broker.bootstrap_servers, topic) == 6

    bulk = Source(spark, broker, topic, **jdbc, spark_mode="bulk")
    bulk.start()
    bulk.until(lambda: (bulk.offset or {}).get("pass", 0) >= 2)
    bulk.stop()
    passes = (bulk.offset or {})["pass"]
    assert count_records(broker.bootstrap_servers, topic) == 6 + 3 * passes


def test_a_stream_resumes_from_the_source_offset_alone(spark: SparkSession, broker: EmbeddedKafka, topic: str) -> None:
    """Without a checkpoint of its own the folder is another one in each run: made from the source offset."""
    stream = {"spark_format": "rate-micro-batch", "spark_option_rowsPerBatch": "5", "spark_mode": "stream"}
    source = Source(spark, broker, topic, **stream, poll_interval_ms="1000")
    source.settings["spark.option.numPartitions"] = "1"
    source.start()
    source.until_records(10)
    source.stop()
    assert source.partition == {"format": "rate-micro-batch"}
    here = source.sent()
    assert source.offset is not None
    assert (source.offset["batch"], source.offset["offset"]["offset"]) == (here // 5 - 1, here)
    source.start(paused=True)
    source.until_last(TaskPaused)
    source.runner.do(Resume(source.task))
    source.until_records(10)
    source.stop()
    total = here + source.sent()
    assert [value["value"] for value in source.values(total)] == list(range(total))


def test_a_stream_of_files_by_its_checkpoint_set_back_and_lost(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    folder, checkpoint = tmp_path / "t", tmp_path / "checkpoint"
    write(folder, "a", [1, 2])
    source = Source(
        spark,
        broker,
        topic,
        spark_format="parquet",
        path=str(folder),
        spark_mode="stream",
        spark_schema="id BIGINT",
        spark_checkpoint=str(checkpoint),
    )
    source.start()
    source.until_records(2)
    first = source.offset
    assert first == {"batch": 0, "offset": {"logOffset": 0}}
    write(folder, "b", [3])
    source.until_records(3)
    source.stop()
    source.offset = first  # somebody altered it, or a kill -9 came before it was stored
    source.start()
    source.until_records(1)
    source.stop()
    assert source.ids(4) == [1, 2, 3, 3]
    shutil.rmtree(checkpoint)  # with it the list of files that were read
    source.start()
    source.until_records(3)
    source.stop()
    assert sorted(source.ids(7)[4:]) == [1, 2, 3]


def test_row_that_a_transformation_refuses_fails_the_task_or_is_skipped(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    write(tmp_path / "t", "a", [1, 2, 3], text=pa.array(["1", "two", "3"]))
    cast = {
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "text:int32",
    }
    source = Source(spark, broker, topic, spark_format="parquet", path=str(tmp_path / "t"), spark_mode="once")
    source.settings |= cast
    source.start()
    source.until(lambda: source.failure() != "")
    assert f"record for topic {topic} of source partition" in source.failure()
    assert "TRANSFORMATION" in source.failure()
    assert "CRT-" in source.failure() or "could not be sent" in source.failure()
    source.until_last(TaskEnded)
    assert source.offset is None

    source.settings["errors.tolerance"] = "all"
    source.start()
    source.until(lambda: source.offset == {"rows": 3})
    source.stop()
    assert sum(event.skipped for event in source.events if isinstance(event, BatchDurable)) == 1
    assert [value["text"] for value in source.values(count_records(broker.bootstrap_servers, topic))][-2:] == [1, 3]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"spark_format": "parquet", "path": "gone"}, "PATH_NOT_FOUND"),
        ({"spark_incremental_column": "no", "spark_mode": "incremental"}, "column no does not exist"),
        ({"spark_incremental_column": "flag", "spark_mode": "incremental"}, "column flag is boolean"),
        ({"key_columns": "no"}, "column no does not exist"),
    ],
)
def test_unreadable_column_fails_the_task_naming_it(
    spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path, config: dict[str, str], reason: str
) -> None:
    write(tmp_path / "t", "a", [1], flag=pa.array([True]))
    source = Source(spark, broker, topic, **{"spark_format": "parquet", "path": str(tmp_path / "t"), **config})
    source.start()
    source.until(lambda: source.failure() != "")
    assert reason in source.failure()
    source.until_last(TaskEnded)
    assert count_records(broker.bootstrap_servers, topic) == 0


def test_a_failure_shows_no_secret(spark: SparkSession, broker: EmbeddedKafka, topic: str, tmp_path: Path) -> None:
    (tmp_path / "secrets.properties").write_text("url=jdbc:nobody:secret-of-mine\n")
    url = f"${{file:{tmp_path / 'secrets.properties'}:url}}"
    source = Source(spark, broker, topic, spark_format="jdbc", spark_option_url=url, spark_option_dbtable="T")
    source.worker = {"config.providers": "file", "config.providers.file.class": "FileConfigProvider"}
    source.start()
    source.until(lambda: source.failure() != "")
    assert "CRT-1059" in source.failure() or "could not be sent" in source.failure()
    assert "secret-of-mine" not in source.failure()
    source.until_last(TaskEnded)


def test_a_batch_that_does_not_end_by_the_deadline_is_cancelled(
    spark: SparkSession, broker: EmbeddedKafka, topic: str
) -> None:
    view = f"v_{topic.replace('-', '_')}"
    spark.range(10**12).createOrReplaceGlobalTempView(view)
    source = Source(spark, broker, topic, spark_format="parquet", table=f"global_temp.{view}")
    source.start()
    until(lambda: count_records(broker.bootstrap_servers, topic) > 0, LIMIT_S, "the batch is under way")
    assert source.stop(timeout_ms=100) == TaskEnded(source.task, 1, False, 0)
    assert source.failure() == ""
    assert source.offset is None
    spark.catalog.dropGlobalTempView(view)

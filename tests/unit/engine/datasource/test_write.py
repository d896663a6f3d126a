"""Rows of a DataFrame into a sink connector or into Kafka, one partition of a write."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, DoubleType, LongType, StringType, StructType

from pyspark_connectrt import DefaultSource
from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask, Task
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.http import http_sink
from spark_connect_rt.engine.datasource.row_writer import (
    OFFSETS_OF_A_BATCH,
    KafkaPlan,
    SinkPlan,
    SinkWrite,
    write_plan,
    write_to_kafka,
)
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, RetriableError, TimedOutError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics
from spark_connect_rt.testing.sink_harness import SinkHarness

JSON = "org.apache.kafka.connect.json.JsonConverter"
CLIENTS = "tests.unit.engine.datasource.test_write:clients"
ROWS = pa.RecordBatch.from_pydict({"id": [1, 2, 3], "name": ["a", None, "c"]})
TYPED = StructType().add("id", LongType()).add("name", StringType())
TEXTS = StructType().add("topic", StringType()).add("value", StringType())
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Keeps(SinkTask):
    """Keeps what it is given; refuses, asks again and holds back as told."""

    seen: ClassVar[list[SinkRecord]] = []
    calls: ClassVar[list[str]] = []
    again: ClassVar[list[int]] = [0]

    def start(self, config: Mapping[str, str]) -> None:
        """Note it."""
        self._config = config
        self.calls.append("start")

    def open(self, partitions: Sequence[Any]) -> None:
        """Note it."""
        self.calls.append(f"open {[(partition.topic, partition.partition) for partition in partitions]}")

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Keep them."""
        if self.again[0] > 0:
            self.again[0] -= 1
            raise RetriableError("later")
        if any(record.value == self._config.get("bad", "nothing") for record in records):
            raise DataError("not this one")
        self.seen.extend(records)

    def pre_commit(self, offsets: Mapping[Any, int]) -> Mapping[Any, int]:
        """Return them, or nothing."""
        return {} if self._config.get("holds") else offsets

    def close(self, partitions: Sequence[Any]) -> None:
        """Note it."""
        self.calls.append("close")

    def stop(self) -> None:
        """Note it."""
        self.calls.append("stop")


class KeepsConnector(SinkConnector):
    """Connector of Keeps."""

    def config_def(self) -> ConfigDef:
        """Nothing of its own."""
        return ConfigDef()

    def start(self, config: Mapping[str, str]) -> None:
        """Take it."""
        self._config = config

    def task_class(self) -> type[Task]:
        """Return it."""
        return Keeps

    def task_configs(self, tasks_max: int) -> list[dict[str, str]]:
        """Return the connector's."""
        return [dict(self._config)] * tasks_max

    def stop(self) -> None:
        """Nothing."""


TOPICS = MemoryTopics()


def clients() -> MemoryExecutorClients:
    """Return what tasks of these tests get."""
    plugins = bundled_plugins()
    return MemoryExecutorClients(TOPICS, lambda name: KeepsConnector if name == "Keeps" else plugins.class_of(name))


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    Keeps.seen.clear()
    Keeps.calls.clear()
    Keeps.again[0] = 0
    TOPICS.partitions.clear()


def sink(schema: StructType, **options: str) -> SinkPlan:
    plan = write_plan({"connector.class": "Keeps", "topic": "t", "patienceMs": "300", **options}, schema, CLIENTS)
    found: SinkPlan = pickle.loads(pickle.dumps(plan))
    return found


def texts(*values: str | None, topic: str | None = "t") -> pa.RecordBatch:
    columns = {"topic": pa.array([topic] * len(values), pa.string()), "value": pa.array(values, pa.string())}
    return pa.RecordBatch.from_pydict(columns)


def test_rows_are_structs_with_the_offsets_of_their_batch() -> None:
    write = SinkWrite(sink(TYPED), 3, 5 * OFFSETS_OF_A_BATCH)
    assert write.write([ROWS, ROWS.slice(0, 0), ROWS.slice(2)]) == 4
    schema = Keeps.seen[0].value_schema
    assert schema is not None
    assert [(r.topic, r.partition, r.offset - 5 * OFFSETS_OF_A_BATCH, r.value) for r in Keeps.seen] == [
        ("t", 3, 0, Struct(schema, {"id": 1, "name": "a"})),
        ("t", 3, 1, Struct(schema, {"id": 2})),
        ("t", 3, 2, Struct(schema, {"id": 3, "name": "c"})),
        ("t", 3, 3, Struct(schema, {"id": 3, "name": "c"})),
    ]
    assert [(field.name, field.schema.type.name) for field in schema.fields] == [("id", "INT64"), ("name", "STRING")]
    assert Keeps.calls == ["start", "open [('t', 3)]", "close", "stop"]


def test_transformations_apply_with_their_capitals() -> None:
    plan = sink(
        TYPED,
        transforms="Key",
        **{"transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey", "transforms.key.fields": "id"},
    )
    SinkWrite(plan, 0, 0).write([ROWS])
    assert [record.key["id"] for record in Keeps.seen] == [1, 2, 3]


def test_rows_in_record_form_go_through_the_converters() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "topic": ["x", None],
            "key": [b"k", None],
            "value": ["one", None],
            "headers": pa.array([[{"key": "h", "value": b"7"}], None], HEADERS),
            "timestamp": pa.array([1_500_000, None], pa.timestamp("us", "UTC")),
        }
    )
    schema = (
        StructType(list(TEXTS)).add("key", BinaryType()).add("headers", StringType()).add("timestamp", StringType())
    )
    SinkWrite(sink(schema), 0, 0).write([batch])
    first, second = Keeps.seen
    assert (first.topic, first.key, first.value, first.timestamp_ms) == ("x", b"k", "one", 1_500)
    assert [(header.key, header.value) for header in first.headers] == [("h", 7)]
    assert (second.topic, second.key, second.value, second.timestamp_ms) == ("t", None, None, None)


def test_a_sink_gets_the_records_that_it_would_get_in_a_worker() -> None:
    """A write by format, against the same rows through Kafka: JsonConverter with schemas there and back."""
    pair = pa.struct([("n", pa.int64()), ("t", pa.string())])
    at = dt.datetime(2026, 11, 26, 16, 30, 0, 123_000, dt.UTC)
    columns = {
        "flag": pa.array([True, None]),
        "small": pa.array([-7, None], pa.int16()),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(9, 2)),
        "raw": pa.array([b"\x00\xff", None]),
        "day": pa.array([at.date(), None]),
        "at": pa.array([at, None], pa.timestamp("us", "UTC")),
        "pair": pa.array([{"n": 1, "t": "x"}, None], pair),
        "pairs": pa.array([[{"n": 2, "t": None}, None], None], pa.list_(pair)),
        "named": pa.array([[("k", {"n": 3, "t": "y"})], None], pa.map_(pa.string(), pair)),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    insert = "org.apache.kafka.connect.transforms.InsertField$Value"
    moved = {"transforms": "Mark", "transforms.mark.type": insert, "transforms.mark.static.field": "mark"}
    options = moved | {"transforms.mark.static.value": "m"}
    SinkWrite(sink(StructType().add("flag", LongType()), **options), 0, 0).write([batch])
    direct = list(Keeps.seen)

    plan = write_plan({"kafka.bootstrap.servers": "memory:1", "topic": "t"}, TYPED, CLIENTS)
    assert isinstance(plan, KafkaPlan)
    write_to_kafka(plan, [batch])
    config = {name.replace(".mark.", ".Mark."): text for name, text in options.items()}
    with SinkHarness(KeepsConnector, {"topics": "t", "value.converter": JSON, **config}) as harness:
        Keeps.seen.clear()
        for row in TOPICS.read(TopicPartition("t", 0), 0, 1 << 30):
            harness.send("t", row["value"])
        harness.deliver()
    assert [record.value for record in direct] == [record.value for record in Keeps.seen]
    assert direct[0].value["mark"] == "m"
    direct[0].value.check()


def test_sql_sink_writes_rows_of_every_kind(tmp_path: Path) -> None:
    url = f"jdbc:sqlite:{tmp_path / 'x.db'}"
    plan = sink(TYPED, **{"connector.class": "SqlSink", "connection.url": url, "auto.create": "true"})
    assert SinkWrite(plan, 0, 0).write([ROWS]) == 3
    keyed = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id", "topic": "u"}
    plan = sink(TYPED, **{"connector.class": "SqlSink", "connection.url": url, "auto.create": "true", **keyed})
    SinkWrite(plan, 0, 0).write([ROWS, ROWS])
    with closing(sqlite3.connect(tmp_path / "x.db")) as found:
        assert found.execute("select id, name from t order by id").fetchall() == [(1, "a"), (2, None), (3, "c")]
        assert found.execute("select count(*) from u").fetchone() == (3,)


PAGE_ROWS = pa.RecordBatch.from_pydict({"id": [1], "word": ["a"], "price": [1.5]})
PAGE_SCHEMA = StructType().add("id", LongType()).add("word", StringType()).add("price", DoubleType())


def test_every_bundled_sink_takes_typed_rows_or_says_how_to_write_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        return httpx.Response(200)

    monkeypatch.setattr(http_sink, "http_client", lambda _: httpx.Client(transport=httpx.MockTransport(answer)))
    bytes_only = dict.fromkeys(("key.converter", "value.converter", "header.converter"), "ByteArrayConverter")
    settings = {
        "FileStreamSink": {"file": str(tmp_path / "rows.txt")},
        "HttpSink": {"http.url": "http://api.test/"},
        "KafkaSink": {"target.bootstrap.servers": "127.0.0.1:1", **bytes_only},
        "SparkTableSink": {"table": "rows"},
        "IcebergSink": {"iceberg.tables": "shop.rows"},
        "DeltaSink": {"iceberg.tables": "shop.rows", "delta.root": str(tmp_path)},
        "ObjectStoreSink": {"path": str(tmp_path)},
        "SqlSink": {"connection.url": f"jdbc:sqlite:{tmp_path / 'rows.db'}", "auto.create": "true"},
    }
    listed = {plugin.java_class.rpartition(".")[2] for plugin in bundled_plugins().list() if plugin.type == "sink"}
    assert {f"{name}Connector" for name in settings} == listed

    def write(name: str) -> None:
        plan = sink(PAGE_SCHEMA, **{"connector.class": name, "topic": "rows", **settings[name]})
        SinkWrite(plan, 0, 0).write([PAGE_ROWS])

    for name in ("FileStreamSink", "HttpSink", "SqlSink"):
        write(name)
    assert (tmp_path / "rows.txt").read_text() == "Struct{id=1,word=a,price=1.5}\n"
    assert [json.loads(body) for body in sent] == [{"id": 1, "word": "a", "price": 1.5}]
    with closing(sqlite3.connect(tmp_path / "rows.db")) as found:
        assert found.execute("select id, word, price from rows").fetchall() == [(1, "a", 1.5)]
    with pytest.raises(DataError, match="the value is Struct, not bytes"):
        write("KafkaSink")
    with pytest.raises(BadConfigError, match="SparkTableSink is written by Spark, in a worker"):
        write("SparkTableSink")
    for name in ("IcebergSink", "DeltaSink", "ObjectStoreSink"):
        with pytest.raises(BadConfigError, match="stores offsets of topics with its data"):
            write(name)


def test_a_row_that_python_cannot_hold_is_left_out_where_that_is_tolerated() -> None:
    far = pa.RecordBatch.from_pydict({"at": pa.array([0, 4 * 10**17, 1], pa.timestamp("us", "UTC"))})
    with pytest.raises(DataError, match=r"t-0@1: .*value\.at: a timestamp"):
        SinkWrite(sink(TYPED), 0, 0).write([far])
    write = SinkWrite(sink(TYPED, **{"errors.tolerance": "all"}), 0, 0)
    assert write.write([far]) == 3
    assert (len(Keeps.seen), write.refused) == (2, 1)


def test_refused_rows_are_found_and_counted_where_they_are_tolerated() -> None:
    with pytest.raises(DataError, match="not this one"):
        SinkWrite(sink(TEXTS, bad="b"), 0, 0).write([texts("a", "b", "c")])
    assert Keeps.calls[-2:] == ["close", "stop"]
    Keeps.seen.clear()
    write = SinkWrite(sink(TEXTS, bad="b", **{"errors.tolerance": "all"}), 0, 0)
    assert write.write([texts("a", "b", "c")]) == 3
    assert [record.value for record in Keeps.seen] == ["a", "c"]
    assert write.refused == 1


def test_a_put_that_asks_for_it_is_repeated_for_a_while() -> None:
    Keeps.again[0] = 1
    SinkWrite(sink(TEXTS), 0, 0).write([texts("a")])
    assert [record.value for record in Keeps.seen] == ["a"]
    Keeps.again[0] = 1_000
    with pytest.raises(TimedOutError, match="the same records for 300 ms"):
        SinkWrite(sink(TEXTS), 0, 0).write([texts("a")])


def test_a_write_ends_well_only_when_everything_is_safe() -> None:
    with pytest.raises(ConnectError, match="did not make all records durable within 300 ms"):
        SinkWrite(sink(TEXTS, holds="yes"), 0, 0).write([texts("a")])


def to_kafka(schema: StructType, batches: list[pa.RecordBatch], **options: str) -> list[tuple[Any, ...]]:
    plan = write_plan({"kafka.bootstrap.servers": "memory:1", **options}, schema, CLIENTS)
    assert isinstance(plan, KafkaPlan)
    count = write_to_kafka(pickle.loads(pickle.dumps(plan)), batches)
    assert count == sum(batch.num_rows for batch in batches)
    found = [
        (partition.topic, row) for partition in sorted(TOPICS.partitions) for row in TOPICS.read(partition, 0, 1 << 30)
    ]
    return [(topic, row.get("key"), row["value"]) for topic, row in found]


def test_records_go_to_kafka_as_they_stand() -> None:
    assert to_kafka(TEXTS, [texts("a", "b"), texts("c", topic="u")]) == [
        ("t", None, b"a"),
        ("t", None, b"b"),
        ("u", None, b"c"),
    ]


def test_values_go_to_kafka_through_the_converter() -> None:
    written = to_kafka(TYPED, [ROWS], topic="t", **{"value.converter.schemas.enable": "false"})
    assert [value for _, _, value in written] == [
        b'{"id":1,"name":"a"}',
        b'{"id":2,"name":null}',
        b'{"id":3,"name":"c"}',
    ]


@pytest.mark.parametrize("columns", ["value", "value,key", "topic,value"])
def test_a_column_value_other_than_text_is_part_of_a_value(columns: str) -> None:
    names = columns.split(",")
    schema = StructType()
    for name in names:
        schema = schema.add(name, LongType())
    rows = pa.RecordBatch.from_pydict({name: [7] for name in names})
    ((_, _, value),) = to_kafka(schema, [rows], topic="t", **{"value.converter.schemas.enable": "false"})
    assert json.loads(value) == dict.fromkeys(names, 7)
    with pytest.raises(BadConfigError, match=r"topic: is missing: name one by this option$"):
        write_plan({"kafka.bootstrap.servers": "memory:1"}, schema, CLIENTS)


def test_a_row_without_a_topic_is_an_error() -> None:
    with pytest.raises(DataError, match="a row has no topic"):
        to_kafka(TEXTS, [texts("a", topic=None)])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": "t"}, "connector.class: is missing. Set the class of a sink connector"),
        ({"connector.class": "Keeps"}, "topic: is missing"),
        ({"connector.class": "FileStreamSource", "topic": "t"}, "is not a sink connector"),
        ({"connector.class": "Keeps", "topic": "t", "patienceMs": "soon"}, "patienceMs: 'soon' is not a number"),
    ],
)
def test_a_wrong_option_of_a_write_is_named(options: Mapping[str, str], said: str) -> None:
    with pytest.raises(BadConfigError, match=said):
        write_plan(options, TYPED, CLIENTS)


def test_nothing_is_replaced() -> None:
    source = DefaultSource({"connector.class": "FileStreamSink", "topic": "t", "file": "x"})
    with pytest.raises(BadConfigError, match="mode append"):
        source.writer(TYPED, True)

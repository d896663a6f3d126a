"""A preview as an executor carries it out, Spark and Kafka left out."""

from __future__ import annotations

import json
import math
import time
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.records import Header, SinkRecord, SourceRecord
from spark_connect_rt.api.task import SinkTask, SourceTask
from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.engine.previews.model import Ended, PreviewOrder
from spark_connect_rt.engine.previews.preview_job import carry_out, decode_order, encode_order
from spark_connect_rt.engine.previews.shown_records import Collected
from spark_connect_rt.engine.previews.sink_preview import consumer_config
from spark_connect_rt.engine.previews.source_preview import IDLE_S, bare, is_over
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import DataError
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics

JSON = "org.apache.kafka.connect.json.JsonConverter"
PLAIN = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": JSON,
    "value.converter.schemas.enable": "false",
    "header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter",
}
HOIST = {
    "transforms": "wrap,stamp",
    "transforms.wrap.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.wrap.field": "line",
    "transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.stamp.static.field": "from",
    "transforms.stamp.static.value": "here",
}


class Clients(KafkaExecutorClients):
    """Real plug-ins, topics in memory, and nothing to write with."""

    def __init__(self, topics: MemoryTopics | None = None) -> None:
        super().__init__()
        self.topics = topics or MemoryTopics()
        self.consumers: list[Mapping[str, str]] = []

    def consumer(self, config: Mapping[str, str]) -> Any:
        self.consumers.append(config)
        return MemoryExecutorClients(self.topics).consumer(config)

    def producer(self, config: Mapping[str, str]) -> Any:
        raise AssertionError("a preview writes nothing")

    create_topic = ensure_topic = transactional_producer = producer  # type: ignore[assignment]


def launch(config: Mapping[str, str], kind: TaskKind = TaskKind.SOURCE, task_class: str = "") -> TaskLaunch:
    name = {"name": "c", **PLAIN, **config}
    return TaskLaunch(ConnectorTaskId("c", 0), 0, 0, kind, task_class, name, name, {})


def shown(order: PreviewOrder, clients: Clients | None = None) -> tuple[list[Any], Mapping[str, Any]]:
    """What came of an order that crossed as a message does."""
    found: list[Any] = []
    crossed = decode_order(json.loads(json.dumps({**encode_order(order)})))
    outcome = carry_out(
        crossed, clients or Clients(), lambda text: found.append(json.loads(text)), lambda what, ended=None: None
    )
    return found, outcome


def lines(path: Path, **more: str) -> PreviewOrder:
    config = {"connector.class": "FileStreamSource", "file": str(path), "topic": "lines", **more}
    task = "spark_connect_rt.connectors.files.file_stream_source:FileStreamSourceTask"
    return PreviewOrder(launch(config, task_class=task), 3, 10.0, planned=False)


def test_a_source_is_shown_polled_after_each_transformation_and_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("one\ntwo\nthree\nfour\n")
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    records, outcome = shown(lines(tmp_path / "in", **HOIST, **letters))
    assert outcome == {"ended": "records", "error": None}
    assert [[stage["stage"] for stage in stages] for stages in records] == [
        ["polled", "transforms.wrap", "transforms.stamp", "converted"]
    ] * 3
    polled, wrapped, stamped, converted = records[1]
    assert polled["record"]["value"] == "two"
    assert polled["record"]["value_schema"] == {"type": "string", "optional": False}
    assert wrapped["record"]["value"] == {"line": "two"}
    assert wrapped["record"]["value_schema"]["type"] == "struct"
    assert stamped["record"]["value"] == {"line": "two", "from": "here"}
    assert json.loads(b64decode(converted["bytes"]["value"])) == {"line": "two", "from": "here"}
    assert converted["bytes"]["key"] is None


def test_it_begins_where_the_offsets_say_that_came_with_the_order(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("one\ntwo\nthree\nfour\n")
    order = lines(tmp_path / "in")
    order = replace(order, records=2, offsets=[({"filename": str(tmp_path / "in")}, {"position": 8})])
    records, _ = shown(order)
    assert [stages[0]["record"]["value"] for stages in records][:2] == ["three", "four"]


def test_a_source_that_has_no_more_ends_before_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.engine.previews.source_preview.IDLE_S", 0.3)
    (tmp_path / "in").write_text("one\n")
    begun = time.monotonic()
    records, outcome = shown(lines(tmp_path / "in"))
    assert (len(records), outcome["ended"]) == (1, "nothing more")
    assert time.monotonic() - begun < 5


def test_preview_of_a_source_with_nothing_new_ends_before_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_connect_rt.engine.previews.source_preview.FIRST_S", 0.3)
    (tmp_path / "in").write_text("one\n")
    order = replace(lines(tmp_path / "in"), offsets=[({"filename": str(tmp_path / "in")}, {"position": 4})])
    begun = time.monotonic()
    records, outcome = shown(order)
    assert (records, outcome["ended"]) == ([], "nothing more")
    assert time.monotonic() - begun < 5


def test_preview_of_a_bounded_source_ends_with_its_last_record() -> None:
    config = {"connector.class": "DatagenSource", "topic": "t", "datagen.max.records": "2"}
    task_class = "spark_connect_rt.connectors.samples.datagen_source:DatagenSourceTask"
    begun = time.monotonic()
    records, outcome = shown(PreviewOrder(launch(config, task_class=task_class), 20, 60.0, planned=False))
    assert (len(records), outcome["ended"]) == (2, "nothing more")
    assert time.monotonic() - begun < IDLE_S


@pytest.mark.parametrize(
    ("has_more", "idle_s", "over"),
    [(True, 99.0, False), (False, 0.0, True), (None, 4.9, False), (None, 5.0, True)],
)
def test_a_source_is_over_when_it_says_so_or_returns_nothing_for_long(
    has_more: bool | None, idle_s: float, over: bool
) -> None:
    assert is_over(has_more, idle_s, patience_s=5.0) is over
    assert not is_over(None, idle_s, patience_s=math.inf)


def test_a_dropped_record_and_a_failed_one_say_so(tmp_path: Path) -> None:
    (tmp_path / "in").write_text("12\nx\n")
    chain = {
        "transforms": "number",
        "transforms.number.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.number.spec": "int32",
    }
    order = replace(lines(tmp_path / "in", **chain), records=2)
    records, outcome = shown(order)
    assert outcome["ended"] == "records"
    assert records[0][1]["record"]["value"] == 12
    assert records[1][1]["record"] is None
    assert "x" in records[1][1]["error"]
    drop = {"transforms": "drop", "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter"}
    records, _ = shown(replace(lines(tmp_path / "in", **drop), records=2))
    assert records[0][1] == {"stage": "transforms.drop", "record": None}


class Odd(SourceTask):
    """Records that are hard to show."""

    previewed: list[bool] = []

    def start(self, config: Mapping[str, str]) -> None:
        self.previewed.append(self.context.previewed)
        if config.get("fails") == "start":
            raise ValueError("no such thing as s3cr3t-value")

        self.says = config.get("says")

    def poll(self) -> Sequence[SourceRecord]:
        if self.says:
            return [SourceRecord({}, {}, "t", self.says)]
        headers = (Header("h\ud800", float("nan")),)
        values: list[Any] = [2**70, "\ud800", "x" * 100_000, object(), "has s3cr3t-value inside", b"\x00\xff"]
        return [SourceRecord({}, {}, "t", value, headers=headers) for value in values]

    def stop(self) -> None:
        pass


class OddSource(SourceConnector):
    """Splits into one task, or none."""

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def task_class(self) -> type[Any]:
        return Odd

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        assert max_tasks == 1
        Odd.previewed.append(self.context.previewed)
        return [] if "none" in self.config else [dict(self.config)]


def odd(**config: str) -> PreviewOrder:
    name = f"{__name__}.OddSource"
    return PreviewOrder(launch({"connector.class": name, **config}, task_class=f"{__name__}:Odd"), 6, 10.0, False)


def test_values_without_a_json_form_are_shown_and_secrets_are_not() -> None:
    hidden_values.remember(["s3cr3t-value"])
    try:
        records, outcome = shown(odd())
        assert outcome["error"] is None
        values = [stages[0]["record"]["value"] for stages in records]
        assert values[1] == "\\ud800"
        assert values[2]["cut"] is True
        assert "object" in values[3]
        assert values[4] == "has [hidden] inside"
        assert b64decode(records[4][-1]["bytes"]["value"]) == b'"has [hidden] inside"'
        assert records[0][0]["record"]["headers"] == [{"name": "h\\ud800", "value": "NaN"}]
        assert str(values[0]) == str(2**70)
        jaas = 'x required username="u" password="of-the-broker";'
        records, _ = shown(odd(says="of-the-broker", **{"producer.override.sasl.jaas.config": jaas}))
        assert records[0][0]["record"]["value"] == "[hidden]"
        _, outcome = shown(odd(fails="start"))
        assert outcome == {"ended": "error", "error": "ValueError: no such thing as [hidden]"}
    finally:
        hidden_values.forget()


def test_connector_and_tasks_know_that_they_run_for_a_preview() -> None:
    Odd.previewed, Accounts.previewed = [], []
    shown(odd())
    assert Odd.previewed == [True, True]  # the connector, its task
    shown(sink([("in", 0, 0)], 1, put=True), Clients(topics()))
    assert Accounts.previewed == [True]


def test_a_connector_without_work_says_so() -> None:
    _, outcome = shown(odd(none="yes"))
    assert outcome["ended"] == "error"
    assert "no task" in outcome["error"]


def topics(count: int = 5) -> MemoryTopics:
    there = MemoryTopics()
    there.append(
        [{"topic": "in", "key": b"k", "value": b'{"id":%d}' % number, "headers": None} for number in range(count)]
    )
    return there


class Accounts(SinkTask):
    """Takes back what it was given; refuses id 2."""

    put_so_far: list[list[Any]] = []
    previewed: list[bool] = []

    def start(self, config: Mapping[str, str]) -> None:
        self.previewed.append(self.context.previewed)
        self.opened: Sequence[TopicPartition] = ()

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self.opened = partitions

    def put(self, records: Sequence[SinkRecord]) -> None:
        raise AssertionError("a preview does not put")

    def preview_put(self, records: Sequence[SinkRecord]) -> None:
        assert self.opened == [TopicPartition("in", 0)]
        self.put_so_far.append([record.value["id"] for record in records])
        if any(record.value["id"] == 2 for record in records):
            raise DataError("2 is refused")

    def stop(self) -> None:
        pass


def sink(positions: Sequence[tuple[str, int, int]], records: int = 3, *, put: bool = False) -> PreviewOrder:
    chain = {
        "transforms": "mark",
        "transforms.mark.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.mark.offset.field": "at",
    }
    made = launch({"topics": "in", **chain}, TaskKind.SINK, f"{__name__}:Accounts")
    made = replace(made, client_config={"group.id": "connect-c", "bootstrap.servers": "b:1"})
    return PreviewOrder(made, records, 5.0, positions=positions, put=put)


def test_a_sink_gets_its_records_without_a_group() -> None:
    clients = Clients(topics())
    records, outcome = shown(sink([("in", 0, 1)]), clients)
    assert outcome == {"ended": "records", "error": None}
    read, marked = records[0]
    assert (read["stage"], read["record"]["offset"], read["record"]["value"]) == ("read", 1, {"id": 1})
    assert b64decode(read["bytes"]["value"]) == b'{"id":1}'
    assert marked["record"]["value"] == {"id": 1, "at": 1}
    (config,) = clients.consumers
    assert config["group.id"] != "connect-c"
    assert config["allow.auto.create.topics"] == "false"


def test_a_sink_preview_ends_where_the_log_ends() -> None:
    records, outcome = shown(sink([("in", 0, 0)], 1_000), Clients(topics(4)))
    assert (len(records), outcome["ended"]) == (4, "nothing more")


def test_records_that_a_sink_refuses_are_found_and_taken_back() -> None:
    Accounts.put_so_far = []
    records, outcome = shown(sink([("in", 0, 0)], 4, put=True), Clients(topics()))
    assert outcome["error"] is None
    assert [stages[-1]["stage"] for stages in records] == ["put"] * 4
    assert [stages[-1].get("error") for stages in records] == [None, None, "DataError: 2 is refused", None]
    assert Accounts.put_so_far == [[0, 1, 2, 3], [0], [1], [2], [3]]


def test_unreadable_bytes_are_shown_with_the_error() -> None:
    there = MemoryTopics()
    there.append([{"topic": "in", "key": None, "value": b"{", "headers": None}])
    records, _ = shown(sink([("in", 0, 0)]), Clients(there))
    ((read,),) = records
    assert read["record"] is None
    assert read["bytes"]["value"] == "ew=="
    assert read["error"]


def test_a_record_that_is_too_large_as_a_whole_says_so() -> None:
    took: list[str] = []
    collected = Collected(3, 10, took.append)
    collected.add([{"stage": "polled", "record": {"headers": ["x" * 1_000] * 9_000}}])
    (shown,) = json.loads(took[0])
    assert (shown["stage"], shown["record"]) == ("polled", None)
    assert "too large" in shown["error"]
    assert collected.full is None


def test_limits_of_records_bytes_and_time() -> None:
    now = [0.0]
    took: list[str] = []
    collected = Collected(3, 10, took.append, bytes_max=30, now_s=lambda: now[0])
    collected.add([{"stage": "polled"}])
    assert collected.full is None
    collected.add([{"stage": "polled"}])
    assert collected.full is Ended.BYTES
    collected.add([{"stage": "polled"}])
    assert len(took) == 2
    other = Collected(3, 10, took.append, now_s=lambda: now[0])
    now[0] = 10.0
    assert other.full is Ended.TIME


def test_preview_poll_has_no_chain_and_no_dead_letters() -> None:
    letters = {"errors.deadletterqueue.topic.name": "dead", "errors.tolerance": "all"}
    config = {**HOIST, **PLAIN, **letters, "file": "x"}
    assert bare(config, crosses=False) == {**PLAIN, "errors.tolerance": "all", "file": "x"}
    crossing = bare(config, crosses=True)
    assert crossing["key.converter"] == JSON
    assert crossing["value.converter.schemas.enable"] == "true"


def test_the_consumer_of_a_preview_keeps_what_reaches_the_broker() -> None:
    found = consumer_config({"group.id": "g", "sasl.mechanism": "PLAIN", "enable.auto.commit": "true"})
    assert found["sasl.mechanism"] == "PLAIN"
    assert found["enable.auto.commit"] == "false"

"""Verifiable*, Mock* and SchemaSource under Java's names: what they send, print, remember, and how they fail."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import pytest

from spark_connect_rt.api.connector import ConnectorContext
from spark_connect_rt.api.data.logical import timestamp_schema
from spark_connect_rt.api.data.schema import BYTES, INT32, STRING, Schema, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import RecordMetadata, SinkRecord, SourceRecord
from spark_connect_rt.api.task import SourceTaskContext
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.samples.mock import MockSinkTask, MockSourceConnector, MockSourceTask, MockTask
from spark_connect_rt.connectors.samples.numbered_source import (
    RECORDS_PER_POLL,
    NumberedSourceTask,
    records_allowed,
    wait_for_next_ms,
)
from spark_connect_rt.connectors.samples.schema_source import FIRST, SECOND, SchemaSourceTask
from spark_connect_rt.connectors.samples.verifiable import (
    COMPLETE_VALUE,
    VerifiableSinkTask,
    VerifiableSourceConnector,
    VerifiableSourceTask,
)
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.converters.json import JsonConverter
from tests.unit.connectors.task_context import Context

JAVA = "org.apache.kafka.connect.tools"
NUMBERS = {"name": "v", "id": "1", "topic": "t", "throughput": "-1"}
T = TypeVar("T", bound=NumberedSourceTask)


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000

    def __call__(self) -> int:
        return self.now_ms


def started(task: T, config: Mapping[str, str], offset: Mapping[str, Any] | None = None) -> T:
    task.context = cast(SourceTaskContext, Context(offset))
    task.start(config)
    return task


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def numbers(records: Sequence[SourceRecord]) -> list[int]:
    return [record.source_offset["seqno"] for record in records]


def test_they_have_javas_names_and_are_not_listed() -> None:
    names = [f"{JAVA}.{kind}Connector" for kind in ("VerifiableSource", "VerifiableSink", "MockSource", "MockSink")]
    for name in [*names, f"{JAVA}.SchemaSourceConnector"]:
        assert bundled_plugins().find(name).java_class == name
        assert bundled_plugins().find(name.rpartition(".")[2]).java_class == name
        assert name not in {plugin.java_class for plugin in bundled_plugins().list(connectors_only=False)}
        assert not bundled_plugins().class_of(name)().config_def().names()


def test_every_task_has_its_number() -> None:
    connector = VerifiableSourceConnector()
    connector.start({"name": "v", "topic": "t"})
    assert connector.task_configs(2) == [{"name": "v", "topic": "t", "id": "0"}, {"name": "v", "topic": "t", "id": "1"}]


def test_a_verifiable_source_sends_and_prints_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    task = VerifiableSourceTask()
    task.clock = Clock()  # type: ignore[method-assign]
    first, second, *_ = started(task, NUMBERS).poll()
    assert (first.source_partition, first.key, first.value) == ({"id": 1}, 1, 0)
    assert second.source_offset == {"seqno": 1}
    assert json.loads(lines(capsys)[0]) == {"name": "v", "task": 1, "topic": "t", "time_ms": 1_000, "seqno": 0}
    task.commit_record(second, RecordMetadata("t", 0, 7))
    assert json.loads(lines(capsys)[0])["committed"] is True


def test_a_verifiable_source_resumes_after_the_stored_number() -> None:
    assert numbers(started(VerifiableSourceTask(), NUMBERS, {"seqno": 41}).poll())[:2] == [42, 43]


def test_a_verifiable_source_may_send_all_that_it_prints() -> None:
    record = started(VerifiableSourceTask(), {**NUMBERS, "complete.record.data": "TRUE"}).poll()[0]
    assert record.value_schema == COMPLETE_VALUE
    assert (record.value.get("task"), record.value.get("topic"), record.value.get("seqno")) == (1, "t", 0)


def test_throughput_is_kept() -> None:
    task, clock = VerifiableSourceTask(), Clock()
    task.clock = clock  # type: ignore[method-assign]
    started(task, {**NUMBERS, "throughput": "10"})
    assert numbers(task.poll()) == [0]
    assert numbers(task.poll()) == []
    assert task.idle_wait_ms() == 100
    clock.now_ms += 250
    assert numbers(task.poll()) == [1, 2]


@pytest.mark.parametrize(
    ("throughput", "elapsed_ms", "allowed"), [(-1, 0, None), (0, 60_000, 1), (10, 0, 1), (10, 99, 1), (10, 100, 2)]
)
def test_how_many_records_are_allowed(throughput: float, elapsed_ms: int, allowed: int | None) -> None:
    assert records_allowed(throughput, elapsed_ms) == allowed


def test_waits_are_short_and_never_nothing() -> None:
    assert wait_for_next_ms(0, 0, 1) == 100
    assert wait_for_next_ms(1, 0, 1) == 100
    assert wait_for_next_ms(1_000, 0, 5) == 5
    assert wait_for_next_ms(1_000, 9, 5) == 1
    assert wait_for_next_ms(-1, 0, 5) == 1


def test_a_poll_is_bounded() -> None:
    assert len(started(VerifiableSourceTask(), NUMBERS).poll()) == RECORDS_PER_POLL


@pytest.mark.parametrize("change", [{"throughput": "x"}, {"id": ""}])
def test_a_number_that_is_invalid_fails_the_task(change: dict[str, str]) -> None:
    with pytest.raises(ConnectError, match="Invalid VerifiableSourceTask configuration"):
        started(VerifiableSourceTask(), {**NUMBERS, **change})


def test_a_verifiable_sink_prints_at_put_and_at_flush(capsys: pytest.CaptureFixture[str]) -> None:
    task = VerifiableSinkTask()
    task.clock = Clock()  # type: ignore[method-assign]
    task.start({"name": "s", "id": "2"})
    task.put([SinkRecord("t", 0, 5, value=9, key=1), SinkRecord("t", 1, 6, value=10, key=1)])
    put = [json.loads(line) for line in lines(capsys)]
    assert put[0] == {"name": "s", "task": 1, "sinkTask": 2, "topic": "t", "time_ms": 1_000, "seqno": 9, "offset": 5}
    task.pre_commit({TopicPartition("t", 0): 6})
    assert [json.loads(line) for line in lines(capsys)] == [{**put[0], "flushed": True}]
    task.flush({TopicPartition("t", 0): 6})
    assert lines(capsys) == []


def test_a_verifiable_sink_prints_structs_and_continues_after_what_has_no_json_form(
    capsys: pytest.CaptureFixture[str],
) -> None:
    schema = struct_of(
        {"id": INT32, "at": timestamp_schema(), "raw": BYTES, "tags": Schema(Type.ARRAY, value_schema=STRING)}
    )
    at = dt.datetime(1970, 1, 1, 0, 0, 2, tzinfo=dt.UTC)
    value = Struct(schema, {"id": 3, "at": at, "raw": b"ab", "tags": ["x"]})
    task = VerifiableSinkTask()
    task.start({"name": "s", "id": "2"})
    task.put([SinkRecord("t", 0, 5, value=value, key=value), SinkRecord("t", 0, 6, value="\ud800")])
    first, second = lines(capsys)
    printed = {"id": 3, "at": 2000, "raw": "YWI=", "tags": ["x"]}
    assert (json.loads(first)["task"], json.loads(first)["seqno"]) == (printed, printed)
    assert second.startswith("Bad data can't be written as json: ")
    task.flush({TopicPartition("t", 0): 7})
    assert json.loads(lines(capsys)[0])["flushed"] is True


def test_a_schema_source_sends_structs_of_two_versions(capsys: pytest.CaptureFixture[str]) -> None:
    settings = {**NUMBERS, "num.messages": "3", "multiple.schema": "true", "partition.count": "2"}
    task = started(SchemaSourceTask(), settings)
    records = list(task.poll())
    assert [record.value_schema for record in records] == [FIRST, SECOND, FIRST]
    assert [record.partition for record in records] == [1, 1, 1]
    assert [record.value.get("partitioning") for record in records] == [0, 1, 0]
    assert records[1].value.get("string") == "def"
    assert lines(capsys)[0] == '{"task": 1, "seqno": 0}'
    assert task.poll() == []
    assert task.idle_wait_ms() == 100
    payload = json.loads(JsonConverter().from_connect_data("t", FIRST, records[0].value) or b"")["payload"]
    assert (payload["float"], payload["double"], payload["boolean"]) == (12.2, 12.2, True)


def test_a_mock_connector_fails_on_order() -> None:
    raised: list[Exception] = []

    class Raising(ConnectorContext):
        def raise_error(self, error: Exception) -> None:
            raised.append(error)

        def request_task_reconfiguration(self) -> None: ...

    connector = MockSourceConnector()
    connector.context = Raising()
    connector.start({"mock_mode": "connector-failure", "delay_ms": "0"})
    assert connector._timer is not None
    connector._timer.join(30)
    assert len(raised) == 1
    connector.stop()
    assert connector.task_configs(5) == [{"mock_mode": "connector-failure", "delay_ms": "0"}]
    with pytest.raises(ConnectError, match="delay_ms"):
        MockSourceConnector().start({"mock_mode": "connector-failure", "delay_ms": "x"})


@pytest.mark.parametrize("kind", [MockSourceTask, MockSinkTask])
def test_a_mock_task_fails_once_its_time_has_come(kind: type[MockTask]) -> None:
    task, clock = kind(), Clock()
    task.clock = clock  # type: ignore[method-assign]
    task.start({"mock_mode": "task-failure"})
    clock.now_ms += 15_000
    task.fail_when_due()
    clock.now_ms += 1
    with pytest.raises(ConnectError, match="on order"):
        task.put([]) if isinstance(task, MockSinkTask) else task.poll()  # type: ignore[attr-defined]


def test_a_mock_task_without_orders_idles() -> None:
    task = MockSourceTask()
    task.start({})
    assert task.poll() == []

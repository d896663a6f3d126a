"""One sink lane and its errant records: when offsets are told, what is told of whom, when a batch is not halved."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from spark_connect_rt.api.data.schema import SchemaAndValue
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.executor.control_wire import decode_offsets
from spark_connect_rt.engine.executor.errant_reports import ErrantLog
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, encode_partitions, encode_records
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.executor.sink_task import SinkTaskRunner
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import ConnectError, DataError, ExternalError, RetriableError, TimedOutError
from spark_connect_rt.records.converters.primitive_converters import StringConverter
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.errant_records import FailedRecord, Stage
from spark_connect_rt.testing.memory_executor_clients import (
    MemoryExecutorClients,
    MemoryTopics,
    consume_batch,
    wait_until,
)

STRING = "spark_connect_rt.records.converters.primitive_converters:StringConverter"
HEADERS = "spark_connect_rt.records.converters.primitive_converters:SimpleHeaderConverter"
ZERO = TopicPartition("t", 0)


class Halved(SinkTask):
    """Refuses batches with a value ``bad``; what it took is in ``taken``."""

    taken: list[str] = []
    raises: Callable[[], Exception] = lambda: DataError("bad")
    halves = True
    reporters: list[Any] = []

    def start(self, config: Mapping[str, str]) -> None:
        Halved.reporters.append(self.context.errant_record_reporter())

    def put(self, records: Sequence[SinkRecord]) -> None:
        if any(record.value == "bad" or len(record.value) > 70_000 for record in records):
            raise Halved.raises()
        Halved.taken += [record.value for record in records]

    def may_put_halves(self) -> bool:
        return Halved.halves

    def stop(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _anew() -> None:
    Halved.taken, Halved.reporters, Halved.halves = [], [], True
    Halved.raises = lambda: DataError("bad")


class _Queue:
    """A dead letter queue's producer that fails as told."""

    def __init__(self, failures: list[Exception]) -> None:
        self.failures = failures
        self.rows: list[dict[str, Any]] = []
        self.closed = False

    def produce(self, batch: Any) -> None:
        self.rows += batch.to_pylist()

    def flush(self, timeout_ms: int) -> None:
        if self.failures:
            raise self.failures.pop(0)

    def close(self) -> None:
        self.closed = True


class _Clients(MemoryExecutorClients):
    def __init__(self, *failures: Exception) -> None:
        super().__init__(find_plugin=load_class)
        self.queue = _Queue(list(failures))

    def producer(self, config: Mapping[str, str]) -> Any:
        self.producers_made += 1
        return self.queue


class Lane:
    """A lane and what it reported."""

    def __init__(self, clients: MemoryExecutorClients, **settings: str) -> None:
        self.reports: list[Mapping[str, Any]] = []
        errors = {f"errors.{name.replace('_', '.')}": value for name, value in settings.items()}
        connector = {("connectrt." if "put" in name else "") + name: value for name, value in errors.items()}
        if "errors.headers" in connector:
            connector["errors.deadletterqueue.context.headers.enable"] = connector.pop("errors.headers")
        if "errors.dlq" in connector:
            connector["errors.deadletterqueue.topic.name"] = connector.pop("errors.dlq")
            connector.setdefault("errors.deadletterqueue.topic.replication.factor", "1")
        launch = TaskLaunch(
            ConnectorTaskId("a", 0),
            1,
            1,
            TaskKind.SINK,
            f"{__name__}:Halved",
            {},
            connector,
            {"key.converter": STRING, "value.converter": STRING, "header.converter": HEADERS},
        )
        self.launch = replace(launch, worker_config={**launch.worker_config, "offset.flush.interval.ms": "50"})
        self.lane = SinkTaskRunner(5, self.launch, self.reports.append, clients)
        self.lane.give(Row(5, RowKind.ASSIGNED, encode_partitions([("t", 0)])))

    def run(self, *values: str) -> Lane:
        rows = [{"topic": "t", "partition": 0, "offset": n, "value": v.encode()} for n, v in enumerate(values)]
        data = encode_records(consume_batch(rows))
        self.lane.give(Row(5, RowKind.BATCH, BatchHead(len(rows)).encode(), data))
        self.lane.start()
        return self

    def committed(self) -> list[int]:
        told = [report["sink_offsets"] for report in self.reports if report["op"] == "durable"]
        return [decode_offsets(offsets)[ZERO] for offsets in told]

    def failure(self) -> str:
        return next((str(report["trace"]) for report in self.reports if report["op"] == "failed"), "")

    def end(self) -> None:
        self.lane.give(Row(5, RowKind.ENDED))
        self.lane.join(10)
        assert not self.lane.is_alive()


def test_no_offset_is_reported_before_every_dead_letter_is_acknowledged() -> None:
    clients = _Clients(TimedOutError("not yet"), TimedOutError("not yet"))
    lane = Lane(clients, tolerance="all", dlq="dead").run("a", "bad", "b")
    wait_until(lambda: bool(lane.committed()))
    assert clients.queue.failures == []  # both were asked before
    assert (lane.committed(), Halved.taken) == ([3], ["a", "b"])
    assert [row["value"] for row in clients.queue.rows] == [b"bad"]
    lane.end()
    assert clients.queue.closed


def test_a_dead_letter_that_is_refused_fails_the_task_and_nothing_is_committed() -> None:
    lane = Lane(_Clients(ConnectError("too large")), tolerance="all", dlq="dead").run("a", "bad")
    wait_until(lambda: bool(lane.failure()))
    assert "dead letter queue dead does not take a record: too large" in lane.failure()
    lane.end()
    assert lane.committed() == []


def test_dead_letter_that_is_too_large_for_its_queue_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    clients = MemoryExecutorClients(find_plugin=load_class)
    clients.topics.fail_produce = lambda row: DataError("too large") if len(row["value"] or b"") > 70_000 else None
    lane = Lane(clients, tolerance="all", dlq="dead", headers="true").run("a", "x" * 80_000, "b")
    wait_until(lambda: bool(lane.committed()))
    assert (lane.committed(), Halved.taken) == ([3], ["a", "b"])
    assert clients.topics.values("dead") == [b"x" * 1024]
    assert "1 letters are too large and are cut" in caplog.text
    lane.end()


def test_good_records_are_delivered_without_a_reporter() -> None:
    lane = Lane(_Clients(), tolerance="all").run("a", "bad", "b")
    wait_until(lambda: lane.committed() == [3])
    assert (Halved.taken, Halved.reporters) == (["a", "b"], [None])
    (durable,) = [report for report in lane.reports if report["op"] == "durable"]
    assert (durable["n"], durable["skipped"]) == (2, 1)
    lane.end()


@pytest.mark.parametrize(
    ("settings", "halves"),
    [
        ({"tolerance": "none"}, True),
        ({"tolerance": "all"}, False),
        ({"tolerance": "all", "put_refusals_max": "0"}, True),
    ],
)
def test_when_a_batch_is_not_halved(settings: dict[str, str], halves: bool) -> None:
    Halved.halves = halves
    lane = Lane(_Clients(), **settings).run("a", "bad")
    wait_until(lambda: bool(lane.failure()))
    lane.end()
    assert (Halved.taken, lane.committed()) == ([], [])


def test_a_retriable_error_is_not_a_refusal() -> None:
    refusals: list[int] = []

    def again() -> Exception:
        refusals.append(1)
        return RetriableError("later")

    Halved.raises = staticmethod(again)  # type: ignore[assignment]
    lane = Lane(_Clients(), tolerance="all").run("a", "bad")
    wait_until(lambda: len(refusals) >= 2)
    lane.end()
    assert (Halved.taken, lane.committed(), lane.failure()) == ([], [], "")


@pytest.mark.parametrize(
    "error",
    [
        ExternalError("the service is away: given up after 11 failures in a row"),  # HttpSink, SqlSink: retries used up
        ConnectError("a delivery failed: _MSG_TIMED_OUT"),  # KafkaSink
        ConnectionRefusedError("nobody listens"),  # a third party's sink, its client's own error
        KeyError("a fault of the sink"),
    ],
)
def test_only_an_error_that_blames_a_record_makes_dead_letters(error: Exception) -> None:
    Halved.raises = staticmethod(lambda: error)  # type: ignore[assignment]
    clients = _Clients()
    lane = Lane(clients, tolerance="all", dlq="dead").run("a", "bad")
    wait_until(lambda: bool(lane.failure()))
    lane.end()
    assert (Halved.taken, lane.committed(), clients.queue.rows) == ([], [], [])


def test_an_end_does_not_wait_for_the_search() -> None:
    lane = Lane(_Clients(), tolerance="all")

    def end() -> Exception:
        lane.lane.give(Row(5, RowKind.ENDED))
        return DataError("bad")

    Halved.raises = staticmethod(end)  # type: ignore[assignment]
    lane.run("a", "bad", "b", "c")
    lane.lane.join(10)
    assert not lane.lane.is_alive()
    assert (Halved.taken, lane.committed(), lane.failure()) == ([], [], "")


class Later(StringConverter):
    """Cannot read a value ``later`` until it is told."""

    asked = 0
    ready = False

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data == b"later" and not Later.ready:
            Later.asked += 1
            raise RetriableError("the registry is away")
        return super().to_connect_data(topic, data)


@pytest.mark.parametrize("leaves", ["another", "end"])
def test_a_revocation_or_an_end_in_the_middle_of_retries_gives_no_record_up(leaves: str) -> None:
    Later.asked, Later.ready = 0, False
    lane = Lane(_Clients(), tolerance="all", retry_timeout="-1", retry_delay_max_ms="20")
    lane.launch.worker_config["value.converter"] = f"{__name__}:Later"  # type: ignore[index]
    lane.lane.give(Row(5, RowKind.ASSIGNED, encode_partitions([("u", 0)])))
    lane.run("a", "later")
    wait_until(lambda: Later.asked > 1)
    if leaves == "another":
        lane.lane.give(Row(5, RowKind.REVOKED, encode_partitions([("u", 0)])))
        asked = Later.asked
        wait_until(lambda: Later.asked > asked + 2)
        assert lane.committed() == []
        Later.ready = True
        wait_until(lambda: lane.committed() == [2])
        assert Halved.taken == ["a", "later"]
    lane.end()
    assert leaves == "another" or (Halved.taken, lane.committed(), lane.failure()) == ([], [], "")
    assert sum(report.get("skipped", 0) for report in lane.reports) == 0


def test_a_target_that_takes_nothing_fails_the_task_and_buries_nothing() -> None:
    clients = _Clients()
    lane = Lane(clients, tolerance="all", dlq="dead", put_refusals_max="3").run(*["bad"] * 8)
    wait_until(lambda: bool(lane.failure()))
    assert "put rejected 4 single records in a row" in lane.failure()
    lane.end()
    assert (clients.queue.rows, lane.committed()) == ([], [])


def test_a_queue_that_cannot_be_created_fails_the_task_in_javas_words() -> None:
    lane = Lane(_Clients(), dlq="dead", deadletterqueue_topic_replication_factor="3").run("a")
    wait_until(lambda: bool(lane.failure()))
    assert "Could not initialize dead letter queue with topic=dead" in lane.failure()
    lane.end()


def test_the_log_says_it_in_javas_words(caplog: pytest.LogCaptureFixture) -> None:
    lane = Lane(_Clients(), tolerance="all", log_enable="true", log_include_messages="true").run("a", "bad")
    with caplog.at_level(logging.ERROR):
        wait_until(lambda: lane.committed() == [2])
    lane.end()
    assert (
        "Error encountered in task a-0. Executing stage 'TASK_PUT' with class "
        "'org.apache.kafka.connect.sink.SinkTask', where consumed record is {topic='t', partition=0, offset=1}."
    ) in caplog.text
    assert Halved.reporters[0] is not None


def test_a_report_can_be_waited_for() -> None:
    clients = _Clients()
    lane = Lane(clients, tolerance="all", dlq="dead").run("a")
    wait_until(lambda: lane.committed() == [1])
    future = Halved.reporters[0].report(SinkRecord("t", 0, 7, "made"), ValueError("no"))
    assert not future.done()
    assert future.result(timeout=5) is None
    assert [row["value"] for row in clients.queue.rows] == [b"made"]
    lane.end()


@pytest.mark.parametrize(("tolerance", "words"), [("all", "skipped t-0@7"), ("none", "fails at t-0@7")])
def test_the_log_says_that_a_record_is_skipped_only_where_it_is(
    tolerance: str, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ReportSettings.from_config({"errors.tolerance": tolerance})
    log = ErrantLog(ConnectorTaskId("s", 0), settings, MemoryExecutorClients(MemoryTopics()))
    log.write([FailedRecord("t-0@7", Stage.VALUE_CONVERTER, ValueError("no JSON"), "JsonConverter", None)])
    assert f"task=s-0 {words}, stage VALUE_CONVERTER: ValueError: no JSON" in caplog.text

"""Small batches served on the thread that read them, and what their lanes report together."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor import joint_reports, source_task_writer
from spark_connect_rt.engine.executor.control_wire import MessageSplitter
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, encode_records
from spark_connect_rt.engine.executor.joint_reports import JointReports
from spark_connect_rt.engine.executor.source_task_writer import AT_ONCE_BYTES, SourceTaskWriter
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, wait_until
from tests.unit.engine.executor.test_source_flushes import SlowProducer

LAUNCH = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {})


class Sent:
    """What arrived, a piece for each send."""

    def __init__(self) -> None:
        self.pieces: list[list[Mapping[str, Any]]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        self.waits = threading.Event()
        self.error: Exception | None = None

    def __call__(self, data: bytes) -> None:
        self.waits.set()
        assert self.go_on.wait(20)
        if self.error is not None:
            raise self.error
        self.pieces.append(list(MessageSplitter().feed(data)))


class Laned:
    """A lane with a slow producer that has served its first batch, as every lane does, on its own thread."""

    def __init__(self, host: int, reports: list[Any], joint: JointReports | None) -> None:
        self.host = host
        self.reports = reports
        self.producer, clients = SlowProducer(), MemoryExecutorClients()
        self.threads: list[threading.Thread] = []
        produce = self.producer.produce

        def noted(batch: pa.RecordBatch) -> None:
            self.threads.append(threading.current_thread())
            produce(batch)

        self.producer.produce = noted  # type: ignore[method-assign]
        clients.producer = lambda config: self.producer  # type: ignore[method-assign,assignment,return-value]
        self.lane = SourceTaskWriter(host, LAUNCH, reports.append, clients)
        self.lane.sees_idle, self.lane.joint = True, joint
        self.lane.start()
        assert not self.at_once("first")
        head, batch = _batch("first")
        self.lane.give(Row(host, RowKind.BATCH, head.encode(), encode_records(batch)))
        wait_until(lambda: self.producer._on_empty is not None)

    def at_once(self, text: str, offset: Any = None) -> bool:
        head, batch = _batch(text, text if offset is None else offset)
        return self.lane.serve_at_once(head, batch)

    def ops(self) -> list[str]:
        return [
            report["op"] for report in list(self.reports) if report["op"] != "measures" and report["host"] == self.host
        ]

    def end(self) -> None:
        self.producer.acknowledge()
        self.lane.give(Row(self.host, RowKind.ENDED))
        self.lane.join(20)


def _batch(text: str, offset: Any = None) -> tuple[BatchHead, pa.RecordBatch]:
    return BatchHead(1, (({"p": 1}, {"o": offset}),), 0, ("t",)), produce_batch("t", pa.array([text]))


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_task_writer, "FLUSH_EACH_S", 600.0)
    monkeypatch.setattr(source_task_writer, "FLUSH_APART_S", 0.0)


@pytest.fixture
def alone() -> Iterator[Laned]:
    laned = Laned(5, [], None)
    laned.producer.acknowledge()
    wait_until(lambda: laned.ops() == ["durable"])
    wait_until(lambda: not laned.lane._serving.locked())
    yield laned
    laned.end()


def test_small_batch_is_produced_on_its_reading_thread_and_reported_when_durable(alone: Laned) -> None:
    assert alone.at_once("x")
    assert alone.threads[-1] is threading.current_thread()
    assert alone.ops() == ["durable"]
    alone.producer.acknowledge()
    wait_until(lambda: alone.ops() == ["durable"] * 2)
    assert alone.reports[-1]["source_offsets"] == [({"p": 1}, {"o": "x"})]


def test_row_that_would_wait_or_overtake_is_not_served_at_once(alone: Laned) -> None:
    assert not alone.at_once("x" * AT_ONCE_BYTES)
    with alone.lane._serving:  # its own thread is at work
        assert not alone.at_once("x")
        alone.lane.give(Row(5, RowKind.RUNNING))
    wait_until(lambda: alone.ops()[-1] == "running")
    assert alone.at_once("y")
    assert not alone.at_once("z")  # y is under way
    alone.producer.acknowledge()
    wait_until(lambda: alone.ops()[-1] == "durable")
    alone.lane.hurry(0.0)
    alone.lane._end_by_s = 0.0
    assert not alone.at_once("a stop's time is up")


def test_a_delivery_that_fails_fails_the_task_though_its_lane_sleeps(alone: Laned) -> None:
    assert alone.at_once("x")
    alone.producer.fail(ConnectError("refused"))
    wait_until(lambda: alone.ops() == ["durable", "failed"])
    assert not alone.at_once("y")


def test_a_batch_that_cannot_be_produced_fails_its_task_and_not_its_reader(alone: Laned) -> None:
    def refused(_: pa.RecordBatch) -> None:
        raise ConnectError("refused")

    alone.producer.produce = refused  # type: ignore[method-assign]
    assert alone.at_once("x")
    assert alone.ops() == ["durable", "failed"]


# -- together


class Pair:
    """Two lanes whose first batches are not acknowledged yet."""

    def __init__(self) -> None:
        self.sent, self.reports = Sent(), list[Any]()
        joint = JointReports(self.sent)
        self.lanes = [Laned(host, self.reports, joint) for host in (1, 2)]

    def acknowledge(self) -> None:
        for lane in self.lanes:
            lane.producer.acknowledge()


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    monkeypatch.setattr(joint_reports, "GATHER_S", 0.2)
    made = Pair()
    yield made
    made.sent.go_on.set()
    for lane in made.lanes:
        lane.end()


def test_reports_acknowledged_together_are_sent_together(pair: Pair) -> None:
    pair.acknowledge()
    wait_until(lambda: bool(pair.sent.pieces))
    assert [[(report["op"], report["host"]) for report in piece] for piece in pair.sent.pieces] == [
        [("durable", 1), ("durable", 2)]
    ]
    assert not pair.reports


def test_e2_no_report_of_a_lane_overtakes_what_is_being_sent(pair: Pair) -> None:
    pair.sent.go_on.clear()
    pair.acknowledge()
    assert pair.sent.waits.wait(20)
    first, _ = pair.lanes
    first.lane.give(Row(1, RowKind.ENDED))
    first.lane.join(0.1)
    assert first.lane.is_alive()
    assert not first.ops()
    pair.sent.go_on.set()
    first.lane.join(20)
    assert (first.ops(), len(pair.sent.pieces)) == (["ended"], 1)


def test_a_lane_that_is_at_work_looks_for_itself(pair: Pair) -> None:
    first, _ = pair.lanes
    with first.lane._serving:
        pair.acknowledge()
        wait_until(lambda: bool(pair.sent.pieces))
    assert [report["host"] for report in pair.sent.pieces[0]] == [2]
    wait_until(lambda: first.ops() == ["durable"])


def test_an_offset_that_cannot_be_sent_fails_its_task_alone(pair: Pair) -> None:
    first, second = pair.lanes
    pair.acknowledge()
    wait_until(lambda: len(pair.sent.pieces) == 1)
    wait_until(lambda: not first.lane._serving.locked() and not second.lane._serving.locked())
    assert first.at_once("x", offset=2**70)
    assert second.at_once("y")
    pair.acknowledge()
    wait_until(lambda: first.ops() == ["failed"])
    wait_until(lambda: len(pair.sent.pieces) == 2)
    assert [(report["op"], report["host"]) for report in pair.sent.pieces[1]] == [("durable", 2)]


@pytest.mark.parametrize("error", [RuntimeError("no more threads"), None])
def test_without_its_thread_each_lane_looks_for_itself(
    monkeypatch: pytest.MonkeyPatch, pair: Pair, error: Exception | None
) -> None:
    if error is None:  # the thread's own work fails
        monkeypatch.setattr(JointReports, "_serve", _raises(OSError("broken")))
    else:
        monkeypatch.setattr(joint_reports.threading.Thread, "start", _raises(error))
    pair.acknowledge()
    wait_until(lambda: [report["op"] for report in pair.reports if report["op"] == "durable"] == ["durable"] * 2)


def _raises(error: Exception) -> Callable[..., None]:
    def raising(*_: object) -> None:
        raise error

    return raising

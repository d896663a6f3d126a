"""A lane whose producer says when it is empty: what is read goes on while acknowledgements are awaited."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor import source_task_writer
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, encode_records
from spark_connect_rt.engine.executor.source_task_writer import SourceTaskWriter
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import ConnectError, TimedOutError
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, wait_until

LAUNCH = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {})


class SlowProducer:
    """Has everything under way until ``acknowledge``, ``fail`` or ``hurry``."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._on_empty: Callable[[], None] | None = None
        self._under_way = 0
        self._failure: ConnectError | None = None
        self._is_hurried = False
        self.produced = self.flushes = 0

    def produce(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            self._under_way += batch.num_rows
            self.produced += batch.num_rows

    def flush(self, timeout_ms: int) -> None:
        with self._changed:
            self.flushes += 1
            assert self._changed.wait_for(lambda: not self._under_way or self._failure or self._is_hurried, 20)
            if self._failure is not None:
                raise self._failure
            if self._under_way:
                raise TimedOutError("without draining")

    def is_empty(self, otherwise: Callable[[], None]) -> bool:
        with self._changed:
            self._on_empty = otherwise
            return not self._under_way or self._failure is not None

    def acknowledge(self) -> None:
        self._say_empty(None)

    def fail(self, error: ConnectError) -> None:
        self._say_empty(error)

    def _say_empty(self, failure: ConnectError | None) -> None:
        with self._changed:
            self._failure = failure
            self._under_way = self._under_way if failure else 0
            self._changed.notify_all()
            on_empty, self._on_empty = self._on_empty, None
        if on_empty is not None:
            on_empty()

    def delivered(self) -> list[Any]:
        return []

    def hurry(self, end_by_s: float) -> None:
        with self._changed:
            self._is_hurried = True
            self._changed.notify_all()

    def close(self) -> None: ...


class Laned:
    """A lane with such a producer."""

    def __init__(self) -> None:
        self.reports: list[Any] = []
        self.producer, clients = SlowProducer(), MemoryExecutorClients()
        clients.producer = lambda config: self.producer  # type: ignore[method-assign,assignment,return-value]
        self.lane = SourceTaskWriter(5, LAUNCH, self.reports.append, clients)
        self.lane.sees_idle = True
        self.lane.start()

    def give(self, text: str) -> None:
        data = encode_records(produce_batch("t", pa.array([text])))
        self.lane.give(Row(5, RowKind.BATCH, BatchHead(1, (({"p": 1}, {"o": text}),), 0, ("t",)).encode(), data))

    def durable(self) -> list[int]:
        return [report["n"] for report in list(self.reports) if report["op"] == "durable"]

    def ops(self) -> list[str]:
        return [report["op"] for report in list(self.reports) if report["op"] != "measures"]

    def end(self) -> None:
        self.producer.acknowledge()
        self.lane.give(Row(5, RowKind.ENDED))
        self.lane.join(20)


@pytest.fixture
def laned() -> Iterator[Laned]:
    made = Laned()
    yield made
    made.end()


def test_no_batch_waits_behind_a_flush_of_another(monkeypatch: pytest.MonkeyPatch, laned: Laned) -> None:
    monkeypatch.setattr(source_task_writer, "FLUSH_EACH_S", 600.0)
    for number in (1, 2, 3):
        laned.give(str(number))
        wait_until(lambda so_far=number: laned.producer.produced == so_far)  # type: ignore[misc]
    assert not laned.producer.flushes
    assert not laned.durable()
    laned.producer.acknowledge()
    wait_until(lambda: sum(laned.durable()) == 3)


def test_the_oldest_batch_is_flushed_though_more_is_in_flight(monkeypatch: pytest.MonkeyPatch, laned: Laned) -> None:
    monkeypatch.setattr(source_task_writer, "FLUSH_EACH_S", 0.02)
    laned.give("x")
    wait_until(lambda: laned.producer.flushes == 1)
    assert not laned.durable()
    laned.producer.acknowledge()
    wait_until(lambda: laned.durable() == [1])


@pytest.mark.parametrize("kind", [RowKind.PAUSED, RowKind.ENDED])
def test_a_pause_and_an_end_wait_for_calls_in_flight(
    monkeypatch: pytest.MonkeyPatch, laned: Laned, kind: RowKind
) -> None:
    monkeypatch.setattr(source_task_writer, "FLUSH_EACH_S", 600.0)
    laned.give("x")
    laned.lane.give(Row(5, kind))
    wait_until(lambda: laned.producer.flushes == 1)
    assert not laned.ops()
    laned.producer.acknowledge()
    wait_until(lambda: laned.ops() == ["durable", kind.name.lower()])


def test_a_failed_delivery_fails_the_task_at_once_and_nothing_is_durable(
    monkeypatch: pytest.MonkeyPatch, laned: Laned
) -> None:
    monkeypatch.setattr(source_task_writer, "FLUSH_EACH_S", 600.0)
    laned.give("x")
    wait_until(lambda: laned.producer._on_empty is not None)
    laned.producer.fail(ConnectError("refused"))
    wait_until(lambda: laned.ops() == ["failed"])
    laned.give("y")
    laned.end()
    assert (laned.ops(), laned.producer.produced) == (["failed", "ended"], 1)


def test_a_stop_whose_time_is_up_reports_nothing_of_calls_in_flight(
    monkeypatch: pytest.MonkeyPatch, laned: Laned
) -> None:
    monkeypatch.setattr(source_task_writer, "FLUSH_EACH_S", 600.0)
    laned.give("x")
    wait_until(lambda: laned.producer._on_empty is not None)
    laned.lane.give(Row(5, RowKind.ENDED, b"1"))
    laned.lane.join(20)
    assert laned.ops() == ["ended"]


def test_a_lane_that_failed_waits_for_its_end(laned: Laned, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for a flush that was due: there will be none, and it would look for one without a pause."""
    monkeypatch.setattr(source_task_writer, "FLUSH_EACH_S", 0.0)
    monkeypatch.setattr(SourceTaskWriter, "_drain_or_wait", _refused)
    laned.give("x")
    wait_until(lambda: laned.ops() == ["failed"])
    asked: list[float] = []
    monkeypatch.setattr(SourceTaskWriter, "wait_s", lambda _: asked.append(1.0))
    laned.lane.give(Row(5, RowKind.RUNNING))
    laned.end()
    assert not asked


def _refused(_: SourceTaskWriter) -> None:
    raise ConnectError("refused")

"""A lane whose producer says when it is empty: what is read goes on while acknowledgements are awaited."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.pipeline.columns import produce_batch
from spark_connect_rt.ports.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.spark.executor.frames import BatchHead, Row, RowKind, encode_records
from spark_connect_rt.spark.executor.sources import source_lane
from spark_connect_rt.spark.executor.sources.source_lane import SourceLane
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, wait_until

LAUNCH = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {})


class SlowProducer:
    """Has everything under way until ``acknowledge``."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._on_empty: Callable[[], None] | None = None
        self._under_way = 0
        self.produced = self.flushes = 0

    def produce(self, batch: pa.RecordBatch) -> None:
        with self._changed:
            self._under_way += batch.num_rows
            self.produced += batch.num_rows

    def flush(self, timeout_ms: int) -> None:
        with self._changed:
            self.flushes += 1
            assert self._changed.wait_for(lambda: not self._under_way, 20)

    def is_empty(self, otherwise: Callable[[], None]) -> bool:
        with self._changed:
            self._on_empty = otherwise
            return not self._under_way

    def acknowledge(self) -> None:
        with self._changed:
            self._under_way = 0
            self._changed.notify_all()
            on_empty, self._on_empty = self._on_empty, None
        if on_empty is not None:
            on_empty()

    def delivered(self) -> list[Any]:
        return []

    def hurry(self, end_by_s: float) -> None: ...

    def close(self) -> None: ...


class Laned:
    """A lane with such a producer."""

    def __init__(self) -> None:
        self.reports: list[Any] = []
        self.producer, clients = SlowProducer(), MemoryExecutorClients()
        clients.producer = lambda config: self.producer  # type: ignore[method-assign,assignment,return-value]
        self.lane = SourceLane(5, LAUNCH, self.reports.append, clients)
        self.lane.sees_idle = True
        self.lane.start()

    def give(self, text: str) -> None:
        data = encode_records(produce_batch("t", pa.array([text])))
        self.lane.give(Row(5, RowKind.BATCH, BatchHead(1, (({"p": 1}, {"o": text}),), 0, ("t",)).encode(), data))

    def durable(self) -> list[int]:
        return [one["n"] for one in list(self.reports) if one["op"] == "durable"]

    def end(self) -> None:
        self.producer.acknowledge()
        self.lane.give(Row(5, RowKind.ENDED))
        self.lane.join(20)


@pytest.fixture
def laned() -> Iterator[Laned]:
    one = Laned()
    yield one
    one.end()


def test_no_batch_waits_behind_a_flush_of_another(monkeypatch: pytest.MonkeyPatch, laned: Laned) -> None:
    monkeypatch.setattr(source_lane, "FLUSH_EACH_S", 600.0)
    for number in (1, 2, 3):
        laned.give(str(number))
        wait_until(lambda so_far=number: laned.producer.produced == so_far)  # type: ignore[misc]
    assert not laned.producer.flushes
    assert not laned.durable()
    laned.producer.acknowledge()
    wait_until(lambda: sum(laned.durable()) == 3)


def test_the_oldest_batch_is_flushed_though_more_is_under_way(monkeypatch: pytest.MonkeyPatch, laned: Laned) -> None:
    monkeypatch.setattr(source_lane, "FLUSH_EACH_S", 0.02)
    laned.give("x")
    wait_until(lambda: laned.producer.flushes == 1)
    assert not laned.durable()
    laned.producer.acknowledge()
    wait_until(lambda: laned.durable() == [1])


def test_an_end_waits_for_what_is_under_way(monkeypatch: pytest.MonkeyPatch, laned: Laned) -> None:
    monkeypatch.setattr(source_lane, "FLUSH_EACH_S", 600.0)
    laned.give("x")
    laned.lane.give(Row(5, RowKind.ENDED))
    wait_until(lambda: laned.producer.flushes == 1)
    assert not laned.durable()
    laned.producer.acknowledge()
    laned.lane.join(20)
    assert [one["op"] for one in laned.reports if one["op"] != "measures"] == ["durable", "ended"]

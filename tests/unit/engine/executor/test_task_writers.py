"""Queues and lanes: back-pressure, spacing of flushes, the switches of a host."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import orjson
import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.driver.loop import Loop
from spark_connect_rt.engine.driver.slice_runner import FairGate
from spark_connect_rt.engine.executor import task_writer
from spark_connect_rt.engine.executor.control_wire import encode_launch
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, RowQueue, encode_records
from spark_connect_rt.engine.executor.hosting import Switches
from spark_connect_rt.engine.executor.source_task_writer import SourceTaskWriter
from spark_connect_rt.engine.executor.writer_side import WriterSide
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import FencedError, ShuttingDownError
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, wait_until

LAUNCH = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {})


def batch_row(host: int, text: str) -> Row:
    data = encode_records(produce_batch("t", pa.array([text])))
    return Row(host, RowKind.BATCH, BatchHead(1, (({"p": 1}, {"o": text}),), 0, ("t",)).encode(), data)


def test_a_full_host_waits_and_its_neighbour_does_not() -> None:
    rows = RowQueue(limit_bytes=10)
    rows.put(Row(1, RowKind.BATCH, b"", pa.py_buffer(b"x" * 20)))
    waiting = threading.Thread(target=rows.put, args=(Row(1, RowKind.BATCH, b"", pa.py_buffer(b"y")),))
    waiting.start()
    rows.put(Row(2, RowKind.BATCH, b"", pa.py_buffer(b"z")))
    rows.put(Row(1, RowKind.PAUSED))  # news is never held back
    taken = [rows.get(1), rows.get(1), rows.get(1), rows.get(1)]
    waiting.join(5)
    assert [row.host for row in taken if row] == [1, 2, 1, 1]
    assert rows.get(0) is None


def test_a_closed_queue_refuses() -> None:
    rows = RowQueue(limit_bytes=1)
    rows.put(Row(1, RowKind.BATCH, b"", pa.py_buffer(b"xx")))
    refused: list[BaseException] = []

    def put() -> None:
        try:
            rows.put(Row(1, RowKind.BATCH, b"", pa.py_buffer(b"xx")))
        except ShuttingDownError as error:
            refused.append(error)

    thread = threading.Thread(target=put)
    thread.start()
    rows.close()
    thread.join(5)
    assert len(refused) == 1
    with pytest.raises(ShuttingDownError):
        rows.put(Row(1, RowKind.ENDED))


class _Reports:
    def __init__(self) -> None:
        self.all: list[Mapping[str, Any]] = []

    def __call__(self, message: Mapping[str, Any]) -> None:
        if message["op"] != "measures":
            self.all.append(message)

    def ops(self) -> list[str]:
        return [report["op"] for report in self.all]


def test_rows_before_an_idle_hint_become_one_durable_batch() -> None:
    reports, clients = _Reports(), MemoryExecutorClients()
    source_task_writer = SourceTaskWriter(5, LAUNCH, reports, clients)
    for text in ("x", "y", "z"):
        source_task_writer.give(batch_row(5, text))
    source_task_writer.hint_idle()
    source_task_writer.start()
    wait_until(lambda: bool(reports.all))
    assert clients.topics.values("t") == [b"x", b"y", b"z"]
    assert reports.all[0]["n"] == 3
    assert reports.all[0]["source_offsets"] == [({"p": 1}, {"o": "z"})]
    source_task_writer.give(Row(5, RowKind.ENDED))
    source_task_writer.join(5)
    assert reports.ops() == ["durable", "ended"]
    assert (source_task_writer.totals.records, source_task_writer.totals.batches) == (3, 1)


def test_e1_rows_that_stop_without_ended_end_no_host() -> None:
    """A killed reader looks like a normal end of the rows; a task reported ended then would never be mended."""
    reports, clients = _Reports(), MemoryExecutorClients()
    side = WriterSide(clients, reports)
    launch = orjson.dumps(encode_launch(LAUNCH))
    with pytest.raises(FencedError, match="ended within"):
        side.run(iter([Row(5, RowKind.LAUNCH, launch), batch_row(5, "x")]))
    assert "ended" not in reports.ops()


def test_rows_that_stop_behind_ended_drain_the_host() -> None:
    reports, clients = _Reports(), MemoryExecutorClients()
    side = WriterSide(clients, reports)
    launch = orjson.dumps(encode_launch(LAUNCH))
    side.run(iter([Row(5, RowKind.LAUNCH, launch), batch_row(5, "x"), Row(5, RowKind.ENDED)]))
    assert reports.ops() == ["durable", "ended"]


def test_a_lane_without_records_makes_no_producer() -> None:
    reports, clients = _Reports(), MemoryExecutorClients()
    source_task_writer = SourceTaskWriter(5, LAUNCH, reports, clients)
    source_task_writer.start()
    for kind in (RowKind.RUNNING, RowKind.PAUSED, RowKind.ENDED):
        source_task_writer.give(Row(5, kind))
    source_task_writer.join(5)
    assert reports.ops() == ["running", "paused", "ended"]
    assert clients.producers_made == 0


def test_a_flooded_lane_asks_for_a_rest_and_takes_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_writer, "THROTTLE_BYTES", 1000)
    monkeypatch.setattr(task_writer, "UNTHROTTLE_BYTES", 500)
    reports = _Reports()
    source_task_writer = SourceTaskWriter(5, LAUNCH, reports, MemoryExecutorClients())
    for n in range(10):
        source_task_writer.give(batch_row(5, f"{n}" * 200))
    source_task_writer.give(Row(5, RowKind.ENDED))
    assert [(r["op"], r["on"]) for r in reports.all] == [("throttle", True)]
    source_task_writer.start()
    source_task_writer.join(5)
    throttles = [r["on"] for r in reports.all if r["op"] == "throttle"]
    assert throttles == [True, False]
    assert source_task_writer.totals.records == 10


class _Flood:
    """Rows for a lane that takes none yet, from a dispatcher's thread; the driver says nothing."""

    def __init__(self, source_task_writer: SourceTaskWriter, rows: int) -> None:
        self.given = 0
        self._lane, self._count = source_task_writer, rows
        self.thread = threading.Thread(target=self._give)
        self.thread.start()

    def _give(self) -> None:
        for n in range(self._count):
            self._lane.give(batch_row(5, f"{n}" * 200))
            self.given += 1

    def rests_at(self, rows: int) -> bool:
        self.thread.join(0.2)
        return self.thread.is_alive() and self.given == rows


@pytest.fixture
def small_queue(monkeypatch: pytest.MonkeyPatch) -> int:
    """Four rows are too much for the queue; returns how many it takes."""
    row = batch_row(5, "0" * 200).size_bytes()
    for name, rows in (("UNTHROTTLE_BYTES", 1), ("THROTTLE_BYTES", 2), ("QUEUE_BYTES", 3)):
        monkeypatch.setattr(task_writer, name, rows * row + row // 2)
    return 4


def test_a_flooded_lane_holds_the_slot_back_while_the_driver_is_slow(small_queue: int) -> None:
    source_task_writer = SourceTaskWriter(5, LAUNCH, _Reports(), MemoryExecutorClients())
    flood = _Flood(source_task_writer, 10)
    assert flood.rests_at(small_queue)
    source_task_writer.start()
    flood.thread.join(5)
    source_task_writer.give(Row(5, RowKind.ENDED))
    source_task_writer.join(5)
    assert source_task_writer.totals.records == 10


def test_an_abandoned_task_writer_delays_no_other(small_queue: int) -> None:
    source_task_writer = SourceTaskWriter(5, LAUNCH, _Reports(), MemoryExecutorClients())
    flood = _Flood(source_task_writer, 10)
    assert flood.rests_at(small_queue)
    source_task_writer.abandon()
    flood.thread.join(5)
    assert flood.given == 10


def test_a_lane_that_hangs_holds_its_neighbours_back_once(small_queue: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_writer, "QUEUE_PATIENCE_S", 0.3)
    source_task_writer = SourceTaskWriter(5, LAUNCH, _Reports(), MemoryExecutorClients())
    flood = _Flood(source_task_writer, 10)
    assert flood.rests_at(small_queue)
    flood.thread.join(1.5)
    assert flood.given == 10


def test_an_abandoned_lane_reports_nothing() -> None:
    reports = _Reports()
    source_task_writer = SourceTaskWriter(5, LAUNCH, reports, MemoryExecutorClients())
    source_task_writer.give(batch_row(5, "x"))
    source_task_writer.abandon()
    source_task_writer.start()
    source_task_writer.join(5)
    assert reports.all == []


def test_a_nudge_before_the_wait_counts() -> None:
    switches = Switches(paused=False)
    switches.nudge()
    switches.wait(None)  # would hang for ever otherwise
    switches.set(stopping=True)
    assert not switches.wait_ms(60_000)


def test_the_gate_is_first_come_first_served() -> None:
    gate, order, threads = FairGate(1), [], []
    first = gate.turn()
    for n in range(4):
        arrived = threading.Event()

        def come(n: int = n, arrived: threading.Event = arrived) -> None:
            arrived.set()
            with gate.turn():
                order.append(n)

        threads.append(threading.Thread(target=come))
        threads[-1].start()
        arrived.wait(5)
        wait_until(lambda n=n: len(gate._queue) == n + 1)  # type: ignore[misc]
    first.give_back()
    first.give_back()  # once only
    for thread in threads:
        thread.join(5)
    assert order == [0, 1, 2, 3]


def test_the_loop_survives_a_step_that_throws_and_keeps_time_order() -> None:
    loop, done = Loop("test"), []
    loop.submit(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
    loop.later(400, lambda: done.append("late"))
    loop.later(200, lambda: done.append("soon"))
    loop.submit(lambda: done.append("now"))
    loop.start()
    wait_until(lambda: len(done) == 3)
    assert done == ["now", "soon", "late"]
    loop.stop()

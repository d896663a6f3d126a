"""Stops with more read than can be sent in time: the rest is dropped and read again, and no slot is killed for it."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.executor import transactional_task_writer
from spark_connect_rt.engine.executor.frames import Row, RowKind
from spark_connect_rt.engine.executor.hosting import Switches, load_class, monotonic_ms
from spark_connect_rt.engine.executor.source_task_writer import SourceTaskWriter
from spark_connect_rt.engine.task_runner import Stop
from spark_connect_rt.errors import TimedOutError
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.contract.task_runner_contract import Worker
from tests.unit.engine.executor.test_task_writers import LAUNCH, _Reports, batch_row
from tests.unit.engine.executor.test_transactional_task_writer import Lane as TransactionalStory


class SlowClients(MemoryExecutorClients):
    """Producers that need ``send_s`` for a batch, and an unfinished flush when ``acknowledges`` is False."""

    send_s = 0.05
    acknowledges = True
    no_room_for: bytes | None = None  # the batch that begins with it waits for room for a minute

    def producer(self, config: Any) -> Any:
        return self._slow(super().producer(config))

    def transactional_producer(self, config: Any) -> Any:
        return self._slow(super().transactional_producer(config))

    def _slow(self, producer: Any) -> Any:
        produce, flush = producer.produce, producer.flush

        hurried = threading.Event()
        ends = [math.inf]

        def wait(limit_s: float) -> None:
            end_s = time.monotonic() + limit_s
            while (left_s := min(end_s, ends[0]) - time.monotonic()) > 0:
                hurried.wait(left_s)
                hurried.clear()
            raise TimedOutError("not in time")

        def hurry(end_by_s: float) -> None:
            ends[0] = end_by_s
            hurried.set()

        def flushed(timeout_ms: int) -> None:
            if not self.acknowledges:
                wait(timeout_ms / 1000)
            flush(timeout_ms)

        def slowly(batch: pa.RecordBatch) -> None:
            time.sleep(self.send_s)
            if batch.column("value")[0].as_py() == self.no_room_for:
                wait(60)
            produce(batch)

        producer.produce, producer.flush, producer.hurry = slowly, flushed, hurry
        return producer


def end_in(within_ms: int) -> Row:
    return Row(5, RowKind.ENDED, b"%d" % (monotonic_ms() + within_ms))


def test_unsent_records_are_dropped_at_the_limit_and_sent_records_are_reported() -> None:
    reports, clients = _Reports(), SlowClients()
    lane = SourceTaskWriter(5, LAUNCH, reports, clients)
    for n in range(100):
        lane.give(batch_row(5, str(n)))
    lane.give(end_in(300))
    begun_s = time.monotonic()
    lane.start()
    lane.join(5)
    assert time.monotonic() - begun_s < 2.0  # five seconds for all of them
    sent = [int(value) for value in clients.topics.values("t")]
    assert sent == list(range(len(sent)))
    assert 0 < len(sent) < 100
    durable = [report for report in reports.all if report["op"] == "durable"]
    assert durable[-1]["source_offsets"] == [({"p": 1}, {"o": str(sent[-1])})]
    assert sum(report["n"] for report in durable) == lane.totals.records == len(sent)
    assert reports.ops()[-1] == "ended"


def test_unacknowledged_records_are_never_reported() -> None:
    reports, clients = _Reports(), SlowClients()
    clients.acknowledges = False
    lane = SourceTaskWriter(5, LAUNCH, reports, clients)
    lane.give(batch_row(5, "x"))
    lane.give(end_in(100))
    lane.start()
    lane.join(5)
    assert reports.ops() == ["ended"]


def test_a_flush_that_began_before_the_stop_ends_in_time() -> None:
    reports, clients = _Reports(), SlowClients()
    clients.acknowledges = False
    lane = SourceTaskWriter(5, LAUNCH, reports, clients)
    lane.start()
    lane.give(batch_row(5, "x"))
    time.sleep(0.5)  # by now it waits for two minutes
    lane.give(end_in(100))
    lane.join(5)
    assert not lane.is_alive()
    assert reports.ops() == ["ended"]


@pytest.mark.parametrize("exactly_once", [False, True])
def test_a_producer_without_room_ends_in_time(exactly_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_task_writer, "COMMIT_EACH_S", 60)
    clients = SlowClients()
    clients.no_room_for = b"b"
    if exactly_once:
        story = TransactionalStory(clients)
        lane: Any = story.lane
        for text in ("first", "a"):
            story.batch(text)
            story.row(RowKind.COMMIT)
        story.batch("b")
    else:
        lane = SourceTaskWriter(5, LAUNCH, reports := _Reports(), clients)
        lane.start()
        lane.give(batch_row(5, "a"))
        lane.give(batch_row(5, "b"))
    time.sleep(0.3)
    lane.give(end_in(200))
    lane.join(5)
    assert not lane.is_alive()
    ops = story.ops() if exactly_once else reports.ops()
    assert "failed" not in ops
    assert ops[-1] == "ended"
    assert clients.topics.values("t") == [b"first" if exactly_once else b"a"]  # a transaction goes as a whole


def test_an_interrupted_transaction_is_aborted() -> None:
    story = TransactionalStory(SlowClients())
    story.batch("a")
    story.row(RowKind.COMMIT)
    for n in range(20):  # one transaction of more than can be sent
        story.batch(str(n))
    story.row(RowKind.COMMIT)
    story.lane.give(end_in(300))
    story.lane.join(5)
    assert not story.lane.is_alive()
    assert story.values() in ([], ["a"])  # what is committed is whole
    assert story.ops()[-1] == "ended"


def test_a_stop_leaves_time_for_the_last_flush() -> None:
    switches = Switches(paused=False)
    switches.stop(None)
    assert switches.stopping
    assert switches.end_by_ms is None
    switches.stop(5_000)
    assert switches.end_by_ms is not None
    assert 3_000 <= switches.end_by_ms - monotonic_ms() <= 4_000


def test_busy_tasks_that_are_stopped_end_in_time_and_their_slot_lives_on(tmp_path: Path) -> None:
    clients = SlowClients(find_plugin=load_class)
    worker = Worker(MemoryTaskRunner(clients, EngineSettings(housekeeping_ms=20)), clients.topics, tmp_path)
    worker.runner.open(worker.on_event, worker.read_offsets)
    names = [f"t{n}" for n in range(4)]
    launches = [worker.start(name, count="1000000", per_poll="1") for name in (*names, "neighbour")]
    assert isinstance(worker.runner, MemoryTaskRunner)
    slices = worker.runner.launcher.slices
    for name in names:
        worker.wait_sent(name, 3)
    time.sleep(0.5)  # each lane has hundreds of rows before it by now
    for launch in launches[:-1]:
        worker.runner.do(Stop(launch.task, 1_000))
    assert [worker.ended(launch).drained for launch in launches[:-1]] == [True] * 4
    assert len(slices) == 1
    for name in names:
        sent = worker.sent(name)
        assert sent == list(range(len(sent)))
    clients.send_s = 0.0
    assert worker.end(launches[-1]).drained
    worker.runner.close(2_000)

"""Stops with more read than can be sent in time: the rest is dropped and read again, and no slot is killed for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_connect_rt.errors import TimedOutError
from spark_connect_rt.ports.task_runner import Stop
from spark_connect_rt.spark.driver.model import EngineSettings
from spark_connect_rt.spark.executor.frames import Row, RowKind
from spark_connect_rt.spark.executor.hosting import Switches, load_class, monotonic_ms
from spark_connect_rt.spark.executor.sources.source_lane import SourceLane
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.contract.task_runner_contract import Worker
from tests.unit.spark.test_lanes import LAUNCH, _Reports, batch_row
from tests.unit.spark.test_transactional_lane import Lane as TransactionalStory


class SlowClients(MemoryExecutorClients):
    """Producers that need ``send_s`` for a batch, and an unfinished flush when ``acknowledges`` is False."""

    send_s = 0.05
    acknowledges = True

    def producer(self, config: Any) -> Any:
        return self._slow(super().producer(config))

    def transactional_producer(self, config: Any) -> Any:
        return self._slow(super().transactional_producer(config))

    def _slow(self, producer: Any) -> Any:
        produce, flush = producer.produce, producer.flush

        def slowly(batch: pa.RecordBatch) -> None:
            time.sleep(self.send_s)
            produce(batch)

        def flushed(timeout_ms: int) -> None:
            if not self.acknowledges:
                time.sleep(timeout_ms / 1000)
                raise TimedOutError("not acknowledged")
            flush(timeout_ms)

        producer.produce, producer.flush = slowly, flushed
        return producer


def end_in(within_ms: int) -> Row:
    return Row(5, RowKind.ENDED, b"%d" % (monotonic_ms() + within_ms))


def test_what_a_lane_cannot_send_in_time_is_dropped_and_what_it_sent_is_reported() -> None:
    reports, clients = _Reports(), SlowClients()
    one = SourceLane(5, LAUNCH, reports, clients)
    for n in range(100):
        one.give(batch_row(5, str(n)))
    one.give(end_in(300))
    begun_s = time.monotonic()
    one.start()
    one.join(5)
    assert time.monotonic() - begun_s < 2.0  # five seconds for all of them
    sent = [int(value) for value in clients.topics.values("t")]
    assert sent == list(range(len(sent)))
    assert 0 < len(sent) < 100
    durable = [report for report in reports.all if report["op"] == "durable"]
    assert durable[-1]["source_offsets"] == [({"p": 1}, {"o": str(sent[-1])})]
    assert sum(report["n"] for report in durable) == one.totals.records == len(sent)
    assert reports.ops()[-1] == "ended"


def test_what_the_broker_does_not_acknowledge_in_time_is_never_reported() -> None:
    reports, clients = _Reports(), SlowClients()
    clients.acknowledges = False
    one = SourceLane(5, LAUNCH, reports, clients)
    one.give(batch_row(5, "x"))
    one.give(end_in(100))
    one.start()
    one.join(5)
    assert reports.ops() == ["ended"]


def test_a_transaction_that_is_cut_off_is_aborted() -> None:
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

"""Tasks that write their records themselves: offsets behind what is acknowledged, pauses and stops that wait for it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from spark_connect_rt.api.records import Polled, Written
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.client_properties import SHARED_CLIENT
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.task_runner import BatchDurable, Pause, Resume, Start, Stop, TaskLaunch, TaskPaused
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.contract.task_runner_contract import Worker

BYTES = "spark_connect_rt.records.converters.primitive_converters:ByteArrayConverter"
CONVERTERS = {f"{part}.converter": BYTES for part in ("key", "value", "header")}
PLACE = {"name": "numbers"}


class WritingTask(SourceTask):
    """Has a batch of ten under way at any time; it is acknowledged by the call after the one that began it."""

    begun = acknowledged = 0
    hangs = False
    seen: Mapping[str, str] | None = None
    obstacles: Sequence[str] = ()

    def start(self, config: Mapping[str, str]) -> None:
        kind = type(self)
        kind.seen, kind.obstacles = self.context.own_writes.properties, self.context.own_writes.obstacles

    def poll(self) -> Sequence[Polled]:
        time.sleep(0.005)
        found = self._acknowledge()
        type(self).begun += 10
        return found

    def is_writing(self) -> bool:
        return self.acknowledged < self.begun

    def finish_writing(self) -> Sequence[Written]:
        if self.hangs:
            time.sleep(0.02)
            return ()
        return self._acknowledge()

    def stop(self) -> None: ...

    def _acknowledge(self) -> list[Written]:
        kind, count = type(self), self.begun - self.acknowledged
        kind.acknowledged = self.begun
        return [Written(PLACE, {"at": self.begun}, "t", count, 7 * count)] if count else []


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    WritingTask.begun = WritingTask.acknowledged = 0
    WritingTask.hangs = False
    clients = MemoryExecutorClients(find_plugin=load_class)
    made = Worker(MemoryTaskRunner(clients, EngineSettings(housekeeping_ms=20)), clients.topics, tmp_path)
    made.runner.open(made.on_event, made.read_offsets)
    yield made
    made.runner.close(2_000)


def started(worker: Worker, **changes: Mapping[str, str]) -> TaskLaunch:
    launch = worker.launch("w", "CountingSource")
    launch = replace(launch, task_class=f"{__name__}:WritingTask", worker_config={**CONVERTERS})
    launch = replace(launch, **changes)  # type: ignore[arg-type]
    worker.runner.do(Start(launch))
    return launch


def committed(worker: Worker) -> int:
    return int(worker.offsets.get(("w", "numbers"), {}).get("at", 0))


def test_a_stop_reports_all_that_is_acknowledged(worker: Worker) -> None:
    launch = started(worker)
    worker.until(lambda: committed(worker) > 50)
    worker.runner.do(Stop(launch.task, 10_000))
    assert worker.ended(launch).drained
    assert committed(worker) == WritingTask.begun == WritingTask.acknowledged
    durable = worker.of(launch, BatchDurable)
    assert sum(report.records for report in durable) == WritingTask.begun
    assert worker.topics.values("t") == []  # nothing went to the lane's producer


def test_a_pause_waits_for_calls_in_flight(worker: Worker) -> None:
    launch = started(worker)
    worker.until(lambda: committed(worker) > 50)
    worker.runner.do(Pause(launch.task))
    worker.until(lambda: worker.of(launch, TaskPaused))
    assert committed(worker) == WritingTask.begun
    worker.runner.do(Resume(launch.task))
    worker.until(lambda: committed(worker) > WritingTask.begun - 20 > 100)


def test_own_writes_beyond_the_stop_limit_are_never_reported(worker: Worker) -> None:
    launch = started(worker)
    worker.until(lambda: committed(worker) > 50)
    WritingTask.hangs = True
    worker.runner.do(Stop(launch.task, 800))
    assert worker.ended(launch).drained
    assert committed(worker) == WritingTask.acknowledged < WritingTask.begun


def test_a_task_learns_that_it_may(worker: Worker) -> None:
    started(worker, client_config={"bootstrap.servers": "k:1", **SHARED_CLIENT})  # its lane would share connections
    worker.until(lambda: committed(worker) > 0)
    assert (WritingTask.seen, WritingTask.obstacles) == ({"bootstrap.servers": "k:1"}, [])


def test_a_task_whose_records_are_looked_at_may_not(worker: Worker) -> None:
    started(
        worker,
        worker_config={
            **CONVERTERS,
            "value.converter": "spark_connect_rt.records.converters.primitive_converters:StringConverter",
        },
    )
    worker.until(lambda: committed(worker) > 0)
    assert (WritingTask.seen, WritingTask.obstacles) == (None, ["value.converter"])

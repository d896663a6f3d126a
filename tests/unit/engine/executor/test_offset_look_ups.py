"""A task that starts while its offset topic is away waits, as in Java; it does not fail, and a stop ends the wait."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.base.concurrency import Clock, SystemClock
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.executor.control_wire import Message, encode_launch
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.executor.reader_side import ReaderSide
from spark_connect_rt.engine.executor.source_task import LookUpEndedError
from spark_connect_rt.engine.task_runner import Stop, TaskEnded, TaskFailed, TaskKind, TaskLaunch
from spark_connect_rt.errors import RetriableError, TimedOutError
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.contract.task_runner_contract import Worker


class AwayWorker(Worker):
    """A worker whose offset topic is away until told."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.back = threading.Event()
        self.tries = 0

    def read_offsets(self, task: ConnectorTaskId, partitions: Sequence[Mapping[str, Any]]) -> list[Any]:
        self.tries += 1
        if not self.back.is_set():
            raise RetriableError("broker not reachable")
        return super().read_offsets(task, partitions)


class LeapingClock(SystemClock):
    """A minute passes between any two looks at it."""

    def __init__(self) -> None:
        self._minutes = itertools.count(0, 60_000)

    def monotonic_ms(self) -> int:
        return next(self._minutes)


@pytest.fixture
def clock() -> Clock:
    return SystemClock()


@pytest.fixture
def worker(tmp_path: Path, clock: Clock) -> Iterator[AwayWorker]:
    clients = MemoryExecutorClients(find_plugin=load_class)
    runner = MemoryTaskRunner(clients, EngineSettings(housekeeping_ms=20), clock=clock)
    worker = AwayWorker(runner, clients.topics, tmp_path)
    worker.runner.open(worker.on_event, worker.read_offsets)
    yield worker
    worker.runner.close(2_000)


@pytest.mark.parametrize("clock", [LeapingClock()])
def test_a_lookup_is_tried_until_the_topic_is_back(worker: AwayWorker) -> None:
    worker.start("a", count="2")
    worker.until(lambda: worker.tries >= 3)
    worker.back.set()
    worker.wait_sent("a", 2)
    assert [event for event in worker.events if isinstance(event, TaskFailed)] == []


def test_a_stop_ends_the_wait_and_is_not_a_failure(worker: AwayWorker) -> None:
    launch = worker.start("a", count="2")
    worker.until(lambda: worker.tries >= 1)
    began_s = time.monotonic()
    worker.runner.do(Stop(launch.task, 20_000))
    worker.until(lambda: any(isinstance(event, TaskEnded) for event in worker.events))
    assert time.monotonic() - began_s < 5
    assert [event for event in worker.events if isinstance(event, TaskFailed)] == []


@pytest.mark.parametrize(("is_stopped", "error"), [(False, TimedOutError), (True, LookUpEndedError)])
def test_offset_error_behind_a_stop_is_not_a_failure(is_stopped: bool, error: type[TimedOutError]) -> None:
    """Stop and error may both be there before the task looks."""

    def driver(message: Message) -> None:
        if message["op"] == "offsets":
            if is_stopped:
                side.handle({"op": "stop", "host": 0, "within_ms": 1_000})
            side.handle({"op": "offsets", "id": message["id"], "error": "broker not reachable"})

    side = ReaderSide(MemoryExecutorClients(find_plugin=load_class), driver)
    launch = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {}, paused=True)
    side.handle({"op": "start", "host": 0, "launch": encode_launch(launch)})
    with pytest.raises(TimedOutError) as raised:
        side.ask_offsets(0, [{}])
    assert type(raised.value) is error
    side.abandon()


def test_a_task_that_stops_reads_its_offsets_once() -> None:
    """As in Java: Debezium commits where it is in its stop."""
    answers: list[Message] = [{"answer": [{"n": 1}]}, {"error": "broker not reachable"}]

    def driver(message: Message) -> None:
        if message["op"] == "offsets":
            side.handle({"op": "offsets", "id": message["id"], **answers.pop(0)})

    side = ReaderSide(MemoryExecutorClients(find_plugin=load_class), driver)
    launch = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {}, paused=True)
    side.handle({"op": "start", "host": 0, "launch": encode_launch(launch)})
    side.handle({"op": "stop", "host": 0, "within_ms": 1_000})
    assert side.ask_offsets(0, [{}]) == [{"n": 1}]
    with pytest.raises(LookUpEndedError):
        side.ask_offsets(0, [{}])
    side.abandon()

"""A launch that is being prepared can be paused and stopped like any run; what cannot be prepared has failed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from spark_connect_rt.base.concurrency import MACHINE_THREADS
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.task_runner import (
    Pause,
    Start,
    Stop,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskKind,
    TaskLaunch,
)
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.worker.prepared_runner import PreparedRunner
from spark_connect_rt.testing.memory_executor_clients import wait_until

TASK = ConnectorTaskId("a", 0)
LAUNCH = TaskLaunch(TASK, 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {})


@dataclass
class Runner:
    """Notes what the engine is told."""

    told: list[TaskCommand | str] = field(default_factory=list)
    refuses: Exception | None = None

    def open(self, on_event: Any, read_offsets: Any) -> None:
        self.told.append("open")

    def do(self, command: TaskCommand) -> None:
        if isinstance(command, Start) and self.refuses is not None:
            raise self.refuses
        self.told.append(command)

    def close(self, timeout_ms: int) -> None:
        self.told.append("close")


class Story:
    """A launch whose preparation waits until it is let go."""

    def __init__(self) -> None:
        self.engine, self.events, self.ready = Runner(), list[TaskEvent](), threading.Event()
        self.fault: Exception | None = None
        self.prepared = PreparedRunner(self.engine, lambda _: True, self._prepare, MACHINE_THREADS)  # type: ignore[arg-type]
        self.prepared.open(self.events.append, lambda *_: [])
        self.prepared.do(Start(LAUNCH))

    def _prepare(self, launch: TaskLaunch) -> None:
        assert self.ready.wait(60)
        if self.fault is not None:
            raise self.fault


@pytest.fixture
def story() -> Iterator[Story]:
    made = Story()
    yield made
    made.ready.set()


def test_the_engine_gets_the_run_once_it_is_prepared_as_it_was_switched_meanwhile(story: Story) -> None:
    story.prepared.do(Pause(TASK))
    assert story.engine.told == ["open"]
    story.ready.set()
    wait_until(lambda: Start(replace(LAUNCH, paused=True)) in story.engine.told)
    story.prepared.do(Stop(TASK, 5))
    assert story.engine.told[-1] == Stop(TASK, 5)
    assert story.events == []


def test_a_run_that_is_stopped_while_it_is_prepared_is_over_at_once_and_never_starts(story: Story) -> None:
    story.prepared.do(Stop(TASK, 5))
    assert story.events == [TaskEnded(TASK, 1, drained=True)]
    story.prepared.do(Start(LAUNCH))  # the next one is prepared by a thread of its own
    story.prepared.close(5)
    assert story.events == [TaskEnded(TASK, 1, drained=True)] * 2
    assert story.engine.told == ["open", "close"]


@pytest.mark.parametrize("by_engine", [False, True])
def test_task_that_cannot_be_prepared_or_started_has_failed_and_ended(story: Story, by_engine: bool) -> None:
    error = ConnectError("no leader")
    story.fault, story.engine.refuses = (None, error) if by_engine else (error, None)
    story.ready.set()
    wait_until(lambda: len(story.events) == 2)
    failed, ended = story.events
    assert isinstance(failed, TaskFailed)
    assert "no leader" in failed.trace
    assert ended == TaskEnded(TASK, 1, drained=True)

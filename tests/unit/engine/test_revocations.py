"""Partitions that must go while a put runs: each revocation gets its own answer, and at its deadline the slot dies."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.driver.engine import Engine
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.driver.slot_jobs import OnSliceEvent, SliceConnected, SliceGone, SliceMessage
from spark_connect_rt.engine.formats.spark_sink import SparkSinkTaskHost
from spark_connect_rt.engine.task_runner import (
    Assign,
    PartitionsReleased,
    Revoke,
    Start,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskKind,
    TaskLaunch,
)
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.testing.memory_executor_clients import wait_until

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Slice:
    """One slice that only notes what it is told; it dies when the test says so, or at once when aborted."""

    def __init__(self, slice_id: int, on_event: OnSliceEvent) -> None:
        self.slice_id, self._on_event = slice_id, on_event
        self.told: list[Mapping[str, Any]] = []
        self.aborted = threading.Event()
        self.may_die = threading.Event()
        self.may_die.set()
        on_event(SliceConnected(slice_id))

    def send(self, message: Mapping[str, Any]) -> None:
        self.told.append(message)

    def abort(self) -> None:
        self.aborted.set()
        threading.Thread(target=self._die, daemon=True).start()

    def _die(self) -> None:
        self.may_die.wait(5)
        self._on_event(SliceGone(self.slice_id, "killed"))

    def report(self, op: str, host: int = 1, **fields: Any) -> None:
        self._on_event(SliceMessage(self.slice_id, {"op": op, "host": host, **fields}))

    def ops(self) -> list[str]:
        return [message["op"] for message in self.told]


class Slices:
    def __init__(self) -> None:
        self.all: list[Slice] = []

    def open(self, on_event: OnSliceEvent) -> None:
        self.on_event = on_event

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        self.holds_lease = holds_lease

    def launch(self, slice_id: int) -> Slice:
        self.all.append(Slice(slice_id, self.on_event))
        return self.all[-1]

    def close(self) -> None:
        pass


class Story:
    def __init__(self) -> None:
        self.slices, self.events = Slices(), list[TaskEvent]()
        self.engine = Engine(self.slices, EngineSettings(prewarm=False, neighbour_grace_ms=50))
        self.engine.open(self.events.append, lambda task, partitions: [])

    def start(self, name: str) -> ConnectorTaskId:
        launch = sink_launch(name)
        self.engine.do(Start(launch))
        wait_until(lambda: any("start" in slice_.ops() for slice_ in self.slices.all))
        return launch.task

    def released(self) -> list[frozenset[TopicPartition]]:
        return [event.partitions for event in self.events if isinstance(event, PartitionsReleased)]


def sink_launch(name: str, kind: TaskKind = TaskKind.SINK) -> TaskLaunch:
    return TaskLaunch(ConnectorTaskId(name, 0), 1, 1, kind, "m:C", {}, {}, {})


@pytest.fixture
def story() -> Iterator[Story]:
    running = Story()
    yield running
    running.engine.close(10)


def test_i4_partition_held_beyond_its_deadline_goes_when_its_process_is_dead(story: Story) -> None:
    task = story.start("s")
    story.engine.do(Assign(task, {P0: 5, P1: 6}))
    (first,) = story.slices.all
    first.may_die.clear()
    story.engine.do(Revoke(task, (P0,), 100))
    assert not first.aborted.wait(0.05)
    assert first.aborted.wait(5)
    assert story.released() == []  # what was killed may write until it is dead
    first.may_die.set()
    wait_until(lambda: story.released() == [frozenset({P0})])
    wait_until(lambda: len(story.slices.all) == 2 and "assign" in story.slices.all[1].ops())
    (assign,) = [message for message in story.slices.all[1].told if message["op"] == "assign"]
    assert assign["offsets"] == [("t", 1, 6)]
    assert not [event for event in story.events if isinstance(event, TaskFailed | TaskEnded)]


def test_a_partition_released_in_time_kills_no_process(story: Story) -> None:
    task = story.start("s")
    story.engine.do(Revoke(task, (P0,), 60))
    (first,) = story.slices.all
    wait_until(lambda: "revoke" in first.ops())
    first.report("released", partitions=[("t", 0)])
    wait_until(lambda: story.released() == [frozenset({P0})])
    assert not first.aborted.wait(0.15)


def test_the_first_answer_is_not_that_of_the_second_revocation(story: Story) -> None:
    """Lost, come back, revoked: the second hosting may be in a put when the first one's release arrives."""
    task = story.start("s")
    (first,) = story.slices.all
    story.engine.do(Revoke(task, (P0,), 60_000))
    story.engine.do(Assign(task, {P0: 0}))
    story.engine.do(Revoke(task, (P0,), 100))
    wait_until(lambda: first.ops().count("revoke") == 2)
    first.report("released", partitions=[("t", 0)])
    assert first.aborted.wait(5)
    wait_until(lambda: story.released() == [frozenset({P0})] * 2)


class Batches:
    """A batch that runs until it is cancelled."""

    def __init__(self) -> None:
        self.writes, self.cancelled = threading.Event(), threading.Event()

    def starts(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return dict(offsets)

    def write(self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Any:
        self.writes.set()
        assert self.cancelled.wait(5)
        raise ConnectError("could not append: the job was cancelled")

    def cancel(self) -> None:
        self.cancelled.set()


class Ends:
    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(partitions, 10**9)

    def close(self) -> None:
        pass


class SparkSink(SparkSinkTaskHost):
    def _open(self) -> None:
        self._batches, self._consumer = Batches(), Ends()  # type: ignore[assignment]


def test_i4_a_batch_of_spark_that_holds_a_partition_for_too_long_is_cancelled_first() -> None:
    events: list[TaskEvent] = []
    launch = sink_launch("s", TaskKind.SPARK_SINK)
    sink = SparkSink(launch, lambda: None, "", events.append)
    sink.do(Start(launch))
    sink.do(Assign(launch.task, {P0: 0}))
    wait_until(lambda: sink._batches is not None and sink._batches.writes.is_set())  # type: ignore[attr-defined]
    sink.do(Revoke(launch.task, (P0,), 1_000))
    time.sleep(0.03)
    assert not [event for event in events if isinstance(event, PartitionsReleased)]
    wait_until(lambda: bool(events) and isinstance(events[-1], TaskEnded))
    failed, released = events[-3:-1]
    assert isinstance(failed, TaskFailed)
    assert "batch.max.records" in failed.trace
    assert isinstance(released, PartitionsReleased)

"""A slice's two halves: when Spark starts a slice a second time, the first stays the one that runs its tasks (E3)."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest

from spark_connect_rt.engine.driver.control_channel import SlotConnection
from spark_connect_rt.engine.driver.slice_runner import SparkSliceLauncher, SparkSlotJob
from spark_connect_rt.engine.driver.slot_jobs import SliceConnected, SliceEvent, SliceGone
from spark_connect_rt.testing.memory_executor_clients import wait_until


class Launcher:
    """What a slice needs of its launcher, and what it did with it."""

    def __init__(self) -> None:
        self.events: list[SliceEvent] = []
        self.on_event = self.events.append
        self.refused: list[SlotConnection] = []
        self.cancelling = ThreadPoolExecutor(1)
        self.cancelled: list[str] = []
        context = SimpleNamespace(sparkContext=SimpleNamespace(cancelJobGroup=self.cancelled.append))
        self.session = SimpleNamespace(ready=lambda: True, get=lambda: context)
        self.loss_grace_s = 0.0

    def channel(self) -> SimpleNamespace:
        return SimpleNamespace(cut=lambda half: None, forget=lambda slice_id: None)


@pytest.fixture
def launcher() -> Launcher:
    return Launcher()


@pytest.fixture
def slice_(launcher: Launcher) -> SparkSlotJob:
    return SparkSlotJob(cast(SparkSliceLauncher, launcher), 1)


def half(owner: SparkSlotJob, launcher: Launcher, role: str) -> SlotConnection:
    connection = cast(SlotConnection, SimpleNamespace(role=role))
    if not owner.on_hello(connection, {"op": "hello"}):  # the channel drops it then
        launcher.refused.append(connection)
    return connection


def test_a_second_attempt_is_refused_and_gets_no_task(slice_: SparkSlotJob, launcher: Launcher) -> None:
    for role in ("reader", "writer"):
        half(slice_, launcher, role)
    again = [half(slice_, launcher, "reader"), half(slice_, launcher, "writer")]
    assert launcher.refused == again
    assert launcher.events == [SliceConnected(1)]


def test_a_slice_is_gone_only_when_the_first_attempts_halves_are_dead(slice_: SparkSlotJob, launcher: Launcher) -> None:
    first = [half(slice_, launcher, "reader"), half(slice_, launcher, "writer")]
    again = [half(slice_, launcher, "reader"), half(slice_, launcher, "writer")]
    slice_._on_job_done("a copy of the task failed")
    for connection in again:
        slice_.on_dead(connection)
    assert not [event for event in launcher.events if isinstance(event, SliceGone)]
    for connection in first:
        slice_.on_dead(connection)
    assert launcher.events[-1] == SliceGone(1, "Spark started a second reader: is spark.speculation on?")


LOST = "ExecutorLostFailure (executor 1 exited unrelated to the running tasks) Reason: worker lost"


def test_spark_has_time_to_say_why_a_process_of_a_cluster_is_gone(slice_: SparkSlotJob, launcher: Launcher) -> None:
    launcher.loss_grace_s = 30.0
    for connection in [half(slice_, launcher, "reader"), half(slice_, launcher, "writer")]:
        slice_.on_dead(connection)
    assert launcher.cancelled == []
    slice_._on_job_done(LOST)
    assert launcher.events[-1] == SliceGone(1, f"the reader process died: {LOST}")


@pytest.mark.parametrize("grace_s", [0.0, 0.05])
def test_job_of_a_lost_slice_is_cancelled_after_the_grace(
    slice_: SparkSlotJob, launcher: Launcher, grace_s: float
) -> None:
    launcher.loss_grace_s = grace_s
    for connection in [half(slice_, launcher, "reader"), half(slice_, launcher, "writer")]:
        slice_.on_dead(connection)
    wait_until(lambda: len(launcher.cancelled) == 1)
    slice_._on_job_done("Job 1 cancelled part of cancelled job group")
    assert launcher.events[-1] == SliceGone(1, "the reader process died")


def test_a_slice_without_a_thread_is_one_that_could_not_be_opened(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    SparkSliceLauncher.launch(cast(SparkSliceLauncher, launcher), 1)
    assert launcher.events == [SliceGone(1, "can't start new thread")]

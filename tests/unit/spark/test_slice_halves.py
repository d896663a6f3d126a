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


class Launcher:
    """What a slice needs of its launcher, and what it did with it."""

    def __init__(self) -> None:
        self.events: list[SliceEvent] = []
        self.on_event = self.events.append
        self.refused: list[SlotConnection] = []
        self.cancelling = ThreadPoolExecutor(1)
        self.session = SimpleNamespace(ready=lambda: True)

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


def test_a_slice_without_a_thread_is_one_that_could_not_be_opened(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_thread(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    SparkSliceLauncher.launch(cast(SparkSliceLauncher, launcher), 1)
    assert launcher.events == [SliceGone(1, "can't start new thread")]

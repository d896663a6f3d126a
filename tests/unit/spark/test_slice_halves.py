"""A slice's two halves: when Spark starts a slice a second time, the first stays the one that runs its tasks (E3)."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import cast

import pytest

from spark_connect_rt.spark.driver.control_channel import Connection
from spark_connect_rt.spark.driver.slice_runner import SparkSlice, SparkSliceLauncher
from spark_connect_rt.spark.driver.slices import SliceConnected, SliceEvent, SliceGone


class Launcher:
    """What a slice needs of its launcher, and what it did with it."""

    def __init__(self) -> None:
        self.events: list[SliceEvent] = []
        self.on_event = self.events.append
        self.cuts: list[Connection] = []
        self.cancelling = ThreadPoolExecutor(1)
        self.session = SimpleNamespace(ready=lambda: True)

    def channel(self) -> SimpleNamespace:
        return SimpleNamespace(cut=self.cuts.append, forget=lambda slice_id: None)


@pytest.fixture
def launcher() -> Launcher:
    return Launcher()


@pytest.fixture
def slice_(launcher: Launcher) -> SparkSlice:
    return SparkSlice(cast(SparkSliceLauncher, launcher), 1)


def half(one: SparkSlice, role: str) -> Connection:
    with socket.socket() as sock:  # never used: the launcher only notes what is cut
        connection = Connection(sock, 0.0)
    connection.role = role
    one.on_hello(connection, {"op": "hello"})
    return connection


def test_a_second_attempt_is_cut_and_gets_no_task(slice_: SparkSlice, launcher: Launcher) -> None:
    for role in ("reader", "writer"):
        half(slice_, role)
    again = [half(slice_, "reader"), half(slice_, "writer")]
    assert launcher.cuts == again
    assert launcher.events == [SliceConnected(1)]


def test_a_slice_is_gone_only_when_the_first_attempts_halves_are_dead(slice_: SparkSlice, launcher: Launcher) -> None:
    first = [half(slice_, "reader"), half(slice_, "writer")]
    again = [half(slice_, "reader"), half(slice_, "writer")]
    slice_._on_job_done("a copy of the task failed")
    for connection in again:
        slice_.on_dead(connection)
    assert not [one for one in launcher.events if isinstance(one, SliceGone)]
    for connection in first:
        slice_.on_dead(connection)
    assert launcher.events[-1] == SliceGone(1, "Spark started a second reader: is spark.speculation on?")

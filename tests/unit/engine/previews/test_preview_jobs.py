"""A preview's job as the driver sees it, Spark and the control channel left out: limits, losses, strangers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.previews import preview_jobs
from spark_connect_rt.engine.previews.model import Ended, PreviewOrder
from spark_connect_rt.engine.previews.preview_job import PreviewPart
from spark_connect_rt.engine.previews.preview_jobs import PreviewJob, SparkPreviews
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch

ORDER = PreviewOrder(TaskLaunch(ConnectorTaskId("c", 0), 0, 0, TaskKind.SOURCE, "m:C", {}, {}, {}), 5, 0.2)


@dataclass(eq=False)
class Process:
    """A process of the executor's side, by its connection."""

    role: str = "preview"


@dataclass
class World:
    """Spark, its session, the channel: what a launcher has. ``body`` is what the job's one process does."""

    body: Callable[[PreviewJob, Process], None]
    owners: dict[int, PreviewJob] = field(default_factory=dict)
    said: list[Any] = field(default_factory=list)
    cut_off: threading.Event = field(default_factory=threading.Event)
    cancelled: list[str] = field(default_factory=list)
    free_core: bool = True
    all_ended: threading.Event = field(default_factory=threading.Event)

    address, certificate = "unix:x", ""
    clients, session_timeout_ms, plugins = "m:f", 6_000, None

    @property
    def session(self) -> Any:
        return SimpleNamespace(get=lambda: SimpleNamespace(sparkContext=self), ready=lambda: True)

    def channel(self) -> World:
        return self

    def expect(self, number: int, owner: PreviewJob) -> None:
        self.owners[number] = owner

    def forget(self, number: int) -> None:
        self.owners.pop(number, None)
        self.all_ended.set()

    def send(self, connection: Process, message: Any) -> None:
        self.said.append(message)

    def cut(self, connection: Process) -> None:
        self.cut_off.set()

    def setJobGroup(self, group: str, description: str) -> None:  # noqa: N802 - Spark's
        self.group = group

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802 - Spark's
        self.cancelled.append(group)
        self.cut_off.set()

    def parallelize(self, rows: list[int], parts: int) -> World:
        return self

    def foreachPartition(self, part: PreviewPart) -> None:  # noqa: N802 - Spark's
        assert part.ticket.token not in repr(part)
        if not self.free_core:
            self.cut_off.wait(10)
            return
        (job,), process = self.owners.values(), Process()
        if job.on_hello(process, {}):  # type: ignore[arg-type]
            self.body(job, process)
        job.on_dead(process)  # type: ignore[arg-type]


def says(job: PreviewJob, process: Process, **message: Any) -> None:
    job.on_message(process, message)  # type: ignore[arg-type]


def run(world: World, cancelled: threading.Event | None = None, core_wait_s: float = 5.0) -> Any:
    found = SparkPreviews(world, core_wait_s).run(ORDER, cancelled or threading.Event())  # type: ignore[arg-type]
    assert not world.owners or world.all_ended.wait(10)
    assert world.owners == {}
    return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_jobs, "GRACE_S", 0.2)


def test_records_come_one_by_one_and_the_end_says_why() -> None:
    def body(job: PreviewJob, process: Process) -> None:
        for number in range(2):
            says(job, process, op="previewed", stages=json.dumps([{"stage": "polled", "record": number}]))
        says(job, process, op="over", ended="nothing more", error=None)

    world = World(body)
    found = run(world)
    assert [record[0]["record"] for record in found.records] == [0, 1]
    assert (found.ended, found.error) == (Ended.NOTHING_MORE, None)
    assert [request["op"] for request in world.said] == ["preview"]
    assert world.cancelled == []


def test_the_answer_does_not_wait_for_the_end_of_its_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preview_jobs, "GRACE_S", 20.0)
    answered = threading.Event()

    def body(job: PreviewJob, process: Process) -> None:
        says(job, process, op="over", ended="records", error=None)
        assert answered.wait(10)

    world = World(body)
    found = SparkPreviews(world).run(ORDER, threading.Event())  # type: ignore[arg-type]
    assert (found.ended, found.error) == (Ended.RECORDS, None)
    assert not world.all_ended.is_set()
    answered.set()
    assert world.all_ended.wait(10)
    assert (world.owners, world.cancelled) == ({}, [])


def test_one_that_said_goodbye_and_stays_is_ended_all_the_same() -> None:
    def body(job: PreviewJob, process: Process) -> None:
        says(job, process, op="over", ended="records", error=None)
        assert world.cut_off.wait(10)

    world = World(body)
    run(world)
    assert world.cancelled == [world.group]


def test_a_preview_that_hangs_is_killed_and_keeps_what_it_showed() -> None:
    def body(job: PreviewJob, process: Process) -> None:
        says(job, process, op="previewed", stages="[]")
        says(job, process, op="doing", what="polling", ended=None)
        assert world.cut_off.wait(10)

    world = World(body)
    begun = time.monotonic()
    found = run(world)
    assert time.monotonic() - begun < 5
    assert (found.ended, len(found.records)) == (Ended.TIME, 1)
    assert "polling" in found.error
    assert world.cancelled == [world.group]


def test_a_task_that_does_not_stop_delays_no_other() -> None:
    def body(job: PreviewJob, process: Process) -> None:
        says(job, process, op="previewed", stages="[]")
        says(job, process, op="doing", what="stopping the task", ended="records")
        assert world.cut_off.wait(10)

    world = World(body)
    found = SparkPreviews(world).run(replace(ORDER, seconds=60), threading.Event())  # type: ignore[arg-type]
    assert (found.ended, len(found.records)) == (Ended.RECORDS, 1)
    assert "did not stop" in found.error


def test_a_process_that_dies_is_an_error_that_names_what_it_did() -> None:
    world = World(lambda job, process: says(job, process, op="doing", what="starting the task", ended=None))
    found = run(world)
    assert found.ended is Ended.ERROR
    assert "starting the task" in found.error or "ended unexpectedly" in found.error


def test_no_free_core_is_reported_after_a_while() -> None:
    found = run(World(lambda job, process: None, free_core=False), core_wait_s=0.2)
    assert found.ended is Ended.ERROR
    assert "no executor had a free core" in found.error


def test_one_that_is_not_wanted_any_more_ends_at_once() -> None:
    cancelled = threading.Event()
    world = World(lambda job, process: (cancelled.set(), world.cut_off.wait(10), None)[-1])
    found = run(world, cancelled)
    assert (found.ended, found.error) == (Ended.TIME, None)
    assert world.cut_off.is_set()


def test_a_second_process_is_refused() -> None:
    answers: list[bool] = []

    def body(job: PreviewJob, process: Process) -> None:
        answers.append(job.on_hello(Process(), {}))  # type: ignore[arg-type]
        answers.append(job.on_hello(Process("writer"), {}))  # type: ignore[arg-type]
        says(job, process, op="over", ended="records", error=None)

    run(World(body))
    assert answers == [False, False]


def test_a_session_that_cannot_be_made_is_an_error() -> None:
    class NoSpark(World):
        @property
        def session(self) -> Any:
            def get() -> Any:
                raise RuntimeError("no Java")

            return SimpleNamespace(get=get, ready=lambda: True)

    found = run(NoSpark(lambda job, process: None))
    assert found.ended is Ended.ERROR
    assert "no Java" in found.error

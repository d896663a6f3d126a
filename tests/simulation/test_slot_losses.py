"""Processes that end under their tasks, in virtual time: only the guilty task fails, and a shortage fails no task."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.runtime.herder.herder_requests import PutConfig
from spark_connect_rt.runtime.values import TaskState
from tests.support.simulation.simulated_cluster import SimulatedCluster, memory_source
from tests.support.simulation.simulated_slices import SimulatedSliceLauncher
from tests.support.simulation.simulated_threads import Scheduler

QUIET = [f"quiet{number}" for number in range(6)]
KILLER = "killer"
SHORTAGE_MS = 40_000
TEN_MINUTES_MS = 600_000


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(disabled)


class Story:
    """One worker with six tasks that have nothing to do, and perhaps others."""

    def __init__(self, *others: str, busy: str = "") -> None:
        self.cluster = SimulatedCluster(Scheduler(7))
        self.worker = self.cluster.add_worker("w1")
        self.cluster.until(lambda: self.cluster.unsettled() is None)
        self.slices.quiet = {f"{name}-0" for name in (*QUIET, *others) if name != busy}
        self.slices.killers = {f"{name}-0" for name in others if name.startswith(KILLER)}
        for name in (*QUIET, *others):
            self.worker.herder.submit(PutConfig(name, memory_source(1)))
        self.names = [*QUIET, *others]

    @property
    def slices(self) -> SimulatedSliceLauncher:
        return self.worker.slices

    def status(self, name: str) -> TaskState | None:
        try:
            return self.worker.herder.views.task_status(ConnectorTaskId(name, 0))
        except NotFoundError:
            return None

    def state(self, name: str) -> str:
        status = self.status(name)
        return "" if status is None else status.state

    def trace(self, name: str) -> str:
        status = self.status(name)
        return (status.trace if status else None) or ""

    def living(self) -> dict[str, int]:
        """Return in which slice each task runs now."""
        return {task.task.connector: slice_.slice_id for slice_ in self.slices.slices for task in slice_.living()}

    def all_run(self) -> bool:
        return set(self.living()) == set(self.names) and all(self.state(name) == "RUNNING" for name in self.names)


@pytest.fixture
def stories() -> Iterator[list[Story]]:
    made = list[Story]()
    yield made
    for story in made:
        story.cluster.close()


def test_a_task_that_ends_its_process_again_and_again_fails_alone(stories: list[Story]) -> None:
    story = Story(KILLER)
    stories.append(story)
    story.cluster.until(lambda: story.state(KILLER) == "FAILED", TEN_MINUTES_MS)
    trace = story.trace(KILLER)
    assert "task killer-0 ends its process" in trace
    assert "the reader process died" in trace
    assert all(f"{name}-0" in trace for name in QUIET)  # the tasks that were in the same process
    assert [story.state(name) for name in QUIET] == ["RUNNING"] * len(QUIET)
    story.cluster.until(lambda: len(set(story.living().values())) == 1, TEN_MINUTES_MS)  # these share again
    assert set(story.living()) == set(QUIET)


def test_neighbours_of_a_task_that_ends_its_process_are_disturbed_for_seconds_only(stories: list[Story]) -> None:
    story = Story(KILLER)
    stories.append(story)
    story.cluster.until(lambda: KILLER in story.living())
    story.cluster.run_for(30_000)
    before = {name: number for name, number in story.living().items() if name != KILLER}
    assert set(before) == set(QUIET)
    story.cluster.run_for(20_000)
    assert {name: number for name, number in story.living().items() if name != KILLER} == before
    assert story.state(KILLER) == "RUNNING"  # nothing is judged in a minute


def test_two_of_more_tasks_than_can_be_hosted_apart_are_found(stories: list[Story]) -> None:
    more = [f"more{number}" for number in range(12)]
    story = Story(*more, KILLER, f"{KILLER}2")
    stories.append(story)
    guilty = (KILLER, f"{KILLER}2")
    story.cluster.until(lambda: all(story.state(name) == "FAILED" for name in guilty), 2 * TEN_MINUTES_MS)
    assert {story.state(name) for name in (*QUIET, *more)} == {"RUNNING"}
    story.cluster.until(lambda: set(story.living()) == {*QUIET, *more})


def test_a_shortage_that_passes_fails_no_task(stories: list[Story]) -> None:
    story = Story("busy", busy="busy")
    stories.append(story)
    story.cluster.until(story.all_run)
    story.slices.short_until_ms = story.cluster.scheduler.at_ms + SHORTAGE_MS
    story.slices.lose_slices()
    story.cluster.run_for(SHORTAGE_MS)
    assert not story.living()
    assert {story.state(name) for name in story.names} == {"RUNNING"}
    story.cluster.until(story.all_run, 61_000)
    story.cluster.run_for(10_000)
    assert story.all_run()


def test_executors_that_are_taken_away_every_half_minute_fail_no_task(stories: list[Story]) -> None:
    story = Story("busy", busy="busy")
    stories.append(story)
    for _ in range(8):
        story.cluster.until(story.all_run)
        story.cluster.run_for(25_000)
        story.slices.lose_slices()
    story.cluster.until(story.all_run)

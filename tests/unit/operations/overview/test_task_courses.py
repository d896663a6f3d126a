"""Points of a thousand tasks: bounded, cheap, and one that cannot be taken is not the end of them."""

from __future__ import annotations

import time

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.operations.overview import task_timeline as task_courses
from spark_connect_rt.operations.overview.task_timeline import (
    EACH_MS,
    GROWS_FOR,
    HOUR_MS,
    LEFT_MOST,
    POINTS,
    TaskCourses,
)
from spark_connect_rt.runtime.values import TaskPace
from tests.unit.operations.overview.test_group_rows import Time


def pace(name: str, task: int = 0, records: int = 0, lag: int | None = None, errors: int = 0) -> TaskPace:
    return TaskPace(ConnectorTaskId(name, task), records, 1.0, lag, errors)


class Paces:
    """What the worker's tasks say, as a test sets it."""

    def __init__(self) -> None:
        self.clock = Time()
        self.now: list[TaskPace] = []
        self.courses = TaskCourses(self._read, self.clock)
        self.error: Exception | None = None
        self.asked = 0

    def _read(self) -> list[TaskPace]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.now

    def take(self, *paces: TaskPace) -> None:
        self.clock.ms += EACH_MS
        self.now = list(paces)
        self.courses.take()


def test_the_course_of_a_connector_is_that_of_its_tasks_here_also_of_one_that_left() -> None:
    paces = Paces()
    paces.take(pace("a", 0, 100, 5), pace("a", 1, 50, 7), pace("b", 0, 1))
    paces.take(pace("a", 0, 200, 6), pace("b", 0, 1))
    points = paces.courses.of_connector("a")
    assert [(point.records_per_second, point.lag) for point in points] == [(2.0, 12), (10.0, 6)]
    assert paces.courses.of_connector("none") == []


def test_departed_tasks_are_forgotten_after_an_hour_or_when_there_are_too_many() -> None:
    paces = Paces()
    paces.take(*(pace("many", number) for number in range(LEFT_MOST + 100)))
    paces.take(pace("a"))
    assert len(paces.courses._of_task) == LEFT_MOST + 1
    paces.clock.ms += HOUR_MS
    paces.take(pace("a"))
    assert list(paces.courses._of_task) == [ConnectorTaskId("a", 0)]
    assert paces.courses.of_connector("many") == []


def test_a_lag_counts_as_growing_after_ten_minutes_and_no_more_once_it_shrinks() -> None:
    paces = Paces()
    for number in range(GROWS_FOR):
        assert paces.courses.growing() == frozenset()
        paces.take(pace("up", 0, lag=number * 10), pace("up", 1, lag=0), pace("flat", 0, lag=9), pace("source"))
    assert paces.courses.growing() == {"up"}
    paces.take(pace("up", 0, lag=0), pace("up", 1, lag=0))
    assert paces.courses.growing() == frozenset()
    paces.take(pace("flat", 0))  # its lag is not known any more: ten minutes begin again
    assert paces.courses._lags == {}


def test_a_thousand_tasks_cost_less_than_a_hundredth_of_a_core_and_a_dozen_megabytes() -> None:
    paces = Paces()
    tasks = [pace(f"c{number // 5}", number % 5, number, number) for number in range(1_000)]
    for _ in range(3):
        paces.take(*tasks)
    took = []
    for _ in range(5):
        begun = time.thread_time()
        paces.take(*tasks)
        took.append(time.thread_time() - begun)
    assert min(took) < 0.01 * EACH_MS / 1000, took
    assert POINTS * 28 * 1_000 < 12_000_000  # a point is 8 + 4 + 8 + 8 bytes


def test_a_point_that_cannot_be_taken_is_left_out_and_the_next_one_is_taken(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_courses, "EACH_MS", 10)
    paces = Paces()
    paces.error = ValueError("no")
    beside: list[int] = []
    paces.courses.beside = lambda: beside.append(paces.asked)
    paces.courses.rounds.start()
    for _ in range(1_000):
        if len(beside) > 2:
            break
        time.sleep(0.01)
    paces.error = None
    before = paces.asked
    for _ in range(1_000):
        if paces.asked > before + 1:
            break
        time.sleep(0.01)
    paces.courses.rounds.stop()
    assert paces.asked > before + 1
    assert "some points of the tasks' rates are missing" in caplog.text

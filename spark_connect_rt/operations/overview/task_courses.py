"""The courses of this worker's tasks, taken down every ten seconds by a thread of its own.

Owns what is remembered: an hour of each task that runs here, also of those that have left, as many as there is room.
A point that cannot be taken is logged and left out; the next one is taken all the same.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from spark_connect_rt.base.clock import Clock
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.supervision import Repeated
from spark_connect_rt.operations.overview.task_timeline import (
    EACH_MS,
    GROWS_FOR,
    POINTS,
    Point,
    TaskCourse,
    added_up,
    grows,
)
from spark_connect_rt.runtime.values import TaskPace

HOUR_MS = EACH_MS * POINTS
LEFT_MOST = 1_000  # courses of tasks that run here no more


class TaskCourses:
    """Any thread may read; one thread takes points."""

    def __init__(self, paces: Callable[[], Sequence[TaskPace]], clock: Clock) -> None:
        """Take where the paces come from, and the time."""
        self._paces = paces
        self._clock = clock
        self._lock = threading.Lock()
        self._of_task: dict[ConnectorTaskId, TaskCourse] = {}
        self._lags: dict[str, deque[int | None]] = {}  # connector -> of all its tasks here, the last ten minutes
        self._growing: frozenset[str] = frozenset()
        self.rounds = Repeated(
            "task-courses", self._round, self._until_next_s, "some points of the tasks' rates are missing"
        )
        self.beside: Callable[[], None] = lambda: None  # done with each point

    def _until_next_s(self) -> float:
        return (EACH_MS - self._clock.now_ms() % EACH_MS) / 1000

    def _round(self) -> None:
        try:
            self.take()
        finally:
            self.beside()

    def take(self) -> None:
        """Take a point of every task, now."""
        now_ms, paces = self._clock.now_ms(), self._paces()
        with self._lock:
            here: set[ConnectorTaskId] = set()
            lags: dict[str, int] = {}
            for pace in paces:
                here.add(pace.task)
                course = self._of_task.get(pace.task)
                if course is None:
                    course = self._of_task[pace.task] = TaskCourse()
                course.add(now_ms, pace.records, pace.records_per_s, pace.lag, pace.errors)
                if pace.lag is not None:
                    lags[pace.task.connector] = lags.get(pace.task.connector, 0) + pace.lag
            self._note_lags(lags)
            self._forget(here, now_ms)

    def _note_lags(self, lags: dict[str, int]) -> None:
        for name in [connector for connector in self._lags if connector not in lags]:
            del self._lags[name]  # it left, or its lag is not known any more: ten minutes begin again
        for name, lag in lags.items():
            self._lags.setdefault(name, deque(maxlen=GROWS_FOR)).append(lag)
        self._growing = frozenset(name for name, course in self._lags.items() if _may_grow(course) and grows([*course]))

    def _forget(self, here: set[ConnectorTaskId], now_ms: int) -> None:
        left = [task for task in self._of_task if task not in here]
        old = [task for task in left if self._of_task[task].last_ms <= now_ms - HOUR_MS]
        left = sorted(set(left) - set(old), key=lambda task: self._of_task[task].last_ms)
        for task in (*old, *left[: max(0, len(left) - LEFT_MOST)]):
            del self._of_task[task]

    def growing(self) -> frozenset[str]:
        """Return the connectors whose lag here grew over all of the last ten minutes."""
        return self._growing

    def of_connector(self, name: str) -> list[Point]:
        """Return the course of the last hour of a connector's tasks, as far as they ran here."""
        since_ms = self._clock.now_ms() - HOUR_MS
        with self._lock:
            courses = [course.points(since_ms) for task, course in self._of_task.items() if task.connector == name]
        return added_up(courses)


def _may_grow(lags: deque[int | None]) -> bool:
    """Return whether it is worth a closer look, which most are not."""
    return len(lags) == GROWS_FOR and (lags[-1] or 0) > (lags[0] or 0)

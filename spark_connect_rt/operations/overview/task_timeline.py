"""The course of a task over the last hour: a point each ten seconds, in a few kilobytes. Pure.

Owns the points, how those of several tasks add up, and when a lag counts as growing.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.supervision import Repeated
from spark_connect_rt.runtime.values import TaskPace

EACH_MS = 10_000
POINTS = 360  # an hour
GROWS_FOR = 60  # points: ten minutes
_PART = 6  # points: lags are compared by the minute, since within one they go up and down with the batches
_UNKNOWN = -1


class TimelinePoint(NamedTuple):
    """Values at a time, or since the point before."""

    at_ms: int  # since 1970, a multiple of EACH_MS
    records_per_second: float
    lag: int | None
    errors: int  # since the point before


class TaskCourse:
    """A ring of points: 28 bytes each, made as they come. Not thread-safe."""

    __slots__ = ("_at_ms", "_errors", "_errors_before", "_lags", "_next", "_rates", "_records_before", "last_ms")

    def __init__(self) -> None:
        self._at_ms, self._rates = array("q"), array("f")
        self._lags, self._errors = array("q"), array("q")
        self._next = 0
        self._records_before = self._errors_before = 0
        self.last_ms = 0  # of its newest point

    def add(self, at_ms: int, records: int, records_per_second: float, lag: int | None, errors: int) -> TimelinePoint:
        """Add a point from a task's totals; return it.

        Args:
            at_ms: since 1970.
            records: since the run began; fewer than before: it is another run.
            records_per_second: at this moment, for the first point of a run.
            lag: of a sink; None: unknown, or a source.
            errors: since the run began.
        """
        at_ms = at_ms // EACH_MS * EACH_MS
        same_run = records >= self._records_before and errors >= self._errors_before
        passed_ms = at_ms - self.last_ms
        if same_run and 0 < passed_ms <= 3 * EACH_MS:
            records_per_second = (records - self._records_before) * 1000 / passed_ms
        point = TimelinePoint(
            at_ms,
            round(records_per_second, 1),
            lag,
            errors - self._errors_before if same_run and self.last_ms else errors,
        )
        self._records_before, self._errors_before, self.last_ms = records, errors, at_ms
        self._keep(point)
        return point

    def points(self, since_ms: int) -> list[TimelinePoint]:
        """Return the points after ``since_ms``, oldest first."""
        order = [*range(self._next, len(self._at_ms)), *range(self._next)]
        return [self._point(index) for index in order if self._at_ms[index] > since_ms]

    def _point(self, index: int) -> TimelinePoint:
        lag = self._lags[index]
        return TimelinePoint(
            self._at_ms[index], round(self._rates[index], 1), None if lag == _UNKNOWN else lag, self._errors[index]
        )

    def _keep(self, point: TimelinePoint) -> None:
        lag = _UNKNOWN if point.lag is None else min(point.lag, 2**63 - 1)
        if len(self._at_ms) < POINTS:
            self._at_ms.append(point.at_ms)
            self._rates.append(point.records_per_second)
            self._lags.append(lag)
            self._errors.append(point.errors)
            return
        self._at_ms[self._next], self._rates[self._next] = point.at_ms, point.records_per_second
        self._lags[self._next], self._errors[self._next] = lag, point.errors
        self._next = (self._next + 1) % POINTS


def added_up(courses: Iterable[Iterable[TimelinePoint]]) -> list[TimelinePoint]:
    """Return the sum of several courses, oldest first. At each time, the known values are added."""
    sums: dict[int, TimelinePoint] = {}
    for course in courses:
        for point in course:
            so_far = sums.get(point.at_ms)
            if so_far is None:
                sums[point.at_ms] = point
                continue
            lag = point.lag if so_far.lag is None else so_far.lag + (point.lag or 0)
            rate = round(so_far.records_per_second + point.records_per_second, 1)
            sums[point.at_ms] = TimelinePoint(point.at_ms, rate, lag, so_far.errors + point.errors)
    return [sums[at_ms] for at_ms in sorted(sums)][-POINTS:]


def grows(lags: Sequence[int | None]) -> bool:
    """Return whether a lag grew over all of the last ten minutes: each minute was worse than the one before.

    Args:
        lags: one each ten seconds, oldest first; fewer than ten minutes: nothing is said.
    """
    recent = [lag for lag in lags[-GROWS_FOR:] if lag is not None]
    if len(recent) < GROWS_FOR:
        return False
    minutes = [sum(recent[start : start + _PART]) for start in range(0, GROWS_FOR, _PART)]
    return all(later > earlier for earlier, later in pairwise(minutes))


# The courses of this worker's tasks, taken down every ten seconds by its own thread.
#
# Owns what is remembered: an hour of each task that runs here, also of those that have left, as many as there is room.
# A point that cannot be taken is logged and left out; the next one is taken all the same.


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

    def of_connector(self, name: str) -> list[TimelinePoint]:
        """Return the course of the last hour of a connector's tasks, as far as they ran here."""
        since_ms = self._clock.now_ms() - HOUR_MS
        with self._lock:
            courses = [course.points(since_ms) for task, course in self._of_task.items() if task.connector == name]
        return added_up(courses)


def _may_grow(lags: deque[int | None]) -> bool:
    """Return whether it is worth a closer look, which most are not."""
    return len(lags) == GROWS_FOR and (lags[-1] or 0) > (lags[0] or 0)

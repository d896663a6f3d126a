"""The course of a task over the last hour: a point each ten seconds, in a few kilobytes. Pure.

Owns the points, how those of several tasks add up, and when a lag counts as growing.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

EACH_MS = 10_000
POINTS = 360  # an hour
GROWS_FOR = 60  # points: ten minutes
_PART = 6  # points: lags are compared by the minute, since within one they go up and down with the batches
_UNKNOWN = -1


class Point(NamedTuple):
    """What was so at a time, or since the point before."""

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

    def add(self, at_ms: int, records: int, records_per_second: float, lag: int | None, errors: int) -> Point:
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
        point = Point(
            at_ms,
            round(records_per_second, 1),
            lag,
            errors - self._errors_before if same_run and self.last_ms else errors,
        )
        self._records_before, self._errors_before, self.last_ms = records, errors, at_ms
        self._keep(point)
        return point

    def points(self, since_ms: int) -> list[Point]:
        """Return the points after ``since_ms``, oldest first."""
        order = [*range(self._next, len(self._at_ms)), *range(self._next)]
        return [self._point(index) for index in order if self._at_ms[index] > since_ms]

    def _point(self, index: int) -> Point:
        lag = self._lags[index]
        return Point(
            self._at_ms[index], round(self._rates[index], 1), None if lag == _UNKNOWN else lag, self._errors[index]
        )

    def _keep(self, point: Point) -> None:
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


def added_up(courses: Iterable[Iterable[Point]]) -> list[Point]:
    """Return the course of all together, oldest first: what is known at a time is added up."""
    sums: dict[int, Point] = {}
    for course in courses:
        for point in course:
            so_far = sums.get(point.at_ms)
            if so_far is None:
                sums[point.at_ms] = point
                continue
            lag = point.lag if so_far.lag is None else so_far.lag + (point.lag or 0)
            rate = round(so_far.records_per_second + point.records_per_second, 1)
            sums[point.at_ms] = Point(point.at_ms, rate, lag, so_far.errors + point.errors)
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

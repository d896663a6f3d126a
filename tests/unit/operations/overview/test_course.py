"""The course of a task: an hour and no more, whatever its totals do."""

from __future__ import annotations

import sys

import pytest

from spark_connect_rt.operations.overview.task_timeline import (
    EACH_MS,
    GROWS_FOR,
    POINTS,
    TaskCourse,
    TimelinePoint,
    added_up,
    grows,
)

T = 1_700_000_000_000 // EACH_MS * EACH_MS


def course_of(*totals: tuple[int, int | None, int]) -> TaskCourse:
    """A point each ten seconds: records so far, lag, errors so far."""
    course = TaskCourse()
    for number, (records, lag, errors) in enumerate(totals):
        course.add(T + number * EACH_MS + 123, records, 7.0, lag, errors)
    return course


def test_rates_and_errors_are_counted_since_the_point_before() -> None:
    points = course_of((50, 5, 1), (150, 3, 1), (150, None, 4)).points(0)
    assert points == [
        TimelinePoint(T, 7.0, 5, 1),
        TimelinePoint(T + EACH_MS, 10.0, 3, 0),
        TimelinePoint(T + 2 * EACH_MS, 0.0, None, 3),
    ]


def test_a_new_run_counts_from_zero_and_nothing_is_negative() -> None:
    points = course_of((1_000, 0, 9), (20, 0, 2), (120, 0, 2)).points(0)
    assert [(point.records_per_second, point.errors) for point in points] == [(7.0, 9), (7.0, 2), (10.0, 0)]


def test_after_a_gap_the_rate_is_that_of_the_moment() -> None:
    course = TaskCourse()
    course.add(T, 0, 1.0, None, 0)
    assert course.add(T + 600_000, 10_000, 2.0, None, 0).records_per_second == 2.0


def test_an_hour_is_kept_oldest_first_in_a_few_kilobytes() -> None:
    course = course_of(*((number, number, 0) for number in range(POINTS + 50)))
    points = course.points(0)
    assert [point.lag for point in points] == list(range(50, POINTS + 50))
    assert [point.at_ms for point in points] == sorted(point.at_ms for point in points)
    assert len(course.points(points[-1].at_ms - 5 * EACH_MS)) == 5
    held = sum(sys.getsizeof(getattr(course, name)) for name in TaskCourse.__slots__ if "before" not in name)
    assert held < 12_000


def test_lags_of_more_than_64_bits_are_cut_and_not_an_error() -> None:
    assert course_of((0, 2**70, 0)).points(0)[0].lag == 2**63 - 1


def test_timelines_add_up_where_they_meet_and_an_unknown_lag_is_not_zero() -> None:
    course = [TimelinePoint(T, 1.0, None, 1), TimelinePoint(T + EACH_MS, 2.0, 5, 0)]
    other = [TimelinePoint(T + EACH_MS, 3.0, None, 2), TimelinePoint(T + 2 * EACH_MS, 4.0, 6, 0)]
    assert added_up([course, other]) == [
        TimelinePoint(T, 1.0, None, 1),
        TimelinePoint(T + EACH_MS, 5.0, 5, 2),
        TimelinePoint(T + 2 * EACH_MS, 4.0, 6, 0),
    ]
    assert added_up([]) == []


def test_a_lag_grows_when_each_of_ten_minutes_is_worse_than_the_one_before() -> None:
    assert grows(range(GROWS_FOR))
    assert grows([100 * (n // 6) + (5 if n % 2 else 0) for n in range(GROWS_FOR)])  # up and down within a minute
    assert grows([0] * 100 + list(range(GROWS_FOR)))


@pytest.mark.parametrize(
    "lags",
    [
        [],
        list(range(GROWS_FOR - 1)),  # not for ten minutes yet
        [5] * GROWS_FOR,
        list(range(GROWS_FOR, 0, -1)),
        [*range(30), *range(30)],  # it was caught up meanwhile
        [None, *range(1, GROWS_FOR)],
    ],
)
def test_other_lags_do_not(lags: list[int | None]) -> None:
    assert not grows(lags)

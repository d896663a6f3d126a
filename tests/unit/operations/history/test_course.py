"""The course of offsets: what is written is what is read, thinned so that it fits, and never more than once a step."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.operations.history.offset_timeline import (
    HOURS,
    MINUTE_MS,
    MINUTES,
    TimelineChunk,
    merged,
    packed,
    unpacked,
    with_point,
)

START_MS = 1_800_000_000_000 - 1_800_000_000_000 % MINUTES.part_ms
offsets = st.dictionaries(
    st.sampled_from("abcd"), st.one_of(st.integers(-(2**70), 2**70), st.sampled_from(["", "x", "ü"])), max_size=4
)


def point(minute: int, values: dict[str, Any]) -> tuple[int, list[tuple[dict[str, Any], dict[str, Any]]]]:
    return START_MS + minute * MINUTE_MS, [({"file": name}, {"at": value}) for name, value in sorted(values.items())]


def part_of(points: list[Any]) -> TimelineChunk:
    part = TimelineChunk(START_MS)
    for sample in points:
        part = with_point(part, MINUTES, sample) or part
    return part


@given(st.lists(offsets, max_size=20))
def test_offset_timeline_survives_a_round_trip(values: list[dict[str, Any]]) -> None:
    part = part_of([point(minute, course) for minute, course in enumerate(values)])
    value = packed(part, MINUTES, 10**9)
    assert value is not None
    read = unpacked(value)
    assert [(at, sorted(map(str, pairs))) for at, pairs in read.points] == [
        (at, sorted(map(str, pairs))) for at, pairs in part.points
    ]


@given(st.integers(3, 60), st.integers(100, 3_000))
def test_a_part_fits_and_keeps_its_first_and_last_point(count: int, bytes_max: int) -> None:
    part = part_of([point(minute, {"a": minute**7, "b": -(minute**9)}) for minute in range(count)])
    value = packed(part, MINUTES, bytes_max)
    if value is None:
        return
    assert len(value) <= bytes_max
    read = unpacked(value)
    assert (read.points[0][0], read.points[-1][0]) == (part.points[0][0], part.points[-1][0])


def test_one_point_a_step() -> None:
    part = part_of([point(0, {"a": 1})])
    at_ms, pairs = point(0, {"a": 2})
    assert with_point(part, MINUTES, (at_ms + MINUTE_MS - 1, pairs)) is None
    assert with_point(part, MINUTES, (at_ms + MINUTE_MS, pairs)) is not None
    assert with_point(part, HOURS, (at_ms + MINUTE_MS, pairs)) is None


def test_a_point_that_is_too_large_is_not_kept() -> None:
    assert packed(part_of([point(0, {"a": "x" * 50})]), MINUTES, 10) is None


@pytest.mark.parametrize(
    ("from_minute", "to_minute", "found"), [(0, 9, [0, 5]), (3, 9, [0, 5]), (6, 9, [5]), (1, 4, [0])]
)
def test_the_last_point_before_shows_where_it_was(from_minute: int, to_minute: int, found: list[int]) -> None:
    parts = [part_of([point(0, {"a": 1})]), part_of([point(0, {"a": 1}), point(5, {"a": 2})])]
    points = merged(parts, START_MS + from_minute * MINUTE_MS, START_MS + to_minute * MINUTE_MS)
    assert [(at_ms - START_MS) // MINUTE_MS for at_ms, _ in points] == found

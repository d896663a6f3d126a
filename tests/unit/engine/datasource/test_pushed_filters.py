"""Filters of Spark: which are taken, and that they leave the rows which Spark would leave."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

from spark_connect_rt.engine.datasource.pushed_filters import PUSHED, bounds_of, kept_rows, taken
from spark_connect_rt.kafka.logs.topic_records import TopicPart
from spark_connect_rt.operations.dead_letters.table import part_of

NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
ROWS = pa.RecordBatch.from_pydict(
    {
        "topic": pa.array(["a", "b", None, "b"]),
        "partition": pa.array([0, 1, 2, None], pa.int32()),
        "timestamp": pa.array([NOON, NOON + HOUR, None, NOON - HOUR], pa.timestamp("us", "UTC")),
        "value": pa.array([b"0", b"1", b"2", b"3"]),
    }
)


@pytest.mark.parametrize(
    ("filter_", "wanted"),
    [
        (IsNotNull(("topic",)), [b"0", b"1", b"3"]),
        (EqualTo(("topic",), "b"), [b"1", b"3"]),
        (In(("topic",), ("a", "c")), [b"0"]),
        (Not(In(("topic",), ("a", "c"))), [b"1", b"3"]),
        (Not(EqualTo(("topic",), "b")), [b"0"]),
        (GreaterThan(("partition",), 0), [b"1", b"2"]),
        (Not(GreaterThan(("partition",), 0)), [b"0"]),
        (LessThanOrEqual(("partition",), 1), [b"0", b"1"]),
        (GreaterThanOrEqual(("timestamp",), NOON), [b"0", b"1"]),
        (LessThan(("timestamp",), NOON), [b"3"]),
    ],
)
def test_rows_that_a_filter_leaves(filter_: Filter, wanted: list[bytes]) -> None:
    (condition,), left = taken([filter_], list(PUSHED))
    assert left == []
    kept = kept_rows(ROWS, [condition])
    assert kept.column("value").to_pylist() == wanted
    column = ROWS.column(condition.column).to_pylist()
    assert [condition.lets(value) for value in column] == [value in wanted for value in ROWS["value"].to_pylist()]


@pytest.mark.parametrize(
    "filter_",
    [
        IsNotNull(("value",)),
        StringStartsWith(("topic",), "b"),
        EqualTo(("value",), b"1"),
        EqualTo(("topic", "a"), "b"),
        EqualTo(("partition",), 1 << 40),
        EqualTo(("offset",), 1),
        Not(IsNotNull(("topic",))),
    ],
)
def test_other_filters_go_back_to_spark(filter_: Filter) -> None:
    assert taken([filter_], ("topic", "partition", "timestamp")) == ([], [filter_])


@pytest.mark.parametrize(
    ("filters", "bounds"),
    [
        ([], (None, None)),
        ([EqualTo(("offset",), 5)], (5, 5)),
        ([GreaterThan(("offset",), 5), LessThan(("offset",), 9)], (6, 8)),
        ([In(("offset",), (7, 3)), GreaterThanOrEqual(("offset",), 4)], (4, 7)),
        ([Not(EqualTo(("offset",), 5)), LessThanOrEqual(("offset",), 9)], (None, 9)),
        ([GreaterThan(("partition",), 5)], (None, None)),
    ],
)
def test_offsets_that_conditions_leave(filters: list[Any], bounds: tuple[int | None, int | None]) -> None:
    assert bounds_of(taken(filters, list(PUSHED))[0], "offset") == bounds


def test_filters_select_part_of_a_dead_letter_queue() -> None:
    filters = [
        EqualTo(("topic",), "dead"),
        Not(EqualTo(("partition",), 1)),
        LessThan(("offset",), 10),
        GreaterThan(("timestamp",), NOON),
        GreaterThan(("timestamp",), NOON - HOUR),
        LessThan(("timestamp",), NOON + HOUR),
        Not(EqualTo(("timestamp",), NOON + HOUR)),
    ]
    conditions, _ = taken(filters, list(PUSHED))
    assert part_of("dead", 3, conditions) == TopicPart([0, 2], None, 9, int(NOON.timestamp() * 1000))
    assert part_of("else", 3, conditions).partitions == []

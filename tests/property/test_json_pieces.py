"""Columns assembled from tables have the very bytes that their rows have one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.records.converters.json import JsonConverter
from spark_connect_rt.records.converters.json_columns import LEAST_ROWS, Coded, double_pieces, integer_pieces

ROWS = LEAST_ROWS + 7
PLAIN = JsonConverter()
PLAIN.configure({"schemas.enable": "false", "converter.type": "value"})
INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
EDGES = (0, 1, 999, 1_000, 1_001, 999_999, 1_000_000, 255_999, 256_999, 2**31 - 1 - ROWS, 2**53, 2**63 - 1 - ROWS)


def by_rows(column: pa.Array) -> list[Any]:
    return [PLAIN.from_connect_data("t", None, value) for value in column.to_pylist()]


def numbers_within(kind: pa.DataType, first: int, step: int) -> pa.Array:
    limit = 1 << kind.bit_width - 1
    return pa.array([(first + step * row + limit) % (2 * limit) - limit for row in range(ROWS)], kind)


def doubles(first: float, step: float, places: int) -> pa.Array:
    return pa.array([round(first + step * row, places) for row in range(ROWS)], pa.float64())


WHOLE = st.builds(
    numbers_within,
    st.sampled_from(INTEGERS),
    st.sampled_from(EDGES) | st.integers(-2_000, 2_000) | st.integers(-(2**63), 2**63 - 1),
    st.sampled_from([0, 1, 1, 7, 300, 10**6, -1]),
)
DOUBLES = st.builds(
    doubles,
    st.sampled_from([0.0, 0.5, 999.0, 1_000.0, 9_999_999.999, -1.0]) | st.floats(-1e6, 9e6),
    st.sampled_from([0.0, 0.001, 0.01, 0.125, 1.0, 17.3, 900.0]),
    st.sampled_from([0, 1, 2, 3, 4, 12]),
)
BOOLEANS = st.builds(lambda each: pa.array([row % each == 0 for row in range(ROWS)]), st.integers(1, 3))
TEXTS = st.builds(lambda word: pa.array([f"{word}{row}" for row in range(ROWS)]), st.text(max_size=5))


@settings(deadline=None, max_examples=60)
@given(st.lists(WHOLE | DOUBLES | BOOLEANS | TEXTS, min_size=1, max_size=6), st.integers(0, 5))
def test_structs_of_many_rows_equal_rows(columns: list[pa.Array], sliced: int) -> None:
    structs = pa.StructArray.from_arrays(columns, [f"c{at}" for at in range(len(columns))]).slice(sliced)
    text = PLAIN.column_from_connect_data("t", None, structs)
    if text is not None:
        assert text.cast(pa.binary()).to_pylist() == by_rows(structs)


@pytest.mark.parametrize("places", [1, 2, 3])
def test_every_double_of_few_places_is_written_as_by_rows(places: int) -> None:
    numbers = pa.array(np.arange(0, 10**7, 331 if places < 3 else 997) / 10**places)
    pieces = double_pieces(numbers)
    assert pieces is not None
    assert isinstance(pieces[-1], Coded)
    structs = pa.StructArray.from_arrays([numbers], ["x"])
    assert PLAIN.column_from_connect_data("t", None, structs).cast(pa.binary()).to_pylist() == by_rows(structs)


@pytest.mark.parametrize("odd", [-0.0, -1.5, 1e7, float("nan"), float("inf"), 0.0005, 0.1 + 0.2, 1 / 3])
def test_a_double_that_is_unlike_the_others_has_the_column_written_otherwise(odd: float) -> None:
    assert double_pieces(pa.array([1.5] * ROWS)) is not None
    assert double_pieces(pa.array([*[1.5] * ROWS, odd])) is None
    assert double_pieces(pa.array([odd, *[1.5] * ROWS])) is None


@pytest.mark.parametrize(
    ("column", "looked_up"),
    [
        (pa.array(range(5_000_000, 5_000_000 + ROWS)), True),
        (pa.array([row % 1_000 for row in range(ROWS)], pa.int16()), True),
        (pa.array(range(ROWS)), False),  # below 1,000 without zeros in front, above with thousands
        (pa.array(range(-1, ROWS - 1)), False),
        (pa.array(range(0, ROWS * 10**6, 10**6)), False),
        (pa.array([5]), False),  # few
    ],
)
def test_numbers_that_lie_together_are_looked_up(column: pa.Array, looked_up: bool) -> None:
    assert all(isinstance(piece, Coded) for piece in integer_pieces(column)) == looked_up

"""Converters: what is written is read back, columns equal rows, and bad bytes raise only our error."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.converters.json import JsonConverter
from spark_connect_rt.converters.string import StringConverter
from spark_connect_rt.errors import DataError
from tests.unit.converters.test_json import FLIGHT_TEXT, PLAIN, ROW_SCHEMA, ROW_TYPE, WRAPPED

slow_machine = settings(deadline=None, max_examples=60)


@slow_machine
@given(st.binary(max_size=60))
def test_any_bytes_give_a_value_or_a_data_error(data: bytes) -> None:
    for one in (PLAIN, WRAPPED):
        with contextlib.suppress(DataError):
            one.to_connect_data("t", data)


@slow_machine
@given(st.integers(0, len(FLIGHT_TEXT) - 1))
def test_a_truncated_envelope_is_a_data_error(length: int) -> None:
    with pytest.raises(DataError):
        JsonConverter().to_connect_data("t", FLIGHT_TEXT[:length])


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
)


@slow_machine
@given(json_values)
def test_schemaless_values_come_back(value: Any) -> None:
    data = PLAIN.from_connect_data("t", None, value)
    assert PLAIN.to_connect_data("t", data).value == value


rows = st.lists(
    st.none()
    | st.fixed_dictionaries(
        {
            "i": st.none() | st.integers(-(2**31), 2**31 - 1),
            "f": st.none() | st.floats() | st.floats(-1000, 1000).map(lambda x: round(x, 2)),
            "g": st.none() | st.floats(width=32),
            "t\n": st.none() | st.text(st.characters(exclude_categories=["Cs"])),
            "b": st.none() | st.booleans(),
            "n": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(0, 9)}),
        }
    ),
    max_size=5,
)


@slow_machine
@given(rows, st.booleans(), st.booleans())
def test_column_form_gives_the_bytes_of_the_row_form(values: list[Any], wrapped: bool, with_schema: bool) -> None:
    one = WRAPPED if wrapped else PLAIN
    schema = ROW_SCHEMA if with_schema else None
    array = pa.array(values, ROW_TYPE)
    column = one.column_from_connect_data("t", schema, array)
    if column is not None:
        by_row = [one.from_connect_data("t", schema, value) for value in array.to_pylist()]
        assert column.cast(pa.binary()).to_pylist() == by_row


@slow_machine
@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]))))
def test_string_columns_equal_rows(values: list[str | None]) -> None:
    converter = StringConverter()
    column = converter.column_from_connect_data("t", s.STRING, pa.array(values, pa.string()))
    assert column is not None
    assert column.cast(pa.binary()).to_pylist() == [converter.from_connect_data("t", None, v) for v in values]

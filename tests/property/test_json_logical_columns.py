"""A column of a logical type has the very bytes that its values have one by one."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.api.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from spark_connect_rt.api.data.schema import OPTIONAL_BYTES, Schema, struct_of
from spark_connect_rt.records.converters.json import JsonConverter

MOMENTS = st.datetimes(timezones=st.just(dt.UTC))


def decimals(scale: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**20), 10**20).map(lambda number: Decimal(number).scaleb(-scale))


KINDS: dict[str, tuple[Schema, pa.DataType, st.SearchStrategy[Any]]] = {
    "timestamp": (timestamp_schema(True), pa.timestamp("us", "UTC"), MOMENTS),
    "timestamp in ms": (
        timestamp_schema(True),
        pa.timestamp("ms", "UTC"),
        MOMENTS.map(lambda t: t.replace(microsecond=0)),
    ),
    "date": (date_schema(True), pa.date32(), st.dates()),
    "time": (time_schema(True), pa.time64("us"), st.times()),
    "decimal": (decimal_schema(2, True), pa.decimal128(38, 2), decimals(2)),
    "decimal without point": (decimal_schema(0, True), pa.decimal128(38, 0), decimals(0)),
    "wide decimal": (decimal_schema(8, True), pa.decimal256(76, 8), decimals(8)),
    "bytes": (OPTIONAL_BYTES, pa.binary(), st.binary(max_size=20)),
}


def converter(decimal_format: str, envelope: bool) -> JsonConverter:
    made = JsonConverter()
    made.configure({"decimal.format": decimal_format, "schemas.enable": str(envelope).lower()})
    return made


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data(), decimal_format=st.sampled_from(["BASE64", "NUMERIC"]), envelope=st.booleans())
def test_columns_equal_rows(kind: str, data: st.DataObject, decimal_format: str, envelope: bool) -> None:
    member, arrow, strategy = KINDS[kind]
    schema = struct_of({"a": member})
    values = data.draw(st.lists(st.none() | strategy, max_size=8))
    column = pa.StructArray.from_arrays([pa.array([None, *values], arrow)], names=["a"]).slice(1)
    json = converter(decimal_format, envelope)
    text = json.column_from_connect_data("t", schema, column)
    by_row = [json.from_connect_data("t", schema, {"a": value}) for value in values]
    if text is None:
        assert (kind, decimal_format) == ("wide decimal", "NUMERIC"), "small numbers would have an exponent"
        return
    assert text.cast(pa.binary()).to_pylist() == by_row


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (timestamp_schema(), pa.array([None], pa.timestamp("us", "UTC"))),  # a null that is forbidden
        (timestamp_schema(), pa.array([1 << 60], pa.timestamp("us", "UTC"))),  # no year of Python's
        (date_schema(), pa.array([1 << 30], pa.int32()).cast(pa.date32())),
        (decimal_schema(2), pa.array([Decimal("1.5")], pa.decimal128(5, 1))),  # the row form refuses it
        (decimal_schema(2), pa.array(["1.5"])),
        (time_schema(), pa.array([1], pa.int64())),
    ],
)
def test_values_that_rows_refuse_or_write_otherwise_are_left_to_rows(schema: Schema, values: pa.Array) -> None:
    assert converter("BASE64", False).column_from_connect_data("t", schema, values) is None

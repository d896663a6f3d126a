"""Arrow columns as Connect values: every type has its schema, or is refused by name."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from spark_connect_rt.api.data.struct import Struct, check_value
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.pipeline.arrow_values import RowColumns
from spark_connect_rt.records.pipeline.connect_values import connect_values

AT = dt.datetime(2026, 11, 21, 20, 0, 0, 123_456, dt.UTC)
AT_MS = AT.replace(microsecond=123_000)


@pytest.mark.parametrize(
    ("kind", "value", "schema", "read"),
    [
        (pa.bool_(), True, s.OPTIONAL_BOOLEAN, True),
        (pa.int8(), 1, s.OPTIONAL_INT8, 1),
        (pa.uint8(), 255, s.OPTIONAL_INT16, 255),
        (pa.uint32(), 2**32 - 1, s.OPTIONAL_INT64, 2**32 - 1),
        (pa.uint64(), 2**63 - 1, s.OPTIONAL_INT64, 2**63 - 1),
        (pa.float32(), 0.5, s.OPTIONAL_FLOAT32, 0.5),
        (pa.large_string(), "x", s.OPTIONAL_STRING, "x"),
        (pa.dictionary(pa.int8(), pa.string()), "x", s.OPTIONAL_STRING, "x"),
        (pa.binary(2), b"ab", s.OPTIONAL_BYTES, b"ab"),
        (pa.null(), None, s.OPTIONAL_STRING, None),
        (pa.decimal128(9, 2), Decimal("1.50"), decimal_schema(2, optional=True), Decimal("1.50")),
        (pa.date64(), AT.date(), date_schema(optional=True), AT.date()),
        (pa.time64("us"), AT.time(), time_schema(optional=True), AT_MS.time()),
        (pa.timestamp("ns"), AT.replace(tzinfo=None), timestamp_schema(optional=True), AT_MS),
        (pa.timestamp("s", "Asia/Tokyo"), AT_MS, timestamp_schema(optional=True), AT_MS.replace(microsecond=0)),
        (pa.large_list(pa.int16()), [1, None], s.Schema(s.Type.ARRAY, True, value_schema=s.OPTIONAL_INT16), [1, None]),
        (
            pa.map_(pa.string(), pa.uint8()),
            [("a", 1)],
            s.Schema(s.Type.MAP, True, key_schema=s.STRING, value_schema=s.OPTIONAL_INT16),
            {"a": 1},
        ),
        (
            pa.struct([("at", pa.timestamp("us"))]),
            {"at": AT.replace(tzinfo=None)},
            s.struct_of({"at": timestamp_schema(optional=True)}, optional=True),
            {"at": AT_MS},
        ),
    ],
)
def test_a_column_has_its_schema_and_its_values_fit(kind: pa.DataType, value: Any, schema: s.Schema, read: Any) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([value, None], kind)], names=["c"])
    rows = RowColumns(batch.schema)
    assert rows.schema == s.struct_of({"c": schema})
    values = connect_values(rows.structs(batch), rows.schema)
    expected = Struct(schema, read) if schema.type is s.Type.STRUCT else read
    assert values == [Struct(rows.schema, {"c": expected}), Struct(rows.schema)]
    check_value(rows.schema, values[0])


def test_a_column_without_a_connect_form_and_a_number_too_large_are_named() -> None:
    with pytest.raises(DataError, match=r"column c: a column of duration\[s\] has no Connect type"):
        RowColumns(pa.schema([("c", pa.duration("s"))]))
    batch = pa.RecordBatch.from_arrays([pa.array([2**63], pa.uint64())], names=["c"])
    with pytest.raises(DataError, match=r"column c: .*9223372036854775808"):
        RowColumns(batch.schema).structs(batch)
    with pytest.raises(DataError, match="columns must have different names"):
        RowColumns(pa.schema([("c", pa.int8()), ("c", pa.int8())]))

"""Avro: a value of any schema comes back with its schema, columns equal rows, and bad bytes raise only our error."""

from __future__ import annotations

import contextlib
import datetime as dt
import io
from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.avro_columns import flat_rows, framed_column
from spark_connect_rt.records.registry.avro_connect_schema import connect_schema
from spark_connect_rt.records.registry.avro_schema import AvroSettings, avro_schema
from spark_connect_rt.records.registry.avro_values import (
    AvroReadPlan,
    Writing,
    datum_writer,
    parsed,
    read_datum,
    value_reader,
    write_datum,
)

SETTINGS = AvroSettings()
slow_machine = settings(deadline=None, max_examples=80)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
PRIMITIVES: tuple[tuple[Schema, st.SearchStrategy[Any]], ...] = (
    (s.INT8, st.integers(-128, 127)),
    (s.INT16, st.integers(-(2**15), 2**15 - 1)),
    (s.INT32, st.integers(-(2**31), 2**31 - 1)),
    (s.INT64, st.integers(-(2**63), 2**63 - 1)),
    (s.FLOAT32, st.floats(width=32, allow_nan=False)),
    (s.FLOAT64, st.floats(allow_nan=False)),
    (s.BOOLEAN, st.booleans()),
    (s.STRING, texts),
    (s.BYTES, st.binary(max_size=5)),
    (logical.decimal_schema(2), st.integers(-(10**20), 10**20).map(lambda n: Decimal(n).scaleb(-2))),
    (logical.date_schema(), st.dates()),
    (logical.time_schema(), st.integers(0, 86_399_999).map(lambda ms: logical.from_ms(logical.TIME, ms))),
    (logical.timestamp_schema(), st.integers(-(10**12), 10**12).map(lambda ms: _EPOCH + dt.timedelta(milliseconds=ms))),
)
Pair = tuple[Schema, Any]


def as_optional(schema: Schema, values: st.SearchStrategy[Any]) -> tuple[Schema, st.SearchStrategy[Any]]:
    nullable = schema.as_optional()
    if schema.type is Type.STRUCT:  # a struct knows its schema
        values = values.map(lambda sample: Struct.of_checked(nullable, list(sample.values())))
    return nullable, st.none() | values


@st.composite
def schemas_and_values(draw: st.DrawFn, depth: int = 2) -> tuple[Schema, st.SearchStrategy[Any]]:
    kind = draw(st.integers(0, 7 if depth else 3))
    if kind <= 3:
        schema, values = draw(st.sampled_from(PRIMITIVES))
    elif kind == 4:
        of, values = draw(schemas_and_values(depth - 1))
        schema, values = SchemaBuilder.array(of).build(), st.lists(values, max_size=3)
    elif kind == 5:
        of, values = draw(schemas_and_values(depth - 1))
        keys, names = draw(
            st.sampled_from([(s.STRING, texts), (s.INT32, st.integers(0, 9)), (s.OPTIONAL_STRING, texts)])
        )
        schema, values = SchemaBuilder.map(keys, of).build(), st.dictionaries(names, values, max_size=3)
    else:
        parts = draw(st.lists(schemas_and_values(depth - 1), min_size=1, max_size=4))
        fields = tuple(Field(f"f{at}", at, of) for at, (of, _) in enumerate(parts))
        record = Schema(
            Type.STRUCT, fields=fields, name=draw(st.none() | st.just("a.b.Rec") if depth == 2 else st.none())
        )
        schema, values = record, st.tuples(*(of for _, of in parts)).map(lambda row, r=record: struct(r, row))
    return as_optional(schema, values) if draw(st.booleans()) else (schema, values)


def struct(schema: Schema, row: tuple[Any, ...]) -> Struct:
    return Struct(schema, dict(zip([field.name for field in schema.fields], row, strict=True)))


@slow_machine
@given(st.data())
def test_value_and_schema_survive_a_round_trip(data: st.DataObject) -> None:
    schema, values = data.draw(schemas_and_values())
    value = data.draw(values.filter(lambda candidate: candidate is not None))
    tree = avro_schema(schema, SETTINGS)
    again = connect_schema(tree, SETTINGS)
    assert again == schema
    wire, out = parsed(tree), io.BytesIO()
    write_datum(out, wire, datum_writer(schema, tree, SETTINGS)(value))
    convert = value_reader(again, SETTINGS)
    datum = read_datum(out.getvalue(), 0, AvroReadPlan(again, wire, b"", convert, False))
    assert plain(datum if convert is None else convert(datum)) == plain(value)


def plain(value: Any) -> Any:
    if isinstance(value, Struct):
        return [plain(part) for part in value.values()]
    if isinstance(value, list):
        return [plain(part) for part in value]
    return {key: plain(part) for key, part in value.items()} if isinstance(value, dict) else value


FLAT = (
    SchemaBuilder.struct().name("Flat").field("i", s.INT32).field("t", s.OPTIONAL_STRING).field("b", s.OPTIONAL_BYTES)
)
FLAT_SCHEMA = FLAT.field("at", logical.timestamp_schema(True)).field("g", s.FLOAT32).build()
FLAT_TYPE = pa.struct(
    [
        ("i", pa.int32()),
        ("t", pa.string()),
        ("b", pa.binary()),
        ("at", pa.timestamp("ms", tz="UTC")),
        ("g", pa.float32()),
    ]
)
flat_values = st.fixed_dictionaries(
    {
        "i": PRIMITIVES[2][1],
        "t": st.none() | texts,
        "b": st.none() | st.binary(max_size=4),
        "at": st.none() | PRIMITIVES[12][1],
        "g": PRIMITIVES[4][1],
    }
)


@slow_machine
@given(st.lists(flat_values, max_size=5), st.booleans())
def test_column_form_gives_the_bytes_of_the_row_form(values: list[Any], sliced: bool) -> None:
    tree = avro_schema(FLAT_SCHEMA, SETTINGS)
    plan = Writing(b"\0\0\0\0\1", parsed(tree), datum_writer(FLAT_SCHEMA, tree, SETTINGS), False)
    array = pa.array(values, FLAT_TYPE)[1:] if sliced else pa.array(values, FLAT_TYPE)
    rows = flat_rows(FLAT_SCHEMA, array)
    assert rows is not None
    column = framed_column(plan, rows)
    assert column is not None
    expected = []
    for value in array.to_pylist():
        out = io.BytesIO(plan.frame)
        out.seek(5)
        write_datum(out, plan.wire, plan.convert(value))
        expected.append(out.getvalue())
    assert column.to_pylist() == expected


@slow_machine
@given(st.binary(max_size=40))
def test_any_bytes_give_a_value_or_a_data_error(data: bytes) -> None:
    wire = parsed(avro_schema(FLAT_SCHEMA, SETTINGS))
    convert = value_reader(FLAT_SCHEMA, SETTINGS)
    assert convert is not None
    with contextlib.suppress(DataError):
        convert(read_datum(data, 0, AvroReadPlan(FLAT_SCHEMA, wire, b"", convert, False)))

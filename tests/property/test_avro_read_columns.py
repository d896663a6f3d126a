"""Avro payloads read as a column equal those read one by one; damaged payloads are read one by one."""

from __future__ import annotations

import datetime as dt
import io
import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.avro_connect_schema import connect_schema
from spark_connect_rt.records.registry.avro_read_columns import column_reader
from spark_connect_rt.records.registry.avro_schema import AvroSettings
from spark_connect_rt.records.registry.avro_values import AvroReadPlan, parsed, read_datum, value_reader, write_datum

FRAME = b"\0\0\0\0\7"
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
KINDS: tuple[tuple[Any, st.SearchStrategy[Any]], ...] = (
    ("int", st.integers(-(2**31), 2**31 - 1)),
    ("long", st.integers(-(2**63), 2**63 - 1)),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("boolean", st.booleans()),
    ("string", texts),
    ("bytes", st.binary(max_size=5)),
    ({"type": "int", "connect.type": "int8"}, st.integers(-128, 127)),
    ({"type": "enum", "name": "Colour", "symbols": ["red", "green"]}, st.sampled_from(["red", "green"])),
    ({"type": "fixed", "name": "Three", "size": 3}, st.binary(min_size=3, max_size=3)),
    ({"type": "int", "logicalType": "date"}, st.integers(-719_162, 2_932_896)),
    ({"type": "int", "logicalType": "time-millis"}, st.integers(0, 86_399_999)),
    ({"type": "long", "logicalType": "timestamp-millis"}, st.integers(-(10**12), 10**12)),
    ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, st.binary(min_size=1, max_size=4)),
)
DECIMAL_AT = len(KINDS) - 1


@st.composite
def records(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a flat record's schema and some data of it."""
    fields: list[dict[str, Any]] = []
    values: dict[str, Any] = {}
    for at, (kind, of) in enumerate(KINDS):
        if not draw(st.booleans()) and (fields or at < DECIMAL_AT):
            continue
        how = draw(st.sampled_from(["", "null first", "null last"]))
        union = {"": kind, "null first": ["null", kind], "null last": [kind, "null"]}[how]
        fields.append({"name": f"f{at}", "type": union})
        values[f"f{at}"] = st.none() | of if how else of
    rows = draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=4))
    return {"type": "record", "name": "Flat", "fields": fields}, (rows * 16)[: max(16, len(rows))]


def plan_of(tree: dict[str, Any]) -> AvroReadPlan:
    schema = connect_schema(tree, AvroSettings())
    return AvroReadPlan(schema, parsed(tree), b"", value_reader(schema, AvroSettings()), False)


def payload(plan: AvroReadPlan, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    out.write(FRAME)
    write_datum(out, plan.wire, row)
    return out.getvalue()


def one_by_one(plan: AvroReadPlan, data: list[bytes]) -> list[Any]:
    assert plan.convert is not None
    return [plan.convert(read_datum(datum, len(FRAME), plan)) for datum in data]


@settings(deadline=None, max_examples=25)
@given(records(), st.booleans())
def test_column_and_structs_are_those_of_the_records(given: tuple[dict[str, Any], list[Any]], sliced: bool) -> None:
    plan = plan_of(given[0])
    data = [payload(plan, row) for row in given[1]]
    expected, reader = one_by_one(plan, data), column_reader(FRAME, plan)
    assert reader is not None
    if any(isinstance(value, int) and not -(2**62) <= value < 2**62 for row in given[1] for value in row.values()):
        assert reader.structs(data) is None, "such numbers need ten bytes, which the machine leaves to rows"
        return
    assert reader.structs(data) == expected
    column = pa.array([b"other", *data], pa.binary())[1:] if sliced else pa.array(data, pa.binary())
    found = reader.column(column)
    if any(field.schema.name == logical.DECIMAL for field in reader.schema.fields):
        assert found is None
        return
    assert found is not None
    assert [list(row.values()) for row in found.to_pylist()] == [list(struct.values()) for struct in expected]


@settings(deadline=None, max_examples=50)
@given(records(), st.data())
def test_a_damaged_payload_is_never_read_as_another_value(given: tuple[dict[str, Any], list[Any]], data: Any) -> None:
    plan = plan_of(given[0])
    payloads = [payload(plan, row) for row in given[1]]
    at = data.draw(st.integers(0, len(payloads) - 1))
    whole = bytearray(payloads[at])
    place = data.draw(st.integers(0, len(whole) - 1))
    whole[place:] = data.draw(st.binary(max_size=len(whole) - place + 3))
    payloads[at] = bytes(whole)
    reader = column_reader(FRAME, plan)
    assert reader is not None
    structs, column = reader.structs(payloads), reader.column(pa.array(payloads, pa.binary()))
    if structs is None:
        assert column is None
        return
    assert repr(structs) == repr(one_by_one(plan, payloads))  # by their texts: NaN is not itself


@st.composite
def nested_records(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the schema of a record with records in it, as Debezium has them, and some data of it."""
    names = itertools.count()

    def record(depth: int) -> tuple[dict[str, Any], st.SearchStrategy[Any]]:
        fields: list[dict[str, Any]] = []
        values: dict[str, Any] = {}
        last: tuple[Any, st.SearchStrategy[Any]] | None = None
        for at in range(draw(st.integers(1, 3))):
            if last is not None and draw(st.booleans()):
                kind, of = last  # the same record again, by its name
            elif depth and draw(st.booleans()):
                kind, of = record(depth - 1)
                last = kind["name"], of
            else:
                kind, of = KINDS[draw(st.sampled_from([0, 1, 3, 4, 5, 6, 10, 12]))]
            how = draw(st.sampled_from(["", "null first", "null last"]))
            union = {"": kind, "null first": ["null", kind], "null last": [kind, "null"]}[how]
            fields.append({"name": f"f{at}", "type": union})
            values[f"f{at}"] = st.none() | of if how else of
        return {"type": "record", "name": f"R{next(names)}", "fields": fields}, st.fixed_dictionaries(values)

    tree, of = record(2)
    rows = draw(st.lists(of, min_size=1, max_size=4))
    return tree, (rows * 16)[: max(16, len(rows))]


def in_dictionaries(value: Any) -> Any:
    if isinstance(value, Struct):
        names = [field.name for field in value.schema.fields]
        return {name: in_dictionaries(part) for name, part in zip(names, value.values(), strict=True)}
    return value


def has_large_numbers(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(has_large_numbers, value.values()))
    return isinstance(value, int) and not -(2**62) <= value < 2**62


@settings(deadline=None, max_examples=60)
@given(nested_records())
def test_records_in_records_are_structs_in_structs(given: tuple[dict[str, Any], list[Any]]) -> None:
    plan = plan_of(given[0])
    data = [payload(plan, row) for row in given[1]]
    reader = column_reader(FRAME, plan)
    assert reader is not None
    found = reader.column(pa.array(data, pa.binary()))
    if any(map(has_large_numbers, given[1])):
        return
    assert found is not None
    assert found.to_pylist() == list(map(in_dictionaries, one_by_one(plan, data)))


@pytest.mark.parametrize(
    "kind",
    [["null", "int", "string"], {"type": "array", "items": "int"}, {"type": "map", "values": "int"}],
)
def test_other_nested_values_are_read_by_records(kind: Any) -> None:
    tree = {"type": "record", "name": "Outer", "fields": [{"name": "f", "type": kind}]}
    assert column_reader(FRAME, plan_of(tree)) is None


def test_times_outside_of_the_years_that_dates_hold_go_by_records() -> None:
    tree = {
        "type": "record",
        "name": "Far",
        "fields": [{"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
    }
    plan = plan_of(tree)
    reader, data = column_reader(FRAME, plan), [payload(plan, {"at": 2**60})] * 16
    assert reader is not None
    assert (reader.structs(data), reader.column(pa.array(data))) == (None, None)
    with pytest.raises(DataError):
        one_by_one(plan, data)
    moment = dt.datetime(9999, 12, 31, tzinfo=dt.UTC)
    (last,) = set(map(repr, reader.structs([payload(plan, {"at": int(moment.timestamp() * 1000)})] * 16) or ()))
    assert last == repr(Struct(reader.schema, {"at": moment}))

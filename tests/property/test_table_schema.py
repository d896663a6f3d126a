"""Tables evolve only in ways that keep old and new rows, and rows are cast only where that is exact."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Schema, struct_of
from spark_connect_rt.connectors.lakehouse.table_schema import (
    AddColumn,
    Evolution,
    UnsafeChange,
    WidenColumn,
    changed_paths,
    fit,
    plan_evolution,
    table_schema,
)
from spark_connect_rt.errors import DataError

EXAMPLES = settings(max_examples=80, deadline=None)
LEAVES = [
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
    pa.binary(),
    pa.date32(),
    pa.time64("us"),
    pa.timestamp("us"),
    pa.timestamp("us", "UTC"),
    pa.decimal128(9, 2),
    pa.decimal128(20, 2),
]
WIDER = {pa.int32(): pa.int64(), pa.float32(): pa.float64(), pa.decimal128(9, 2): pa.decimal128(20, 2)}
NAMES = "abcd"


def any_type(chance: Random, depth: int = 2) -> pa.DataType:
    kind = chance.choice(["leaf", "leaf", "struct", "list", "map"]) if depth else "leaf"
    if kind == "struct":
        return pa.struct(any_fields(chance, depth - 1))
    if kind == "list" and chance.random() < 0.3:
        return pa.large_list(pa.field("element", any_type(chance, depth - 1), chance.random() < 0.5))
    if kind == "list":
        return pa.list_(pa.field("element", any_type(chance, depth - 1), chance.random() < 0.5))
    if kind == "map":
        return pa.map_(pa.string(), pa.field("value", any_type(chance, depth - 1), chance.random() < 0.5))
    return chance.choice(LEAVES)


def any_fields(chance: Random, depth: int = 2) -> list[pa.Field]:
    names = chance.sample(NAMES, chance.randrange(1, len(NAMES)))
    return [pa.field(name, any_type(chance, depth), chance.random() < 0.5) for name in names]


def changed(kind: pa.DataType, chance: Random) -> pa.DataType:
    """Return a type that a table of `kind` can be evolved for, or that fits."""
    if pa.types.is_struct(kind):
        return pa.struct(changed_fields(list(kind), chance))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(changed_field(kind.value_field, chance))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, changed_field(kind.item_field, chance))
    narrower = {wide: narrow for narrow, wide in WIDER.items()}
    return chance.choice([kind, kind, WIDER.get(kind, kind), narrower.get(kind, kind)])


def changed_field(field: pa.Field, chance: Random) -> pa.Field:
    return field.with_type(changed(field.type, chance)).with_nullable(field.nullable or chance.random() < 0.3)


def changed_fields(fields: list[pa.Field], chance: Random) -> list[pa.Field]:
    kept = [changed_field(field, chance) for field in fields if chance.random() < 0.8]
    free = [name for name in NAMES + "efg" if name not in {field.name for field in fields}]
    kept += [pa.field(name, any_type(chance, 1), chance.random() < 0.5) for name in free[: chance.randrange(2)]]
    chance.shuffle(kept)
    return kept or [pa.field("g", pa.int32())]


def any_value(kind: pa.DataType, nullable: bool, chance: Random) -> Any:
    if nullable and chance.random() < 0.3:
        return None
    if pa.types.is_struct(kind):
        return {field.name: any_value(field.type, field.nullable, chance) for field in kind}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = kind.value_field
        return [any_value(element.type, element.nullable, chance) for _ in range(chance.randrange(3))]
    if pa.types.is_map(kind):
        item = kind.item_field
        return [(str(key), any_value(item.type, item.nullable, chance)) for key in range(chance.randrange(3))]
    number = chance.randrange(-1000, 1000)
    moment = dt.datetime(2020, 1, 1) + dt.timedelta(microseconds=number)
    values: list[tuple[Any, Any]] = [
        (pa.types.is_decimal, Decimal(number).scaleb(-2)),
        (pa.types.is_boolean, number > 0),
        (pa.types.is_date, moment.date()),
        (pa.types.is_time, moment.time()),
        (pa.types.is_timestamp, moment if getattr(kind, "tz", None) is None else moment.replace(tzinfo=dt.UTC)),
        (pa.types.is_floating, number / 8),
        (pa.types.is_integer, number),
        (lambda it: pa.types.is_binary(it), str(number).encode()),
        (lambda it: True, str(number)),
    ]
    return next(value for fits, value in values if fits(kind))


def any_rows(schema: pa.Schema, chance: Random, count: int = 5) -> pa.Table:
    rows = [{field.name: any_value(field.type, field.nullable, chance) for field in schema} for _ in range(count)]
    return pa.Table.from_pylist(rows, schema=schema)


def without_nulls(value: Any) -> Any:
    """Return a value without fields that are null, so that columns which are missing do not matter."""
    if isinstance(value, dict):
        found = {name: without_nulls(part) for name, part in value.items()}
        return {name: part for name, part in sorted(found.items()) if part is not None}
    if isinstance(value, list):
        return [without_nulls(part) for part in value]
    return tuple(map(without_nulls, value)) if isinstance(value, tuple) else value


@given(seed=st.integers(0, 2**32))
@EXAMPLES
def test_old_and_new_rows_fit_an_evolved_table(seed: int) -> None:
    chance = Random(seed)
    have = pa.schema(any_fields(chance))
    want = pa.schema(changed_fields(list(have), chance))
    planned = plan_evolution(have, want)
    assert isinstance(planned, Evolution), planned
    for schema in (have, want):
        rows = any_rows(schema, chance)
        fitted = fit(rows, planned.schema)
        assert fitted.unfit == ()
        assert fitted.kept.to_pylist() == list(range(5))
        assert fitted.table.schema == planned.schema
        fitted.table.validate(full=True)
        assert without_nulls(fitted.table.to_pylist()) == without_nulls(rows.to_pylist())
    again = plan_evolution(planned.schema, want)
    assert isinstance(again, Evolution)
    assert not again, list(changed_paths(again))
    assert planned.schema.names[: len(have)] == have.names  # the columns keep their places
    for field in planned.schema:
        old = have.field(field.name) if field.name in have.names else None
        assert field.nullable or (old is not None and not old.nullable)


@given(seed=st.integers(0, 2**32))
@EXAMPLES
def test_rows_of_any_schema_are_fitted_or_named(seed: int) -> None:
    chance = Random(seed)
    have, want = pa.schema(any_fields(chance)), pa.schema(any_fields(chance))
    planned = plan_evolution(have, want)
    target = planned.schema if isinstance(planned, Evolution) else have
    rows = any_rows(want, chance)
    fitted = fit(rows, target)
    assert sorted([*fitted.kept.to_pylist(), *(unfit.row for unfit in fitted.unfit)]) == list(range(5))
    assert fitted.table.schema == target
    fitted.table.validate(full=True)
    for unfit in fitted.unfit:
        assert unfit.path.split(".")[0] in target.names
        assert unfit.reason
    if isinstance(planned, UnsafeChange):
        assert planned.path.split(".")[0] in target.names


def planned_of(have: Any, want: Any, **options: Any) -> Evolution | UnsafeChange:
    return plan_evolution(pa.schema(have), pa.schema(want), **options)


def test_changes_are_named_by_path() -> None:
    have = [
        pa.field("id", pa.int32(), False),
        pa.field("name", pa.string(), False),
        pa.field("inner", pa.struct([pa.field("a", pa.float32())])),
        pa.field("many", pa.list_(pa.struct([pa.field("n", pa.decimal128(9, 2))]))),
        pa.field("by", pa.map_(pa.string(), pa.int32())),
    ]
    want = [
        pa.field("id", pa.int64(), False),
        pa.field("inner", pa.struct([pa.field("a", pa.float64()), pa.field("b", pa.string())])),
        pa.field("many", pa.list_(pa.struct([pa.field("n", pa.decimal128(18, 2)), pa.field("m", pa.int32())]))),
        pa.field("by", pa.map_(pa.string(), pa.int64())),
        pa.field("new", pa.bool_(), False),
    ]
    found = planned_of(have, want)
    assert isinstance(found, Evolution)
    assert found.add == (
        AddColumn("inner.b", pa.string(), "inner"),
        AddColumn("many.element.m", pa.int32(), "many.element"),
        AddColumn("new", pa.bool_()),
    )
    assert found.widen == (
        WidenColumn("id", pa.int32(), pa.int64()),
        WidenColumn("inner.a", pa.float32(), pa.float64()),
        WidenColumn("many.element.n", pa.decimal128(9, 2), pa.decimal128(18, 2)),
        WidenColumn("by.value", pa.int32(), pa.int64()),
    )
    assert found.relax == ("name",)
    assert found.schema.field("new").nullable


@pytest.mark.parametrize(
    ("have", "want", "path", "reason"),
    [
        ({"a": pa.int32()}, {"a": pa.string()}, "a", "int32 cannot hold values of string"),
        ({"a": pa.string()}, {"a": pa.int32()}, "a", "string cannot hold values of int32"),
        ({"a": pa.date32()}, {"a": pa.timestamp("us")}, "a", "cannot hold"),
        ({"a": pa.timestamp("us")}, {"a": pa.timestamp("us", "UTC")}, "a", "cannot hold"),
        ({"a": pa.struct({"b": pa.bool_()})}, {"a": pa.struct({"b": pa.int32()})}, "a.b", "cannot hold"),
        ({"a": pa.list_(pa.bool_())}, {"a": pa.list_(pa.string())}, "a.element", "cannot hold"),
        ({"a": pa.int32()}, {"a": pa.list_(pa.int32())}, "a", "cannot hold"),
    ],
)
def test_unsafe_changes_are_refused_with_the_path(have: Any, want: Any, path: str, reason: str) -> None:
    found = planned_of(have, want)
    assert isinstance(found, UnsafeChange)
    assert found.path == path
    assert reason in found.reason


def test_names_that_differ_in_case_are_the_same_column_if_asked() -> None:
    have, want = {"Name": pa.int32()}, {"name": pa.int64()}
    found = planned_of(have, want, case_sensitive=False)
    assert isinstance(found, Evolution)
    assert found.schema == pa.schema({"Name": pa.int64()})
    assert fit(pa.table({"name": [5]}), found.schema, case_sensitive=False).table.to_pylist() == [{"Name": 5}]
    twice = planned_of(have, {"a": pa.int32(), "A": pa.int32()}, case_sensitive=False)
    assert isinstance(twice, UnsafeChange)
    other = planned_of(have, want)
    assert isinstance(other, Evolution)
    assert other.schema.names == ["Name", "name"]


def test_key_columns_stay_required() -> None:
    found = planned_of([pa.field("id", pa.int64(), False)], [pa.field("id", pa.int64())], keys=["id"])
    assert isinstance(found, Evolution)
    assert not found


@pytest.mark.parametrize(
    ("values", "have", "kind", "expected"),
    [
        ([1, 2**31, -5], pa.int64(), pa.int32(), [1, None, -5]),
        ([1, 2**53 + 1], pa.int64(), pa.float64(), [1.0, None]),
        ([1.0, 1.5], pa.float64(), pa.int64(), [1, None]),
        ([0.5, 1e300, float("inf")], pa.float64(), pa.float32(), [0.5, None, float("inf")]),
        ([5, 10**9], pa.int64(), pa.decimal128(9, 2), [Decimal("5.00"), None]),
        ([12.5, 0.125], pa.float64(), pa.decimal128(9, 2), [Decimal("12.50"), None]),
        ([Decimal("1.50"), Decimal("1.55")], pa.decimal128(9, 2), pa.decimal128(9, 1), [Decimal("1.5"), None]),
        (["12.50", "x", "0.125"], pa.string(), pa.decimal128(9, 2), [Decimal("12.50"), None, None]),
        (["2026-11-27", "x"], pa.string(), pa.date32(), [dt.date(2026, 11, 27), None]),
        (
            ["2026-11-27T01:00:00.1234567Z", "2026-11-27T01:00:00"],
            pa.string(),
            pa.timestamp("us", "UTC"),
            [dt.datetime(2026, 11, 27, 1, 0, 0, 123456, tzinfo=dt.UTC), None],
        ),
        ([str(uuid.UUID(int=5)), "x"], pa.string(), pa.uuid(), [uuid.UUID(int=5), None]),
        ([str(uuid.UUID(int=5)), "x"], pa.string(), pa.binary(16), [uuid.UUID(int=5).bytes, None]),
        ([2**63, 7], pa.uint64(), pa.int64(), [None, 7]),
        ([1, None], pa.int64(), pa.string(), [None]),
        ([[1, 2**40], [3]], pa.list_(pa.int64()), pa.list_(pa.int32()), [None, [3]]),
    ],
)
def test_values_are_cast_exactly_or_refused(values: Any, have: pa.DataType, kind: pa.DataType, expected: Any) -> None:
    schema = pa.schema({"a": kind})
    found = fit(pa.table({"a": pa.array(values, have)}), schema)
    refused = [row for row, value in enumerate(expected) if value is None]
    if kind == pa.string():  # a null fits, a number does not
        assert (found.table["a"].to_pylist(), [each.row for each in found.unfit]) == ([None], [0])
        return
    assert [each.row for each in found.unfit] == refused
    assert found.table["a"].to_pylist() == [value for value in expected if value is not None]
    assert all(each.path == "a" for each in found.unfit)


def test_missing_required_values_are_refused_except_where_they_may_lack() -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("n", pa.string(), False)])
    rows = pa.table({"id": [1, 2, None], "n": ["a", None, None]})
    assert [each.row for each in fit(rows, schema).unfit] == [1, 2]
    found = fit(rows, schema, may_lack=pa.array([False, True, True]))
    assert found.unfit == ()
    nested = pa.schema({"s": pa.struct([pa.field("a", pa.int32(), False)])})
    values = pa.table({"s": pa.array([{"a": 1}, {"a": None}, None], pa.struct({"a": pa.int32()}))})
    (unfit,) = fit(values, nested).unfit
    assert (unfit.row, unfit.reason[:4]) == (1, "s.a:")


def test_rows_need_fields() -> None:
    assert table_schema(struct_of({"a": s.INT8, "e": struct_of({})})).names == ["a"]
    for schema in (s.STRING, struct_of({}), struct_of({"e": struct_of({})})):
        with pytest.raises(DataError, match="a row needs fields"):
            table_schema(schema)
    with pytest.raises(DataError, match="schema of elements is missing"):
        table_schema(struct_of({"a": Schema(s.Type.ARRAY)}))

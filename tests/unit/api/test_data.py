"""Schemas, structs, logical types and the check of a value against its schema."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from typing import Any

import pytest

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.schema_builder import SchemaBuilder, copy_basics
from spark_connect_rt.api.data.schema_inference import infer_schema
from spark_connect_rt.api.data.struct import Struct, check_value
from spark_connect_rt.errors import DataError

POINT = struct_of({"x": s.INT32, "y": Schema(Type.INT32, optional=True, default=7)})


def test_a_schema_is_a_value() -> None:
    built = SchemaBuilder.struct().name("p").field("x", s.INT32).parameter("k", "v").build()
    assert built == SchemaBuilder.struct().name("p").field("x", s.INT32).parameter("k", "v").build()
    assert hash(built) == hash(pickle.loads(pickle.dumps(built)))
    assert built.parameter("k") == "v"
    assert built.field("x") is not None
    assert built.field("z") is None
    assert Schema(Type.INT8, parameters={"a": "b"}).parameters == (("a", "b"),)  # type: ignore[arg-type]
    assert s.INT8.as_optional() == s.OPTIONAL_INT8
    assert s.INT8.as_optional(False) is s.INT8
    assert Type.MAP.is_primitive is False


def test_builders_refuse_contradictions() -> None:
    with pytest.raises(DataError):
        SchemaBuilder.struct().name("a").name("b")
    with pytest.raises(DataError):
        SchemaBuilder.array(s.INT8).field("x", s.INT8)
    with pytest.raises(DataError):
        SchemaBuilder.struct().field("x", s.INT8).field("x", s.INT8).build()
    assert SchemaBuilder(Type.INT8).required().doc("d").version(3).default(1).build().default == 1


def test_struct_fields_have_defaults_and_unknown_ones_are_refused() -> None:
    point = Struct(POINT, {"x": 1})
    assert (point["x"], point.get("y"), point.get_without_default("y")) == (1, 7, None)
    assert point.to_dict() == {"x": 1, "y": 7}
    assert point == Struct(POINT, {"x": 1})
    assert point != Struct(POINT, {"x": 2})
    assert hash(point) == hash(Struct(POINT, {"x": 1}))
    assert repr(point) == "Struct{x=1}"
    assert pickle.loads(pickle.dumps(point)) == point
    for refused in (lambda: point.get("z"), lambda: point.put("z", 1), lambda: Struct(s.INT8)):
        with pytest.raises(DataError):
            refused()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (s.INT8, 127), (s.INT64, -(2**63)), (s.FLOAT32, 1), (s.BOOLEAN, True), (s.STRING, "a"), (s.BYTES, b"a"),
        (s.OPTIONAL_STRING, None), (POINT, Struct(POINT, {"x": 1})),
        (POINT, {"x": 1}),
        (SchemaBuilder.array(s.INT8).build(), [1]), (SchemaBuilder.map(s.STRING, s.INT8).build(), {"a": 1}),
        (logical.date_schema(), dt.date(2020, 1, 1)), (logical.decimal_schema(2), Decimal("1.00")),
    ],
)  # fmt: skip
def test_values_that_fit(schema: Schema, value: Any) -> None:
    check_value(schema, value)


@pytest.mark.parametrize(
    ("schema", "value", "place"),
    [
        (s.INT8, 128, "value"), (s.INT8, True, "value"), (s.INT8, "1", "value"), (s.FLOAT64, True, "value"),
        (s.STRING, None, "required value"), (s.BYTES, "a", "value"), (POINT, Struct(POINT), 'field: "x"'),
        (Schema(Type.INT8, default=1), None, "required value"), (POINT, {"x": "a"}, 'field: "x"'),
        (SchemaBuilder.array(s.INT8).build(), [1, None], "element of array value"),
        (SchemaBuilder.map(s.STRING, s.INT8).build(), {"a": 1000}, "value of map value"),
        (SchemaBuilder.map(s.STRING, s.INT8).build(), {1: 1}, "key of map value"),
        (logical.date_schema(), "2020-01-01", "value"), (logical.date_schema(), dt.datetime(2020, 1, 1), "value"),
        (logical.date_schema(), 1, "value"), (Schema(Type.ARRAY), [1], "element of array value"),
    ],
)  # fmt: skip
def test_values_that_do_not_fit_are_named_by_place(schema: Schema, value: Any, place: str) -> None:
    with pytest.raises(DataError) as caught:
        check_value(schema, value)
    assert place in str(caught.value)


def test_logical_values_out_of_range_are_data_errors() -> None:
    for schema, value in (
        (logical.time_schema(), 86_400_000),
        (logical.date_schema(), 2**40),
        (logical.timestamp_schema(), 2**62),
        (logical.timestamp_schema(), "x"),
    ):
        with pytest.raises(DataError):
            logical.from_primitive(schema, value)
    with pytest.raises(DataError):
        logical.decimal_to_bytes(logical.decimal_schema(2), Decimal("1.5"))
    with pytest.raises(DataError):
        logical.scale_of(s.BYTES)
    assert logical.to_primitive(logical.timestamp_schema(), dt.datetime(1970, 1, 1, 0, 0, 1)) == 1000
    assert logical.from_primitive(s.INT32, 5) == 5


def test_java_text_of_nested_values() -> None:
    assert java_text({"a": [1, None, True], "b": {"c": 1e-5}}) == "{a=[1, null, true], b={c=1.0E-5}}"
    assert java_text(b"caf\xc3\xa9") == "café"
    assert java_text(dt.date(2020, 1, 2)) == "Thu Jan 02 00:00:00 UTC 2020"
    assert java_text([1.100000023841858], SchemaBuilder.array(s.FLOAT32).build()) == "[1.1]"


def test_builders_check_defaults_and_names() -> None:
    assert SchemaBuilder(Type.INT8).name(None).name("a").parameters({"k": "v"}).parameter("k", "w").build() == Schema(
        Type.INT8, name="a", parameters=(("k", "w"),)
    )
    for refused in (
        lambda: SchemaBuilder(Type.INT8).default("x"),
        lambda: SchemaBuilder(Type.INT8).default(None),
        lambda: SchemaBuilder.struct().field("", s.INT8),
        lambda: SchemaBuilder.struct().field("a", s.INT8).field("a", s.INT8),
    ):
        with pytest.raises(DataError):
            refused()
    assert SchemaBuilder(Type.INT8).optional().default(None).build() == s.OPTIONAL_INT8
    assert (str(s.INT8), str(logical.date_schema())) == ("Schema{INT8}", f"Schema{{{logical.DATE}:INT32}}")


def test_copied_basics_leave_optionality_and_default_behind() -> None:
    given = Schema(Type.ARRAY, True, "n", 2, "d", (("k", "v"),), [1], value_schema=s.INT8)
    copied = copy_basics(given).build()
    assert copied == Schema(Type.ARRAY, False, "n", 2, "d", (("k", "v"),), value_schema=s.INT8)
    assert copy_basics(given, Type.STRUCT).build() == Schema(Type.STRUCT, False, "n", 2, "d", (("k", "v"),))


def test_a_struct_checks_values_and_names_types() -> None:
    point = Struct(POINT, {"x": 1})
    assert point.get_typed("x", Type.INT32) == 1
    assert list(point.values()) == [1, 7]
    assert list(point.values(with_defaults=False)) == [1, None]
    point.check()
    for refused in (
        lambda: point.put("x", None),
        lambda: point.put("x", 1 << 31),
        lambda: point.get_typed("x", Type.STRING),
        lambda: Struct(POINT).check(),
    ):
        with pytest.raises(DataError):
            refused()
    assert Struct.from_mapping(POINT, {"x": 1, "unknown": 2}) == point


@pytest.mark.parametrize(
    ("value", "schema"),
    [
        (1, s.INT64), (1.5, s.FLOAT64), ("a", s.STRING), (True, s.BOOLEAN), (b"a", s.BYTES), (None, None), ([], None),
        ([1, None], SchemaBuilder.array(s.OPTIONAL_INT64).build()), ([1, "a"], None), ({}, None), ({"a": None}, None),
        ({"a": 1}, SchemaBuilder.map(s.STRING, s.INT64).build()), (Struct(POINT, {"x": 1}), POINT), (object(), None),
        ([None], None), ([[1]], SchemaBuilder.array(Schema(Type.ARRAY)).build()),
    ],
)  # fmt: skip
def test_schemas_are_inferred(value: Any, schema: Schema | None) -> None:
    assert infer_schema(value) == schema

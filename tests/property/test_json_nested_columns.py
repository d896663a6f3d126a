"""JSON objects in objects as columns: exactly the values of the texts one by one, or none."""

from __future__ import annotations

import datetime as dt
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, Type, struct_of
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.records.converters.json import JsonConverter

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
LEAVES: dict[Type, st.SearchStrategy[Any]] = {
    Type.INT64: st.integers(-(2**63), 2**63 - 1),
    Type.INT8: st.integers(-128, 127),
    Type.FLOAT64: st.floats(allow_nan=False, allow_infinity=False),
    Type.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    Type.BOOLEAN: st.booleans(),
}
MOMENTS: dict[str, tuple[Type, st.SearchStrategy[Any]]] = {
    logical.DATE: (Type.INT32, st.dates()),
    logical.TIME: (
        Type.INT32,
        st.integers(0, 86_399_999).map(lambda ms: (EPOCH + dt.timedelta(milliseconds=ms)).time()),
    ),
    logical.TIMESTAMP: (
        Type.INT64,
        st.integers(-(10**13), 10**13).map(lambda ms: EPOCH + dt.timedelta(milliseconds=ms)),
    ),
}
DEFAULTS = {Type.INT64: 7, Type.INT8: 8, Type.FLOAT64: 0.5, Type.STRING: "d", Type.BOOLEAN: True}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> Schema:
    """Return the schema of an object, which may have objects and defaults in it."""
    members: dict[str, Schema] = {}
    for number in range(draw(st.integers(1, 3))):
        if depth and draw(st.booleans()):
            member = draw(schemas(depth - 1)).as_optional(draw(st.booleans()))
        elif draw(st.integers(0, 3)) == 0:
            name = draw(st.sampled_from(list(MOMENTS)))
            member = Schema(MOMENTS[name][0], name=name, optional=draw(st.booleans()))
        else:
            kind = draw(st.sampled_from(list(LEAVES)))
            default = DEFAULTS[kind] if draw(st.integers(0, 3)) == 0 else None
            member = Schema(kind, optional=draw(st.booleans()), default=default)
        members[f"f{number}"] = member
    return struct_of(members)


def values_of(schema: Schema, *, required: bool = True) -> st.SearchStrategy[Any]:
    """Return Connect values of a schema. Without `required` they may be null where the schema allows that."""
    if schema.type is Type.STRUCT:
        parts = [values_of(member.schema, required=False) for member in schema.fields]
        found: st.SearchStrategy[Any] = st.tuples(*parts).map(lambda values: Struct.of_checked(schema, list(values)))
    else:
        found = MOMENTS[schema.name][1] if schema.name in MOMENTS else LEAVES[schema.type]
    return found | st.none() if schema.optional and not required else found


@st.composite
def structs(draw: st.DrawFn) -> tuple[Schema, list[Any]]:
    """Return a schema and some structs of it."""
    schema = draw(schemas())
    return schema, draw(st.lists(values_of(schema), min_size=1, max_size=6))


def converter_of(with_schemas: bool) -> JsonConverter:
    made = JsonConverter()
    made.configure({"schemas.enable": str(with_schemas).lower()}, False)
    return made


def plain(value: Any) -> Any:
    """Return a value with its type, structs as dictionaries."""
    if isinstance(value, Struct):
        value = dict(zip((member.name for member in value.schema.fields), value.values(), strict=True))
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return type(value), value


def has_defaults(schema: Schema) -> bool:
    return schema.default is not None or any(has_defaults(member.schema) for member in schema.fields)


@given(given_structs=structs())
@settings(max_examples=200, deadline=None)
def test_structs_with_a_schema_are_what_they_are_one_by_one(given_structs: tuple[Schema, list[Any]]) -> None:
    schema, values = given_structs
    converter = converter_of(True)
    texts = [converter.from_connect_data("t", schema, value) for value in values]
    found = converter.column_to_connect_data("t", pa.array(texts, pa.binary()))
    one_by_one = [converter.to_connect_data("t", text) for text in texts]
    if found is None:
        assert has_defaults(schema), "only a default may be a reason"
        return
    assert found[0] == one_by_one[0].schema
    assert [plain(value) for value in found[1].to_pylist()] == [plain(each.value) for each in one_by_one]


@given(given_structs=structs())
@settings(max_examples=200, deadline=None)
def test_objects_without_a_schema_are_what_they_are_one_by_one(given_structs: tuple[Schema, list[Any]]) -> None:
    schema, values = given_structs
    converter = converter_of(False)
    texts = [converter.from_connect_data("t", schema, value) for value in values]
    found = converter.column_to_connect_data("t", pa.array(texts, pa.binary()))
    assert found is not None
    one_by_one = [converter.to_connect_data("t", text).value for text in texts]
    assert [plain(value) for value in found[1].to_pylist()] == [plain(value) for value in one_by_one]


@pytest.mark.parametrize(
    "trees",
    [
        [{"a": {"b": 1}}, {"a": {"c": 1}}],
        [{"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}],
        [{"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}],
        [{"a": {"b": 1}}, {"a": 1}],
        [{"a": {"b": 1}}, {"a": [1]}],
        [{"a": {"b": [1]}}],
        [{"a": {}}],
        [{"a": {"b": 1}}, None],
        [{"a": {"b": 2**63}}],
    ],
)
def test_unusual_objects_go_one_by_one(trees: list[Any]) -> None:
    texts = pa.array([orjson.dumps(tree) for tree in trees])
    assert converter_of(False).column_to_connect_data("t", texts) is None

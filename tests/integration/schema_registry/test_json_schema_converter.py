"""JsonSchemaConverter and a registry over real HTTP: schemas, values, unions, references, what is no JSON Schema."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Schema, SchemaAndValue, Type
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.json_bytes import dump_json, load_json
from spark_connect_rt.records.converters.json_values import ONE_OF, JsonSettings, from_tree, to_tree
from spark_connect_rt.records.registry.json_schema_converter import (
    DraftSettings,
    JsonSchemaConverter,
    Plan,
    connect_schema_of,
    draft_schema,
)
from spark_connect_rt.records.registry.registry_converter import framed
from tests.integration.schema_registry.configured import configured
from tests.property.test_avro import FLAT_SCHEMA, FLAT_TYPE, flat_values, plain, schemas_and_values
from tests.support.schema_registry import SchemaRegistry

VALUES = JsonSettings(map_entries=True, union_name=ONE_OF)
DRAFT = DraftSettings(VALUES)
POINT = (
    SchemaBuilder.struct().name("geo.Point").version(2).doc("where").field("x", s.INT32).field("n", s.OPTIONAL_STRING)
)
POINT_SCHEMA = POINT.build()


def converter(registry: SchemaRegistry, is_key: bool = False, **more: str) -> JsonSchemaConverter:
    return configured(JsonSchemaConverter(), registry, is_key, **more)


def test_schemas_are_written_in_confluents_words(registry: SchemaRegistry) -> None:
    json_schema_converter = converter(registry)
    data = json_schema_converter.from_connect_data("t", POINT_SCHEMA, Struct(POINT_SCHEMA, {"x": 5}))
    assert data == b'\x00\x00\x00\x00\x01{"x":5,"n":null}'
    assert json.loads(registry.text_of("t-value")) == {
        "type": "object",
        "title": "geo.Point",
        "description": "where",
        "connect.version": 2,
        "properties": {
            "x": {"type": "integer", "connect.type": "int32", "connect.index": 0},
            "n": {"oneOf": [{"type": "null"}, {"type": "string"}], "connect.index": 1},
        },
    }
    assert registry.shelf.schemas[1]["schemaType"] == "JSON"
    read = json_schema_converter.to_connect_data("t", data)
    assert (read.schema, read.value) == (POINT_SCHEMA, Struct(POINT_SCHEMA, {"x": 5}))


@pytest.mark.parametrize(
    ("schema", "tree"),
    [
        (s.BYTES, {"type": "string", "connect.type": "bytes"}),
        (s.FLOAT32, {"type": "number", "connect.type": "float32"}),
        (
            SchemaBuilder.map(s.STRING, s.BOOLEAN).build(),
            {"type": "object", "connect.type": "map", "additionalProperties": {"type": "boolean"}},
        ),
        (SchemaBuilder(Type.INT64).default(7).build(), {"type": "integer", "connect.type": "int64", "default": 7}),
        (
            logical.decimal_schema(2),
            {
                "type": "number",
                "connect.type": "bytes",
                "title": logical.DECIMAL,
                "connect.version": 1,
                "connect.parameters": {"scale": "2"},
            },
        ),
    ],
)
def test_types(schema: Schema, tree: Any) -> None:
    assert draft_schema(schema, DRAFT) == tree
    assert connect_schema_of(tree, DRAFT) == schema


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_value_and_schema_survive_a_round_trip(data: st.DataObject) -> None:
    schema, values = data.draw(schemas_and_values())
    value = data.draw(values)
    again = connect_schema_of(json.loads(json.dumps(draft_schema(schema, DRAFT))), DRAFT)
    assert again == schema
    tree = load_json(dump_json(to_tree(schema, value, VALUES)))
    assert plain(from_tree(again, tree, VALUES)) == plain(value)


def offline() -> JsonSchemaConverter:
    """A converter whose registry is a dictionary."""
    json_schema_converter = JsonSchemaConverter()
    json_schema_converter.configure({"schema.registry.url": "http://nowhere"})
    kept: dict[str, int] = {}

    def written(topic: str, schema: Schema | None) -> Plan:
        text = json.dumps({} if schema is None else draft_schema(schema, DRAFT))
        return Plan(framed(kept.setdefault(text, len(kept) + 1)), schema, None)

    def read(topic: str, schema_id: int) -> Plan:
        tree = json.loads({number: text for text, number in kept.items()}[schema_id])
        return Plan(b"", connect_schema_of(tree, DRAFT) if tree else None, None)

    json_schema_converter.plan_writing, json_schema_converter.plan_reading = written, read  # type: ignore[method-assign]
    return json_schema_converter


def as_mapping(value: Any) -> Any:
    names = [of.name for of in value.schema.fields] if isinstance(value, Struct) else ()
    return dict(zip(names, value.values(), strict=True)) if names else value


@settings(deadline=None, max_examples=25)
@given(
    st.lists(flat_values, max_size=4),
    st.sampled_from([None, *(member.name for member in FLAT_SCHEMA.fields)]),
    st.booleans(),
    st.booleans(),
)
def test_columns_are_what_records_are(values: list[Any], field: str | None, with_schema: bool, sliced: bool) -> None:
    json_schema_converter = offline()
    column, schema = pa.array(values, FLAT_TYPE), FLAT_SCHEMA
    if field is not None:
        column, schema = column.field(field), next(each.schema for each in schema.fields if each.name == field)
    column = column[1:] if sliced else column
    made = json_schema_converter.column_from_connect_data("t", schema if with_schema else None, column)
    if made is None:
        return
    written = [
        json_schema_converter.from_connect_data("t", schema if with_schema else None, value)
        for value in column.to_pylist()
    ]
    assert made.to_pylist() == written
    wanted = [json_schema_converter.to_connect_data("t", data) for data in written]
    read, structs = (
        json_schema_converter.column_to_connect_data("t", made),
        json_schema_converter.values_to_connect_data("t", written),
    )
    if read is not None:
        assert [read[0]] * len(wanted) == [each.schema for each in wanted]
        assert read[1].to_pylist() == [as_mapping(each.value) for each in wanted]
    if structs is not None:
        assert [SchemaAndValue(structs[0], value) for value in structs[1]] == wanted


def test_ordinary_batches_go_by_columns_and_others_by_records(registry: SchemaRegistry) -> None:
    json_schema_converter = converter(registry)
    rows = [{"x": at, "n": None if at else "a"} for at in range(3)]
    column = pa.array(rows, pa.struct([("x", pa.int32()), ("n", pa.string())]))
    made = json_schema_converter.column_from_connect_data("t", POINT_SCHEMA, column)
    assert made is not None
    written = [json_schema_converter.from_connect_data("t", POINT_SCHEMA, row) for row in rows]
    assert made.to_pylist() == written
    read = json_schema_converter.column_to_connect_data("t", made)
    assert read is not None
    assert (read[0], read[1].to_pylist()) == (POINT_SCHEMA, rows)
    assert json_schema_converter.values_to_connect_data("t", written) is not None
    first = written[0] or b""
    for data in (first + b"}", first[:3], json_schema_converter.from_connect_data("t", s.INT32, 5), None):
        for pair in ([first, data], [data, first]):
            assert json_schema_converter.column_to_connect_data("t", pa.array(pair, pa.binary())) is None
            assert json_schema_converter.values_to_connect_data("t", pair) is None
    union = Schema(Type.STRUCT, name=ONE_OF, fields=POINT_SCHEMA.fields)
    assert json_schema_converter.column_from_connect_data("t", union, column) is None
    strict = converter(registry, **{"json.fail.invalid.schema": "true"})
    assert strict.column_from_connect_data("t", POINT_SCHEMA, column) is None
    assert strict.column_to_connect_data("t", made) is None
    assert converter(registry, **{"decimal.format": "NUMERIC"}).column_to_connect_data("t", made) is None


def test_schemas_of_others_with_enum_union_and_references() -> None:
    tree = {
        "title": "Order",
        "properties": {
            "kind": {"enum": ["A", "B"]},
            "amount": {"type": ["null", "number"]},
            "choice": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
            "to": {"$ref": "#/definitions/place"},
            "other": {"$ref": "other.json"},
        },
        "definitions": {"place": {"type": "object", "properties": {"city": {"type": "string"}}}},
    }
    schema = connect_schema_of(tree, DRAFT, 4, {"other.json": {"type": "boolean"}})
    assert (schema.name, schema.version) == ("Order", 4)
    kind, amount, choice, to, other = (field.schema for field in schema.fields)
    assert [name for name, _ in kind.parameters][1:] == [
        "io.confluent.connect.json.Enum.A",
        "io.confluent.connect.json.Enum.B",
    ]
    assert amount == s.OPTIONAL_FLOAT64
    assert (choice.name, len(choice.fields)) == (ONE_OF, 2)
    assert (to, other) == (s.struct_of({"city": s.STRING}), s.BOOLEAN)
    value = from_tree(schema, {"kind": "A", "choice": "x", "to": {"city": "c"}, "other": True}, VALUES)
    assert value.get("choice").values() == [None, "x"]
    assert to_tree(schema, value, VALUES)["choice"] == "x"
    required = connect_schema_of(
        tree | {"required": ["kind"]},
        DraftSettings(VALUES, True, True),
        None,
        {"other.json": {}} | {"other.json": {"type": "boolean"}},
    )
    assert [field.schema.optional for field in required.fields] == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        (True, "no JSON Schema"),
        ({"type": "array"}, "items"),
        ({"type": "integer", "connect.type": "int128"}, "int128"),
        ({"$ref": "#/nowhere"}, "not there"),
        ({"properties": {"a": {"$ref": "#"}}, "type": "object"}, "holds itself"),
    ],
)
def test_tree_without_connect_schema_raises_data_error(tree: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        connect_schema_of(tree, DRAFT)


def test_values_may_be_held_against_their_schema(registry: SchemaRegistry) -> None:
    tree = {"type": "object", "title": "R", "properties": {"a": {"type": "integer", "minimum": 5}}}
    registry.shelf.register("t-value", {"schema": json.dumps(tree), "schemaType": "JSON"})
    data = b'\x00\x00\x00\x00\x01{"a":1}'
    assert converter(registry).to_connect_data("t", data).value.get("a") == 1
    with pytest.raises(DataError, match="minimum"):
        converter(registry, json_fail_invalid_schema="true").to_connect_data("t", data)


def test_payloads_that_are_not_json_or_do_not_fit(registry: SchemaRegistry) -> None:
    json_schema_converter = converter(registry)
    json_schema_converter.from_connect_data("t", POINT_SCHEMA, Struct(POINT_SCHEMA, {"x": 5}))
    for payload in (b"{", b'{"n":"y"}', b'{"x":"y"}'):
        with pytest.raises(DataError):
            json_schema_converter.to_connect_data("t", b"\x00\x00\x00\x00\x01" + payload)

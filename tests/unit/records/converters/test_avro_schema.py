"""Connect schemas as Avro schemas and back, in the words that users of the Avro converter know."""

from __future__ import annotations

import json
from typing import Any

import pytest

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.avro_connect_schema import connect_schema
from spark_connect_rt.records.registry.avro_schema import ANYTHING, AvroSettings, avro_schema, scrubbed

PLAIN = AvroSettings()
POINT = SchemaBuilder.struct().name("geo.Point").field("x", s.INT32).build()


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (s.STRING, '"string"'),
        (s.OPTIONAL_INT64, '["null","long"]'),
        (s.INT8, '{"type":"int","connect.type":"int8"}'),
        (s.OPTIONAL_INT16, '["null",{"type":"int","connect.type":"int16"}]'),
        (
            logical.decimal_schema(2),
            '{"type":"bytes","scale":2,"precision":64,"connect.version":1,"connect.parameters":{"scale":"2"},'
            '"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}',
        ),
        (
            logical.date_schema(),
            '{"type":"int","connect.version":1,"connect.name":"org.apache.kafka.connect.data.Date","logicalType":"date"}',
        ),
        (SchemaBuilder(Type.INT32, optional=True, default=3).build(), '[{"type":"int","connect.default":3},"null"]'),
        (SchemaBuilder.map(s.STRING, s.BOOLEAN).build(), '{"type":"map","values":"boolean"}'),
        (
            SchemaBuilder.map(s.INT32, s.OPTIONAL_STRING).build(),
            '{"type":"array","items":{"type":"record","name":"MapEntry","namespace":"io.confluent.connect.avro",'
            '"fields":[{"name":"key","type":"int"},{"name":"value","type":["null","string"],"default":null}]}}',
        ),
        (
            SchemaBuilder.struct().field("a", s.OPTIONAL_STRING).field("p", POINT).field("q", POINT).build(),
            '{"type":"record","name":"ConnectDefault","namespace":"io.confluent.connect.avro","fields":['
            '{"name":"a","type":["null","string"],"default":null},'
            '{"name":"p","type":{"type":"record","name":"Point","namespace":"geo",'
            '"fields":[{"name":"x","type":"int"}],"connect.name":"geo.Point"}},'
            '{"name":"q","type":"geo.Point"}]}',
        ),
    ],
)
def test_schemas_are_written_as_java_writes_them(schema: Schema, text: str) -> None:
    assert json.dumps(avro_schema(schema, PLAIN), separators=(",", ":")) == text


def test_unnamed_structs_get_their_own_names() -> None:
    inner, other = s.struct_of({"x": s.INT32}), s.struct_of({"y": s.INT32})
    tree = avro_schema(s.struct_of({"a": inner, "b": other, "c": inner}), PLAIN)
    names = [field["type"]["name"] if isinstance(field["type"], dict) else field["type"] for field in tree["fields"]]
    assert names == ["ConnectDefault2", "ConnectDefault3", "io.confluent.connect.avro.ConnectDefault2"]
    assert connect_schema(tree, PLAIN) == s.struct_of({"a": inner, "b": other, "c": inner})


def test_one_name_for_two_structs_is_refused() -> None:
    other = SchemaBuilder.struct().name("geo.Point").field("y", s.INT32).build()
    with pytest.raises(DataError, match=r"geo\.Point"):
        avro_schema(s.struct_of({"a": POINT, "b": other}), PLAIN)


def test_names_that_avro_does_not_take_are_refused_or_scrubbed() -> None:
    schema = SchemaBuilder.struct().name("my-app.Row$1").field("a b", s.INT32).build()
    with pytest.raises(DataError, match=r"scrub\.invalid\.names"):
        avro_schema(schema, PLAIN)
    tree = avro_schema(schema, AvroSettings(scrub_names=True))
    assert (tree["namespace"], tree["name"], tree["fields"][0]["name"]) == ("my_app", "Row_241", "a_b")
    assert [scrubbed(name) for name in ("ok_1", "1st", "a.b")] == ["ok_1", "x1st", "a_b"]


def test_meta_data_may_be_left_out() -> None:
    schema = SchemaBuilder(Type.STRING, name="x.Text", version=2, doc="d", parameters={"p": "1"}).build()
    assert avro_schema(schema, AvroSettings(meta_data=False)) == "string"
    assert connect_schema(avro_schema(schema, PLAIN), PLAIN) == schema


DOCUMENTED: dict[str, Any] = {
    "type": "record",
    "name": "User",
    "namespace": "com.example",
    "doc": "a user",
    "fields": [
        {"name": "id", "type": "long", "doc": "its number", "default": 7},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "doc": "k", "symbols": ["A", "B"], "default": "A"}},
        {"name": "hash", "type": {"type": "fixed", "name": "Hash", "size": 4}},
        {"name": "choice", "type": ["null", "int", "string", {"type": "record", "name": "In", "fields": []}]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}


def test_java_schema_of_a_documented_record_with_enum_fixed_and_union() -> None:
    schema = connect_schema(DOCUMENTED, PLAIN, version=3)
    prefix = "io.confluent.connect.avro"
    assert (schema.name, schema.version) == ("com.example.User", 3)
    assert dict(schema.parameters) == {f"{prefix}.record.doc": "a user", f"{prefix}.field.doc.id": "its number"}
    number, kind, fixed, choice, at = (field.schema for field in schema.fields)
    assert (number.type, number.default, dict(number.parameters)) == (
        Type.INT64,
        7,
        {f"{prefix}.field.default": "true"},
    )
    assert (kind.type, kind.name) == (Type.STRING, "com.example.Kind")
    assert dict(kind.parameters) == {
        f"{prefix}.enum.doc.Kind": "k",
        f"{prefix}.enum.default.Kind": "A",
        f"{prefix}.Enum": "com.example.Kind",
        f"{prefix}.Enum.A": "A",
        f"{prefix}.Enum.B": "B",
    }
    assert fixed == s.BYTES
    assert (choice.name, choice.optional) == (f"{prefix}.Union", True)
    assert [(field.name, field.schema.optional) for field in choice.fields] == [
        ("int", True),
        ("string", True),
        ("In", True),
    ]
    assert at == s.INT64


def test_enhanced_support_gives_the_same_avro_schema_back() -> None:
    enhanced = AvroSettings(enhanced=True)
    schema = connect_schema(DOCUMENTED, enhanced)
    assert [field.name for field in schema.fields[3].schema.fields] == ["int", "string", "com.example.In"]
    again = avro_schema(schema, enhanced)
    assert connect_schema(again, enhanced) == schema
    assert [field["name"] for field in again["fields"]] == [field["name"] for field in DOCUMENTED["fields"]]
    assert again["fields"][1]["type"]["symbols"] == ["A", "B"]
    assert again["fields"][2]["type"]["size"] == 4
    assert again["fields"][0]["default"] == 7
    assert again["doc"] == "a user"


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ("null", "Standalone null"),
        ({"type": "int", "connect.type": "int128"}, "int128"),
        ({"type": "string", "connect.parameters": {"a": 1}}, "connect.parameters"),
        ({"type": "bytes", "logicalType": "decimal"}, "scale must be specified"),
        ({"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "R"]}]}, "holds itself"),
        ({"type": "array", "items": "Nowhere"}, "no type Nowhere"),
    ],
)
def test_tree_without_connect_schema_raises_data_error(tree: Any, words: str) -> None:
    with pytest.raises(DataError, match=words):
        connect_schema(tree, PLAIN)


def test_defaults_of_every_kind_come_back() -> None:
    inner = SchemaBuilder.struct().name("In").field("x", s.INT32).build()
    defaults = {
        "bytes": SchemaBuilder(Type.BYTES).default(b"\x00\xff"),
        "list": SchemaBuilder.array(s.INT8).default([1, 2]),
        "map": SchemaBuilder.map(s.STRING, s.FLOAT64).default({"a": 1.5}),
        "struct": SchemaBuilder.struct().name("In").field("x", s.INT32).default(Struct(inner, {"x": 4})),
        "time": SchemaBuilder(Type.INT32, name=logical.TIME, version=1).default(logical.from_ms(logical.TIME, 5)),
    }
    schema = s.struct_of({name: builder.build() for name, builder in defaults.items()})
    assert connect_schema(avro_schema(schema, PLAIN), PLAIN) == schema


def test_no_schema_is_the_anything_record() -> None:
    assert avro_schema(None, PLAIN) is ANYTHING

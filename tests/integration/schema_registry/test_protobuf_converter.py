"""ProtobufConverter and a registry over real HTTP: bytes, indexes, well-known types, oneofs, enums, imports."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.json_columns import ARROW_TYPES
from spark_connect_rt.records.registry.proto_schema import message_file
from spark_connect_rt.records.registry.protobuf_converter import (
    ProtobufConverter,
    read_indexes,
    text_of_file,
    written_indexes,
)
from tests.integration.schema_registry.configured import configured
from tests.property.test_avro import PRIMITIVES, plain
from tests.support.schema_registry import SchemaRegistry

INNER = SchemaBuilder.struct().name("x.Inner").field("a", s.INT8).build()
KINDS = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def converter(registry: SchemaRegistry, is_key: bool = False, **more: str) -> ProtobufConverter:
    return configured(ProtobufConverter(), registry, is_key, **more)


def test_the_bytes_are_those_of_the_encoding_guide(registry: SchemaRegistry) -> None:
    """``a = 150`` is the guide's first example; before it stand magic byte, id, and one byte for the first message."""
    schema = SchemaBuilder.struct().name("Test1").field("a", s.INT32).build()
    protobuf_converter = converter(registry)
    data = protobuf_converter.from_connect_data("first", schema, Struct(schema, {"a": 150}))
    assert data is not None
    number = registry.shelf.subjects["first-value"][0]
    assert data == b"\x00" + number.to_bytes(4, "big") + b"\x00" + bytes.fromhex("089601")
    read = protobuf_converter.to_connect_data("first", data)
    assert read.value.get("a") == 150
    assert read.schema is not None
    assert (read.schema.name, read.schema.version) == ("Test1", 1)
    assert dict(read.schema.fields[0].schema.parameters) == {"io.confluent.connect.protobuf.Tag": "1"}


@pytest.mark.parametrize(
    ("indexes", "data"),
    [((0,), b"\x00"), ((1,), b"\x02\x02"), ((1, 300), b"\x04\x02\xd8\x04"), ((0, 2), b"\x04\x00\x04")],
)
def test_indexes_of_messages(indexes: tuple[int, ...], data: bytes) -> None:
    assert written_indexes(indexes) == data
    assert read_indexes(b"x" + data + b"rest", 1) == (indexes, 1 + len(data))


def whole_struct() -> tuple[Schema, Struct]:
    builder = SchemaBuilder.struct().name("x.Whole").field("i8", s.INT8).field("text", s.OPTIONAL_STRING)
    builder.field("decimal", logical.decimal_schema(2)).field("at", logical.timestamp_schema(True))
    builder.field("day", logical.date_schema(True)).field("time", logical.time_schema(True))
    builder.field("in", INNER).field("none", INNER.as_optional()).field("list", SchemaBuilder.array(INNER).build())
    builder.field("numbers", SchemaBuilder.array(s.INT64).build())
    builder.field("map", SchemaBuilder.map(s.INT32, s.STRING).build())
    schema = builder.field("inners", SchemaBuilder.map(s.STRING, INNER).build()).build()
    inner = Struct(INNER, {"a": 7})
    values = {
        "i8": -3,
        "decimal": Decimal("-1.23"),
        "at": dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=dt.UTC),
        "day": dt.date(2024, 2, 29),
        "time": dt.time(1, 2, 3, 4000),
        "in": inner,
        "list": [inner, inner],
        "numbers": [1, -1],
        "map": {1: "a"},
        "inners": {"k": inner},
    }
    return schema, Struct(schema, values)


@pytest.mark.parametrize("nullables", ["", "optional_for_nullables", "wrapper_for_nullables"])
def test_a_struct_of_everything_comes_back(registry: SchemaRegistry, nullables: str) -> None:
    protobuf_converter = converter(registry, **({nullables: "true"} if nullables else {}))
    schema, value = whole_struct()
    data = protobuf_converter.from_connect_data(f"w{nullables}", schema, value)
    read = protobuf_converter.to_connect_data(f"w{nullables}", data)
    assert read.schema is not None
    expected = plain(value)
    if not nullables:
        expected[1] = ""  # nothing says that it was null
    assert plain(read.value) == expected
    assert read.schema.fields[0].schema.type is s.Type.INT8
    again = protobuf_converter.from_connect_data(f"again{nullables}", read.schema, read.value)
    assert data is not None
    assert again is not None
    assert again[5:] == data[5:]


FLAT = s.struct_of({f"f{at}": schema.as_optional() for at, (schema, _) in enumerate(PRIMITIVES)})
flat_values = st.fixed_dictionaries({f"f{at}": st.none() | values for at, (_, values) in enumerate(PRIMITIVES)})


@settings(deadline=None, max_examples=60)
@given(flat_values)
def test_values_of_every_kind_come_back(registry: SchemaRegistry, value: dict[str, Any]) -> None:
    protobuf_converter = converter(registry, optional_for_nullables="true")
    read = protobuf_converter.to_connect_data(
        "flat", protobuf_converter.from_connect_data("flat", FLAT, Struct(FLAT, value))
    )
    assert read.value.to_dict() == value


PLAIN = [(schema, values) for schema, values in PRIMITIVES if schema.name is None]


@pytest.mark.parametrize("nullables", ["", "optional_for_nullables", "wrapper_for_nullables"])
def test_columns_are_what_records_are(registry: SchemaRegistry, nullables: str) -> None:
    protobuf_converter = converter(registry, **({nullables: "true"} if nullables else {}))
    names = [f"f{at}" for at in range(len(PLAIN))]
    required = s.struct_of({name: schema for name, (schema, _) in zip(names, PLAIN, strict=True)})
    optional = s.struct_of({name: schema.as_optional() for name, (schema, _) in zip(names, PLAIN, strict=True)})
    kinds = [ARROW_TYPES[schema.type] for schema, _ in PLAIN]
    rows = st.fixed_dictionaries({name: values for name, (_, values) in zip(names, PLAIN, strict=True)})
    gaps = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in zip(names, PLAIN, strict=True)})

    @settings(deadline=None, max_examples=15)
    @given(st.lists(rows, min_size=2, max_size=4), st.lists(gaps, min_size=2, max_size=4))
    def check(full: list[Any], with_gaps: list[Any]) -> None:
        for topic, schema, given_rows in (("required", required, full), ("optional", optional, with_gaps)):
            column = pa.array(given_rows, pa.struct(list(zip(names, kinds, strict=True))))[1:]
            made = protobuf_converter.column_from_connect_data(topic + nullables, schema, column)
            written = [
                protobuf_converter.from_connect_data(topic + nullables, schema, row) for row in column.to_pylist()
            ]
            if made is None:
                assert (topic, nullables) == ("optional", "wrapper_for_nullables")
                continue
            assert made.to_pylist() == written
            read = protobuf_converter.column_to_connect_data(topic + nullables, made)
            assert read is not None
            wanted = [protobuf_converter.to_connect_data(topic + nullables, data) for data in written]
            assert [read[0]] * len(wanted) == [each.schema for each in wanted]
            assert read[1].to_pylist() == [each.value.to_dict() for each in wanted]

    check()


def test_nested_or_broken_values_are_converted_by_records(registry: SchemaRegistry) -> None:
    protobuf_converter = converter(registry)
    schema, value = whole_struct()
    data = protobuf_converter.from_connect_data("whole", schema, value)
    assert protobuf_converter.column_to_connect_data("whole", pa.array([data])) is None
    assert protobuf_converter.column_from_connect_data("raw", s.STRING, pa.array(["a"])) is None
    assert protobuf_converter.column_from_connect_data("raw", None, pa.array([{"a": 1}])) is None
    flat = s.struct_of({"a": s.INT64})
    made = protobuf_converter.column_from_connect_data("flat64", flat, pa.array([{"a": 1}, {"a": 2}]))
    assert made is not None
    first = made[0].as_py()
    assert protobuf_converter.column_to_connect_data("flat64", pa.array([first])) is not None
    for other in (first[:5], first + b"\x07", data, None):
        assert protobuf_converter.column_to_connect_data("flat64", pa.array([first, other])) is None


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=20))
def test_any_bytes_give_a_value_or_a_data_error(registry: SchemaRegistry, payload: bytes) -> None:
    protobuf_converter = converter(registry)
    schema, value = whole_struct()
    data = protobuf_converter.from_connect_data("any", schema, value)
    assert data is not None
    with contextlib.suppress(DataError):
        protobuf_converter.to_connect_data("any", data[:5] + payload)


@pytest.mark.parametrize(
    ("schema", "value", "payload"),
    [
        (s.STRING, "a", b"\x02\x0e\x0a\x01a"),
        (s.FLOAT64, 1.0, b"\x00\x09\x00\x00\x00\x00\x00\x00\xf0\x3f"),
        (s.BOOLEAN, True, b"\x02\x0c\x08\x01"),
    ],
)
def test_primitive_values_are_written_as_wrappers(
    registry: SchemaRegistry, schema: Schema, value: Any, payload: bytes
) -> None:
    protobuf_converter = converter(registry)
    data = protobuf_converter.from_connect_data("raw", schema, value)
    assert data is not None
    assert data[5:] == payload
    assert protobuf_converter.to_connect_data("raw", data).value == value


def users_file() -> Any:
    """A file as other producers register it: two messages, an import, an enum, a oneof, a nested message."""
    proto = descriptor_pb2.FileDescriptorProto(name="users.proto", package="u", syntax="proto3")
    proto.dependency.append("other.proto")
    proto.message_type.add(name="First")
    user = proto.message_type.add(name="User")
    kind = user.enum_type.add(name="Kind")
    kind.value.add(name="A", number=0)
    kind.value.add(name="B", number=5)
    user.oneof_decl.add(name="contact")
    user.field.add(name="kind", number=1, type=KINDS.TYPE_ENUM, type_name=".u.User.Kind", label=1)
    user.field.add(name="mail", number=2, type=KINDS.TYPE_STRING, label=1, oneof_index=0)
    user.field.add(name="phone", number=3, type=KINDS.TYPE_UINT32, label=1, oneof_index=0)
    user.field.add(name="place", number=9, type=KINDS.TYPE_MESSAGE, type_name=".o.Place", label=1)
    return proto


def test_messages_of_others_with_enum_oneof_import_and_second_place(registry: SchemaRegistry) -> None:
    other = descriptor_pb2.FileDescriptorProto(name="o.proto", package="o", syntax="proto3")
    other.message_type.add(name="Place").field.add(name="city", number=1, type=KINDS.TYPE_STRING, label=1)
    registry.shelf.register("places", {"schema": text_of_file(other), "schemaType": "PROTOBUF"})
    reference = {"name": "other.proto", "subject": "places", "version": 1}
    given_file = {"schema": text_of_file(users_file()), "schemaType": "PROTOBUF", "references": [reference]}
    _, answer = registry.shelf.register("users-value", given_file)
    frame = b"\x00" + answer["id"].to_bytes(4, "big") + written_indexes((1,))
    payload = b"\x08\x05\x18\x07\x4a\x03\x0a\x01c"
    protobuf_converter = converter(registry)
    read = protobuf_converter.to_connect_data("users", frame + payload)
    assert read.schema is not None
    assert [field.name for field in read.schema.fields] == ["contact_0", "kind", "place"]
    union = read.value.get("contact_0")
    assert (union.schema.name, union.values()) == ("io.confluent.connect.protobuf.Union.contact", [None, 7])
    assert (read.value.get("kind"), read.value.get("place").to_dict()) == ("B", {"city": "c"})
    assert converter(registry, int_for_enums="true").to_connect_data("users", frame + payload).value.get("kind") == 5
    again = protobuf_converter.from_connect_data("copied", read.schema, read.value)
    assert again is not None
    assert plain(protobuf_converter.to_connect_data("copied", again).value) == plain(read.value)
    with pytest.raises(DataError, match=r"no message at \[4\]"):
        protobuf_converter.to_connect_data("users", frame[:5] + written_indexes((4,)))


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (SchemaBuilder.array(s.INT32).build(), "root"),
        (s.struct_of({"a": SchemaBuilder.array(SchemaBuilder.array(s.INT32).build()).build()}), "array"),
        (s.struct_of({"a": SchemaBuilder.map(s.STRING, SchemaBuilder.array(s.INT32).build()).build()}), "map"),
    ],
)
def test_schemas_without_a_protobuf_form(registry: SchemaRegistry, schema: Schema, words: str) -> None:
    with pytest.raises(DataError, match=words):
        converter(registry).from_connect_data("none", schema, [] if schema.type is s.Type.ARRAY else Struct(schema))


def test_a_schema_that_is_text_and_one_that_holds_itself(registry: SchemaRegistry) -> None:
    _, answer = registry.shelf.register("text-value", {"schema": 'syntax = "proto3";', "schemaType": "PROTOBUF"})
    with pytest.raises(DataError, match="serialized"):
        converter(registry).to_connect_data("text", b"\x00" + answer["id"].to_bytes(4, "big") + b"\x00")
    proto = message_file(INNER, converter(registry)._proto)
    proto.message_type[0].field.add(name="me", number=2, type=KINDS.TYPE_MESSAGE, type_name=".x.Inner", label=1)
    _, answer = registry.shelf.register("self-value", {"schema": text_of_file(proto), "schemaType": "PROTOBUF"})
    with pytest.raises(DataError, match="holds itself"):
        converter(registry).to_connect_data("self", b"\x00" + answer["id"].to_bytes(4, "big") + b"\x00")

"""What our converters write confluent-kafka's serializers read, and the reverse, over generated schemas and values."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, message_factory
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.records.registry.avro_converter import AvroConverter
from spark_connect_rt.records.registry.json_schema_converter import JsonSchemaConverter
from spark_connect_rt.records.registry.protobuf_converter import ProtobufConverter, file_of_text, linked, text_of_file
from tests.integration.schema_registry.configured import configured
from tests.property.test_avro import PRIMITIVES, plain, schemas_and_values, struct
from tests.support.schema_registry import SchemaRegistry

NUMBERS = itertools.count()
examples = settings(deadline=None, max_examples=60)
structs = schemas_and_values().filter(lambda pair: pair[0].type is Type.STRUCT and not pair[0].optional)
LOOKED_UP = {"auto.register.schemas": False}
PRESENT = {"use.deprecated.format": False}
KINDS = descriptor_pb2.FieldDescriptorProto


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


@pytest.fixture(scope="module")
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": registry.url})


def context() -> SerializationContext:
    """Return the context of a topic of its own."""
    return SerializationContext(f"t{next(NUMBERS)}", MessageField.VALUE)


@examples
@given(st.data())
def test_avro(registry: SchemaRegistry, client: SchemaRegistryClient, data: st.DataObject) -> None:
    schema, values = data.draw(structs)
    value, place = data.draw(values), context()
    converter = configured(AvroConverter(), registry)
    written = converter.from_connect_data(place.topic, schema, value)
    datum = AvroDeserializer(client)(written, place)
    again = AvroSerializer(client, registry.text_of(f"{place.topic}-value"), conf=LOOKED_UP)(datum, place)
    assert again == written
    assert plain(converter.to_connect_data(place.topic, again).value) == plain(value)


@examples
@pytest.mark.parametrize("decimal_format", ["BASE64", "NUMERIC"])
@given(st.data())
def test_json_schema(
    registry: SchemaRegistry, client: SchemaRegistryClient, decimal_format: str, data: st.DataObject
) -> None:
    """Theirs holds each value against the schema. JSON has no bytes that are equal: values are compared.

    Not against the schema where BASE64 decimals or infinite numbers are in it: Confluent's converter, and so ours,
    declares them as numbers and writes text. Theirs reads NUMERIC decimals as floats, which have fewer digits.
    """
    schema, values = data.draw(structs)
    value, place = data.draw(values), context()
    converter = configured(JsonSchemaConverter(), registry, decimal_format=decimal_format)
    written = converter.from_connect_data(place.topic, schema, value)
    assert written is not None
    text = registry.text_of(f"{place.topic}-value")
    fits = (decimal_format == "NUMERIC" or not has_decimals(schema)) and b'Infinity"' not in written
    tree = JSONDeserializer(text, schema_registry_client=client, conf={"validate": fits})(written, place)
    assert tree == json.loads(written[5:])
    again = JSONSerializer(text, client, conf={**LOOKED_UP, "validate": False})(tree, place)
    assert again[:5] == written[:5]
    assert json.loads(again[5:]) == json.loads(written[5:])
    read, expected = (
        converter.to_connect_data(place.topic, again),
        converter.to_connect_data(place.topic, written),
    )
    rounded = floats if decimal_format == "NUMERIC" else plain
    assert (read.schema, rounded(read.value)) == (expected.schema, rounded(expected.value))
    assert plain(expected.value) == plain(value)


def has_decimals(schema: Schema | None) -> bool:
    """Tell whether the schema is of decimals or has one in it."""
    if schema is None:
        return False
    inner = [schema.key_schema, schema.value_schema, *(field.schema for field in schema.fields)]
    return schema.name == logical.DECIMAL or any(map(has_decimals, inner))


def floats(value: Any) -> Any:
    """Return a value as ``plain``, decimals as floats."""
    value = plain(value)
    if isinstance(value, list):
        return list(map(floats, value))
    if isinstance(value, dict):
        return {key: floats(part) for key, part in value.items()}
    return float(value) if isinstance(value, Decimal) else value


@st.composite
def messages(draw: st.DrawFn, depth: int = 1) -> tuple[Schema, st.SearchStrategy[Any]]:
    """Draw a struct that Protobuf has a form for: no lists of lists, nothing that may be absent in them."""
    fields: dict[str, Schema] = {}
    values: list[st.SearchStrategy[Any]] = []
    for at in range(draw(st.integers(1, 4))):
        kind = draw(st.integers(0, 4 if depth else 3))
        of, some = draw(messages(depth - 1)) if kind == 4 else draw(st.sampled_from(PRIMITIVES))
        if kind == 1:
            of, some = SchemaBuilder.array(of).build(), st.lists(some, max_size=3)
        elif kind == 2:
            of, some = SchemaBuilder.map(s.STRING, of).build(), st.dictionaries(st.sampled_from("ab"), some)
        elif kind == 3:
            of, some = of.as_optional(), st.none() | some
        fields[f"f{at}"] = of
        values.append(some)
    name = f"x.Message{next(NUMBERS)}"
    schema = Schema(Type.STRUCT, fields=s.struct_of(fields).fields, name=name)
    return schema, st.tuples(*values).map(lambda row: struct(schema, row))


@examples
@given(st.data())
def test_protobuf(registry: SchemaRegistry, client: SchemaRegistryClient, data: st.DataObject) -> None:
    """Values are compared: nothing says in which order Protobuf writes a map. Theirs has references, ours none."""
    schema, values = data.draw(messages())
    value, place = data.draw(values), context()
    converter = configured(ProtobufConverter(), registry, optional_for_nullables="true")
    written = converter.from_connect_data(place.topic, schema, value)
    kind = class_of(registry.text_of(f"{place.topic}-value"), 0)
    message = ProtobufDeserializer(kind, PRESENT, client)(written, place)
    again = ProtobufSerializer(kind, client, PRESENT)(message, place)
    assert written is not None
    assert (again[5:6], len(again)) == (written[5:6], len(written))
    assert plain(converter.to_connect_data(place.topic, again).value) == plain(value)


@pytest.mark.parametrize(("path", "indexes"), [((0,), b"\x00"), ((1,), b"\x02\x02"), ((1, 1), b"\x04\x02\x02")])
def test_protobuf_messages_elsewhere_in_a_file(
    registry: SchemaRegistry, client: SchemaRegistryClient, path: tuple[int, ...], indexes: bytes
) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="several.proto", package="x", syntax="proto3")
    for name in ("First", "Second"):
        message = file.message_type.add(name=name)
        for inner in (message, message.nested_type.add(name="A"), message.nested_type.add(name="B")):
            inner.field.add(name="n", number=1, type=KINDS.TYPE_INT32, label=KINDS.LABEL_OPTIONAL)
    kind, place = class_of(text_of_file(file), *path), context()
    written = ProtobufSerializer(kind, client, PRESENT)(kind(n=7), place)
    assert written[5:] == indexes + b"\x08\x07"
    assert configured(ProtobufConverter(), registry).to_connect_data(place.topic, written).value.to_dict() == {"n": 7}


def class_of(text: str, *path: int) -> Any:
    """Return the class of a message in a registered file."""
    return message_factory.GetMessageClass(linked(file_of_text(text), {}).message(path))

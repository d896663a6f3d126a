"""Unions and choices: the branch that was written is the branch that is read, and writing it again gives the bytes."""

from __future__ import annotations

import io
import itertools
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.json_values import ONE_OF, JsonSettings, from_tree, to_tree
from spark_connect_rt.records.registry.avro_connect_schema import connect_schema
from spark_connect_rt.records.registry.avro_schema import AvroSettings
from spark_connect_rt.records.registry.avro_values import (
    AvroReadPlan,
    datum_writer,
    parsed,
    read_datum,
    value_reader,
    write_datum,
)
from spark_connect_rt.records.registry.json_schema_converter import DraftSettings, connect_schema_of
from tests.property.test_avro import plain, slow_machine

AVRO_BRANCHES: dict[str, tuple[Any, Any]] = {  # member -> its schema, a value of it as fastavro takes it
    "boolean": ("boolean", True),
    "int": ("int", 7),
    "long": ("long", 7),
    "float": ("float", 7.0),
    "double": ("double", 7.0),
    "bytes": ("bytes", b"FOUR"),
    "string": ("string", "FOUR"),
    "array": ({"type": "array", "items": ["null", "string", "long"]}, ["FOUR", 4, None]),
    "map": ({"type": "map", "values": "string"}, {"a": "FOUR"}),
    "Rec": ({"type": "record", "name": "Rec", "fields": [{"name": "a", "type": "string"}]}, {"a": "FOUR"}),
    "Other": ({"type": "record", "name": "x.Other", "fields": [{"name": "a", "type": "string"}]}, {"a": "FOUR"}),
    "Enum": ({"type": "enum", "name": "Enum", "symbols": ["ONE", "FOUR"]}, "FOUR"),
    "fixed": ({"type": "fixed", "name": "Fix", "size": 4}, b"FOUR"),
}
LAYOUTS = {  # where the union is -> the schema with it, a value with it
    "whole": (lambda union: union, lambda datum: datum),
    "field": (
        lambda union: {"type": "record", "name": "a.b.Row", "fields": [{"name": "u", "type": union}]},
        lambda datum: {"u": datum},
    ),
    "items": (lambda union: {"type": "array", "items": union}, lambda datum: [datum, datum]),
    "values": (lambda union: {"type": "map", "values": union}, lambda datum: {"k": datum}),
}


@st.composite
def avro_unions(draw: st.DrawFn) -> tuple[list[Any], list[str | None]]:
    names: list[str | None] = draw(
        st.lists(st.sampled_from([None, *AVRO_BRANCHES]), min_size=2, max_size=5, unique=True)
    )
    members = ["null" if name is None else AVRO_BRANCHES[name][0] for name in names]
    return members, names


def written(union: list[Any], names: list[str | None], at: int) -> bytes:
    """Return the payload of one branch: its number, then the value as its own schema writes it."""
    out = io.BytesIO()
    write_datum(out, parsed("int"), at)
    name = names[at]
    if name is not None:
        write_datum(out, parsed(union[at]), AVRO_BRANCHES[name][1])
    return out.getvalue()


def payload_of(layout: str, branch: bytes) -> bytes:
    """Return the payload of a value that holds the branch where the layout has it."""
    return {
        "whole": branch,
        "field": branch,
        "items": b"\x04" + branch + branch + b"\x00",
        "values": b"\x02\x02k" + branch + b"\x00",
    }[layout]


@slow_machine
@given(avro_unions(), st.sampled_from(list(LAYOUTS)), st.booleans())
def test_each_branch_of_an_avro_union_is_read_as_itself_and_written_back(
    union: tuple[list[Any], list[str | None]], layout: str, enhanced: bool
) -> None:
    members, names = union
    settings = AvroSettings(enhanced=enhanced)
    tree = LAYOUTS[layout][0](members)
    schema = connect_schema(tree, settings)
    convert, wire = value_reader(schema, settings), parsed(tree, marked=True)
    write = datum_writer(schema, tree, settings)
    others = [name for name in names if name is not None]
    for at, name in enumerate(names):
        payload = payload_of(layout, written(members, names, at))
        datum = read_datum(payload, 0, AvroReadPlan(schema, wire, b"", convert, False))
        value = datum if convert is None or datum is None else convert(datum)
        if value is None:
            assert (layout, name) == ("whole", None)
            continue
        if len(others) > 1 and name is not None:
            found = union_in(layout, value)
            assert [part is not None for part in found.values()] == [other == name for other in others]
        out = io.BytesIO()
        write_datum(out, parsed(tree), write(value))
        assert out.getvalue() == payload


def union_in(layout: str, value: Any) -> Struct:
    inside = {"whole": lambda: value, "field": lambda: value.get("u"), "items": lambda: value[0]}
    found = inside.get(layout, lambda: value["k"])()
    assert isinstance(found, Struct)
    return found


@pytest.mark.parametrize(
    ("union", "enhanced"),
    [
        (
            [
                {"type": "record", "name": "a.R", "fields": []},
                {"type": "record", "name": "b.R", "fields": []},
            ],
            False,
        ),
        ([{"type": "fixed", "name": "F", "size": 1}, {"type": "fixed", "name": "G", "size": 2}], True),
    ],
)
def test_union_members_that_connect_cannot_distinguish_are_refused_with_their_place(union: Any, enhanced: bool) -> None:
    inner = {"type": "record", "name": "In", "fields": [{"name": "choice", "type": union}]}
    tree = {"type": "record", "name": "Out", "fields": [{"name": "row", "type": inner}]}
    with pytest.raises(DataError, match=r"^field row: field choice: a union has two members that are called"):
        connect_schema(tree, AvroSettings(enhanced=enhanced))


def test_an_avro_union_read_with_a_later_schema_keeps_its_branch() -> None:
    earlier = ["null", "string", AVRO_BRANCHES["Enum"][0], AVRO_BRANCHES["Rec"][0]]
    later = ["string", AVRO_BRANCHES["Rec"][0], AVRO_BRANCHES["Enum"][0], "null"]
    schema = connect_schema(later, AvroSettings())
    convert = value_reader(schema, AvroSettings())
    assert convert is not None
    plan = AvroReadPlan(schema, parsed(earlier), b"", convert, False, (parsed(later), parsed(later, marked=True)))
    names = [None, "string", "Enum", "Rec"]
    for at, field in ((1, "string"), (2, "Enum"), (3, "Rec")):
        value = convert(read_datum(written(earlier, names, at), 0, plan))
        assert [member.name for member in schema.fields if value.get(member.name) is not None] == [field]


VALUES = JsonSettings(union_name=ONE_OF, map_entries=True)
DRAFT = DraftSettings(VALUES)


def json_object(*names: str, **members: Any) -> dict[str, Any]:
    properties = {name: {"oneOf": [{"type": "null"}, {"type": "string"}]} for name in names}
    return {"type": "object", "properties": properties | members}


JSON_CHOICES: dict[str, tuple[Any, Any]] = {  # distinct by their values
    "boolean": ({"type": "boolean"}, False),
    "integer": ({"type": "integer"}, 5),
    "number": ({"type": "number"}, 1.5),
    "string": ({"type": "string"}, "other"),
    "enum": ({"enum": ["A", "B"]}, "A"),
    "array": ({"type": "array", "items": {"type": "integer"}}, [1, 2]),
    "texts": ({"type": "array", "items": {"type": "string"}}, ["a"]),
    "one": (json_object("a"), {"a": "x"}),
    "two": (json_object("a", "b"), {"a": "x", "b": "y"}),
    "three": (json_object("a", "b", "c"), {"a": "x", "b": "y", "c": "z"}),
    "deep": (json_object("a", d=json_object("e", "f")), {"a": "x", "d": {"e": "y", "f": "z"}}),
}


@slow_machine
@given(
    st.lists(st.sampled_from(list(JSON_CHOICES)), min_size=2, max_size=6, unique=True),
    st.sampled_from(["oneOf", "anyOf"]),
    st.booleans(),
)
def test_each_choice_of_a_json_schema_is_read_without_loss_and_written_back(
    names: list[str], word: str, nullable: bool
) -> None:
    members = [JSON_CHOICES[name][0] for name in names]
    tree = {word: [{"type": "null"}, *members] if nullable else members}
    schema = connect_schema_of({"type": "object", "properties": {"u": tree}}, DRAFT)
    for name in names:
        row = {"u": JSON_CHOICES[name][1]}
        again = to_tree(schema, from_tree(schema, row, VALUES), VALUES)
        assert orjson.dumps(without_null(again)) == orjson.dumps(row)


def without_null(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: without_null(part) for name, part in tree.items() if part is not None}
    return tree


def test_an_enum_of_a_choice_takes_only_its_own_symbols() -> None:
    schema = connect_schema_of({"oneOf": [{"enum": ["A", "B"]}, {"type": "string"}]}, DRAFT)
    assert [plain(from_tree(schema, text, VALUES)) for text in ("A", "C")] == [["A", None], [None, "C"]]


def test_a_refused_json_schema_names_its_place() -> None:
    tree = json_object("a", b=json_object(c={"oneOf": [{"type": "string"}, {"type": "cube"}]}))
    with pytest.raises(DataError, match=r"^property b: property c: choice 2: a JSON Schema of type 'cube'"):
        connect_schema_of(tree, DRAFT)


PROTO_MEMBERS = ("a", "b", "c", "d")
PROTO_SCALARS = {"int32": (0, 5), "int64": (0, 5), "string": ("", "x"), "bytes": (b"", b"x"), "bool": (False, True)}


@slow_machine
@given(st.lists(st.sampled_from([*PROTO_SCALARS, "message"]), min_size=1, max_size=4), st.integers(1, 2))
def test_each_member_of_a_protobuf_oneof_is_read_and_written_back(kinds: list[str], oneofs: int) -> None:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    from spark_connect_rt.records.registry.proto_schema import ProtoSettings
    from spark_connect_rt.records.registry.proto_schema import connect_schema_of as schema_of_message
    from spark_connect_rt.records.registry.protobuf_converter import fill_message, value_of

    field = descriptor_pb2.FieldDescriptorProto
    proto = descriptor_pb2.FileDescriptorProto(name="t.proto", syntax="proto3", package="t")
    proto.message_type.add(name="Inner").field.add(name="x", number=1, type=field.TYPE_INT32, label=1)
    row = proto.message_type.add(name="Row")
    for at in range(min(oneofs, len(kinds))):
        row.oneof_decl.add(name=f"choice{at}")
    for at, kind in enumerate(kinds):
        made = row.field.add(name=PROTO_MEMBERS[at], number=at + 1, label=1, oneof_index=at % len(row.oneof_decl))
        made.type = field.TYPE_MESSAGE if kind == "message" else getattr(field, f"TYPE_{kind.upper()}")
        if kind == "message":
            made.type_name = ".t.Inner"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    descriptor = pool.FindMessageTypeByName("t.Row")
    message_class = message_factory.GetMessageClass(descriptor)
    for settings in (ProtoSettings(), ProtoSettings(enhanced=True, wrapper_for_nullables=True)):
        schema = schema_of_message(descriptor, settings)
        for (at, kind), which in itertools.product(enumerate(kinds), (0, 1)):
            message = message_class()
            if kind == "message":
                getattr(message, PROTO_MEMBERS[at]).x = which
                getattr(message, PROTO_MEMBERS[at]).SetInParent()
            else:
                setattr(message, PROTO_MEMBERS[at], PROTO_SCALARS[kind][which])
            again = message_class()
            fill_message(again, value_of(message, schema), settings)
            assert again.SerializeToString() == message.SerializeToString()
            assert again.HasField(PROTO_MEMBERS[at])

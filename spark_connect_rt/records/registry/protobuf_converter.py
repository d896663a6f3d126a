"""Protobuf with a Schema Registry (``io.confluent.connect.protobuf.ProtobufConverter``)."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema, SchemaAndValue, Type
from spark_connect_rt.api.data.struct import Struct, check_value
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.records.registry.avro_schema import scrubbed
from spark_connect_rt.records.registry.proto_schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    UNION,
    WRAPPERS,
    ProtoSettings,
    connect_schema_of,
    message_file,
    real_oneof,
    scalar_of,
    union_field,
    wrapper_of,
)
from spark_connect_rt.records.registry.registry_client import StoredSchema, library
from spark_connect_rt.records.registry.registry_converter import LENGTH, RegistryConverter, framed, schema_id_of
from spark_connect_rt.records.registry.registry_settings import BASE, switch

if TYPE_CHECKING:
    import pyarrow as pa


# Connect values <-> Protobuf messages, field by field along the message's own descriptor.


_LOGICAL = (DECIMAL, DATE, TIME, TIMESTAMP)


def fill_message(message: Any, struct: Struct, settings: ProtoSettings) -> None:
    """Set a message's fields of a struct's. Raises DataError: a value does not fit."""
    fields = message.DESCRIPTOR.fields_by_name
    for member, value in zip(struct.schema.fields, struct.values(), strict=True):
        if value is None:
            continue
        if (member.schema.name or "").startswith(UNION) and isinstance(value, Struct):
            fill_message(message, value, settings)
            continue
        name = scrubbed(member.name) if settings.scrub_names else member.name
        if name not in fields:
            continue  # the latest schema may have no such field
        try:
            _set(message, fields[name], member.schema, value, settings)
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
            raise DataError(f"field {member.name}: {error}") from error


def _set(message: Any, field: Any, schema: Schema, value: Any, settings: ProtoSettings) -> None:
    target = getattr(message, field.name)
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        values = field.message_type.fields_by_name["value"]
        for key, part in value.items():
            if values.message_type is None:
                target[key] = _scalar(values, part)
            else:
                _put(target[key], schema.value_schema, part, settings)
    elif schema.type is Type.ARRAY and schema.value_schema is not None:
        if field.message_type is None:
            target.extend(_scalar(field, part) for part in value)
        else:
            for part in value:
                _put(target.add(), schema.value_schema, part, settings)
    elif field.message_type is None:
        setattr(message, field.name, _scalar(field, value))
    else:
        target.SetInParent()
        _put(target, schema, value, settings)


def _scalar(field: Any, value: Any) -> Any:
    if value is None:
        raise DataError("null has no Protobuf form in an array or map")
    if field.enum_type is not None and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _put(message: Any, schema: Schema, value: Any, settings: ProtoSettings) -> None:
    """Put a value into a message: well-known ones have their own form."""
    kind = message.DESCRIPTOR.full_name
    if value is None:
        raise DataError("null has no Protobuf form in an array or map")
    if kind == DECIMAL:
        message.value, message.scale = logical.decimal_to_bytes(schema, value), logical.scale_of(schema)
    elif kind == DATE:
        message.year, message.month, message.day = value.year, value.month, value.day
    elif kind == TIME:
        message.hours, message.minutes, message.seconds = value.hour, value.minute, value.second
        message.nanos = value.microsecond // 1000 * 1_000_000
    elif kind == TIMESTAMP:
        message.seconds, ms = divmod(logical.ms_of(value), 1000)
        message.nanos = ms * 1_000_000
    elif message.DESCRIPTOR.file.name == WRAPPERS:
        message.value = value
    else:
        if isinstance(value, Mapping):
            value = Struct.from_mapping(schema, value)
        fill_message(message, value, settings)


def value_of(message: Any, schema: Schema) -> Any:
    """Return the Connect value of a message. Raises DataError: outside of the range of a logical type."""
    kind = message.DESCRIPTOR.full_name
    try:
        if kind in _LOGICAL and schema.type is not Type.STRUCT:
            return _logical_value(kind, message, schema)
    except (OverflowError, ValueError) as error:
        raise DataError(f"{kind} outside of what Connect holds: {error}") from error
    if message.DESCRIPTOR.file.name == WRAPPERS and schema.type is not Type.STRUCT:
        return message.value
    return _struct_of(message, schema)


def _logical_value(kind: str, message: Any, schema: Schema) -> Any:
    if kind == DECIMAL:
        return logical.decimal_from_bytes(schema, message.value)
    if kind == DATE:
        return dt.date(message.year, message.month, message.day)
    if kind == TIME:
        return dt.time(message.hours, message.minutes, message.seconds, message.nanos // 1_000_000 * 1000)
    return logical.from_ms(logical.TIMESTAMP, message.seconds * 1000 + message.nanos // 1_000_000)


def _struct_of(message: Any, schema: Schema) -> Struct:
    values: list[Any] = [None] * len(schema.fields)
    for part in message.DESCRIPTOR.fields:
        oneof = real_oneof(part)
        if part.has_presence and not message.HasField(part.name):
            continue
        if oneof is None:
            member = schema.field(part.name)
            if member is not None:
                values[member.index] = _get(message, part, member.schema)
            continue
        union = schema.field(union_field(oneof))
        chosen = None if union is None else union.schema.field(part.name)
        if union is not None and chosen is not None:
            struct = Struct(union.schema)
            values[union.index] = struct.put(part.name, _get(message, part, chosen.schema))
    return Struct.of_checked(schema, values)


def _get(message: Any, field: Any, schema: Schema) -> Any:
    value = getattr(message, field.name)
    if schema.type is Type.MAP and schema.value_schema is not None:
        of = field.message_type.fields_by_name["value"]
        return {key: _one(value[key], of, schema.value_schema) for key in value}
    if field.is_repeated and schema.value_schema is not None:
        return [_one(part, field, schema.value_schema) for part in value]
    return _one(value, field, schema)


def _one(value: Any, field: Any, schema: Schema) -> Any:
    if field.message_type is not None:
        return value_of(value, schema)
    if field.enum_type is not None and schema.type is Type.STRING:
        known = field.enum_type.values_by_number.get(value)
        return str(value) if known is None else known.name
    return value


# Protobuf schemas at the edge: file descriptors as the registry keeps them, message classes, and message indexes.


KNOWN_FILES = (  # the files that users' schemas may import, by their names in these libraries
    "google.protobuf.timestamp_pb2",
    "google.protobuf.wrappers_pb2",
    "google.protobuf.duration_pb2",
    "google.protobuf.struct_pb2",
    "google.protobuf.any_pb2",
    "google.protobuf.empty_pb2",
    "google.protobuf.field_mask_pb2",
    "google.type.date_pb2",
    "google.type.timeofday_pb2",
    "confluent_kafka.schema_registry.confluent.meta_pb2",
    "confluent_kafka.schema_registry.confluent.types.decimal_pb2",
)


@dataclass(frozen=True, slots=True)
class ProtoFile:
    """One file of messages, with everything it imports in a separate pool."""

    descriptor: Any
    pool: Any

    def message(self, indexes: Sequence[int]) -> Any:
        """Return the message at a path of positions. Raises DataError: there is none."""
        try:
            messages = list(self.descriptor.message_types_by_name.values())
            found = messages[indexes[0]]
            for at in indexes[1:]:
                found = found.nested_types[at]
        except IndexError as error:
            raise DataError(f"the schema has no message at {list(indexes)}") from error
        return found


@dataclass
class _Files:
    pool: Any
    others: Mapping[str, StoredSchema]
    added: set[str] = field(default_factory=set)

    def add(self, proto: Any) -> None:
        for name in proto.dependency:
            if name not in self.added:
                self.add(self._imported(name))
        if proto.name not in self.added:
            self.added.add(proto.name)
            self.pool.Add(proto)

    def _imported(self, name: str) -> Any:
        if name in self.others:
            proto = file_of_text(self.others[name].text)
            proto.name = name
            return proto
        proto = library("google.protobuf.descriptor_pb2").FileDescriptorProto()
        try:
            library("google.protobuf.descriptor_pool").Default().FindFileByName(name).CopyToProto(proto)
        except KeyError as error:
            raise DataError(f"the schema imports {name}, which is not available") from error
        return proto


def file_of_text(text: str) -> Any:
    """Return the FileDescriptorProto that the registry gives in base64. Raises DataError: it is something else."""
    proto = library("google.protobuf.descriptor_pb2").FileDescriptorProto()
    try:
        proto.ParseFromString(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, library("google.protobuf.message").DecodeError) as error:
        raise DataError("the registry does not give Protobuf schemas in their serialized form") from error
    return proto


def text_of_file(proto: Any) -> str:
    """Return the form in which a file is registered."""
    return base64.b64encode(proto.SerializeToString(deterministic=True)).decode()


def linked(proto: Any, others: Mapping[str, StoredSchema]) -> ProtoFile:
    """Return a file with its imports. Raises DataError: one is missing, or it contradicts itself."""
    for module in KNOWN_FILES:
        library(module)
    pool = library("google.protobuf.descriptor_pool").DescriptorPool()
    proto.name = proto.name or "connect.proto"
    try:
        _Files(pool, others).add(proto)
        return ProtoFile(pool.FindFileByName(proto.name), pool)
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"not a valid Protobuf schema: {error}") from error


def written_indexes(indexes: Sequence[int]) -> bytes:
    """Return a message's path as written before the payload. The first message of a file is one zero byte."""
    if list(indexes) == [0]:
        return b"\x00"
    return b"".join(map(_varint, [len(indexes), *indexes]))


def read_indexes(data: bytes, start: int) -> tuple[tuple[int, ...], int]:
    """Return a message's path, and where the payload begins. Raises DataError: it is truncated."""
    count, at = _read_varint(data, start)
    if count == 0:
        return (0,), at
    indexes = []
    for _ in range(count):
        index, at = _read_varint(data, at)
        indexes.append(index)
    return tuple(indexes), at


def _varint(number: int) -> bytes:
    rest, out = number << 1, bytearray()  # zigzag of a number that is never negative
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number, shift = 0, 0
    while at < len(data) and shift < 35:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            if number & 1:
                break
            return number >> 1, at
    raise DataError("the message's index cannot be read")


_OWN = ConfigDef(
    [
        switch("enhanced.protobuf.schema.support", "Whether to name messages and enums by their full names."),
        switch(
            "optional.for.nullables",
            "Whether fields that may be null are optional. If not, null becomes the type's zero.",
        ),
        switch("wrapper.for.nullables", "Whether fields that may be null are wrapper messages."),
        switch("wrapper.for.raw.primitives", "Whether a value that is not a struct becomes a wrapper message.", True),
        switch("scrub.invalid.names", "Whether to replace characters in names that Protobuf does not allow."),
        switch("int.for.enums", "Whether to read enums as their numbers."),
    ]
)
CONFIG = BASE + _OWN


@dataclass(frozen=True, slots=True)
class ProtobufWriting:
    """How values of one schema are written."""

    frame: bytes  # with the message's indexes
    schema: Schema
    message: type[Any]


@dataclass(frozen=True, slots=True)
class ProtobufReading:
    """How payloads of one id are read; a file has several messages."""

    file: ProtoFile
    version: int | None
    messages: dict[tuple[int, ...], tuple[type[Any], Schema]] = field(default_factory=dict)


class ProtobufConverter(RegistryConverter[ProtobufWriting, ProtobufReading]):
    """Writes and reads Protobuf messages whose files a Schema Registry keeps."""

    schema_type = "PROTOBUF"

    def config_def(self) -> ConfigDef:
        """Return the declarations of this converter's settings."""
        return CONFIG

    def take_settings(self, values: Mapping[str, Any]) -> None:
        """Take the settings that only Protobuf has."""
        self._proto = ProtoSettings(
            enhanced=values["enhanced.protobuf.schema.support"],
            optional_for_nullables=values["optional.for.nullables"],
            wrapper_for_nullables=values["wrapper.for.nullables"],
            raw_wrappers=values["wrapper.for.raw.primitives"],
            scrub_names=values["scrub.invalid.names"],
            int_for_enums=values["int.for.enums"],
        )

    def plan_writing(self, topic: str, schema: Schema | None) -> ProtobufWriting:
        """Return how values of a schema are written."""
        if schema is None or schema.type in (Type.ARRAY, Type.MAP):
            raise DataError("Unsupported root schema: Protobuf needs a struct or a plain value with a schema")
        if schema.type is Type.STRUCT:
            proto, name = message_file(schema, self._proto), None
        else:
            proto = library("google.protobuf.descriptor_pb2").FileDescriptorProto()
            library("google.protobuf.wrappers_pb2").DESCRIPTOR.CopyToProto(proto)
            name = wrapper_of(scalar_of(schema)).rpartition(".")[2]
        own = linked(proto, {})
        messages = list(own.descriptor.message_types_by_name)
        indexes = (0 if name is None else messages.index(name),)
        record = own.message(indexes).full_name
        stored = self.registry.id_for(self.subject(topic, record), StoredSchema(text_of_file(proto)))
        used = own
        if stored.version is not None:  # the latest, or one by its id
            used = linked(file_of_text(stored.text), self.registry.referenced(stored))
        frame = framed(stored.id or 0) + written_indexes(indexes)
        return ProtobufWriting(frame, schema, _class_of(used.message(indexes)))

    def plan_reading(self, topic: str, schema_id: int) -> ProtobufReading:
        """Return how payloads of an id are read."""
        stored = self.registry.by_id(schema_id)
        file = linked(file_of_text(stored.text), self.registry.referenced(stored))
        record = file.message((0,)).full_name
        return ProtobufReading(file, self.registry.version_of(self.subject(topic, record), stored))

    def write(self, plan: ProtobufWriting, value: Any) -> bytes:
        """Return frame and message. Raises DataError."""
        message = plan.message()
        if plan.schema.type is not Type.STRUCT:
            check_value(plan.schema, value)
            message.value = value
        else:
            if not isinstance(value, Struct):
                check_value(plan.schema, value)
                value = Struct.from_mapping(plan.schema, value)
            fill_message(message, value, self._proto)
        return plan.frame + bytes(message.SerializeToString(deterministic=True))

    def read(self, plan: ProtobufReading, data: bytes, start: int) -> SchemaAndValue:
        """Return schema and value. Raises DataError."""
        indexes, start = read_indexes(data, start)
        kind, schema = self._message(plan, indexes)
        message = kind()
        try:
            message.ParseFromString(data[start:])
        except library("google.protobuf.message").DecodeError as error:
            raise DataError(f"the payload is not a {kind.DESCRIPTOR.full_name}: {error}") from error
        return SchemaAndValue(schema, value_of(message, schema))

    def _message(self, plan: ProtobufReading, indexes: tuple[int, ...]) -> tuple[type[Any], Schema]:
        if indexes not in plan.messages:
            descriptor = plan.file.message(indexes)
            plan.messages[indexes] = (
                _class_of(descriptor),
                connect_schema_of(descriptor, self._proto, plan.version),
            )
        return plan.messages[indexes]

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return frames and messages of a column of flat structs."""
        # Arrow is imported where batches are.
        from spark_connect_rt.records.registry.proto_columns import framed_messages, lists_of

        lists = lists_of(schema, values)
        if lists is None:
            return None
        plan = self._plan_of(topic, schema)
        return framed_messages(plan.frame, plan.message, lists, self._proto.scrub_names)

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return flat messages of one kind as a column of structs."""
        from spark_connect_rt.records.registry.proto_columns import struct_column

        payloads = data.to_pylist()
        if not payloads or data.null_count:
            return None
        try:
            plan = self._plan_for(topic, schema_id_of(payloads[0]))
            indexes, start = read_indexes(payloads[0], LENGTH)
            kind, schema = self._message(plan, indexes)
            if not all(map(bytes.startswith, payloads, repeat(payloads[0][:start]))):
                return None
            column = struct_column(kind, schema, [payload[start:] for payload in payloads])
        except (ConnectError, library("google.protobuf.message").DecodeError):  # by rows: the same, with its name
            return None
        return None if column is None else (schema, column)


def _class_of(descriptor: Any) -> type[Any]:
    found: type[Any] = library("google.protobuf.message_factory").GetMessageClass(descriptor)
    return found

"""Protobuf with a Schema Registry (``io.confluent.connect.protobuf.ProtobufConverter``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any

from spark_connect_rt.api.data.schema import Schema, SchemaAndValue, Type
from spark_connect_rt.api.data.struct import Struct, check_value
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.records.registry.framing import LENGTH, framed, schema_id_of
from spark_connect_rt.records.registry.proto_files import (
    ProtoFile,
    file_of_text,
    linked,
    read_indexes,
    text_of_file,
    written_indexes,
)
from spark_connect_rt.records.registry.proto_schema import (
    ProtoSettings,
    connect_schema_of,
    message_file,
    scalar_of,
    wrapper_of,
)
from spark_connect_rt.records.registry.proto_values import fill_message, value_of
from spark_connect_rt.records.registry.registry_client import StoredSchema, library
from spark_connect_rt.records.registry.registry_converter import RegistryConverter
from spark_connect_rt.records.registry.registry_settings import BASE, switch

if TYPE_CHECKING:
    import pyarrow as pa

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
        """Declare the settings."""
        return CONFIG

    def take_settings(self, values: Mapping[str, Any]) -> None:
        """Take what is Protobuf's own."""
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

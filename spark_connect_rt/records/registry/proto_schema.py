"""Connect schemas <-> Protobuf messages (``io.confluent.connect.protobuf.ProtobufData``)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.avro_schema import scrubbed
from spark_connect_rt.records.registry.registry_client import library
from spark_connect_rt.records.registry.registry_settings import enum_members, in_place

NAMESPACE = "io.confluent.connect.protobuf"
TAG, ENUM, UNION = f"{NAMESPACE}.Tag", f"{NAMESPACE}.Enum", f"{NAMESPACE}.Union."
WIRE_TYPE, PRECISION = "protobuf.type", "connect.decimal.precision"
DECIMAL, DATE, TIME, TIMESTAMP = (
    "confluent.type.Decimal",
    "google.type.Date",
    "google.type.TimeOfDay",
    "google.protobuf.Timestamp",
)
LOGICAL = {logical.DECIMAL: DECIMAL, logical.DATE: DATE, logical.TIME: TIME, logical.TIMESTAMP: TIMESTAMP}
_FILES = {
    DECIMAL: "confluent/type/decimal.proto",
    DATE: "google/type/date.proto",
    TIME: "google/type/timeofday.proto",
    TIMESTAMP: "google/protobuf/timestamp.proto",
}
WRAPPERS, META = "google/protobuf/wrappers.proto", "confluent/meta.proto"
_SCALARS = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_WRAPPED = {"int32": "Int32", "int64": "Int64", "uint32": "UInt32", "uint64": "UInt64", "fixed32": "UInt32"}
_WRAPPED |= {"fixed64": "UInt64", "float": "Float", "double": "Double", "bool": "Bool"}
_WRAPPED |= {"string": "String", "bytes": "Bytes"}
_UNWRAPPED = {
    "DoubleValue": Type.FLOAT64,
    "FloatValue": Type.FLOAT32,
    "Int64Value": Type.INT64,
    "UInt64Value": Type.INT64,
    "Int32Value": Type.INT32,
    "UInt32Value": Type.INT64,
    "BoolValue": Type.BOOLEAN,
    "StringValue": Type.STRING,
    "BytesValue": Type.BYTES,
}


@dataclass(frozen=True, slots=True)
class ProtoSettings:
    """The options that change the form of schemas."""

    enhanced: bool = False  # messages and enums have whole names
    optional_for_nullables: bool = False
    wrapper_for_nullables: bool = False
    raw_wrappers: bool = True
    scrub_names: bool = False
    int_for_enums: bool = False


def wrapper_of(kind: str) -> str:
    """Return the wrapper message of a scalar type."""
    return f"google.protobuf.{_WRAPPED.get(kind, 'Int64')}Value"


def scalar_of(schema: Schema) -> str:
    """Return the scalar type of a plain schema."""
    return schema.parameter(WIRE_TYPE) or _SCALARS[schema.type]


def message_file(schema: Schema, settings: ProtoSettings) -> Any:
    """Return the FileDescriptorProto whose first message is a STRUCT's. Raises DataError: it has no Protobuf form."""
    writing = _Writing(settings)
    package, _, name = (schema.name or "ConnectDefault1").rpartition(".")
    proto = library("google.protobuf.descriptor_pb2").FileDescriptorProto(syntax="proto3", package=package)
    proto.name = f"{name}.proto"
    message = proto.message_type.add(name=writing.name(name))
    writing.fill(message, schema)
    proto.dependency.extend(sorted(writing.imports))
    return proto


@dataclass
class _Writing:
    settings: ProtoSettings
    imports: set[str] = field(default_factory=set)
    unnamed: int = 1

    def name(self, name: str) -> str:
        return scrubbed(name) if self.settings.scrub_names else name

    def fill(self, message: Any, schema: Schema) -> None:
        """Give a message the fields of a struct; those without a tag get the next free one."""
        tags = {int(entry.schema.parameter(TAG) or 0) for entry in schema.fields}
        free = (tag for tag in range(1, 1 << 29) if tag not in tags)
        for member in schema.fields:
            if (member.schema.name or "").startswith(UNION):
                place = len(message.oneof_decl)
                message.oneof_decl.add(name=(member.schema.name or "").removeprefix(UNION).rpartition(".")[2])
                for choice in member.schema.fields:
                    made = self.field(
                        message, choice.name, choice.schema, int(choice.schema.parameter(TAG) or next(free))
                    )
                    made.oneof_index = place
                continue
            self.field(message, member.name, member.schema, int(member.schema.parameter(TAG) or next(free)))
        optional = [proto_field for proto_field in message.field if proto_field.proto3_optional]
        for synthetic in optional:  # synthetic ones follow the others
            synthetic.oneof_index = len(message.oneof_decl)
            message.oneof_decl.add(name=f"_{synthetic.name}")

    def field(self, message: Any, name: str, schema: Schema, tag: int) -> Any:
        kinds = library("google.protobuf.descriptor_pb2").FieldDescriptorProto
        made = message.field.add(name=self.name(name), number=tag, label=kinds.LABEL_OPTIONAL)
        of = schema
        if schema.type is Type.ARRAY and schema.value_schema is not None:
            made.label, of = kinds.LABEL_REPEATED, schema.value_schema
        if of.type is Type.ARRAY or (of is not schema and of.type is Type.MAP):
            raise DataError(f"field {name}: an array or map in an array has no Protobuf form")
        if of.type is Type.MAP:
            made.label, made.type = kinds.LABEL_REPEATED, kinds.TYPE_MESSAGE
            made.type_name = self._map(message, name, of)
        elif of.name in LOGICAL:
            self._message_type(made, LOGICAL[of.name], _FILES[LOGICAL[of.name]])
            self._describe(made, of)
        elif of.type is Type.STRUCT:
            made.type, made.type_name = kinds.TYPE_MESSAGE, self._nested(message, name, of)
        elif of.parameter(ENUM) is not None:
            made.type, made.type_name = kinds.TYPE_ENUM, self._enum(message, of)
        else:
            self._scalar(made, schema, of)
        return made

    def _message_type(self, made: Any, type_name: str, file: str) -> None:
        made.type = library("google.protobuf.descriptor_pb2").FieldDescriptorProto.TYPE_MESSAGE
        made.type_name = f".{type_name}"
        self.imports.add(file)

    def _scalar(self, made: Any, schema: Schema, of: Schema) -> None:
        kinds = library("google.protobuf.descriptor_pb2").FieldDescriptorProto
        kind = scalar_of(of)
        nullable = of.optional and schema is of
        if nullable and self.settings.wrapper_for_nullables:
            self._message_type(made, wrapper_of(kind), WRAPPERS)
        else:
            made.type = getattr(kinds, f"TYPE_{kind.upper()}")
            made.proto3_optional = nullable and self.settings.optional_for_nullables
        self._describe(made, of)

    def _describe(self, made: Any, schema: Schema) -> None:
        """Add facts that the type alone does not have: small integers, a decimal's digits."""
        parameters: dict[str, str] = {}
        if schema.type in (Type.INT8, Type.INT16):
            parameters["connect.type"] = schema.type.value.lower()
        if schema.name == logical.DECIMAL:
            parameters["scale"] = str(logical.scale_of(schema))
            if schema.parameter(PRECISION):
                parameters["precision"] = str(schema.parameter(PRECISION))
        if parameters:
            meta = library("confluent_kafka.schema_registry.confluent.meta_pb2")
            made.options.Extensions[meta.field_meta].params.update(parameters)
            self.imports.add(META)

    def _nested(self, message: Any, name: str, schema: Schema) -> str:
        self.unnamed += schema.name is None
        simple = self.name((schema.name or f"ConnectDefault{self.unnamed}").rpartition(".")[2])
        simple = f"{simple}Message" if simple == name else simple
        made = type(message)(name=simple)
        self.fill(made, schema)
        known = next((nested for nested in message.nested_type if nested.name == simple), None)
        if known is None:
            message.nested_type.append(made)
        elif known != made:
            raise DataError(f"two different types have the name {simple}. Rename one of them")
        return simple

    def _map(self, message: Any, name: str, schema: Schema) -> str:
        if schema.key_schema is None or schema.value_schema is None:
            raise DataError(f"field {name}: a map without schemas has no Protobuf form")
        simple = "".join(part[:1].upper() + part[1:] for part in self.name(name).split("_")) + "Entry"
        entry = message.nested_type.add(name=simple)
        entry.options.map_entry = True
        self.field(entry, "key", schema.key_schema.as_optional(False), 1)
        if schema.value_schema.type in (Type.ARRAY, Type.MAP):
            raise DataError(f"field {name}: an array or map in a map has no Protobuf form")
        self.field(entry, "value", schema.value_schema.as_optional(False), 2)
        return simple

    def _enum(self, message: Any, schema: Schema) -> str:
        name = str(schema.parameter(ENUM))
        if not any(enum_type.name == name for enum_type in message.enum_type):
            made = message.enum_type.add(name=name)
            values = [(symbol, int(tag)) for symbol, tag in enum_members(schema, ENUM)]
            for symbol, number in sorted(values, key=lambda value: value[1] != 0):  # proto3: the first one is zero
                made.value.add(name=symbol, number=number)
        return name


def real_oneof(proto_field: Any) -> Any:
    """Return the oneof that a field is a choice of; not the one that ``optional`` makes."""
    oneof = proto_field.containing_oneof
    return None if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{proto_field.name}") else oneof


def union_field(oneof: Any) -> str:
    """Return the name of the field that a oneof is."""
    return f"{oneof.name}_{oneof.index}"


def connect_schema_of(descriptor: Any, settings: ProtoSettings, version: int | None = None) -> Schema:
    """Return the Connect schema of a message. Raises DataError: a message inside of itself."""
    if settings.raw_wrappers and descriptor.file.name == WRAPPERS:
        return Schema(_UNWRAPPED[descriptor.name], version=version)
    return _Reading(settings).message(descriptor, version)


@dataclass
class _Reading:
    settings: ProtoSettings
    open: list[str] = field(default_factory=list)

    def message(self, descriptor: Any, version: int | None = None) -> Schema:
        if descriptor.full_name in self.open:
            raise DataError(f"the message {descriptor.full_name} holds itself: that has no Connect schema here")
        self.open.append(descriptor.full_name)
        unions = [oneof for oneof in descriptor.oneofs if real_oneof(oneof.fields[0]) is not None]
        members = [(union_field(union), self._union(union)) for union in unions]
        members += [
            (proto_field.name, self._field(proto_field))
            for proto_field in descriptor.fields
            if real_oneof(proto_field) is None
        ]
        self.open.pop()
        fields = tuple(Field(name, at, schema) for at, (name, schema) in enumerate(members))
        return Schema(Type.STRUCT, name=self._name(descriptor), version=version, fields=fields)

    def _name(self, descriptor: Any) -> str:
        return str(descriptor.full_name if self.settings.enhanced else descriptor.name)

    def _union(self, oneof: Any) -> Schema:
        fields = tuple(
            Field(proto_field.name, at, self._field(proto_field)) for at, proto_field in enumerate(oneof.fields)
        )
        return Schema(Type.STRUCT, optional=True, name=UNION + self._name(oneof), fields=fields)

    def _field(self, proto_field: Any) -> Schema:
        with in_place(f"field {proto_field.name}"):
            schema = self._type(proto_field)
        if proto_field.is_repeated and schema.type is not Type.MAP:
            schema = Schema(Type.ARRAY, optional=True, value_schema=schema.as_optional())
        if self.settings.optional_for_nullables:
            nullable = schema.optional or (proto_field.has_presence and real_oneof(proto_field) is None)
        else:
            nullable = schema.optional or not self.settings.wrapper_for_nullables
        parameters = (*schema.parameters, (TAG, str(proto_field.number)))
        return replace(schema, optional=nullable, parameters=parameters)

    def _type(self, proto_field: Any) -> Schema:
        if proto_field.enum_type is not None:
            values = tuple((f"{ENUM}.{value.name}", str(value.number)) for value in proto_field.enum_type.values)
            kind = Type.INT32 if self.settings.int_for_enums else Type.STRING
            parameters = ((ENUM, proto_field.enum_type.name), *values)
            return Schema(kind, optional=True, name=self._name(proto_field.enum_type), parameters=parameters)
        if proto_field.message_type is not None:
            return self._message_field(proto_field)
        word = _WORDS[proto_field.type]
        meta = library("confluent_kafka.schema_registry.confluent.meta_pb2")
        small = (
            proto_field.GetOptions().Extensions[meta.field_meta].params.get("connect.type") if word == "int32" else None
        )
        if small:
            return Schema(Type.INT8 if small == "int8" else Type.INT16)
        kind = _TYPES[word]
        plain = word in ("int32", "int64") or kind not in (Type.INT32, Type.INT64)
        return Schema(kind) if plain else Schema(kind, parameters=((WIRE_TYPE, word),))

    def _message_field(self, proto_field: Any) -> Schema:
        name = proto_field.message_type.full_name
        if name == DECIMAL:
            meta = library("confluent_kafka.schema_registry.confluent.meta_pb2")
            params = proto_field.GetOptions().Extensions[meta.field_meta].params
            schema = logical.decimal_schema(int(params.get("scale", "0")), optional=True)
            precision = ((PRECISION, params["precision"]),) if "precision" in params else ()
            return replace(schema, parameters=(*schema.parameters, *precision))
        simple = {DATE: logical.date_schema, TIME: logical.time_schema, TIMESTAMP: logical.timestamp_schema}.get(name)
        if simple is not None:
            return simple(optional=True)
        if self.settings.wrapper_for_nullables and proto_field.message_type.file.name == WRAPPERS:
            return Schema(_UNWRAPPED[proto_field.message_type.name], optional=True)
        if proto_field.message_type.GetOptions().map_entry:
            keys, values = (self._field(proto_field.message_type.fields_by_name[part]) for part in ("key", "value"))
            label = proto_field.message_type.name.removesuffix("Entry")
            return Schema(Type.MAP, optional=True, name=label, key_schema=keys, value_schema=values)
        return self.message(proto_field.message_type).as_optional()


_WORDS = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
"""Names of the field types, by their number in FieldDescriptorProto.Type."""

_TYPES = {"double": Type.FLOAT64, "float": Type.FLOAT32, "bool": Type.BOOLEAN, "string": Type.STRING}
_TYPES |= {"bytes": Type.BYTES, "int32": Type.INT32, "sint32": Type.INT32, "sfixed32": Type.INT32}
_TYPES |= dict.fromkeys(("int64", "uint64", "uint32", "fixed32", "fixed64", "sint64", "sfixed64"), Type.INT64)

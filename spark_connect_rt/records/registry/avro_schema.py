"""Connect schemas as Avro schemas (Java ``AvroData.fromConnectSchema``); the order of members is Java's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.registry_settings import enum_members

# Names that Avro and Connect's Avro mapping give a meaning (Java ``io.confluent.connect.avro.AvroData``).


NAMESPACE = "io.confluent.connect.avro"
DEFAULT_NAME = "ConnectDefault"
MAP_ENTRY = "MapEntry"
UNION = f"{NAMESPACE}.Union"
ENUM = f"{NAMESPACE}.Enum"
ANYTHING_NAME = f"{NAMESPACE}.Anything"
RECORD_DOC = f"{NAMESPACE}.record.doc"
FIELD_DOC = f"{NAMESPACE}.field.doc."
ENUM_DOC = f"{NAMESPACE}.enum.doc."
ENUM_DEFAULT = f"{NAMESPACE}.enum.default."
FIELD_DEFAULT_FLAG = f"{NAMESPACE}.field.default"
"""Parameter: the default was Avro's, so it is not written a second time as ``connect.default``."""

FIXED_SIZE, PRECISION, DEFAULT_PRECISION = "connect.fixed.size", "connect.decimal.precision", 64
KEY, VALUE = "key", "value"

_VALID = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class AvroSettings:
    """The options that change the form of schemas."""

    enhanced: bool = False  # enums and fixed are kept, union members have whole names
    meta_data: bool = True  # write and read connect.*
    scrub_names: bool = False
    optional_map_keys: bool = False


def split_name(full_name: str) -> tuple[str | None, str]:
    """Return namespace (None without one) and simple name."""
    namespace, _, name = full_name.rpartition(".")
    return namespace or None, name


def scrubbed(name: str) -> str:
    """Return a name in which Avro's letters stand for the others, as Java's ``scrub.invalid.names`` writes it."""
    if _VALID.fullmatch(name) or not name:
        return name
    encoded = quote_plus(name, safe="*")
    return re.sub("[^A-Za-z0-9_]", "_", f"x{encoded}" if encoded[0].isdigit() else encoded)


def avro_name(name: str, settings: AvroSettings) -> str:
    """Return one simple name as Avro takes it. Raises DataError: it does not, and names are not scrubbed."""
    if settings.scrub_names:
        name = scrubbed(name)
    if not _VALID.fullmatch(name):
        raise DataError(f"{name!r} is not a valid name in Avro. Rename it, or set scrub.invalid.names=true")
    return name


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


_PRIMITIVES = ("boolean", "bytes", "double", "float", "int", "long", "string")
_ENTRY = {
    "type": "record",
    "name": MAP_ENTRY,
    "fields": [{"name": KEY, "type": "Anything"}, {"name": VALUE, "type": "Anything"}],
}
ANYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Anything",
    "namespace": NAMESPACE,
    "fields": [
        *({"name": kind, "type": _optional(kind), "default": None} for kind in _PRIMITIVES),
        {"name": "array", "type": _optional({"type": "array", "items": "Anything"}), "default": None},
        {"name": "map", "type": _optional({"type": "array", "items": _ENTRY}), "default": None},
    ],
}
"""The schema of values without a schema: at most one of the fields is set."""

AvroTree = Any
"""An Avro schema as JSON has it: a name, an object, or a list (union)."""

PRIMITIVES = {
    Type.INT8: "int",
    Type.INT16: "int",
    Type.INT32: "int",
    Type.INT64: "long",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_CONNECT_TYPES = {Type.INT8: "int8", Type.INT16: "int16"}
_LOGICAL_TYPES = {logical.DATE: "date", logical.TIME: "time-millis", logical.TIMESTAMP: "timestamp-millis"}


def avro_schema(schema: Schema | None, settings: AvroSettings) -> AvroTree:
    """Return the Avro schema of a Connect schema, of None that of values without one.

    Raises DataError: a name that Avro does not take, or one name for two different things.
    """
    return ANYTHING if schema is None else _Writing(settings).tree(schema, None)


def has_text_keys(schema: Schema, settings: AvroSettings) -> bool:
    """Whether a MAP is a map in Avro, too; others are arrays of entries."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and (not keys.optional or settings.optional_map_keys)


def is_enum(schema: Schema) -> bool:
    """Whether the schema was made of an Avro enum."""
    return schema.type is Type.STRING and schema.parameter(ENUM) is not None


class _Writing:
    """One schema on its way; a named type is written out where it comes first, and by its name from then on."""

    def __init__(self, settings: AvroSettings) -> None:
        self._settings = settings
        self._named: dict[str, object] = {}  # full name -> the schema written under it
        self._unnamed = 0

    def tree(self, schema: Schema, around: str | None, *, in_union: bool = False) -> AvroTree:
        """Return the tree; ``around`` is the namespace of the type that it is in."""
        if schema.type is Type.STRUCT and schema.name == UNION:
            members = [self.tree(field.schema.as_optional(False), around, in_union=True) for field in schema.fields]
            return ["null", *members] if schema.optional else members
        plain = self._plain(schema, around)
        if not schema.optional or in_union:
            return plain
        return [plain, "null"] if schema.default is not None else ["null", plain]

    def _plain(self, schema: Schema, around: str | None) -> AvroTree:
        base = self._base(schema, around)
        if isinstance(base, str):  # named before
            return base
        base |= self._properties(schema)
        return base["type"] if base.keys() == {"type"} else base

    def _base(self, schema: Schema, around: str | None) -> Any:
        if schema.type is Type.STRUCT:
            return self._record(schema, around)
        if schema.type is Type.ARRAY:
            return {"type": "array", "items": self._part(schema.value_schema, around)}
        if schema.type is Type.MAP:
            return self._map(schema, around)
        if self._settings.enhanced and is_enum(schema):
            return self._enum(schema, around)
        if self._settings.enhanced and schema.parameter(FIXED_SIZE) is not None:
            size = int(schema.parameter(FIXED_SIZE) or 0)
            return self._define(schema.name, schema, around, lambda head, _: {"type": "fixed", **head, "size": size})
        return {"type": PRIMITIVES[schema.type]}

    def _part(self, schema: Schema | None, around: str | None) -> AvroTree:
        if schema is None:
            raise DataError("an array or map without a schema of its values has no Avro form")
        return self.tree(schema, around)

    def _define(self, name: str | None, same: Any, around: str | None, make: Any) -> Any:
        """Return the definition of a named type, or its full name when just this has been written before."""
        if name is None:
            known = next((known for known, what in self._named.items() if what == same), None)
            if known is not None:
                return known
            self._unnamed += 1
            name = f"{NAMESPACE}.{DEFAULT_NAME}{self._unnamed if self._unnamed > 1 else ''}"
        namespace, simple = split_name(name)
        simple = avro_name(simple, self._settings)
        if namespace is not None:
            namespace = ".".join(avro_name(part, self._settings) for part in namespace.split("."))
        full_name = f"{namespace}.{simple}" if namespace else simple
        if full_name in self._named:
            if self._named[full_name] == same:
                return full_name
            raise DataError(f"two different types are called {full_name}: give one of them another name")
        self._named[full_name] = same
        head: dict[str, Any] = {"name": simple}
        if namespace != around:
            head["namespace"] = namespace or ""
        return make(head, namespace)

    def _record(self, schema: Schema, around: str | None) -> Any:
        def make(head: dict[str, Any], namespace: str | None) -> dict[str, Any]:
            doc = schema.parameter(RECORD_DOC)
            described = {} if doc is None else {"doc": doc}
            fields = [
                self._field(field, schema.parameter(FIELD_DOC + field.name), namespace) for field in schema.fields
            ]
            return {"type": "record", **head, **described, "fields": fields}

        return self._define(schema.name, schema.as_optional(False), around, make)

    def _field(self, member: Field, doc: str | None, namespace: str | None) -> dict[str, Any]:
        field = {
            "name": avro_name(member.name, self._settings),
            "type": self.tree(member.schema, namespace),
        }
        if doc is not None:
            field["doc"] = doc
        if member.schema.default is not None:
            field["default"] = default_tree(member.schema, member.schema.default, self._settings)
        elif member.schema.optional:
            field["default"] = None
        return field

    def _map(self, schema: Schema, around: str | None) -> dict[str, Any]:
        if has_text_keys(schema, self._settings):
            return {"type": "map", "values": self._part(schema.value_schema, around)}
        entry = (schema.key_schema, schema.value_schema)
        unnamed = f"{NAMESPACE}.{MAP_ENTRY}"
        others = [name for name, what in self._named.items() if name.startswith(unnamed) and what != entry]
        name = schema.name or (unnamed if not others else f"{unnamed}{len(others) + 1}")

        def make(head: dict[str, Any], namespace: str | None) -> dict[str, Any]:
            parts = [(KEY, schema.key_schema), (VALUE, schema.value_schema)]
            fields = [self._field(Field(part, at, of), None, namespace) for at, (part, of) in enumerate(parts) if of]
            marked = {} if name == unnamed else {"connect.internal.type": MAP_ENTRY}
            return {"type": "record", **head, "fields": fields, **marked}

        return {"type": "array", "items": self._define(name, entry, around, make)}

    def _enum(self, schema: Schema, around: str | None) -> Any:
        symbols = [symbol for symbol, _ in enum_members(schema, ENUM)]
        simple = split_name(schema.name or "")[1]

        def make(head: dict[str, Any], _: str | None) -> dict[str, Any]:
            doc, default = schema.parameter(ENUM_DOC + simple), schema.parameter(ENUM_DEFAULT + simple)
            described = {} if doc is None else {"doc": doc}
            fallback = {} if default is None else {"default": default}
            return {"type": "enum", **head, **described, "symbols": symbols, **fallback}

        return self._define(schema.parameter(ENUM), tuple(symbols), around, make)

    def _properties(self, schema: Schema) -> dict[str, Any]:
        """Return the properties of a type in addition to its shape."""
        said: dict[str, Any] = {}
        if schema.name == logical.DECIMAL:
            precision = int(schema.parameter(PRECISION) or DEFAULT_PRECISION)
            said |= {"scale": logical.scale_of(schema), "precision": precision}
        if self._settings.meta_data:
            said |= self._meta_data(schema)
        if schema.name == logical.DECIMAL:
            said["logicalType"] = "decimal"
        elif schema.name in _LOGICAL_TYPES:
            said["logicalType"] = _LOGICAL_TYPES[schema.name]
        return said | {name: text for name, text in schema.parameters if name.startswith("avro")}

    def _meta_data(self, schema: Schema) -> dict[str, Any]:
        said: dict[str, Any] = {}
        if schema.doc is not None:
            said["connect.doc"] = schema.doc
        if schema.version is not None:
            said["connect.version"] = schema.version
        parameters = {name: text for name, text in schema.parameters if name != FIELD_DEFAULT_FLAG}
        if parameters:
            said["connect.parameters"] = parameters
        if schema.default is not None and schema.parameter(FIELD_DEFAULT_FLAG) is None:
            said["connect.default"] = default_tree(schema, schema.default, self._settings)
        if schema.name is not None:
            said["connect.name"] = schema.name
        if schema.type in _CONNECT_TYPES:
            said["connect.type"] = _CONNECT_TYPES[schema.type]
        return said


def default_tree(schema: Schema, value: Any, settings: AvroSettings) -> Any:
    """Return a default as JSON writes it in an Avro schema: bytes as text of the same code points."""
    if value is None:
        return None
    value = logical.to_primitive(schema, value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("latin-1")
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        return [default_tree(schema.value_schema, part, settings) for part in value]
    if schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        return _map_default(schema.key_schema, schema.value_schema, value, has_text_keys(schema, settings), settings)
    if schema.type is Type.STRUCT:
        read = value.get if isinstance(value, Struct) else dict(value).get
        return {
            avro_name(field.name, settings): default_tree(field.schema, read(field.name), settings)
            for field in schema.fields
        }
    return value


def _map_default(
    keys: Schema, values: Schema, value: Mapping[Any, Any], text_keys: bool, settings: AvroSettings
) -> Any:
    parts = [(default_tree(keys, key, settings), default_tree(values, part, settings)) for key, part in value.items()]
    return dict(parts) if text_keys else [{KEY: key, VALUE: part} for key, part in parts]

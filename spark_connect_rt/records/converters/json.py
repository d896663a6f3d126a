"""JSON, with or without the schema envelope (Java ``org.apache.kafka.connect.json.JsonConverter``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.converter import CONVERTER_TYPE
from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import NULL, Field, Schema, SchemaAndValue
from spark_connect_rt.api.data.schema import Type as JsonSchemaType
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.json_bytes import dump_exact, dump_json, load_json, load_json_with_decimals
from spark_connect_rt.records.converters.json_columns import column_json
from spark_connect_rt.records.converters.json_read_columns import FEWEST, FlatObjects, value_column
from spark_connect_rt.records.converters.json_values import JsonSettings, from_tree, structs_of, to_tree, tree_maker
from spark_connect_rt.records.converters.primitive_converters import HeaderAndValueConverter

# Connect schemas <-> the ``schema`` member of JsonConverter's envelope (Java ``JsonConverter.asJsonSchema``).
#
# Key order is Java's: type, the container's part, optional, name, version, doc, parameters, default, field.


_NAMES = {
    JsonSchemaType.INT8: "int8",
    JsonSchemaType.INT16: "int16",
    JsonSchemaType.INT32: "int32",
    JsonSchemaType.INT64: "int64",
    JsonSchemaType.FLOAT32: "float",
    JsonSchemaType.FLOAT64: "double",
    JsonSchemaType.BOOLEAN: "boolean",
    JsonSchemaType.STRING: "string",
    JsonSchemaType.BYTES: "bytes",
    JsonSchemaType.ARRAY: "array",
    JsonSchemaType.MAP: "map",
    JsonSchemaType.STRUCT: "struct",
}
_TYPES = {name: kind for kind, name in _NAMES.items()}


def schema_tree(schema: Schema, settings: JsonSettings) -> dict[str, Any]:
    """Return the JSON tree of a schema. Raises DataError: the default does not fit."""
    tree: dict[str, Any] = {"type": _NAMES[schema.type]}
    if schema.type is JsonSchemaType.ARRAY and schema.value_schema is not None:
        tree["items"] = schema_tree(schema.value_schema, settings)
    elif schema.type is JsonSchemaType.MAP and schema.key_schema is not None and schema.value_schema is not None:
        tree["keys"] = schema_tree(schema.key_schema, settings)
        tree["values"] = schema_tree(schema.value_schema, settings)
    elif schema.type is JsonSchemaType.STRUCT:
        tree["fields"] = [{**schema_tree(m.schema, settings), "field": m.name} for m in schema.fields]
    tree["optional"] = schema.optional
    described = {"name": schema.name, "version": schema.version, "doc": schema.doc}
    tree.update({part: value for part, value in described.items() if value is not None})
    if schema.parameters:
        tree["parameters"] = dict(schema.parameters)
    if schema.default is not None:
        tree["default"] = to_tree(schema, schema.default, settings)
    return tree


def schema_from_tree(tree: Any, settings: JsonSettings) -> Schema | None:
    """Return the schema of a JSON tree, None for null. Raises DataError naming the missing part."""
    if tree is None:
        return None
    named = tree.get("type") if isinstance(tree, dict) else None
    if not isinstance(named, str) or named not in _TYPES:
        raise DataError(f"schema must be an object with a known 'type', not {tree!r:.80}")
    kind = _TYPES[named]
    schema = Schema(
        kind,
        optional=_part(tree, "optional", bool) or False,
        name=_part(tree, "name", str),
        version=_part(tree, "version", int),
        doc=_part(tree, "doc", str),
        parameters=_parameters(tree),
        fields=_fields(tree, settings) if kind is JsonSchemaType.STRUCT else (),
        key_schema=_member(tree, "keys", settings) if kind is JsonSchemaType.MAP else None,
        value_schema=_value_schema(kind, tree, settings),
    )
    if tree.get("default") is None:
        return schema
    return replace(schema, default=from_tree(schema, tree["default"], settings))


def _part(tree: dict[str, Any], name: str, kind: type[Any]) -> Any:
    value = tree.get(name)
    if value is not None and (not isinstance(value, kind) or (kind is int and isinstance(value, bool))):
        raise DataError(f"schema '{name}' must be {kind.__name__}, not {value!r}")
    return value


def _parameters(tree: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    given = _part(tree, "parameters", dict) or {}
    if not all(isinstance(text, str) for text in given.values()):
        raise DataError("schema 'parameters' must have text values")
    return tuple(given.items())


def _member(tree: dict[str, Any], name: str, settings: JsonSettings) -> Schema:
    schema = schema_from_tree(tree.get(name), settings)
    if schema is None:
        raise DataError(f"{tree['type']} schema must contain '{name}'")
    return schema


def _value_schema(kind: JsonSchemaType, tree: dict[str, Any], settings: JsonSettings) -> Schema | None:
    if kind is JsonSchemaType.ARRAY:
        return _member(tree, "items", settings)
    return _member(tree, "values", settings) if kind is JsonSchemaType.MAP else None


def _fields(tree: dict[str, Any], settings: JsonSettings) -> tuple[Field, ...]:
    given = tree.get("fields")
    if not isinstance(given, list):
        raise DataError("struct schema must contain an array 'fields'")
    fields = []
    for index, member in enumerate(given):
        schema = schema_from_tree(member, settings)
        if schema is None or not isinstance(member.get("field"), str):
            raise DataError(f"struct schema: field {index} needs a name in 'field'")
        fields.append(Field(member["field"], index, schema))
    return tuple(fields)


_SCHEMAS, _SERIALIZATION = "Schemas", "Serialization"
_OWN = ConfigDef(
    [
        ConfigKey(
            "schemas.enable",
            Type.BOOLEAN,
            True,
            Importance.HIGH,
            "Wrap each value in a schema and payload envelope.",
            group=_SCHEMAS,
            order=0,
            width="MEDIUM",
            display_name="Enable Schemas",
        ),
        ConfigKey(
            "schemas.cache.size",
            Type.INT,
            1_000,
            Importance.HIGH,
            "Schemas kept in memory.",
            group=_SCHEMAS,
            order=1,
            width="MEDIUM",
            display_name="Schema Cache Size",
        ),
        ConfigKey(
            "decimal.format",
            Type.STRING,
            "BASE64",
            Importance.LOW,
            "Decimals as base64 of their unscaled bytes, or as JSON numbers.",
            one_of("NUMERIC", "BASE64", ignore_case=True),
            _SERIALIZATION,
            0,
            "MEDIUM",
            "Decimal Format",
        ),
        ConfigKey(
            "replace.null.with.default",
            Type.BOOLEAN,
            True,
            Importance.LOW,
            "Write a field's default instead of null.",
            group=_SERIALIZATION,
            order=1,
            width="MEDIUM",
            display_name="Replace null with default",
        ),
    ]
)
CONFIG = ConfigDef([CONVERTER_TYPE]) + _OWN
_ENVELOPE = {"schema", "payload"}


class JsonConverter(HeaderAndValueConverter):
    """Writes and reads JSON; keeps the envelope of the schemas seen last."""

    def __init__(self) -> None:
        """Start with the default settings: schemas.enable is on."""
        self.configure({}, is_key=False)

    def config_def(self) -> ConfigDef:
        """Return the declarations of this converter's settings."""
        return CONFIG

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        """Take the settings. Raises BadConfigError."""
        values = _OWN.parse(config)
        self._schemas_enabled: bool = values["schemas.enable"]
        self._settings = JsonSettings(
            numeric_decimals=values["decimal.format"].upper() == "NUMERIC",
            replace_null_with_default=values["replace.null.with.default"],
        )
        self._cache_size: int = values["schemas.cache.size"]
        self._written: tuple[Schema | None, bytes] = (None, b'{"schema":null,"payload":')
        self._maker: tuple[Schema, Callable[[Struct], dict[str, Any] | None] | None] | None = None
        self._read: dict[bytes, Schema | None] = {}
        self._last_read: tuple[bytes, Schema | None] | None = None
        self._flat_objects = FlatObjects()
        self._has_read = False  # a long column

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the JSON text; None for a null without a schema (a tombstone)."""
        if schema is None and value is None:
            return None
        payload = dump_json(value, self._other) if schema is None and _plain(value) else self._dump(schema, value)
        return b"%b%b}" % (self._envelope(schema), payload) if self._schemas_enabled else payload

    def _dump(self, schema: Schema | None, value: Any) -> bytes:
        if schema is not None and type(value) is Struct and value.schema is schema:
            if self._maker is None or self._maker[0] is not schema:
                self._maker = (schema, tree_maker(schema, self._settings))
            tree = self._maker[1](value) if self._maker[1] else None
            if tree is not None:
                return dump_exact(tree)
        return dump_json(to_tree(schema, value, self._settings))

    def _other(self, value: Any) -> Any:
        return to_tree(None, value, self._settings)

    def _envelope(self, schema: Schema | None) -> bytes:
        """Return the text before the payload."""
        if self._written[0] is not schema:  # by identity: a source's records share their schema
            tree = None if schema is None else schema_tree(schema, self._settings)
            self._written = (schema, b'{"schema":%b,"payload":' % dump_json(tree))
        return self._written[1]

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return schema and value. Raises DataError: not JSON, no envelope, or a payload unlike its schema."""
        if data is None:
            return NULL
        if not self._schemas_enabled:
            return SchemaAndValue(None, load_json(data) if data.strip() else None)  # Jackson reads nothing as null
        schema, payload = self._open_envelope(data)
        if schema is not None and _has_decimals(schema):
            payload = load_json_with_decimals(data)["payload"]
        return SchemaAndValue(schema, from_tree(schema, payload, self._settings))

    def _open_envelope(self, data: bytes) -> tuple[Schema | None, Any]:
        if self._last_read and data.startswith(self._last_read[0]) and data.endswith(b"}"):
            try:
                return self._last_read[1], load_json(data[len(self._last_read[0]) : -1])
            except DataError:
                pass  # the payload continues: parse all of it
        tree = load_json(data)
        if not isinstance(tree, dict) or tree.keys() != _ENVELOPE:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may not contain '
                "additional fields. If you are trying to deserialize plain JSON data, set schemas.enable=false "
                "in your converter configuration."
            )
        text = dump_json(tree["schema"])
        if text not in self._read:
            if len(self._read) >= max(self._cache_size, 1):
                self._read.clear()
            self._read[text] = schema_from_tree(tree["schema"], self._settings)
        self._last_read = (b'{"schema":%b,"payload":' % text, self._read[text])
        return self._read[text], tree["payload"]

    def values_to_connect_data(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, Sequence[Any]] | None:
        """Return the structs of envelopes that all begin with the schema seen last."""
        found = self._payloads(data) if self._schemas_enabled else None
        structs = None if found is None else structs_of(*found, self._settings)
        return None if found is None or structs is None else (found[0], structs)

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return a column of structs, maps or plain values (``value_column``)."""
        if not self._has_read and len(data) > FEWEST:
            self._has_read = True
            self._parsed(data.slice(0, FEWEST))
        return self._flat(data) or self._parsed(data)

    def _parsed(self, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return texts that are parsed one by one, and note what they are like for `_flat`."""
        found = self._trees(data.to_pylist())
        column = None if found is None else value_column(*found, self._settings)
        if column is not None and not self._schemas_enabled:
            self._flat_objects.learn(column)
        return None if found is None or column is None else (found[0], column)

    def _flat(self, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return flat objects of the shape or the schema seen last."""
        opening, schema = self._last_read or (b"", None)
        if not self._schemas_enabled:
            column = self._flat_objects.read(data)
        else:
            column = None if schema is None else self._flat_objects.read_payloads(opening, schema, data)
        return None if column is None else (schema if self._schemas_enabled else None, column)

    def _trees(self, data: Sequence[bytes | None]) -> tuple[Schema | None, Sequence[Any]] | None:
        """Return the one schema and the JSON trees of texts, None: some of them need a closer look."""
        try:
            if not self._schemas_enabled:
                return None, [None if text is None else orjson.loads(text) for text in data]
            first = next(iter(data), None)
            if first is not None and not (self._last_read and first.startswith(self._last_read[0])):
                self._open_envelope(first)
        except (orjson.JSONDecodeError, DataError):
            return None
        return self._payloads(data)

    def _payloads(self, data: Sequence[bytes | None]) -> tuple[Schema, Sequence[Any]] | None:
        """Return the trees of envelopes that all begin with the schema seen last, and have no decimals; else None."""
        opening, schema = self._last_read or (b"", None)
        start = len(opening)
        if schema is None or _has_decimals(schema):
            return None
        present = [text for text in data if text is not None]
        begins, ends = map(bytes.startswith, present, repeat(opening)), map(bytes.endswith, present, repeat(b"}"))
        if len(present) < len(data) or not all(begins) or not all(ends):
            return None
        try:  # each by itself: two broken ones could make a whole one together
            return schema, [orjson.loads(text[start:-1]) for text in present]
        except orjson.JSONDecodeError:
            return None

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return a column of primitives, or structs of primitives, as JSON text. None: it has to go by rows."""
        text = column_json(schema, values, self._settings.numeric_decimals)
        if text is None or (schema is not None and text.null_count):
            return None
        if not self._schemas_enabled:
            return text
        opening = pa.scalar(self._envelope(schema).decode())
        return pc.binary_join_element_wise(opening, text, pa.scalar("}"), pa.scalar(""))


def _plain(value: Any) -> bool:
    """Whether orjson writes the outermost value itself; inside a map it meets only text keys, or refuses."""
    if isinstance(value, dict):
        return all(type(key) is str and type(part) in _SCALARS for key, part in value.items())
    return type(value) in _SCALARS


_SCALARS = {str, int, float, bool, type(None), bytes}


def _has_decimals(schema: Schema) -> bool:
    if schema.name == logical.DECIMAL:
        return True
    parts = [schema.key_schema, schema.value_schema, *(member.schema for member in schema.fields)]
    return any(part is not None and _has_decimals(part) for part in parts)

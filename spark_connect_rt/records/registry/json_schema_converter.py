"""JSON with a JSON Schema in a Schema Registry (``io.confluent.connect.json.JsonSchemaConverter``)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import orjson

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Field, Schema, SchemaAndValue, Type
from spark_connect_rt.config.config_def import ConfigDef, Importance
from spark_connect_rt.config.settings_group import text
from spark_connect_rt.config.validators import one_of
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.records.converters.json_bytes import dump_json, load_json, load_json_with_decimals
from spark_connect_rt.records.converters.json_values import (
    ENUM,
    NAMESPACE,
    ONE_OF,
    JsonSettings,
    from_tree,
    structs_of,
    to_tree,
)
from spark_connect_rt.records.registry.registry_client import StoredSchema, library
from spark_connect_rt.records.registry.registry_converter import LENGTH, RegistryConverter, framed, schema_id_of
from spark_connect_rt.records.registry.registry_settings import BASE, enum_members, in_place, switch

if TYPE_CHECKING:
    import pyarrow as pa


# Connect schemas <-> JSON Schema (draft 7), as ``io.confluent.connect.json.JsonSchemaData`` relates them.


_KEY, _VALUE = "key", "value"
_NULL_SYMBOL = "<NULL>"
_NUMBERS = {
    "int8": Type.INT8,
    "int16": Type.INT16,
    "int32": Type.INT32,
    "int64": Type.INT64,
    "float32": Type.FLOAT32,
    "float64": Type.FLOAT64,
    "bytes": Type.BYTES,  # a Decimal
}
_NUMBER_WORDS = {kind: word for word, kind in _NUMBERS.items() if kind is not Type.BYTES}


@dataclass(frozen=True, slots=True)
class DraftSettings:
    """The options that change the form of schemas; ``values`` has those of values."""

    values: JsonSettings
    additional_properties: bool = True
    optional_unless_required: bool = False


def draft_schema(
    schema: Schema, settings: DraftSettings, index: int | None = None, bare: bool = False
) -> dict[str, Any]:
    """Return the JSON Schema of a Connect schema. Raises DataError.

    ``index`` is the field's place; ``bare`` leaves null out, for a member of a union.
    """
    if schema.type is Type.STRUCT and schema.name == ONE_OF:
        members = [
            draft_schema(field.schema.as_optional(False), settings, field.index, True) for field in schema.fields
        ]
        return {"oneOf": [{"type": "null"}, *members] if schema.optional else members} | _at(index)
    tree = _shape(schema, settings) | _described(schema, settings)
    if schema.optional and not bare:
        return {"oneOf": [{"type": "null"}, tree]} | _at(index)
    return tree | _at(index)


def _at(index: int | None) -> dict[str, Any]:
    return {} if index is None else {"connect.index": index}


def _shape(schema: Schema, settings: DraftSettings) -> dict[str, Any]:
    if schema.type in _NUMBER_WORDS:
        kind = "number" if schema.type in (Type.FLOAT32, Type.FLOAT64) else "integer"
        return {"type": kind, "connect.type": _NUMBER_WORDS[schema.type]}
    if schema.type is Type.BYTES:
        return {"type": "number" if schema.name == logical.DECIMAL else "string", "connect.type": "bytes"}
    if schema.type is Type.STRING and schema.parameter(ENUM) is not None:
        symbols = [symbol for symbol, _ in enum_members(schema, ENUM)]
        return {"enum": [None if symbol == _NULL_SYMBOL else symbol for symbol in symbols]}
    if schema.type is Type.STRUCT:
        fields = {field.name: draft_schema(field.schema, settings, field.index) for field in schema.fields}
        closed = {} if settings.additional_properties else {"additionalProperties": False}
        return {"type": "object", "properties": fields, **closed}
    if schema.value_schema is None:
        return {"type": schema.type.value.lower()}
    if schema.type is Type.ARRAY:
        return {"type": "array", "items": draft_schema(schema.value_schema, settings)}
    return _map_shape(schema.key_schema, schema.value_schema, settings)


def _map_shape(keys: Schema | None, values: Schema, settings: DraftSettings) -> dict[str, Any]:
    if keys is None or (keys.type is Type.STRING and not keys.optional):
        return {"type": "object", "connect.type": "map", "additionalProperties": draft_schema(values, settings)}
    entry = {_KEY: draft_schema(keys, settings, 0), _VALUE: draft_schema(values, settings, 1)}
    return {"type": "array", "connect.type": "map", "items": {"type": "object", "properties": entry}}


def _described(schema: Schema, settings: DraftSettings) -> dict[str, Any]:
    said: dict[str, Any] = {"title": schema.name, "description": schema.doc, "connect.version": schema.version}
    parameters = {name: text for name, text in schema.parameters if not name.startswith(NAMESPACE)}
    said["connect.parameters"] = parameters or None
    if schema.default is not None:
        said["default"] = to_tree(replace(schema, default=None), schema.default, settings.values)
    return {name: value for name, value in said.items() if value is not None}


def connect_schema_of(
    tree: Any, settings: DraftSettings, version: int | None = None, others: Mapping[str, Any] | None = None
) -> Schema:
    """Return the Connect schema of a JSON Schema; ``others`` are the schemas that it refers to, by name.

    Raises DataError: something that has no Connect form, a type inside of itself, a reference to nothing.
    """
    return _Reading(settings, tree, others or {}).schema(tree, version)


class _Reading:
    """One JSON Schema on its way."""

    def __init__(self, settings: DraftSettings, root: Any, others: Mapping[str, Any]) -> None:
        self._settings = settings
        self._root = root
        self._others = others
        self._open: list[str] = []

    def schema(self, tree: Any, version: int | None = None, optional: bool = False) -> Schema:
        """Return the schema of a tree."""
        if not isinstance(tree, dict):
            raise DataError(f"no JSON Schema with a Connect form: {tree!r:.80}")
        if "$ref" in tree:
            return self._referred(tree["$ref"], version, optional)
        choice = tree.get("oneOf", tree.get("anyOf"))
        if choice is None and isinstance(tree.get("type"), list):
            choice = [{**tree, "type": kind} for kind in tree["type"]]
        if choice is not None:
            return self._choice(tree, choice, version, optional)
        return self._described(self._shape(tree), tree, version, optional)

    def _referred(self, name: str, version: int | None, optional: bool) -> Schema:
        if name in self._open:
            raise DataError(f"the JSON Schema {name} holds itself: that has no Connect schema here")
        found = self._others.get(name)
        if found is None and name.startswith("#"):
            found = self._root
            for step in name.strip("#/").split("/") if name != "#" else ():
                found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if found is None:
            raise DataError(f"the JSON Schema refers to {name}, which is not there")
        self._open.append(name)
        try:
            return self.schema(found, version, optional)
        finally:
            self._open.pop()

    def _choice(self, tree: Mapping[str, Any], members: list[Any], version: int | None, optional: bool) -> Schema:
        others = [member for member in members if not (isinstance(member, dict) and member.get("type") == "null")]
        if len(others) == 1:
            return self.schema(others[0], version, optional or len(members) > 1)
        fields = []
        for at, other in enumerate(others):
            with in_place(f"choice {at + 1}"):
                fields.append(Field(f"{ONE_OF}.field.{at}", at, self.schema(other, None, True)))
        may_be_null = optional or len(others) < len(members)
        union = Schema(Type.STRUCT, optional=may_be_null, name=ONE_OF, fields=tuple(fields))
        return union if version is None else replace(union, version=tree.get("connect.version", version))

    def _shape(self, tree: Mapping[str, Any]) -> Schema:
        kind = tree.get("type")
        if "enum" in tree and kind in (None, "string"):
            symbols = [_NULL_SYMBOL if symbol is None else str(symbol) for symbol in tree["enum"]]
            return Schema(Type.STRING, parameters=((ENUM, ""), *((f"{ENUM}.{symbol}", symbol) for symbol in symbols)))
        if kind in ("integer", "number"):
            word = tree.get("connect.type", "int64" if kind == "integer" else "float64")
            if word not in _NUMBERS:
                raise DataError(f"connect.type {word!r} of a number is not known")
            return Schema(_NUMBERS[word])
        if kind == "string":
            return Schema(Type.BYTES if tree.get("connect.type") == "bytes" else Type.STRING)
        if kind == "boolean":
            return Schema(Type.BOOLEAN)
        if kind == "array":
            return self._array(tree)
        if kind == "object" or "properties" in tree:
            return self._object(tree)
        raise DataError(f"a JSON Schema of type {kind!r} has no Connect form")

    def _array(self, tree: Mapping[str, Any]) -> Schema:
        items = tree.get("items")
        if not isinstance(items, dict):
            raise DataError("Array schema did not specify the items type")
        if tree.get("connect.type") != "map":
            return Schema(Type.ARRAY, value_schema=self.schema(items))
        entry = items.get("properties", {})
        return Schema(Type.MAP, key_schema=self.schema(entry.get(_KEY)), value_schema=self.schema(entry.get(_VALUE)))

    def _object(self, tree: Mapping[str, Any]) -> Schema:
        if tree.get("connect.type") == "map":
            values = self.schema(tree.get("additionalProperties"))
            return Schema(Type.MAP, key_schema=Schema(Type.STRING), value_schema=values)
        properties, required = tree.get("properties", {}), tree.get("required", ())
        placed = sorted(
            enumerate(properties.items()), key=lambda entry: (_index(entry[1][1], entry[0]), entry[0])
        )  # in Connect's order where it is given
        fields = []
        for at, (_, (name, member)) in enumerate(placed):
            optional = self._settings.optional_unless_required and name not in required
            with in_place(f"property {name}"):
                fields.append(Field(name, at, self.schema(member, None, optional)))
        return Schema(Type.STRUCT, fields=tuple(fields))

    def _described(self, base: Schema, tree: Mapping[str, Any], version: int | None, optional: bool) -> Schema:
        parameters = {**dict(base.parameters), **(tree.get("connect.parameters") or {})}
        schema = replace(
            base,
            optional=optional,
            name=tree.get("title"),
            version=tree.get("connect.version", version),
            doc=tree.get("description"),
            parameters=tuple(parameters.items()),
        )
        default = tree.get("default")
        return schema if default is None else replace(schema, default=from_tree(schema, default, self._settings.values))


def _index(member: Any, place: int) -> int:
    index = member.get("connect.index") if isinstance(member, dict) else None
    return index if isinstance(index, int) else place


_FORMATS = one_of("NUMERIC", "BASE64", ignore_case=True)
_OWN = ConfigDef(
    [
        switch("object.additional.properties", "Whether to allow properties that are not in the schema.", True),
        switch("use.optional.for.non.required", "Whether properties that are not required may be null."),
        switch(
            "json.fail.invalid.schema",
            "Whether to reject values that do not match their JSON Schema (needs the package jsonschema).",
        ),
        text("decimal.format", "Decimals as base64 of their bytes, or as numbers.", "BASE64", Importance.LOW, _FORMATS),
        switch(
            "replace.null.with.default", "Whether to write a field's default instead of null.", True, Importance.LOW
        ),
    ]
)
CONFIG = BASE + _OWN


@dataclass(frozen=True, slots=True)
class Plan:
    """How values of one schema are written and read."""

    frame: bytes
    schema: Schema | None
    validate: Callable[[Any], None] | None


class JsonSchemaConverter(RegistryConverter[Plan, Plan]):
    """Writes and reads JSON whose schemas a Schema Registry keeps."""

    schema_type = "JSON"

    def config_def(self) -> ConfigDef:
        """Return the declarations of this converter's settings."""
        return CONFIG

    def take_settings(self, values: Mapping[str, Any]) -> None:
        """Take the settings that only this format has."""
        numeric = values["decimal.format"].upper() == "NUMERIC"
        self._values = JsonSettings(numeric, values["replace.null.with.default"], map_entries=True, union_name=ONE_OF)
        additional, required = values["object.additional.properties"], values["use.optional.for.non.required"]
        self._draft = DraftSettings(self._values, additional, required)
        self._validates: bool = values["json.fail.invalid.schema"]

    def plan_writing(self, topic: str, schema: Schema | None) -> Plan:
        """Return how values of a schema are written; without one they need ``use.schema.id`` or a latest version."""
        tree = {} if schema is None else draft_schema(schema, self._draft)
        subject = self.subject(topic, schema.name if schema is not None else None)
        stored = self.registry.id_for(subject, StoredSchema(dump_json(tree).decode()))
        return Plan(framed(stored.id or 0), schema, self._validator(json.loads(stored.text)))

    def plan_reading(self, topic: str, schema_id: int) -> Plan:
        """Return how payloads of an id are read."""
        stored = self.registry.by_id(schema_id)
        tree = load_json(stored.text.encode())
        subject = self.subject(topic, tree.get("title") if isinstance(tree, dict) else None)
        if self.uses_latest():
            stored = self.registry.latest(subject)
            tree = load_json(stored.text.encode())
        version = stored.version or self.registry.version_of(subject, stored)
        others = {
            name: load_json(stored_schema.text.encode())
            for name, stored_schema in self.registry.referenced(stored).items()
        }
        schema = connect_schema_of(tree, self._draft, version, others) if tree else None
        return Plan(b"", schema, self._validator(tree))

    def _validator(self, tree: Any) -> Callable[[Any], None] | None:
        return library("jsonschema").Draft7Validator(tree).validate if self._validates else None

    def write(self, plan: Plan, value: Any) -> bytes:
        """Return frame and JSON. Raises DataError."""
        payload = dump_json(to_tree(plan.schema, value, self._values))
        if plan.validate is not None:
            self._check(plan.validate, load_json(payload))
        return plan.frame + payload

    def read(self, plan: Plan, data: bytes, start: int) -> SchemaAndValue:
        """Return schema and value. Raises DataError."""
        payload = data[start:]
        tree = load_json_with_decimals(payload) if self._values.numeric_decimals else load_json(payload)
        if plan.validate is not None:
            self._check(plan.validate, tree)
        return SchemaAndValue(plan.schema, from_tree(plan.schema, tree, self._values))

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return a column of primitives, or structs of primitives, as framed JSON; a null stays null."""
        # Arrow is imported where batches are.
        from spark_connect_rt.records.registry.json_schema_columns import framed_column, json_text

        text = json_text(schema, values, self._values.numeric_decimals)
        if text is None:
            return None
        plan = self._plan_of(topic, schema)
        return framed_column(plan.frame, text) if plan.validate is None else None

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return payloads of one schema, flat objects or plain values, as a column."""
        from spark_connect_rt.records.registry.json_schema_columns import value_column

        found = self._trees(topic, data.to_pylist())
        column = None if found is None else value_column(*found, self._values)
        return None if found is None or column is None else (found[0], column)

    def values_to_connect_data(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, Sequence[Any]] | None:
        """Return the structs of payloads of one schema."""
        found = self._trees(topic, data)
        structs = None if found is None else structs_of(*found, self._values)
        return None if found is None or structs is None else (found[0], structs)

    def _trees(self, topic: str, data: Sequence[bytes | None]) -> tuple[Schema, list[Any]] | None:
        """Return the one schema and the JSON trees of payloads, None: some of them need a closer look."""
        first = next(iter(data), None)
        if first is None or self._values.numeric_decimals:
            return None
        try:
            plan = self._plan_for(topic, schema_id_of(first))
        except ConnectError:  # by rows: the same again, with the record's name
            return None
        present = [payload for payload in data if payload is not None]
        if len(present) < len(data) or not all(map(bytes.startswith, present, repeat(first[:LENGTH]))):
            return None
        if plan.schema is None or plan.schema.name == ONE_OF or plan.validate is not None:
            return None
        try:
            return plan.schema, [orjson.loads(payload[LENGTH:]) for payload in present]
        except orjson.JSONDecodeError:
            return None

    def _check(self, validate: Callable[[Any], None], tree: Any) -> None:
        try:
            validate(tree)
        except library("jsonschema").ValidationError as error:
            raise DataError(f"the value does not fit its JSON Schema: {error.message}") from error

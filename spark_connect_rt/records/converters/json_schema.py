"""Connect schemas <-> the ``schema`` member of JsonConverter's envelope (Java ``JsonConverter.asJsonSchema``).

Key order is Java's: type, the container's part, optional, name, version, doc, parameters, default, field.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.json_values import JsonSettings, from_tree, to_tree

_NAMES = {
    Type.INT8: "int8",
    Type.INT16: "int16",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "boolean",
    Type.STRING: "string",
    Type.BYTES: "bytes",
    Type.ARRAY: "array",
    Type.MAP: "map",
    Type.STRUCT: "struct",
}
_TYPES = {name: kind for kind, name in _NAMES.items()}


def schema_tree(schema: Schema, settings: JsonSettings) -> dict[str, Any]:
    """Return the JSON tree of a schema. Raises DataError: the default does not fit."""
    tree: dict[str, Any] = {"type": _NAMES[schema.type]}
    if schema.type is Type.ARRAY and schema.value_schema is not None:
        tree["items"] = schema_tree(schema.value_schema, settings)
    elif schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        tree["keys"] = schema_tree(schema.key_schema, settings)
        tree["values"] = schema_tree(schema.value_schema, settings)
    elif schema.type is Type.STRUCT:
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
    """Return the schema of a JSON tree, None for null. Raises DataError naming what is missing."""
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
        fields=_fields(tree, settings) if kind is Type.STRUCT else (),
        key_schema=_member(tree, "keys", settings) if kind is Type.MAP else None,
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


def _value_schema(kind: Type, tree: dict[str, Any], settings: JsonSettings) -> Schema | None:
    if kind is Type.ARRAY:
        return _member(tree, "items", settings)
    return _member(tree, "values", settings) if kind is Type.MAP else None


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

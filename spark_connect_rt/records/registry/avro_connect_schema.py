"""Avro schemas as Connect schemas (Java ``AvroData.toConnectSchema``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.registry.avro_schema import (
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT_FLAG,
    FIELD_DOC,
    FIXED_SIZE,
    KEY,
    MAP_ENTRY,
    NAMESPACE,
    PRECISION,
    RECORD_DOC,
    UNION,
    VALUE,
    AvroSettings,
    AvroTree,
    split_name,
)
from spark_connect_rt.records.registry.registry_settings import in_place

_PRIMITIVES = {
    "boolean": Type.BOOLEAN,
    "bytes": Type.BYTES,
    "double": Type.FLOAT64,
    "float": Type.FLOAT32,
    "int": Type.INT32,
    "long": Type.INT64,
    "string": Type.STRING,
}
_NAMED = ("record", "enum", "fixed", "error")
_SMALL = {"int8": Type.INT8, "int16": Type.INT16}
_LOGICAL_SCHEMAS = {
    ("int", "date"): logical.date_schema(),
    ("int", "time-millis"): logical.time_schema(),
    ("long", "timestamp-millis"): logical.timestamp_schema(),
}
_NONE: Any = object()


def connect_schema(
    tree: AvroTree,
    settings: AvroSettings,
    version: int | None = None,
    named: Mapping[str, AvroTree] | None = None,
) -> Schema:
    """Return the Connect schema of an Avro schema.

    Args:
        version: the registry's, for a schema without ``connect.version``.
        named: full name -> tree of the types that the schema refers to and does not hold.

    Raises DataError: an unknown type, a type inside of itself, or an invalid ``connect.*`` property.
    """
    return _Reading(settings, dict(named or {})).schema(tree, None, version=version)


def full_name(tree: Mapping[str, Any], around: str | None) -> str:
    """Return a named type's whole name; ``around`` is the namespace of the type that it is in."""
    name = str(tree.get("name", ""))
    namespace = tree.get("namespace", around)
    return name if "." in name or not namespace else f"{namespace}.{name}"


class _Reading:
    """One schema on its way."""

    def __init__(self, settings: AvroSettings, named: dict[str, AvroTree]) -> None:
        self._settings = settings
        self._named = named
        self._open: list[str] = []  # the records that are being read

    def schema(
        self,
        tree: AvroTree,
        around: str | None,
        *,
        optional: bool = False,
        default: Any = _NONE,
        version: int | None = None,
    ) -> Schema:
        """Return the schema of a tree; ``default`` is the one of the field that has this type."""
        if isinstance(tree, str) and tree not in _PRIMITIVES and tree != "null":
            tree, around = self._known(tree, around)
        if isinstance(tree, list):
            return self._union(tree, around, optional)
        if isinstance(tree, dict) and isinstance(tree.get("type"), dict | list):
            return self.schema(tree["type"], around, optional=optional, default=default, version=version)
        given: dict[str, Any] = {"type": tree} if isinstance(tree, str) else tree
        base = self._base(given, around)
        return self._described(base, given, around, optional, default, version)

    def _known(self, name: str, around: str | None) -> tuple[AvroTree, str | None]:
        whole = name if "." in name or not around else f"{around}.{name}"
        found = whole if whole in self._named else name
        if found not in self._named:
            raise DataError(f"the Avro schema has no type {name}")
        if found in self._open:
            raise DataError(f"the Avro type {found} holds itself: that has no Connect schema here")
        return self._named[found], split_name(found)[0]

    def _union(self, members: list[AvroTree], around: str | None, optional: bool) -> Schema:
        others = [member for member in members if member != "null"]
        if len(others) == 1 and len(members) == 2:
            return self.schema(others[0], around, optional=True)
        fields: list[Field] = []
        for at, other in enumerate(others):
            schema = self.schema(other, around, optional=True)
            name = self.member_name(other, around)
            if any(name == field.name for field in fields):
                raise DataError(
                    f"a union has two members that are called {name} in Connect: give them different names, or set "
                    "enhanced.avro.schema.support=true, which calls records and enums by their full names"
                )
            fields.append(Field(name, at, schema))
        may_be_null = optional or len(others) < len(members)
        return Schema(Type.STRUCT, optional=may_be_null, name=UNION, fields=tuple(fields))

    def member_name(self, tree: AvroTree, around: str | None) -> str:
        """Return the name of the field that holds a union's values of this type."""
        if isinstance(tree, str) and tree not in _PRIMITIVES:
            tree, around = self._known(tree, around)
        if isinstance(tree, str):
            return tree
        if tree["type"] in ("record", "enum"):
            name = full_name(tree, around)
            return name if self._settings.enhanced else split_name(name)[1]
        return str(tree["type"])

    def _base(self, tree: dict[str, Any], around: str | None) -> Schema:
        kind = tree["type"]
        if kind in _NAMED:
            return self._named_type(kind, tree, around)
        if kind == "array":
            return self._array(tree["items"], around)
        if kind == "map":
            return Schema(Type.MAP, key_schema=Schema(Type.STRING), value_schema=self.schema(tree["values"], around))
        if kind == "int" and tree.get("logicalType") is None and tree.get("connect.type") is not None:
            if tree["connect.type"] not in _SMALL:
                raise DataError(f"connect.type {tree['connect.type']!r} of an Avro int is neither int8 nor int16")
            return Schema(_SMALL[tree["connect.type"]])
        if (kind, tree.get("logicalType")) in _LOGICAL_SCHEMAS:
            return _LOGICAL_SCHEMAS[kind, tree["logicalType"]]
        if kind == "bytes" and tree.get("logicalType") == "decimal":
            return _decimal(tree)
        if kind in _PRIMITIVES:
            return Schema(_PRIMITIVES[kind])
        if kind == "null":
            raise DataError("Standalone null schemas are not supported by this converter")
        return self.schema(kind, around)

    def _named_type(self, kind: str, tree: dict[str, Any], around: str | None) -> Schema:
        name = full_name(tree, around)
        self._named[name] = tree
        if kind == "fixed":
            if tree.get("logicalType") == "decimal":
                return _decimal(tree)
            size = {FIXED_SIZE: str(tree["size"])} if self._settings.enhanced else {}
            return Schema(Type.BYTES, parameters=tuple(size.items()), name=name if size else None)
        if kind == "enum":
            return self._enum(tree, name)
        self._open.append(name)
        try:
            return self._record(tree, split_name(name)[0])
        finally:
            self._open.pop()

    def _record(self, tree: dict[str, Any], namespace: str | None) -> Schema:
        parameters: dict[str, str] = {}
        fields: list[Field] = []
        if self._settings.meta_data and tree.get("doc") is not None:
            parameters[RECORD_DOC] = tree["doc"]
        for at, field in enumerate(tree["fields"]):
            if self._settings.meta_data and field.get("doc") is not None:
                parameters[FIELD_DOC + field["name"]] = field["doc"]
            default = field.get("default")
            with in_place(f"field {field['name']}"):
                schema = self.schema(field["type"], namespace, default=_NONE if default is None else default)
            fields.append(Field(field["name"], at, schema))
        return Schema(Type.STRUCT, fields=tuple(fields), parameters=tuple(parameters.items()))

    def _enum(self, tree: dict[str, Any], name: str) -> Schema:
        parameters: dict[str, str] = {}
        simple = split_name(name)[1]
        if self._settings.meta_data and tree.get("doc") is not None:
            parameters[ENUM_DOC + simple] = tree["doc"]
        if self._settings.meta_data and tree.get("default") is not None:
            parameters[ENUM_DEFAULT + simple] = tree["default"]
        parameters[ENUM] = name
        parameters |= {f"{ENUM}.{symbol}": symbol for symbol in tree["symbols"]}
        return Schema(Type.STRING, parameters=tuple(parameters.items()))

    def _array(self, items: AvroTree, around: str | None) -> Schema:
        entry, inside = items, around
        if isinstance(items, str) and items not in _PRIMITIVES:
            entry, inside = self._known(items, around)
        if not isinstance(entry, dict) or not _is_map_entry(entry, inside):
            return Schema(Type.ARRAY, value_schema=self.schema(items, around))
        self._named[full_name(entry, inside)] = entry
        parts = {field["name"]: field["type"] for field in entry["fields"]}
        if parts.keys() != {KEY, VALUE}:
            raise DataError("a map written as an array of entries must have entries of key and value")
        namespace = split_name(full_name(entry, inside))[0]
        keys, values = self.schema(parts[KEY], namespace), self.schema(parts[VALUE], namespace)
        return Schema(Type.MAP, key_schema=keys, value_schema=values)

    def _described(
        self,
        base: Schema,
        tree: dict[str, Any],
        around: str | None,
        optional: bool,
        default: Any,
        version: int | None,
    ) -> Schema:
        parameters = dict(base.parameters)
        if self._settings.meta_data:
            parameters |= _text_parameters(tree.get("connect.parameters"))
        parameters |= {name: str(value) for name, value in tree.items() if name.startswith("avro")}
        said = tree.get("connect.default")
        if default is _NONE:
            default = _NONE if said is None else said
        elif said is None:
            parameters[FIELD_DEFAULT_FLAG] = "true"
        schema = replace(
            base,
            optional=optional,
            name=self._name(base, tree, around),
            version=_version(base, tree, version),
            doc=_text(tree, "connect.doc") if self._settings.meta_data else None,
            parameters=tuple(parameters.items()),
        )
        return schema if default is _NONE else replace(schema, default=default_value(schema, default, self._settings))

    def _name(self, base: Schema, tree: dict[str, Any], around: str | None) -> str | None:
        name = _text(tree, "connect.name")
        if name is None and tree["type"] in ("record", "enum"):
            name = full_name(tree, around)
        if name is None or name.startswith(f"{NAMESPACE}.{DEFAULT_NAME}"):
            return base.name
        if base.name is not None and base.name != name:
            raise DataError(f"Mismatched names: {base.name} is called {name} in the Avro schema")
        return name


def _is_map_entry(tree: dict[str, Any], around: str | None) -> bool:
    if tree.get("type") != "record":
        return False
    return tree.get("connect.internal.type") == MAP_ENTRY or full_name(tree, around) == f"{NAMESPACE}.{MAP_ENTRY}"


def _decimal(tree: dict[str, Any]) -> Schema:
    scale, precision = tree.get("scale"), tree.get("precision")
    if not isinstance(scale, int):
        raise DataError("scale must be specified and must be a number.")
    schema = logical.decimal_schema(scale)
    if precision is None or precision == DEFAULT_PRECISION:
        return schema
    if not isinstance(precision, int):
        raise DataError("precision must be a number")
    return replace(schema, parameters=(*schema.parameters, (PRECISION, str(precision))))


def _text(tree: dict[str, Any], name: str) -> str | None:
    value = tree.get(name)
    if value is not None and not isinstance(value, str):
        raise DataError(f"{name} must be text, not {value!r}")
    return value


def _text_parameters(given: Any) -> dict[str, str]:
    if given is None:
        return {}
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise DataError(f"connect.parameters must be an object of texts, not {given!r}")
    return given


def _version(base: Schema, tree: dict[str, Any], version: int | None) -> int | None:
    said = tree.get("connect.version", version)
    if said is None:
        return base.version
    if isinstance(said, bool) or not isinstance(said, int):
        raise DataError(f"Invalid Connect version found: {said!r}")
    if base.version is not None and said != base.version and tree.get("connect.version") is not None:
        raise DataError(f"Mismatched versions: {base.version} is {said} in the Avro schema")
    return base.version or said


def default_value(schema: Schema, tree: Any, settings: AvroSettings) -> Any:
    """Return a default of its JSON form in an Avro schema. Raises DataError: it does not fit."""
    if tree is None:
        return None
    try:
        return _default(schema, tree, settings)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"the default {tree!r} does not fit {schema}") from error


def _default(schema: Schema, tree: Any, settings: AvroSettings) -> Any:
    if schema.type is Type.BYTES:
        return logical.from_primitive(schema, tree.encode("latin-1"))
    if schema.type in (Type.FLOAT32, Type.FLOAT64):
        return float(tree)
    if schema.type is Type.ARRAY and schema.value_schema:
        return [default_value(schema.value_schema, part, settings) for part in tree]
    if schema.type is Type.MAP and schema.key_schema and schema.value_schema:
        pairs = tree.items() if isinstance(tree, dict) else [(entry[KEY], entry[VALUE]) for entry in tree]
        keys, values = schema.key_schema, schema.value_schema
        return {default_value(keys, key, settings): default_value(values, part, settings) for key, part in pairs}
    if schema.type is Type.STRUCT:
        parts = {field.name: default_value(field.schema, tree[field.name], settings) for field in schema.fields}
        return Struct(schema, parts)
    return logical.from_primitive(schema, tree)

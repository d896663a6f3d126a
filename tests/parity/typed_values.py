"""Connect values and schemas as JSON that keeps their Java types: ``{"i8": 1}``, ``{"date": 0}`` ...

The recordings hold this form; ``java/DataOracle.java`` is its other side.
"""

from __future__ import annotations

import base64
import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.java_numbers import to_single
from spark_connect_rt.api.data.schema import Field, Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.records import Header, SinkRecord, SourceRecord

Node = Any
_TEMPORAL = (logical.DATE, logical.TIME, logical.TIMESTAMP)


def schema_of(node: Node) -> Schema | None:
    """Return the schema of its JSON form."""
    if node is None:
        return None
    schema = Schema(
        Type(node["type"]),
        optional=node.get("optional", False),
        name=node.get("name"),
        version=node.get("version"),
        doc=node.get("doc"),
        parameters=tuple(sorted((node.get("parameters") or {}).items())),
        fields=tuple(Field(name, index, _known(part)) for index, (name, part) in enumerate(node.get("fields", ()))),
        key_schema=schema_of(node.get("key")),
        value_schema=schema_of(node.get("value")),
    )
    if node.get("default") is None:
        return schema
    return Schema(**{**_parts(schema), "default": value_of(node["default"], schema)})


def _known(node: Node) -> Schema:
    schema = schema_of(node)
    assert schema is not None
    return schema


def _parts(schema: Schema) -> dict[str, Any]:
    names = ("type", "optional", "name", "version", "doc", "parameters", "fields", "key_schema", "value_schema")
    return {name: getattr(schema, name) for name in names}


def value_of(node: Node, schema: Schema | None = None) -> Any:
    """Return the Python value of its JSON form; only the schema tells what a Java Date stands for."""
    if node is None:
        return None
    ((kind, of),) = node.items()
    if kind in ("i8", "i16", "i32", "i64", "bool", "s"):
        return of
    if kind in ("f32", "f64"):
        return to_single(float(of)) if kind == "f32" else float(of)
    if kind == "date":
        name = schema.name if schema is not None and schema.name in _TEMPORAL else logical.TIMESTAMP
        return logical.from_ms(name or "", of)
    return {"bytes": _bytes, "dec": _decimal, "list": _list, "map": _map, "struct": _struct}[kind](of, schema)


def _bytes(of: Node, _: Schema | None) -> bytes:
    return base64.b64decode(of)


def _decimal(of: Node, _: Schema | None) -> Decimal:
    return Decimal(of)


def _list(of: Node, schema: Schema | None) -> list[Any]:
    return [value_of(part, schema.value_schema if schema else None) for part in of]


def _map(of: Node, schema: Schema | None) -> dict[Any, Any]:
    keys, values = (schema.key_schema, schema.value_schema) if schema else (None, None)
    return {value_of(key, keys): value_of(part, values) for key, part in of}


def _struct(of: Node, _: Schema | None) -> Struct:
    schema = _known(of[0])
    given = dict(of[1])
    return Struct.of_checked(schema, [value_of(given.get(field.name), field.schema) for field in schema.fields])


def record_of(node: Node) -> SourceRecord | SinkRecord:
    """Return the record of its JSON form; one with an offset is a sink's."""
    key_schema, value_schema = schema_of(node.get("key_schema")), schema_of(node.get("value_schema"))
    parts: dict[str, Any] = {
        "topic": node.get("topic", "topic"),
        "key_schema": key_schema,
        "key": value_of(node.get("key"), key_schema),
        "value_schema": value_schema,
        "value": value_of(node.get("value"), value_schema),
        "timestamp_ms": node.get("timestamp"),
        "partition": node.get("partition"),
        "headers": tuple(
            Header(name, value_of(value, schema_of(schema)), schema_of(schema))
            for name, schema, value in node.get("headers", ())
        ),
    }
    return SinkRecord(offset=node["offset"], **parts) if "offset" in node else SourceRecord({}, {}, **parts)


def same(ours: Any, theirs: Any) -> bool:
    """Whether two values are the same to the last digit: types, scales and NaN count, the order of maps does not."""
    if isinstance(ours, Struct) and isinstance(theirs, Struct):
        values = zip(ours.values(with_defaults=False), theirs.values(with_defaults=False), strict=False)
        return same_schema(ours.schema, theirs.schema) and all(same(mine, other) for mine, other in values)
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return ours.keys() == theirs.keys() and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, Decimal) and isinstance(theirs, Decimal):
        return ours.as_tuple() == theirs.as_tuple()
    if isinstance(ours, float) and isinstance(theirs, float):
        return (math.isnan(ours) and math.isnan(theirs)) or (
            ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)
        )
    if isinstance(ours, dt.date | dt.time) and isinstance(theirs, dt.datetime):  # Java has one class
        return logical.ms_of(ours) == logical.ms_of(theirs)
    return type(ours) is type(theirs) and bool(ours == theirs)


def same_schema(ours: Schema | None, theirs: Schema | None) -> bool:
    """Whether two schemas are the same; the order of parameters does not count."""
    if ours is None or theirs is None:
        return ours is theirs
    simple = ("type", "optional", "name", "version", "doc")
    return (
        all(getattr(ours, part) == getattr(theirs, part) for part in simple)
        and dict(ours.parameters) == dict(theirs.parameters)
        and same(ours.default, theirs.default)
        and [field.name for field in ours.fields] == [field.name for field in theirs.fields]
        and all(same_schema(mine.schema, other.schema) for mine, other in zip(ours.fields, theirs.fields, strict=True))
        and same_schema(ours.key_schema, theirs.key_schema)
        and same_schema(ours.value_schema, theirs.value_schema)
    )

"""The schema of a value without one (Java ``Values.inferSchema``).

A Python int is an INT64 and a float a FLOAT64. Where Java has no answer (mixed or empty lists and maps), the result is
None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct

_SCALARS: tuple[tuple[tuple[type[Any], ...], Schema], ...] = (
    ((str,), schemas.STRING),
    ((bool,), schemas.BOOLEAN),
    ((int,), schemas.INT64),
    ((float,), schemas.FLOAT64),
    ((bytes, bytearray, memoryview), schemas.BYTES),
)


def infer_schema(value: Any) -> Schema | None:
    """Return the schema, None where none can be inferred."""
    for kinds, schema in _SCALARS:
        if isinstance(value, kinds):
            return schema
    if isinstance(value, list | tuple):
        elements = _common_schema(value)
        return elements and Schema(Type.ARRAY, value_schema=elements)
    if isinstance(value, Mapping):
        keys, values = _common_schema(value.keys()), _common_schema(value.values())
        return Schema(Type.MAP, key_schema=keys, value_schema=values) if keys and values else None
    return value.schema if isinstance(value, Struct) else None


def schema_type(value: Any) -> Type | None:
    """Return the type of a schemaless value (Java ``ConnectSchema.schemaType``), None: Connect has none for it."""
    if isinstance(value, list | tuple):
        return Type.ARRAY
    if isinstance(value, Mapping):
        return Type.MAP
    if isinstance(value, Struct):
        return Type.STRUCT
    found = infer_schema(value)
    return found.type if found else None


def _common_schema(parts: Iterable[Any]) -> Schema | None:
    found = [None if part is None else infer_schema(part) for part in parts]
    kinds = {schema.type for schema, part in zip(found, parts, strict=True) if part is not None and schema}
    unknown = any(schema is None and part is not None for schema, part in zip(found, parts, strict=True))
    if unknown or len(kinds) != 1:
        return None
    return Schema(kinds.pop(), optional=None in found)

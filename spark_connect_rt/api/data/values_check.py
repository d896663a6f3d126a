"""Does a value fit its schema (Java ``ConnectSchema.validateValue``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.data.logical import PYTHON_TYPES
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError

_INTEGER_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_PYTHON_TYPES: dict[Type, tuple[type[Any], ...]] = {
    Type.FLOAT32: (float, int),
    Type.FLOAT64: (float, int),
    Type.BOOLEAN: (bool,),
    Type.STRING: (str,),
    Type.BYTES: (bytes, bytearray, memoryview),
    Type.ARRAY: (list, tuple),
    Type.MAP: (Mapping,),
    Type.STRUCT: (Struct, Mapping),
}


def check_value(schema: Schema, value: Any, place: str = "value") -> None:
    """Return when ``value`` fits ``schema``, all the way down. Raises DataError naming the place inside."""
    if value is None:
        if not schema.optional and schema.default is None:
            raise DataError(f"{place}: null for a required {schema.type.value}")
        return
    if schema.name in PYTHON_TYPES and isinstance(value, PYTHON_TYPES[schema.name]):
        return
    if not _fits(schema.type, value):
        raise DataError(f"{place}: {type(value).__name__} does not fit {schema.type.value}")
    _check_parts(schema, value, place)


def _fits(kind: Type, value: Any) -> bool:
    bits = _INTEGER_BITS.get(kind)
    if bits is None:
        return isinstance(value, _PYTHON_TYPES[kind]) and (kind is Type.BOOLEAN or not isinstance(value, bool))
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << bits - 1) <= value < 1 << bits - 1


def _check_parts(schema: Schema, value: Any, place: str) -> None:
    if schema.type is Type.STRUCT:
        for member in schema.fields:
            part = value.get_without_default(member.name) if isinstance(value, Struct) else value.get(member.name)
            check_value(member.schema, part, f"{place}.{member.name}")
    elif schema.type is Type.ARRAY and schema.value_schema is not None:
        for index, part in enumerate(value):
            check_value(schema.value_schema, part, f"{place}[{index}]")
    elif schema.type is Type.MAP and schema.key_schema is not None and schema.value_schema is not None:
        for key, part in value.items():
            check_value(schema.key_schema, key, f"{place} key {key!r}")
            check_value(schema.value_schema, part, f"{place}[{key!r}]")

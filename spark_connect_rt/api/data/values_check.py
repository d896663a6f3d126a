"""Does a value fit its schema (Java ``ConnectSchema.validateValue``); the messages are Java's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.data.logical import PYTHON_TYPES, is_logical_value
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
    """Return when ``value`` fits ``schema``, all the way down. Raises DataError naming the place inside.

    A STRUCT may be a mapping: that is what an Arrow column's elements are.
    """
    if value is None:
        if not schema.optional:
            raise DataError(f"Invalid value: null used for required {place}, schema type: {schema.type.value}")
        return
    if not _fits(schema, value):
        named = f' "{schema.name}"' if schema.name else ""
        raise DataError(
            f"Invalid object for schema{named} with type {schema.type.value}: {_shown(schema, value)} for {place}"
        )
    _check_parts(schema, value, place)


def _shown(schema: Schema, value: Any) -> str:
    if schema.type in _INTEGER_BITS and isinstance(value, int) and not isinstance(value, bool):
        return f"{value}, which is out of range,"
    return type(value).__name__


def _fits(schema: Schema, value: Any) -> bool:
    if schema.name in PYTHON_TYPES:
        return is_logical_value(schema.name, value)
    bits = _INTEGER_BITS.get(schema.type)
    if isinstance(value, bool) or bits is None:
        return isinstance(value, _PYTHON_TYPES.get(schema.type, ())) and (
            schema.type is Type.BOOLEAN or not isinstance(value, bool)
        )
    return isinstance(value, int) and -(1 << bits - 1) <= value < 1 << bits - 1


def _check_parts(schema: Schema, value: Any, place: str) -> None:
    if schema.type is Type.STRUCT:
        _check_struct(schema, value)
    elif schema.type is Type.ARRAY:
        element = f"element of array {place}"
        elements = _known(schema.value_schema, element)
        for part in value:
            check_value(elements, part, element)
    elif schema.type is Type.MAP:
        key_place, value_place = f"key of map {place}", f"value of map {place}"
        keys, values = _known(schema.key_schema, key_place), _known(schema.value_schema, value_place)
        for key, part in value.items():
            check_value(keys, key, key_place)
            check_value(values, part, value_place)


def _known(schema: Schema | None, place: str) -> Schema:
    if schema is None:
        raise DataError(f"No schema defined for {place}")
    return schema


def _check_struct(schema: Schema, value: Struct | Mapping[str, Any]) -> None:
    if isinstance(value, Struct):
        if value.schema is not schema and value.schema != schema:
            raise DataError("Struct schemas do not match.")
        value.check()
        return
    for member in schema.fields:
        check_field(member.name, member.schema, value.get(member.name), has_default=True)


def check_field(name: str, schema: Schema, value: Any, *, has_default: bool = False) -> None:
    """Check a struct's member. ``has_default``: a null that a default stands for is right. Raises DataError."""
    if value is None and has_default and schema.default is not None:
        return
    check_value(schema, value, f'field: "{name}"')

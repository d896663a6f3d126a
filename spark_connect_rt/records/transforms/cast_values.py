"""One value cast to a primitive type, as Java's Cast does: numbers narrow, text is parsed, the rest is refused."""

from __future__ import annotations

import base64
import datetime as dt
from decimal import Decimal
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.java_numbers import (
    LONG_BITS,
    narrowed,
    parse_float,
    parse_integer,
    parse_single,
    single_of_decimal,
    to_single,
)
from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.schema_inference import schema_type
from spark_connect_rt.api.data.values_text import date_text
from spark_connect_rt.errors import DataError

INTEGER_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
FLOATS = (Type.FLOAT32, Type.FLOAT64)
OUTPUT_TYPES = (*INTEGER_BITS, *FLOATS, Type.BOOLEAN, Type.STRING)
INPUT_TYPES = (*OUTPUT_TYPES, Type.BYTES)
_EXACT_IN_SINGLE = 1 << 24
_ENCODED = (logical.DATE, logical.TIME, logical.TIMESTAMP)


def type_names(kinds: tuple[Type, ...]) -> str:
    """Return types as a message lists them."""
    return f"[{', '.join(kind.value for kind in kinds)}]"


def cast_value(schema: Schema | None, value: Any, target: Type) -> Any:
    """Return ``value`` as ``target``; null stays null. Raises DataError."""
    if value is None:
        return None
    kind = schema.type if schema is not None else schema_type(value)
    if kind is None:
        raise DataError(
            f"Cast transformation was passed a value of type {type(value).__name__} "
            "which is not supported by Connect's data API"
        )
    if kind not in INPUT_TYPES:
        raise DataError(
            f"Cast transformation does not support casting from {kind.value}; "
            f"supported types are {type_names(INPUT_TYPES)}"
        )
    if schema is not None and schema.name in _ENCODED and target is not Type.STRING:
        value = logical.to_primitive(schema, value)
    try:
        return _cast(schema, value, target)
    except ValueError as error:
        shown = java_text(value, schema)
        raise DataError(f"Value ({shown}) was out of range for requested data type") from error


def _cast(schema: Schema | None, value: Any, target: Type) -> Any:
    if target is Type.STRING:
        return cast_to_text(schema, value)
    if target is Type.BOOLEAN:
        return _to_boolean(value)
    if target in INTEGER_BITS:
        return _to_integer(value, INTEGER_BITS[target])
    return _to_float(value, target)


def cast_to_text(schema: Schema | None, value: Any) -> str:
    """Return the text of a value: bytes in base64, dates in ISO 8601."""
    if isinstance(value, dt.date | dt.time):
        return date_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return java_text(value, schema)


def _unexpected(value: Any) -> DataError:
    return DataError(f"Unexpected type in Cast transformation: {type(value).__name__}")


def _to_boolean(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float | Decimal):
        return narrowed(value, LONG_BITS) != 0
    if isinstance(value, str):
        return value.lower() == "true"
    raise _unexpected(value)


def _to_integer(value: Any, bits: int) -> int:
    if isinstance(value, int | float | Decimal):
        return narrowed(value, bits)
    if isinstance(value, str):
        return parse_integer(value, bits)
    raise _unexpected(value)


def _to_single(value: float | Decimal) -> float:
    exact = isinstance(value, float) or (isinstance(value, int) and abs(value) <= _EXACT_IN_SINGLE)
    return to_single(float(value)) if exact else single_of_decimal(Decimal(value))  # rounded once


def _to_float(value: Any, target: Type) -> float:
    if isinstance(value, str):
        return parse_single(value) if target is Type.FLOAT32 else parse_float(value)
    if isinstance(value, int | float | Decimal):
        return _to_single(value) if target is Type.FLOAT32 else float(value)
    raise _unexpected(value)

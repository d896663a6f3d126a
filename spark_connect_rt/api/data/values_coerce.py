"""A parsed value (not a list, a map or a date as text) converted to another type; the messages are Java's.

Owns the casts below ``Values.convertTo...``: integers wrap and floats are cut as Java's casts do. Must not read lists,
maps, dates or booleans from text: ``values_parse`` calls this for the elements it found, ``values_convert`` for values.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.java_numbers import LONG_BITS, big_decimal, narrowed, to_single, wrapped
from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.data.values_text import values_text
from spark_connect_rt.base.json_text import java_double
from spark_connect_rt.errors import DataError

NULL_REFUSED = "Unable to convert a null value to a schema that requires a value"
_DAY_MS = 86_400_000
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}


def coerced(to: Schema, schema: Schema | None, value: Any) -> Any:
    """Return the value as ``to`` asks. Raises DataError: null where it is required, or no way from one to the other."""
    if value is None:
        if to.optional:
            return None
        raise DataError(NULL_REFUSED)
    return coerce(to, schema, value)


def coerce(to: Schema, schema: Schema | None, value: Any) -> Any:
    """Return a value that may not be null as ``to`` asks. Raises DataError: there is no way from one to the other."""
    temporal = temporal_type(to)
    if temporal is not None:
        return _temporal(to, schema, value)
    if to.name == logical.DECIMAL and to.type is Type.BYTES:
        return _decimal(to, schema, value)
    return _COERCIONS[to.type](to, schema, value)


def temporal_type(to: Schema) -> str | None:
    """Return the name of the logical type when ``to`` is a date, a time or a timestamp."""
    return to.name if to.name in _TEMPORAL_TYPES and to.type is _TEMPORAL_TYPES[to.name] else None


_TEMPORAL_TYPES: Mapping[str | None, Type] = {
    logical.DATE: Type.INT32,
    logical.TIME: Type.INT32,
    logical.TIMESTAMP: Type.INT64,
}


def _cannot(value: Any, to: str, schema: Schema | None = None) -> DataError:
    return DataError(f"Unable to convert {java_text(value, schema)} ({type(value).__name__}) to {to}")


def _boolean(_: Schema, schema: Schema | None, value: Any) -> bool:
    return value if isinstance(value, bool) else _as_long(value, schema) != 0


def _integer(to: Schema, schema: Schema | None, value: Any) -> int:
    return wrapped(_as_long(value, schema), _BITS[to.type])


def _float(to: Schema, schema: Schema | None, value: Any) -> float:
    return to_single(_as_double(value, schema)) if to.type is Type.FLOAT32 else _as_double(value, schema)


def _string(_: Schema, schema: Schema | None, value: Any) -> str | None:
    return values_text(schema, value)


def _list(to: Schema, schema: Schema | None, value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    raise _cannot(value, str(to), schema)


def _map(to: Schema, schema: Schema | None, value: Any) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise _cannot(value, str(to), schema)


def _struct(to: Schema, schema: Schema | None, value: Any) -> Struct:
    if isinstance(value, Struct):
        return value
    raise _cannot(value, str(to), schema)


def _bytes(to: Schema, _: Schema | None, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Decimal):
        return logical.decimal_to_bytes(to, value)
    raise _cannot(value, str(to))


def _decimal(to: Schema, schema: Schema | None, value: Any) -> Decimal:
    if isinstance(value, bytes | bytearray | memoryview):
        return logical.decimal_from_bytes(to, bytes(value))
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _decimal(to, None, java_double(float(value)))
    if isinstance(value, str):
        try:
            return big_decimal(value)
        except ValueError as error:
            raise DataError(str(error)) from error
    raise _cannot(value, str(to), schema)


def _temporal(to: Schema, schema: Schema | None, value: Any) -> Any:
    found = _from_temporal(value, schema, to.name or "")
    if found is not None:
        return found
    return logical.from_primitive(to, wrapped(_as_long(value, schema), LONG_BITS if to.type is Type.INT64 else 32))


def _from_temporal(value: Any, schema: Schema | None, name: str) -> Any:
    """Return the value as the logical type ``name``. None: not a date or time, or its schema has another type."""
    if not isinstance(value, dt.date | dt.time):
        return None
    if schema is None or schema.name == name:
        return value if logical.is_logical_value(name, value) else logical.from_ms(name, logical.ms_of(value))
    if logical.TIMESTAMP in (schema.name, name) and schema.name in (logical.DATE, logical.TIME, logical.TIMESTAMP):
        ms = logical.ms_of(value)
        if name == logical.DATE:  # Java divides, and so cuts towards 1970
            ms = (abs(ms) // _DAY_MS) * (-_DAY_MS if ms < 0 else _DAY_MS)
        return logical.from_ms(name, ms)
    return None


def _as_long(value: Any, schema: Schema | None) -> int:
    number = _number(value)
    if number is not None:
        return narrowed(number, LONG_BITS)
    name = schema.name if schema else None
    if isinstance(value, dt.date | dt.time) and name in (logical.DATE, logical.TIME, logical.TIMESTAMP):
        return int(logical.to_primitive(schema, value)) if schema else 0
    raise _cannot(value, "a number" if schema is None else str(schema), schema)


def _as_double(value: Any, schema: Schema | None) -> float:
    number = _number(value)
    return float(number) if number is not None else float(_as_long(value, schema))


def _number(value: Any) -> int | float | Decimal | None:
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return big_decimal(value)
        except ValueError:
            return None
    return None


_COERCIONS: Mapping[Type, Callable[[Schema, Schema | None, Any], Any]] = {
    Type.BYTES: _bytes,
    Type.STRING: _string,
    Type.BOOLEAN: _boolean,
    **dict.fromkeys(_BITS, _integer),
    Type.FLOAT32: _float,
    Type.FLOAT64: _float,
    Type.ARRAY: _list,
    Type.MAP: _map,
    Type.STRUCT: _struct,
}

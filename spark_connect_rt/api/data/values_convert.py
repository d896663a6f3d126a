"""One Connect value as another type (Java ``Values.convertTo...``); the messages are Java's.

``schema`` is always that of the value given; None where it has none. Integers wrap and floats are cut as Java's
casts do: only text that is no number, and what cannot be a number at all, is refused.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.java_numbers import LONG_BITS, big_decimal, narrowed, to_single, wrapped
from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.data.schema import Schema, SchemaAndValue, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.data.values_parse import parse_string
from spark_connect_rt.api.data.values_text import values_text
from spark_connect_rt.errors import DataError
from spark_connect_rt.protocol.json_text import java_double

_DAY_MS = 86_400_000
_NULL = "Unable to convert a null value to a schema that requires a value"
_BITS = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_ARRAY = Schema(Type.ARRAY, value_schema=schemas.STRING)
_MAP = Schema(Type.MAP, key_schema=schemas.STRING, value_schema=schemas.STRING)


def convert_to_boolean(schema: Schema | None, value: Any) -> bool | None:
    """Return a truth value; a number is true when it is not 0."""
    if value is None or isinstance(value, bool):
        return value
    parsed = parse_string(value).value if isinstance(value, str) else None
    return parsed if isinstance(parsed, bool) else _as_long(value, schema) != 0


def convert_to_integer(schema: Schema | None, value: Any, kind: Type) -> int | None:
    """Return an INT8, INT16, INT32 or INT64."""
    return None if value is None else wrapped(_as_long(value, schema), _BITS[kind])


def convert_to_float(schema: Schema | None, value: Any, kind: Type) -> float | None:
    """Return a FLOAT32 or FLOAT64."""
    if value is None:
        return None
    return to_single(_as_double(value, schema)) if kind is Type.FLOAT32 else _as_double(value, schema)


def convert_to_string(schema: Schema | None, value: Any) -> str | None:
    """Return the text ``parse_string`` reads back."""
    return values_text(schema, value)


def convert_to_list(schema: Schema | None, value: Any, to: Schema = _ARRAY) -> list[Any]:
    """Return a list, or what a text of one holds."""
    schema, parsed = _known(schema, _not_null(value))
    if isinstance(parsed, list | tuple):
        return list(parsed)
    raise _cannot(parsed, str(to), schema)


def convert_to_map(schema: Schema | None, value: Any, to: Schema = _MAP) -> dict[Any, Any]:
    """Return a map, or what a text of one holds."""
    schema, parsed = _known(schema, _not_null(value))
    if isinstance(parsed, Mapping):
        return dict(parsed)
    raise _cannot(parsed, str(to), schema)


def convert_to_struct(schema: Schema | None, value: Any, to: Schema | None = None) -> Struct:
    """Return the struct that the value is."""
    if isinstance(_not_null(value), Struct):
        return value  # type: ignore[no-any-return]
    raise _cannot(value, str(to or Schema(Type.STRUCT)), schema)


def convert_to_date(schema: Schema | None, value: Any) -> dt.date:
    """Return the date of a date, a timestamp, a text of one, or days since the epoch."""
    found: dt.date | None = _from_temporal(_parsed(_not_null(value)), schema, logical.DATE)
    if found is None:
        found = _from_number(logical.date_schema(), _parsed(value), schema, 32)
    return found


def convert_to_time(schema: Schema | None, value: Any) -> dt.time:
    """Return the time of day of a time, a timestamp, a text of one, or ms since midnight."""
    found: dt.time | None = _from_temporal(_parsed(_not_null(value)), schema, logical.TIME)
    if found is None:
        found = _from_number(logical.time_schema(), _parsed(value), schema, 32)
    return found


def convert_to_timestamp(schema: Schema | None, value: Any) -> dt.datetime:
    """Return the moment of a timestamp, a date, a time, a text of one, or ms since the epoch."""
    found: dt.datetime | None = _from_temporal(_parsed(_not_null(value)), schema, logical.TIMESTAMP)
    if found is None:
        found = _from_number(logical.timestamp_schema(), _parsed(value), schema, LONG_BITS)
    return found


def convert_to_decimal(schema: Schema | None, value: Any, scale: int) -> Decimal:
    """Return a decimal; only bytes are given ``scale``, other numbers keep the one they have."""
    return _decimal(logical.decimal_schema(scale), _not_null(value), schema)


def convert_to(to: Schema, schema: Schema | None, value: Any) -> Any:
    """Return the value as ``to`` asks. Raises DataError: null where it is required, or no way from one to the other."""
    if value is None:
        if to.optional:
            return None
        raise DataError(_NULL)
    if to.name in _LOGICAL and to.type is _LOGICAL[to.name][0]:
        return _LOGICAL[to.name][1](to, schema, value)
    return _CONVERTERS[to.type](to, schema, value)


_LOGICAL: Mapping[str | None, tuple[Type, Callable[[Schema, Schema | None, Any], Any]]] = {
    logical.DECIMAL: (Type.BYTES, lambda to, schema, value: _decimal(to, value, schema)),
    logical.DATE: (Type.INT32, lambda to, schema, value: convert_to_date(schema, value)),
    logical.TIME: (Type.INT32, lambda to, schema, value: convert_to_time(schema, value)),
    logical.TIMESTAMP: (Type.INT64, lambda to, schema, value: convert_to_timestamp(schema, value)),
}


def _not_null(value: Any) -> Any:
    if value is None:
        raise DataError(_NULL)
    return value


def _cannot(value: Any, to: str, schema: Schema | None = None) -> DataError:
    return DataError(f"Unable to convert {java_text(value, schema)} ({type(value).__name__}) to {to}")


def _known(schema: Schema | None, value: Any) -> SchemaAndValue:
    return parse_string(value) if isinstance(value, str) else SchemaAndValue(schema, value)


def _parsed(value: Any) -> Any:
    return parse_string(value).value if isinstance(value, str) else value


def _from_temporal(value: Any, schema: Schema | None, name: str) -> Any:
    """Return the value as the logical type ``name``; None: it is no date, or of a schema that does not say so."""
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


def _from_number(to: Schema, value: Any, schema: Schema | None, bits: int) -> Any:
    return logical.from_primitive(to, wrapped(_as_long(value, schema), bits))


def _decimal(to: Schema, value: Any, schema: Schema | None = None) -> Decimal:
    if isinstance(value, bytes | bytearray | memoryview):
        return logical.decimal_from_bytes(to, bytes(value))
    if isinstance(value, Decimal):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _decimal(to, java_double(float(value)))
    if isinstance(value, str):
        try:
            return big_decimal(value)
        except ValueError as error:
            raise DataError(str(error)) from error
    raise _cannot(value, str(to), schema)


def _bytes(to: Schema, _: Schema | None, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, Decimal):
        return logical.decimal_to_bytes(to, value)
    raise _cannot(value, str(to))


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


_CONVERTERS: Mapping[Type, Callable[[Schema, Schema | None, Any], Any]] = {
    Type.BYTES: _bytes,
    Type.STRING: lambda to, schema, value: convert_to_string(schema, value),
    Type.BOOLEAN: lambda to, schema, value: convert_to_boolean(schema, value),
    **dict.fromkeys(_BITS, lambda to, schema, value: convert_to_integer(schema, value, to.type)),
    Type.FLOAT32: lambda to, schema, value: convert_to_float(schema, value, to.type),
    Type.FLOAT64: lambda to, schema, value: convert_to_float(schema, value, to.type),
    Type.ARRAY: lambda to, schema, value: convert_to_list(schema, value, to),
    Type.MAP: lambda to, schema, value: convert_to_map(schema, value, to),
    Type.STRUCT: lambda to, schema, value: convert_to_struct(schema, value, to),
}

"""Converts a Connect value to another type (Java ``Values.convertTo...``). A text is parsed first if the type needs it.

``schema`` is always the schema of the given value, None if it has none. Raises DataError only for text that is not a
number, and for values that cannot be converted to a number at all.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.schema import Schema, SchemaAndValue, Type
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.data.values_coerce import NULL_REFUSED, coerce, temporal_type
from spark_connect_rt.api.data.values_parse import parse_string
from spark_connect_rt.errors import DataError

_ARRAY = Schema(Type.ARRAY, value_schema=schemas.STRING)
_MAP = Schema(Type.MAP, key_schema=schemas.STRING, value_schema=schemas.STRING)
_STRUCT = Schema(Type.STRUCT)


def convert_to_boolean(schema: Schema | None, value: Any) -> bool | None:
    """Return a truth value; a number is true when it is not 0."""
    return _nullable(schemas.BOOLEAN, schema, value)  # type: ignore[no-any-return]


def convert_to_integer(schema: Schema | None, value: Any, kind: Type) -> int | None:
    """Return an INT8, INT16, INT32 or INT64."""
    return _nullable(Schema(kind), schema, value)  # type: ignore[no-any-return]


def convert_to_float(schema: Schema | None, value: Any, kind: Type) -> float | None:
    """Return a FLOAT32 or FLOAT64."""
    return _nullable(Schema(kind), schema, value)  # type: ignore[no-any-return]


def convert_to_string(schema: Schema | None, value: Any) -> str | None:
    """Return the text ``parse_string`` reads back."""
    return _nullable(schemas.STRING, schema, value)  # type: ignore[no-any-return]


def convert_to_list(schema: Schema | None, value: Any, to: Schema = _ARRAY) -> list[Any]:
    """Return a list, or the list that a text contains."""
    return _required(to, schema, value)  # type: ignore[no-any-return]


def convert_to_map(schema: Schema | None, value: Any, to: Schema = _MAP) -> dict[Any, Any]:
    """Return a map, or the map that a text contains."""
    return _required(to, schema, value)  # type: ignore[no-any-return]


def convert_to_struct(schema: Schema | None, value: Any, to: Schema | None = None) -> Struct:
    """Return the struct that the value is."""
    return _required(to or _STRUCT, schema, value)  # type: ignore[no-any-return]


def convert_to_date(schema: Schema | None, value: Any) -> dt.date:
    """Return the date of a date, a timestamp, a text of one, or days since the epoch."""
    return _required(logical.date_schema(), schema, value)  # type: ignore[no-any-return]


def convert_to_time(schema: Schema | None, value: Any) -> dt.time:
    """Return the time of day of a time, a timestamp, a text of one, or ms since midnight."""
    return _required(logical.time_schema(), schema, value)  # type: ignore[no-any-return]


def convert_to_timestamp(schema: Schema | None, value: Any) -> dt.datetime:
    """Return the moment of a timestamp, a date, a time, a text of one, or ms since the epoch."""
    return _required(logical.timestamp_schema(), schema, value)  # type: ignore[no-any-return]


def convert_to_decimal(schema: Schema | None, value: Any, scale: int) -> Decimal:
    """Return a decimal; only bytes are given ``scale``, other numbers keep the one they have."""
    return _required(logical.decimal_schema(scale), schema, value)  # type: ignore[no-any-return]


def convert_to(to: Schema, schema: Schema | None, value: Any) -> Any:
    """Return the value as ``to`` asks. Raises DataError: null where it is required, or no way from one to the other."""
    return _nullable(to, schema, value) if to.optional else _required(to, schema, value)


def _nullable(to: Schema, schema: Schema | None, value: Any) -> Any:
    return None if value is None else coerce(to, *_read(to, schema, value))


def _required(to: Schema, schema: Schema | None, value: Any) -> Any:
    if value is None:
        raise DataError(NULL_REFUSED)
    return coerce(to, *_read(to, schema, value))


def _read(to: Schema, schema: Schema | None, value: Any) -> SchemaAndValue:
    """Return schema and value. A text is replaced by the value that it spells if ``to`` is a container or not text."""
    if not isinstance(value, str):
        return SchemaAndValue(schema, value)
    if temporal_type(to):
        return SchemaAndValue(schema, parse_string(value).value)
    if to.type in (Type.ARRAY, Type.MAP):
        return parse_string(value)
    parsed = parse_string(value).value if to.type is Type.BOOLEAN else None
    return SchemaAndValue(schema, parsed if isinstance(parsed, bool) else value)

"""Logical types: how Decimal, Date, Time and Timestamp ride on primitive types.

Python values: ``decimal.Decimal``, ``datetime.date``, ``datetime.time``, ``datetime.datetime`` (aware, UTC; a
naive one is taken as UTC). Source: Java ``org.apache.kafka.connect.data.{Decimal,Date,Time,Timestamp}``.
"""

from __future__ import annotations

import datetime as dt
import decimal
from decimal import Decimal
from typing import Any

from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.errors import DataError

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
SCALE = "scale"

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY_MS = 86_400_000
_TIME_RANGE = "Time values must use number of milliseconds greater than 0 and less than 86400000"
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)

PYTHON_TYPES: dict[str, type[Any]] = {
    DECIMAL: Decimal,
    DATE: dt.date,
    TIME: dt.time,
    TIMESTAMP: dt.datetime,
}


def is_logical_value(name: str | None, value: Any) -> bool:
    """Return whether ``value`` has the Python type of the logical type ``name``. A datetime is not a valid date."""
    kind = PYTHON_TYPES.get(name or "")
    return kind is not None and isinstance(value, kind) and (kind is not dt.date or not isinstance(value, dt.datetime))


def ms_of(value: dt.date | dt.time) -> int:
    """Return the milliseconds since the epoch of a date, a time or a datetime, as in Java's Date class."""
    if isinstance(value, dt.datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (aware - _EPOCH) // dt.timedelta(milliseconds=1)
    if isinstance(value, dt.date):
        return (value - _EPOCH.date()).days * _DAY_MS
    since_midnight = dt.timedelta(
        hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond
    )
    return since_midnight // dt.timedelta(milliseconds=1)


def from_ms(name: str, ms: int) -> dt.date | dt.time:
    """Return the date, time or datetime of ms since the epoch. Parts that the type cannot hold are dropped.

    Raises DataError: outside of the years 1 to 9999.
    """
    try:
        moment = _EPOCH + dt.timedelta(milliseconds=ms)
    except OverflowError as error:
        raise DataError(f"{ms} ms since 1970 is outside of the years 1 to 9999") from error
    if name == DATE:
        return moment.date()
    return moment.time() if name == TIME else moment


def decimal_schema(scale: int, optional: bool = False) -> Schema:
    """Return the schema of decimals with ``scale`` digits after the point."""
    return Schema(Type.BYTES, optional=optional, name=DECIMAL, version=1, parameters=((SCALE, str(scale)),))


def date_schema(optional: bool = False) -> Schema:
    """Return the schema of days since the epoch."""
    return Schema(Type.INT32, optional=optional, name=DATE, version=1)


def time_schema(optional: bool = False) -> Schema:
    """Return the schema of ms since midnight."""
    return Schema(Type.INT32, optional=optional, name=TIME, version=1)


def timestamp_schema(optional: bool = False) -> Schema:
    """Return the schema of ms since the epoch."""
    return Schema(Type.INT64, optional=optional, name=TIMESTAMP, version=1)


def scale_of(schema: Schema) -> int:
    """Return a decimal schema's scale. Raises DataError when it has none."""
    text = schema.parameter(SCALE)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError(f"Invalid scale parameter found in Decimal schema: {text}") from None


def decimal_to_bytes(schema: Schema, value: Decimal) -> bytes:
    """Return the unscaled value, two's complement, big-endian. Raises DataError: another scale."""
    scale = scale_of(schema)
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or -exponent != scale:
        has = -exponent if isinstance(exponent, int) else value
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {scale}, value has scale {has}."
        )
    unscaled = int(value.scaleb(scale, _EXACT))
    return unscaled.to_bytes(
        (unscaled.bit_length() if unscaled >= 0 else (~unscaled).bit_length()) // 8 + 1, "big", signed=True
    )


def decimal_from_bytes(schema: Schema, data: bytes) -> Decimal:
    """Return the decimal of an unscaled value. Raises DataError: there are no bytes."""
    if not data:
        raise DataError("Zero length BigInteger")
    return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale_of(schema), _EXACT)


def to_primitive(schema: Schema, value: Any) -> Any:
    """Return the int or bytes that a logical value rides on; other values unchanged. Raises DataError."""
    if schema.name not in PYTHON_TYPES or not isinstance(value, PYTHON_TYPES[schema.name]):
        return value
    if isinstance(value, Decimal):
        return decimal_to_bytes(schema, value)
    return ms_of(value) // _DAY_MS if schema.name == DATE else ms_of(value)


def from_primitive(schema: Schema, value: Any) -> Any:
    """Return the logical value of an int or bytes; other schemas' values unchanged. Raises DataError."""
    try:
        if schema.name == DECIMAL and isinstance(value, bytes):
            return decimal_from_bytes(schema, value)
        if schema.name == DATE:
            return (_EPOCH + dt.timedelta(days=value)).date()
        if schema.name == TIME:
            if not 0 <= value < _DAY_MS:
                raise DataError(_TIME_RANGE)
            return (_EPOCH + dt.timedelta(milliseconds=value)).time()
        if schema.name == TIMESTAMP:
            return _EPOCH + dt.timedelta(milliseconds=value)
    except OverflowError as error:
        raise DataError(f"{schema.name} {value} is outside of the years 1 to 9999") from error
    except TypeError as error:
        raise DataError(f"{value!r} is not a valid {schema.name}: {error}") from error
    return value

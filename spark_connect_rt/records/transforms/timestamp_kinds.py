"""A moment in its five forms: text, Unix time, Date, Time, Timestamp (inside Java ``TimestampConverter``)."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.simple_date_format import PatternPart, format_ms
from spark_connect_rt.api.data.simple_date_parse import parse_prefix
from spark_connect_rt.errors import DataError

TEXT, UNIX, DATE, TIME, TIMESTAMP = KINDS = ("string", "unix", "Date", "Time", "Timestamp")
PRECISIONS = ("nanoseconds", "microseconds", "milliseconds", "seconds")
LOGICAL = {DATE: logical.DATE, TIME: logical.TIME, TIMESTAMP: logical.TIMESTAMP}
_SCHEMAS = {
    TEXT: schemas.STRING,
    UNIX: schemas.INT64,
    DATE: logical.date_schema(),
    TIME: logical.time_schema(),
    TIMESTAMP: logical.timestamp_schema(),
}
_PER_MS = {"nanoseconds": 1_000_000, "microseconds": 1_000}
_DAY_MS = 86_400_000
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TimestampForm:
    """How text and Unix times are written and read; ``parts`` None: there is no pattern."""

    pattern: str
    parts: tuple[PatternPart, ...] | None
    precision: str
    century_start: tuple[int, int, int]


def schema_of_kind(kind: str, optional: bool) -> Schema:
    """Return the schema of a form."""
    return _SCHEMAS[kind].as_optional(optional)


def kind_of_schema(schema: Schema) -> str:
    """Return the form of values of a schema. Raises DataError: they are no moments."""
    for kind, name in LOGICAL.items():
        if schema.name == name:
            return kind
    if schema.type in (Type.STRING, Type.INT64):
        return TEXT if schema.type is Type.STRING else UNIX
    raise DataError(f"Schema {schema} does not correspond to a known timestamp type format")


def kind_of_value(value: Any) -> str:
    """Return the form of a value without a schema. Raises DataError: it is no moment."""
    if isinstance(value, dt.date | dt.time):
        return TIMESTAMP
    if isinstance(value, int) and not isinstance(value, bool):
        return UNIX
    if isinstance(value, str):
        return TEXT
    raise DataError(f"TimestampConverter does not support {type(value).__name__} objects as timestamps")


def to_ms(kind: str, value: Any, form: TimestampForm) -> int:
    """Return ms since the epoch of a value in one of the forms. Raises DataError."""
    if kind == TEXT:
        return _text_ms(value, form)
    if kind == UNIX:
        if not isinstance(value, int) or isinstance(value, bool):
            raise DataError(f"Expected Unix timestamp to be a int, but found {type(value).__name__}")
        return unix_to_ms(value, form.precision)
    if not isinstance(value, dt.date | dt.time):
        raise DataError(f"Expected {kind} to be a datetime, but found {type(value).__name__}")
    return logical.ms_of(value)


def _text_ms(value: Any, form: TimestampForm) -> int:
    if not isinstance(value, str):
        raise DataError(f"Expected string timestamp to be a str, but found {type(value).__name__}")
    if form.parts is None:
        raise DataError(f"format is not set, so the timestamp ({value}) cannot be read")
    found = parse_prefix(form.parts, value, form.century_start)
    if found is None or found[1] == 0:
        raise DataError(f"Could not parse timestamp: value ({value}) does not match pattern ({form.pattern})")
    return found[0]


def from_ms(kind: str, ms: int, form: TimestampForm) -> Any:
    """Return a moment in one of the forms. Raises DataError: a year that Python has no date for."""
    if kind == TEXT:
        return format_ms(form.parts or (), ms)
    if kind == UNIX:
        return ms_to_unix(ms, form.precision)
    return logical.from_ms(LOGICAL[kind], ms)


def unix_to_ms(value: int, precision: str) -> int:
    """Return ms; parts of a ms are cut off towards the epoch, what is too large is the largest."""
    if precision == "seconds":
        return min(max(value * 1000, _LONG_MIN), _LONG_MAX)
    return _cut(value, _PER_MS.get(precision, 1))


def ms_to_unix(ms: int, precision: str) -> int:
    """Return the Unix time of ms; parts of a second are cut off towards the epoch."""
    if precision == "seconds":
        return _cut(ms, 1000)
    return min(max(ms * _PER_MS.get(precision, 1), _LONG_MIN), _LONG_MAX)


def _cut(number: int, by: int) -> int:
    return number // by if number >= 0 else -(-number // by)

"""The text of a value as Java's ``Values.convertToString`` writes it for headers. ``parse_string`` reads it back."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from spark_connect_rt.api.data.java_numbers import java_single
from spark_connect_rt.api.data.logical import ms_of
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.simple_date_format import PatternPart, format_ms, pattern_parts
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.base.json_text import java_double
from spark_connect_rt.errors import DataError

DATE_PATTERN = "yyyy-MM-dd"
TIME_PATTERN = "HH:mm:ss.SSS'Z'"
TIMESTAMP_PATTERN = "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"
_DATE, _TIME, _TIMESTAMP = map(pattern_parts, (DATE_PATTERN, TIME_PATTERN, TIMESTAMP_PATTERN))
_DAY_MS = 86_400_000


def values_text(schema: Schema | None, value: Any) -> str | None:
    """Return the text of a value, None for null.

    Raises DataError: it contains something that is not a Connect value.
    """
    return None if value is None else _text(schema, value, embedded=False)


def date_text(value: dt.date | dt.time) -> str:
    """Return the text of a date, time or timestamp. Its ms decide which one it is, as in Java: midnight is a date."""
    ms = ms_of(value)
    return format_ms(_pattern_for(ms), ms)


def _pattern_for(ms: int) -> tuple[PatternPart, ...]:
    if ms < _DAY_MS:
        return _TIME
    return _TIMESTAMP if ms % _DAY_MS else _DATE


def number_text(schema: Schema | None, value: float | Decimal) -> str:
    """Return Java's text of a number. Only the schema shows that a float has 4 bytes."""
    if not isinstance(value, float):
        return str(value)
    return java_single(value) if schema is not None and schema.type is Type.FLOAT32 else java_double(value)


def _text(schema: Schema | None, value: Any, *, embedded: bool) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return number_text(schema, value)
    if isinstance(value, dt.date | dt.time):
        return date_text(value)
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"' if embedded else value
    if isinstance(value, bytes | bytearray | memoryview):
        text = base64.b64encode(value).decode()
        return f'"{text}"' if embedded else text
    return _container_text(schema, value)


def _container_text(schema: Schema | None, value: Any) -> str:
    if isinstance(value, Struct):
        members = zip(value.schema.fields, value.values(), strict=True)
        return _entries((None, member.name, member.schema, part) for member, part in members)
    keys, values = (schema.key_schema, schema.value_schema) if schema else (None, None)
    if isinstance(value, Mapping):
        return _entries((keys, key, values, part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return f"[{','.join(_text(values, part, embedded=True) for part in value)}]"
    raise DataError(f"Failed to serialize unexpected value type {type(value).__name__}: {value}")


def _entries(entries: Iterable[tuple[Schema | None, Any, Schema | None, Any]]) -> str:
    texts = (
        f"{_text(keys, key, embedded=True)}:{_text(values, value, embedded=True)}"
        for keys, key, values, value in entries
    )
    return f"{{{','.join(texts)}}}"

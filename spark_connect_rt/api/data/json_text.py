"""Values of any source as JSON text: one encoder for every place that writes a tree into a text. Pure.

The forms are those of JsonConverter without schemas: bytes are base64, times are ISO 8601. A Decimal is text, because a
reader of JSON numbers would round it. A value without a form is refused and never written as Python shows it.
"""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from pathlib import PurePath
from typing import Any

import orjson

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.errors import DataError

_OPTIONS = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def json_bytes(value: Any) -> bytes:
    """Return a value as JSON in UTF-8. Raises DataError: some part of it has no JSON form, such as a 70-bit integer."""
    try:
        return orjson.dumps(value, default=_form, option=_OPTIONS)
    except orjson.JSONEncodeError as error:  # a TypeError, raised from the error of _form
        raise DataError(f"the value cannot be written as JSON: {error.__cause__ or error}") from error


def json_text(value: Any) -> str:
    """Return a value as JSON text. Raises DataError as ``json_bytes``."""
    return json_bytes(value).decode()


def readable_json(value: Any) -> bytes:
    """Return JSON for a person to read, such as the body of a dead letter: a part without a form is its type's name."""
    return json_bytes(_shown(value))


def _form(value: Any) -> Any:
    """Return the form that orjson writes for a type that it does not know. Raises TypeError: there is none."""
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Struct):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, AbstractSet | tuple | range):
        return list(value)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, dt.timedelta):
        return f"PT{value.total_seconds():.6f}".rstrip("0").rstrip(".") + "S"
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _shown(value: Any) -> Any:
    if isinstance(value, Struct):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return {name if isinstance(name, str) else str(name): _shown(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_shown(part) for part in value]
    try:
        json_bytes(value)
    except DataError:
        return str(value) if isinstance(value, int) else f"({type(value).__name__})"
    return value

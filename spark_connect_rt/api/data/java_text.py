"""The text of a value as Java's ``toString`` writes it, for StringConverter and FileStreamSink."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.data.java_numbers import java_single
from spark_connect_rt.api.data.logical import ms_of
from spark_connect_rt.api.data.schema import Schema, Type
from spark_connect_rt.api.data.simple_date_format import format_ms, pattern_parts
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.base.json_text import java_double

_DATE = pattern_parts("EEE MMM dd HH:mm:ss zzz yyyy")  # Java has one class for dates, times and timestamps


def java_text(value: Any, schema: Schema | None = None) -> str:
    """Return the text of a non-null value. A null inside a map, list or struct reads ``null``.

    ``schema`` is needed to recognize a float of 4 bytes, whose text is shorter. Bytes have no useful ``toString`` in
    Java; this function decodes them as UTF-8.
    """
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return java_single(value) if schema is not None and schema.type is Type.FLOAT32 else java_double(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, Struct | Mapping | list | tuple):
        return _container_text(value, schema)
    return format_ms(_DATE, ms_of(value)) if isinstance(value, dt.date | dt.time) else str(value)


def _container_text(value: Any, schema: Schema | None) -> str:
    if isinstance(value, Struct):
        members = zip(value.schema.fields, value.values(with_defaults=False), strict=True)
        texts = (f"{member.name}={java_text(part, member.schema)}" for member, part in members if part is not None)
        return f"Struct{{{','.join(texts)}}}"
    keys, values = (schema.key_schema, schema.value_schema) if schema is not None else (None, None)
    if isinstance(value, Mapping):
        entries = (f"{java_text(key, keys)}={java_text(part, values)}" for key, part in value.items())
        return f"{{{', '.join(entries)}}}"
    return f"[{', '.join(java_text(part, values) for part in value)}]"

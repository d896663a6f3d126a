"""A value as Java's ``toString`` would write it: what StringConverter and FileStreamSink put out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.protocol.json_text import java_double


def java_text(value: Any) -> str:
    """Return the text of a non-null value; null inside a map, list or struct reads ``null``.

    Bytes have no useful ``toString`` in Java; here they are taken as UTF-8 text.
    """
    if isinstance(value, str):
        return value
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, Struct | Mapping | list | tuple):
        return _container_text(value)
    return value.isoformat() if isinstance(value, dt.date | dt.time) else str(value)


def _container_text(value: Any) -> str:
    if isinstance(value, Struct):
        named = ((member.name, value.get_without_default(member.name)) for member in value.schema.fields)
        return f"Struct{{{','.join(f'{name}={java_text(part)}' for name, part in named if part is not None)}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{java_text(key)}={java_text(part)}' for key, part in value.items())}}}"
    return f"[{', '.join(map(java_text, value))}]"

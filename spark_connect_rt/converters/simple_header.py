"""Header values as text, their type told from the text (Java ``SimpleHeaderConverter``).

Owns the plain cases: null, booleans, numbers, text, lists and maps as JSON. Java's dates and its lenient
list and map syntax come with ``api/data/values_parse``.
"""

from __future__ import annotations

import re
from typing import Any

from spark_connect_rt.api.converter import HeaderConverter
from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.data.schema import NULL, Schema, SchemaAndValue
from spark_connect_rt.converters.json_bytes import dump_json, load_json
from spark_connect_rt.errors import DataError

_INTEGER = re.compile(r"[+-]?\d{1,19}")
_FLOAT = re.compile(r"[+-]?(\d+\.\d*|\.\d+|\d+)([eE][+-]?\d+)?")
_INTEGERS = ((8, schemas.INT8), (16, schemas.INT16), (32, schemas.INT32), (64, schemas.INT64))


class SimpleHeaderConverter(HeaderConverter):
    """Writes text, reads the smallest type that fits."""

    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text of a value; text itself is written without quotes."""
        if value is None:
            return None
        if isinstance(value, bytes):
            return value
        return dump_json(value) if isinstance(value, dict | list | tuple) else java_text(value).encode()

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """Return the value a text stands for; a text that stands for nothing else is a string."""
        if data is None:
            return NULL
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return SchemaAndValue(schemas.BYTES, data)
        return parse_header(text)


def parse_header(text: str) -> SchemaAndValue:
    """Return the typed value of a header's text."""
    token = text.strip()
    if token == "null":
        return NULL
    if token.lower() in ("true", "false"):
        return SchemaAndValue(schemas.BOOLEAN, token.lower() == "true")
    if _INTEGER.fullmatch(token):
        number = int(token)
        for bits, schema in _INTEGERS:
            if -(1 << bits - 1) <= number < 1 << bits - 1:
                return SchemaAndValue(schema, number)
    if _FLOAT.fullmatch(token):
        return SchemaAndValue(schemas.FLOAT64, float(token))
    if token[:1] in ("[", "{", '"'):
        try:
            return _json_header(load_json(token.encode()))
        except DataError:
            pass
    return SchemaAndValue(schemas.STRING, text)


def _json_header(value: Any) -> SchemaAndValue:
    return SchemaAndValue(schemas.STRING if isinstance(value, str) else None, value)

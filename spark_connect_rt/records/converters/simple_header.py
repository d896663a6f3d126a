"""Header values as text, their type inferred from the text (Java ``SimpleHeaderConverter``)."""

from __future__ import annotations

from typing import Any

from spark_connect_rt.api.converter import HeaderConverter
from spark_connect_rt.api.data.schema import BYTES, NULL, Schema, SchemaAndValue
from spark_connect_rt.api.data.values_parse import parse_string
from spark_connect_rt.api.data.values_text import values_text


class SimpleHeaderConverter(HeaderConverter):
    """Writes the text of a value, reads the smallest type that fits a text."""

    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text of a value; text itself is written without quotes. Raises DataError: no Connect value."""
        text = values_text(schema, value)
        return None if text is None else text.encode("utf-8", "replace")

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """Return the value a text stands for; a text that stands for nothing else is a string."""
        if data is None:
            return NULL
        try:
            return parse_string(data.decode("utf-8", "replace"))
        except RecursionError:  # a thousand brackets: Java, too, then hands on the bytes
            return SchemaAndValue(BYTES, data)

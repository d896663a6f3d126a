"""Converters of bytes and text, and the header converter that infers types.

Java: ``ByteArrayConverter``, ``StringConverter``, ``SimpleHeaderConverter``.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.converter import CONVERTER_TYPE, Converter, HeaderConverter
from spark_connect_rt.api.data.java_text import java_text
from spark_connect_rt.api.data.schema import BYTES, NULL, OPTIONAL_BYTES, OPTIONAL_STRING, Schema, SchemaAndValue, Type
from spark_connect_rt.api.data.values_parse import parse_string
from spark_connect_rt.api.data.values_text import values_text
from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance
from spark_connect_rt.config.config_def import Type as StringType
from spark_connect_rt.errors import BadConfigError, DataError

# Header values as text, their type inferred from the text (Java ``SimpleHeaderConverter``).


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
        except RecursionError:  # a thousand brackets: Java, too, then passes the bytes on
            return SchemaAndValue(BYTES, data)


# Converters whose header values have the same bytes as record values: all bundled ones but the simple one.


class HeaderAndValueConverter(Converter, HeaderConverter):
    """Converts headers as it converts keys and values."""

    def config_def(self) -> ConfigDef:
        """Return the declaration of the setting that every converter has."""
        return ConfigDef([CONVERTER_TYPE])

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        """Take the settings: none, unless a subclass has some."""

    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the result of ``from_connect_data``. Raises DataError."""
        return self.from_connect_data(topic, schema, value)

    def to_connect_header(self, topic: str, name: str, data: bytes | None) -> SchemaAndValue:
        """Return the result of ``to_connect_data``. Raises DataError."""
        return self.to_connect_data(topic, data)


class ByteArrayConverter(HeaderAndValueConverter):
    """Passes bytes through and rejects everything else; null is null."""

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes. Raises DataError: schema or value is something else."""
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type.value}")
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise DataError(f"ByteArrayConverter is not compatible with objects of type {type(value).__name__}")

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the bytes as optional BYTES."""
        return SchemaAndValue(OPTIONAL_BYTES, data)

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return the column as it is."""
        return OPTIONAL_BYTES, data

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return a binary column as it is; others fail row by row."""
        fits = pa.types.is_binary(values.type) and (schema is None or schema.type is Type.BYTES)
        return values if fits else None


# Values as text (Java ``org.apache.kafka.connect.storage.StringConverter``).


_ENCODING = "converter.encoding"


class StringConverter(HeaderAndValueConverter):
    """Writes ``toString`` of any value; reads optional strings. Null is null on both sides."""

    _encoding = "utf-8"

    def config_def(self) -> ConfigDef:
        """Return the declaration of the character set's setting."""
        doc = "Character set of the bytes, by its Java or Python name."
        encoding = ConfigKey(
            _ENCODING, StringType.STRING, "UTF-8", Importance.HIGH, doc, width="MEDIUM", display_name="Encoding"
        )
        return ConfigDef([CONVERTER_TYPE, encoding])

    def configure(self, config: Mapping[str, str], is_key: bool = False) -> None:
        """Take the character set. Raises BadConfigError: it is unknown."""
        name = str(config.get(_ENCODING) or "UTF-8")
        try:
            self._encoding = codecs.lookup(name).name
        except LookupError:
            raise BadConfigError({_ENCODING: [f"unknown character set {name}"]}) from None

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the text as bytes in the configured character set. Raises DataError: it has no such character."""
        if value is None:
            return None
        try:
            return java_text(value, schema).encode(self._encoding)
        except UnicodeEncodeError as error:
            raise DataError(f"text of topic {topic} cannot be written as {self._encoding}: {error}") from error

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the decoded text. Bytes that cannot be decoded become U+FFFD, as in Java."""
        return SchemaAndValue(OPTIONAL_STRING, None if data is None else data.decode(self._encoding, "replace"))

    def values_to_connect_data(
        self, topic: str, data: Sequence[bytes | None]
    ) -> tuple[Schema | None, Sequence[Any]] | None:
        """Return the schema of all texts and the decoded texts."""
        encoding = self._encoding
        return OPTIONAL_STRING, [None if value is None else value.decode(encoding, "replace") for value in data]

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return the texts, None where U+FFFD would have to stand for something."""
        text = _as_text(data) if self._encoding == "utf-8" else None
        return None if text is None else (OPTIONAL_STRING, text)

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return text and integer columns as they are; others have no column form."""
        kind = values.type
        if self._encoding != "utf-8":
            return None
        if pa.types.is_string(kind) or pa.types.is_binary(kind):
            return values if pa.types.is_string(kind) or _as_text(values) is not None else None
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            return pc.cast(values, pa.string())
        return None


def _as_text(values: pa.Array) -> pa.Array | None:
    try:
        return pc.cast(values, pa.string())
    except pa.ArrowInvalid:  # not UTF-8
        return None

"""Bytes, untouched (Java ``org.apache.kafka.connect.converters.ByteArrayConverter``)."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data.schema import OPTIONAL_BYTES, Schema, SchemaAndValue, Type
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.header_and_value import HeaderAndValueConverter


class ByteArrayConverter(HeaderAndValueConverter):
    """Passes bytes through and refuses everything else; null is null."""

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

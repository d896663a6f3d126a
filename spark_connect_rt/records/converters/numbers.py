"""Numbers and truth values as big-endian bytes (Java ``ShortConverter`` ... ``DoubleConverter``, ``BooleanConverter``).

Null is null on both sides. The messages are Java's, followed by the reason.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data import schema as schemas
from spark_connect_rt.api.data.schema import Schema, SchemaAndValue, Type
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.converters.primitive_converters import HeaderAndValueConverter


class NumberConverter(HeaderAndValueConverter):
    """The base class of number converters; a subclass names the type, its size and its schema."""

    name: str
    serializer: str
    format: str
    arrow_type: pa.DataType
    schema: Schema

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the bytes. Raises DataError: another type of number, or no number."""
        if value is None:
            return None
        is_float = self.schema.type in (Type.FLOAT32, Type.FLOAT64)
        fits = isinstance(value, float if is_float else int) and not isinstance(value, bool)
        if not fits or (schema is not None and schema.type is not self.schema.type):
            raise DataError(f"Failed to serialize to {self.name} (was {type(value).__name__}): ")
        try:
            return struct.pack(self.format, value)
        except (struct.error, OverflowError) as error:
            raise DataError(f"Failed to serialize to {self.name}: {value} does not fit: {error}") from error

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the number, its schema optional. Raises DataError: not as many bytes as it has."""
        if data is None:
            return SchemaAndValue(self.schema, None)
        size = struct.calcsize(self.format)
        if len(data) != size:
            raise DataError(
                f"Failed to deserialize {self.name}: Size of data received by {self.serializer} is not {size}"
            )
        return SchemaAndValue(self.schema, struct.unpack(self.format, data)[0])

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return the bytes of a column of just this type, without nulls; others go by rows."""
        if values.type != self.arrow_type or values.null_count:
            return None
        if schema is not None and schema.type is not self.schema.type:
            return None
        size = struct.calcsize(self.format)
        swapped = values.to_numpy().astype(f">{values.to_numpy().dtype.str[1:]}").tobytes()
        fixed = pa.Array.from_buffers(pa.binary(size), len(values), [None, pa.py_buffer(swapped)])
        return fixed.cast(pa.binary())

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return the numbers of a column without nulls, each of just as many bytes as it has."""
        size = struct.calcsize(self.format)
        if data.null_count or set(pc.unique(pc.binary_length(data)).to_pylist()) != {size}:
            return None
        fixed, kind = pc.cast(data, pa.binary(size)), np.dtype(self.arrow_type.to_pandas_dtype())
        plain = memoryview(fixed.buffers()[1])[fixed.offset * size :]
        numbers = np.frombuffer(plain, dtype=kind.newbyteorder(">"), count=len(data))
        return self.schema, pa.array(numbers.astype(kind), self.arrow_type)


class ShortConverter(NumberConverter):
    """Converts INT16 numbers: 2 bytes, big-endian."""

    name, serializer, format = "short", "ShortDeserializer", ">h"
    arrow_type, schema = pa.int16(), schemas.OPTIONAL_INT16


class IntegerConverter(NumberConverter):
    """Converts INT32 numbers: 4 bytes, big-endian."""

    name, serializer, format = "integer", "IntegerDeserializer", ">i"
    arrow_type, schema = pa.int32(), schemas.OPTIONAL_INT32


class LongConverter(NumberConverter):
    """Converts INT64 numbers: 8 bytes, big-endian."""

    name, serializer, format = "long", "LongDeserializer", ">q"
    arrow_type, schema = pa.int64(), schemas.OPTIONAL_INT64


class FloatConverter(NumberConverter):
    """Converts FLOAT32 numbers: 4 bytes, big-endian."""

    name, serializer, format = "float", "FloatDeserializer", ">f"
    arrow_type, schema = pa.float32(), schemas.OPTIONAL_FLOAT32


class DoubleConverter(NumberConverter):
    """Converts FLOAT64 numbers: 8 bytes, big-endian."""

    name, serializer, format = "double", "DoubleDeserializer", ">d"
    arrow_type, schema = pa.float64(), schemas.OPTIONAL_FLOAT64


class BooleanConverter(HeaderAndValueConverter):
    """BOOLEAN, one byte: 0 or 1."""

    def from_connect_data(self, topic: str, schema: Schema | None, value: Any) -> bytes | None:
        """Return the byte. Raises DataError: no truth value."""
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type.value}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(f"BooleanConverter is not compatible with objects of type {type(value).__name__}")
        return b"\x01" if value else b"\x00"

    def to_connect_data(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Return the truth value as optional BOOLEAN. Raises DataError: not one byte, or neither 0 nor 1."""
        if data is not None and len(data) != 1:
            raise DataError("Failed to deserialize boolean: Size of data received by BooleanDeserializer is not 1")
        if data is not None and data not in (b"\x00", b"\x01"):
            raise DataError(
                f"Failed to deserialize boolean: Unexpected byte received by BooleanDeserializer: {data[0]}"
            )
        return SchemaAndValue(schemas.OPTIONAL_BOOLEAN, None if data is None else data == b"\x01")

    def column_from_connect_data(self, topic: str, schema: Schema | None, values: pa.Array) -> pa.Array | None:
        """Return the bytes of a column of truth values, null of null; others go by rows."""
        if values.type != pa.bool_() or (schema is not None and schema.type is not Type.BOOLEAN):
            return None
        return pc.if_else(values, pa.scalar(b"\x01", pa.binary()), pa.scalar(b"\x00", pa.binary()))

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Schema | None, pa.Array] | None:
        """Return the truth values, null of null; None: something else is among them."""
        is_true, is_false = (pc.equal(data, pa.scalar(byte, data.type)) for byte in (b"\x01", b"\x00"))
        known = pc.or_(is_true, is_false).fill_null(True)
        return (schemas.OPTIONAL_BOOLEAN, is_true) if pc.all(known).as_py() is not False else None

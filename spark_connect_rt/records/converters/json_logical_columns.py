"""Arrow columns of logical types and bytes as JSON text, byte for byte what JsonConverter writes row by row.

What the row form refuses, or writes in another way than plain digits, answers None and goes the row way.
"""

from __future__ import annotations

from base64 import b64encode

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data import logical
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.errors import DataError

_DAYS = (-719_162, 2_932_896)  # of the years 1 to 9999: what Python's dates hold
_DAY_MS = 86_400_000
_PLAIN_SCALE = 6  # with more digits after the point a small number has an exponent in Java's text


def logical_text(schema: Schema, values: pa.Array, numeric_decimals: bool) -> pa.Array | None:
    """Return the JSON text of each element, null where it is null; None: no exact column form."""
    kind = values.type
    if schema.name == logical.DECIMAL:
        return _decimal_text(schema, values, numeric_decimals) if pa.types.is_decimal(kind) else None
    if schema.name == logical.TIMESTAMP and pa.types.is_timestamp(kind) and kind.unit != "ns":
        ms = pc.floor_temporal(values, unit="millisecond").cast(pa.timestamp("ms", kind.tz)).cast(pa.int64())
        return _text_within(ms, _DAYS[0] * _DAY_MS, (_DAYS[1] + 1) * _DAY_MS - 1)
    if schema.name == logical.DATE and kind == pa.date32():
        return _text_within(values.cast(pa.int32()), *_DAYS)
    if schema.name == logical.TIME and kind == pa.time64("us"):
        return pc.divide(values.cast(pa.int64()), 1_000).cast(pa.string())
    return None


def _text_within(numbers: pa.Array, least: int, most: int) -> pa.Array | None:
    found = pc.min_max(numbers).as_py()
    inside = found["min"] is None or (found["min"] >= least and found["max"] <= most)
    return numbers.cast(pa.string()) if inside else None


def _decimal_text(schema: Schema, values: pa.Array, numeric: bool) -> pa.Array | None:
    try:
        scale = logical.scale_of(schema)
    except DataError:
        return None
    if values.type.scale != scale or scale < 0:
        return None
    if numeric:
        return values.cast(pa.string()) if scale <= _PLAIN_SCALE else None
    width = values.type.byte_width
    data = memoryview(values.buffers()[1])[values.offset * width :] if len(values) else b""
    texts = [_base64(data[index * width : (index + 1) * width]) for index in range(len(values))]
    text = pa.array(texts, pa.string())
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string())) if values.null_count else text


def _base64(little_endian: bytes | memoryview) -> str:
    """Return the unscaled value as Java's BigInteger writes it: as few bytes as hold it, the sign's bit among them."""
    unscaled = int.from_bytes(little_endian, "little", signed=True)
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return f'"{b64encode(unscaled.to_bytes(bits // 8 + 1, "big", signed=True)).decode()}"'


def bytes_text(values: pa.Array) -> pa.Array:
    """Return base64 of each element."""
    texts = [None if value is None else f'"{b64encode(value).decode()}"' for value in values.to_pylist()]
    return pa.array(texts, pa.string())

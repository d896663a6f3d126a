"""Partition transforms of Iceberg, for whole columns, and rows by partition. Pure.

Source: the Iceberg table spec, "Partition Transforms" and "Appendix B: 32-bit Hash Requirements".
"""

from __future__ import annotations

import datetime as dt
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.errors import DataError

Rows = npt.NDArray[np.int64]
_HOUR_US = 3_600_000_000
_EPOCH = dt.datetime(1970, 1, 1)
_TRANSFORM = re.compile(r"(identity|void|year|month|day|hour)|(bucket|truncate)\[([1-9]\d*)\]")
_SPANS = {"year": "Y", "month": "M", "day": "D"}


@dataclass(frozen=True, slots=True)
class PartitionField:
    """One field of a partition spec.

    Attributes:
        source: path of the source column, dotted for a field of a struct.
        transform: `identity`, `void`, `bucket[16]`, `truncate[4]`, `year`, `month`, `day` or `hour`.
        name: of the partition field, for folder names.
    """

    source: str
    transform: str
    name: str


@dataclass(frozen=True, slots=True)
class RowsOfPartition:
    """The rows of one partition: its values in Iceberg's internal form, and row numbers. None: all rows, in order."""

    values: tuple[Any, ...]
    rows: Rows | None


def rows_by_partition(rows: pa.Table, partitioning: Sequence[PartitionField]) -> Iterator[RowsOfPartition]:
    """Yield the rows of each partition, in their order. Raises DataError as `partition_values`."""
    if not partitioning:
        yield RowsOfPartition((), None)
        return
    columns = [partition_values(_source(rows, field.source), field.transform) for field in partitioning]
    codes = np.zeros(rows.num_rows, np.int64)
    for column in columns:
        encoded = column.dictionary_encode("encode")
        codes = codes * max(1, len(encoded.dictionary)) + encoded.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]  # small again, so that no product overflows
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for part in np.split(order, starts[1:]) if len(order) else []:
        values = tuple(_internal(column[int(part[0])]) for column in columns)
        yield RowsOfPartition(values, None if len(part) == rows.num_rows else part)


def taken_apart(rows: pa.Table, parts: Sequence[RowsOfPartition]) -> Iterator[pa.Table]:
    """Yield the rows of each partition. Chunks are copied into one at most once, but by `take` of a table each time."""
    together = rows.combine_chunks() if len(parts) > 1 else rows
    for part in parts:
        yield together if part.rows is None else together.take(part.rows)


def _source(rows: pa.Table, path: str) -> pa.Array:
    name, *members = path.split(".") if path not in rows.column_names else [path]
    column = rows[name].combine_chunks()
    for member in members:
        column = column.flatten()[column.type.get_field_index(member)]
    return column


def _internal(value: pa.Scalar) -> Any:
    """Return a partition value as manifests hold it: dates as days, times and timestamps as microseconds."""
    if not value.is_valid:
        return None
    if pa.types.is_date32(value.type) or pa.types.is_time64(value.type) or pa.types.is_timestamp(value.type):
        return value.value
    if pa.types.is_fixed_size_binary(value.type):
        return bytes(value.as_py())
    found = value.as_py()
    return found.bytes if isinstance(found, uuid.UUID) else found


def partition_folder(partitioning: Sequence[PartitionField], values: Sequence[Any]) -> str:
    """Return the folder of a partition below the table's data: `region=eu/day=2026-11-27`. Only people read it."""
    pairs = zip(partitioning, values, strict=True)
    return "/".join(
        f"{quote(field.name, safe='')}={quote(_text(field.transform, value), safe='')}" for field, value in pairs
    )


def _text(transform: str, value: Any) -> str:
    if value is None:
        return "null"
    if transform == "year":
        return str(1970 + value)
    if transform == "month":
        return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
    if transform in ("day", "hour"):
        step = np.timedelta64(int(value), "D" if transform == "day" else "h")
        return str(np.datetime64(_EPOCH, "h") + step)[: 10 if transform == "day" else 13].replace("T", "-")
    return value.hex() if isinstance(value, bytes) else str(value)


def partition_values(values: pa.Array, transform: str) -> pa.Array:
    """Return the transform of each value, null for null, as a column of Iceberg's result type.

    Days are int32, as years, months, hours and buckets. Raises DataError: the transform is unknown, or not for this
    type.
    """
    match = _TRANSFORM.fullmatch(transform)
    if match is None:
        raise DataError(f"{transform!r} is not a partition transform. Use identity, year, bucket[16] or truncate[4]")
    plain, sized, size = match.groups()
    try:
        if sized is not None:
            return _buckets(values, int(size)) if sized == "bucket" else _truncated(values, int(size))
        if plain == "void":
            return pa.nulls(len(values), values.type)
        return values if plain == "identity" else _since_epoch(values, plain)
    except (pa.ArrowException, KeyError, TypeError) as error:
        raise DataError(f"transform {transform} is not possible for values of {values.type}") from error


def _masked(numbers: npt.NDArray[Any], like: pa.Array, kind: pa.DataType) -> pa.Array:
    mask = like.is_null().to_numpy(zero_copy_only=False) if like.null_count else None
    return pa.array(numbers, mask=mask).cast(kind)


def _longs(values: pa.Array) -> Rows:
    """Return whole numbers, days or microseconds, 0 for null."""
    kind = values.type
    if pa.types.is_date32(kind):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        values = values.view(pa.int64())
    elif not pa.types.is_integer(kind):
        raise TypeError(kind)
    found: Rows = values.cast(pa.int64()).fill_null(0).to_numpy()
    return found


def _since_epoch(values: pa.Array, span: str) -> pa.Array:
    numbers = _longs(values)
    is_date = pa.types.is_date32(values.type)
    if not is_date and not pa.types.is_timestamp(values.type):
        raise TypeError(values.type)
    if span == "hour":
        if is_date:
            raise TypeError(values.type)
        return _masked(np.floor_divide(numbers, _HOUR_US), values, pa.int32())
    moments = numbers.view("datetime64[D]" if is_date else "datetime64[us]")
    return _masked(moments.astype(f"datetime64[{_SPANS[span]}]").astype(np.int64), values, pa.int32())


def _truncated(values: pa.Array, width: int) -> pa.Array:
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pc.utf8_slice_codeunits(values, 0, width)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return pc.binary_slice(values, 0, width)
    if pa.types.is_integer(kind):
        numbers = _longs(values)
        return _masked((numbers - np.mod(numbers, width)).astype(kind.to_pandas_dtype()), values, kind)
    if not pa.types.is_decimal(kind):
        raise TypeError(kind)
    found = [None if value is None else _truncated_decimal(value, width, kind) for value in values.to_pylist()]
    return pa.array(found, pa.decimal128(38, kind.scale))  # the least values get a digit more


def _truncated_decimal(value: Any, width: int, kind: pa.DataType) -> Any:
    unscaled = int(value.scaleb(kind.scale))
    return type(value)(unscaled - unscaled % width).scaleb(-kind.scale)


# Buckets: 32-bit Murmur3, variant x86, seed 0


def _buckets(values: pa.Array, count: int) -> pa.Array:
    hashes = hash_values(values)
    return _masked(((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(count)).astype(np.int32), values, pa.int32())


def hash_values(values: pa.Array) -> npt.NDArray[np.uint32]:
    """Return the 32-bit hash of each value. Raises TypeError: the spec has no hash for values of this type."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_date32(kind) or pa.types.is_time64(kind) or pa.types.is_timestamp(kind):
        numbers = np.ascontiguousarray(_longs(values).astype("<i8"))
        return _murmur3(numbers.view(np.uint8), np.arange(len(values) + 1, dtype=np.int64) * 8)
    if pa.types.is_decimal(kind):
        texts = [_shortest(int(value.scaleb(kind.scale))) for value in values.fill_null(0).to_pylist()]
        return hash_values(pa.array(texts, pa.large_binary()))
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        raise TypeError(kind)
    if pa.types.is_string(kind):
        values = values.cast(pa.large_string())
    column = values.cast(pa.large_binary()).fill_null(b"")
    offsets = np.frombuffer(column.buffers()[1], np.int64, len(column) + 1, column.offset * 8)
    return _murmur3(np.frombuffer(column.buffers()[2] or b"", np.uint8), offsets)


def _shortest(number: int) -> bytes:
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, "big", signed=True)


def _murmur3(data: npt.NDArray[np.uint8], offsets: Rows) -> npt.NDArray[np.uint32]:
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    at_any_byte = np.ndarray((len(padded) - 3,), "<u4", padded, strides=(1,))
    begins, lengths = offsets[:-1], np.diff(offsets)
    hashes = np.zeros(len(lengths), np.uint32)
    for number in range(int(lengths.max(initial=0)) // 4):
        rows = np.flatnonzero(lengths >= 4 * number + 4)
        block = _scrambled(at_any_byte[begins[rows] + 4 * number])
        hashes[rows] = _rotated(hashes[rows] ^ block, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    rows = np.flatnonzero(lengths % 4)
    tails = at_any_byte[begins[rows] + lengths[rows] // 4 * 4] & (
        np.uint32(0xFFFFFFFF) >> (32 - 8 * (lengths[rows] % 4)).astype(np.uint32)
    )
    hashes[rows] ^= _scrambled(tails)
    hashes ^= lengths.astype(np.uint32)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        hashes = (hashes ^ (hashes >> np.uint32(shift))) * np.uint32(factor)
    return hashes ^ (hashes >> np.uint32(16))


def _scrambled(block: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    return _rotated(block * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)


def _rotated(block: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (block << np.uint32(bits)) | (block >> np.uint32(32 - bits))

"""Kafka's zigzag varints by the column, in numpy, and binary columns as the offsets and the data that they are. Pure.

Source: Java ``ByteUtils.writeVarlong``, ``sizeOfVarlong``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_connect_rt.kafka.aiokafka_parts import encode_varint

Numbers = npt.NDArray[np.int64]


def ends_of(column: pa.Array) -> npt.NDArray[np.int32]:
    """Return where each value of a binary column begins, and the last one ends, in its data."""
    return np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]


def binary_column(ends: npt.NDArray[np.int32], data: pa.Buffer | npt.NDArray[np.uint8]) -> pa.Array:
    """Return the column of which ``ends_of`` returns these ends."""
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])


def numbers_of(column: pa.Array) -> Numbers:
    """Return a column without nulls as 64-bit integers; booleans as 0 and 1."""
    numbers: Numbers = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def zigzag_of(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return signed numbers with their sign in the lowest bit, unsigned and as wide as they are."""
    width = numbers.itemsize
    return ((numbers << 1) ^ (numbers >> 8 * width - 1)).view(f"u{width}")


def varint_sizes(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return how many bytes each number takes, in the numbers' own type."""
    lowest, highest = int(numbers.min()), int(numbers.max())
    if lowest < 0:
        numbers = np.maximum(numbers, ~numbers)  # as wide, and not negative
        lowest, highest = int(numbers.min()), int(numbers.max())
    least, most = _size(2 * lowest), _size(2 * highest)
    sizes = np.full(len(numbers), least, numbers.dtype)
    for size in range(least, most):
        sizes += numbers >= 1 << 7 * size - 1
    return sizes


def varint(number: int) -> bytes:
    """Return one number as a zigzag varint, as record batches have them."""
    encoded = bytearray()
    encode_varint(number, encoded.append)
    return bytes(encoded)


def varints(*columns: Numbers) -> pa.Array:
    """Return, for each row, the zigzag varints of its numbers, one behind the other (Java ``writeVarlong``)."""
    zigzags = [zigzag_of(column) for column in columns]
    widths = [_size(int(zigzag.max())) for zigzag in zigzags]
    laid_out = np.empty((sum(widths), len(columns[0])), np.uint64)  # a row for each byte that any of the numbers has
    wanted = np.ones(laid_out.shape, np.bool_)
    at = 0
    for rest, width in zip(zigzags, widths, strict=True):
        for byte in range(at, at + width):
            np.bitwise_and(rest, 0x7F, out=laid_out[byte])
            if byte < at + width - 1:
                np.greater(rest, 0x7F, out=wanted[byte + 1])
                laid_out[byte] |= wanted[byte + 1].astype(np.uint64) << np.uint64(7)
                rest = rest >> np.uint64(7)
        at += width
    ends = np.zeros(len(columns[0]) + 1, np.int32)
    np.cumsum(wanted.sum(axis=0, dtype=np.int32), out=ends[1:])
    return binary_column(ends, laid_out.astype(np.uint8).T[wanted.T])


def _size(zigzag: int) -> int:
    """Return how many bytes a number takes."""
    return max((zigzag.bit_length() + 6) // 7, 1)

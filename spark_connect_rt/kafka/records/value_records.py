"""Records that have nothing but a value, as most sources' are, by the column.

What stands between two values, the end of one record and the head of the next, is equally wide until a varint in it
grows. So rows are taken in runs of equal widths: one call of Arrow puts the values behind each other with the first
head between them, and numpy writes each row's own head over it. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.kafka.records.varint_columns import Numbers, ends_of, varint, varint_sizes, zigzag_of

Pieces = list[bytes | memoryview | pa.Buffer]
"""Bytes, one piece behind the other."""

_MOST_RUNS = 16  # of one batch; offsets alone make three of 10,000 rows
_ATTRIBUTES, _NO_KEY, _NO_HEADERS = b"\0", b"\1", b"\0"
_Column = tuple[npt.NDArray[Any], int] | bytes
"""Numbers that are equally wide as varints, and that width; or what every row has."""


def value_records(values: pa.Array, deltas: Numbers) -> Pieces | None:
    """Return records without key and headers; None: lengths differ so much that this is no good way, or one is null.

    Args:
        values: binary, at least one.
        deltas: ms between the batch's first timestamp and each one's.
    """
    if values.null_count:
        return None
    lengths = np.diff(ends_of(values))
    times = deltas if deltas.any() else b"\0"  # as in most batches
    behind = [_ATTRIBUTES, times, np.arange(len(values), dtype=np.int32), _NO_KEY, lengths]
    widths: list[Any] = [
        len(column) if isinstance(column, bytes) else varint_sizes(column).astype(np.int32, copy=False)
        for column in behind
    ]
    sizes = lengths + sum(widths) + np.int32(len(_NO_HEADERS))
    widths.insert(0, varint_sizes(sizes))
    edges = _edges([width for width in widths if not isinstance(width, int)])
    if len(edges) - 1 > _MOST_RUNS:
        return None
    pieces: Pieces = []
    for first, end in pairwise(edges):
        columns: list[_Column] = [
            column if isinstance(column, bytes) else (column[first:end], int(width[first]))
            for column, width in zip([sizes, *behind], widths, strict=True)
        ]
        pieces += _run(values.slice(first, end - first), columns)
    return pieces


def _edges(widths: Sequence[npt.NDArray[Any]]) -> list[int]:
    """Return where any of the widths changes, the beginning and the end."""
    changes = np.zeros(len(widths[0]) - 1, np.bool_)
    for column in widths:
        changes |= column[1:] != column[:-1]
    inner: list[int] = (np.flatnonzero(changes) + 1).tolist()
    return [0, *inner, len(widths[0])]


def _run(values: pa.Array, head: Sequence[_Column]) -> Pieces:
    """Return the records of rows whose heads have the same width."""
    first = b"".join(column if isinstance(column, bytes) else varint(int(column[0][0])) for column in head)
    if len(values) == 1:
        return [first, values[0].as_buffer(), _NO_HEADERS]
    between = _NO_HEADERS + first
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), between)
    content = np.frombuffer(joined.buffers()[2], np.uint8)  # no one else has seen it: the heads are written into it
    ends = ends_of(values)
    at = (ends[1:-1] - ends[0]) + np.arange(len(_NO_HEADERS), (len(values) - 1) * len(between), len(between))
    # A view of each place as the head that may begin there: they overlap, and one assignment writes all heads.
    kind = np.dtype((np.void, len(first)))
    places = np.ndarray((len(content) - len(first) + 1,), kind, content.data, 0, (1,))
    places[at] = _heads(first, head, len(values) - 1).view(kind)[:, 0]
    return [first, joined.buffers()[2].slice(0, int(ends_of(joined)[-1])), _NO_HEADERS]


def _heads(first: bytes, head: Sequence[_Column], count: int) -> npt.NDArray[np.uint8]:
    """Return the heads of all rows behind the first, which has this one; a row each."""
    heads = np.frombuffer(bytearray(first) * count, np.uint8).reshape(count, len(first))
    place = 0
    for piece in head:
        if isinstance(piece, bytes):
            place += len(piece)
            continue
        numbers, width = piece
        for byte, column in enumerate(_varint_bytes(numbers[1:], width), place):
            heads[:, byte] = column
        place += width
    return heads


def _varint_bytes(numbers: npt.NDArray[Any], width: int) -> npt.NDArray[np.uint8]:
    """Return the varints of numbers that all have this width: the first byte of each, the second of each, ..."""
    rest, places = zigzag_of(numbers), np.empty((width, len(numbers)), np.uint8)
    for place in range(width):
        np.right_shift(rest, rest.dtype.type(7 * place), out=places[place], casting="unsafe")
    places[:-1] |= 0x80
    return places

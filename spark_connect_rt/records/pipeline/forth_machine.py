"""AwkwardForth, a machine in C++ that parses formats which can only be read in order. The one import of this part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from awkward_cpp.lib._ext import ForthMachine64

__all__ = ["ForthMachine64"]


# Pieces of one buffer as a binary column, copied by Arrow all at once. Pure.


Numbers = np.ndarray[Any, np.dtype[Any]]


_IN_A_VIEW = 12  # bytes that are in the view itself


def binary_views(data: Numbers, at: Numbers, lengths: Numbers) -> pa.Array | None:
    """Return the pieces of ``data`` at these places as views of it; None: some are short or null."""
    if lengths.min() <= _IN_A_VIEW:
        return None
    views = np.zeros((len(at), 4), np.int32)  # length, the first four bytes, which buffer, place
    words = np.ndarray((len(data) - 3,), np.int32, data.data, strides=(1,))
    views[:, 0], views[:, 1], views[:, 3] = lengths, words[at], at
    return pa.Array.from_buffers(pa.binary_view(), len(at), [None, pa.py_buffer(views), pa.py_buffer(data)])


def binary_pieces(data: Numbers, at: Numbers, lengths: Numbers) -> pa.Array:
    """Return the pieces of ``data`` that begin at ascending places; null where a length is negative."""
    nulls = lengths < 0
    if nulls.all():
        return pa.nulls(len(at), pa.binary())
    bounds = np.empty(2 * len(at), np.int32)
    bounds[0::2] = at
    bounds[1::2] = at + np.where(nulls, 0, lengths)
    # Every second one is the text between two pieces.
    pieces = pa.Array.from_buffers(
        pa.binary(), max(0, len(bounds) - 1), [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return pieces.take(pa.array(np.arange(0, len(bounds), 2), mask=nulls if nulls.any() else None))

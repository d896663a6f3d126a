"""The hashes of keys by the column, in numpy: 32-bit murmur2 as Java's producers choose partitions by. Pure.

Source: Java ``Utils.murmur2``, ``BuiltInPartitioner.partitionForKey``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from aiokafka.partitioner import murmur2

from spark_connect_rt.kafka.records.varint_columns import Numbers, ends_of

_FEW = 32  # keys: below it a loop over them is cheaper
_SEED, _FACTOR, _POSITIVE = 0x9747B28C, np.uint32(0x5BD1E995), 0x7FFFFFFF
_WORD = 4  # bytes
_Words = npt.NDArray[np.uint32]


def key_hashes(keys: pa.Array) -> Numbers:
    """Return the hash of each key of a binary column, not negative; of null as of an empty one."""
    if len(keys) < _FEW:
        return np.array([murmur2(key or b"") & _POSITIVE for key in keys.to_pylist()], np.int64)
    if keys.null_count:
        keys = keys.fill_null(b"")
    ends = ends_of(keys)
    starts, lengths = ends[:-1], np.diff(ends)
    words = _words_at(keys.buffers()[2])
    hashes = lengths.astype(np.uint32) ^ np.uint32(_SEED)
    for first in range(0, int(lengths.max()) - _WORD + 1, _WORD):
        rows = np.flatnonzero(lengths >= first + _WORD)
        hashes[rows] = hashes[rows] * _FACTOR ^ _mixed(words[starts[rows] + first])
    left = lengths % _WORD
    rows = np.flatnonzero(left)
    rest = words[(ends[1:] - left)[rows]] & ((np.uint32(1) << (8 * left[rows]).astype(np.uint32)) - np.uint32(1))
    hashes[rows] = (hashes[rows] ^ rest) * _FACTOR
    hashes ^= hashes >> np.uint32(13)
    hashes *= _FACTOR
    hashes ^= hashes >> np.uint32(15)
    return (hashes & np.uint32(_POSITIVE)).astype(np.int64)


def _mixed(words: _Words) -> _Words:
    words = words * _FACTOR
    return (words ^ words >> np.uint32(24)) * _FACTOR


def _words_at(data: pa.Buffer | None) -> _Words:
    """Return the little-endian word that begins at each byte, as if zeros followed the last."""
    padded = (b"" if data is None else data.to_pybytes()) + bytes(_WORD)
    return np.ndarray((len(padded) - _WORD + 1,), np.dtype("<u4"), padded, strides=(1,))

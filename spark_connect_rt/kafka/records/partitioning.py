"""A batch in produce form -> its rows by topic and partition, in their order, without a loop over rows.

Owns: which partition a row without one goes to, as Java's default partitioner: by the hash of its key, or, without a
key, where the caller says, the same for one batch and topic. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from aiokafka.partitioner import murmur2

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.records.varint_columns import Numbers, ends_of, numbers_of
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC

# The hashes of keys by the column, in numpy: 32-bit murmur2 as Java's producers choose partitions by. Pure.
#
# Source: Java ``Utils.murmur2``, ``BuiltInPartitioner.partitionForKey``.


_FEW = 32  # keys: below it a loop over them is cheaper
_SEED, _FACTOR, _POSITIVE = 0x9747B28C, np.uint32(0x5BD1E995), 0x7FFFFFFF
_WORD = 4  # bytes
_Words = npt.NDArray[np.uint32]


def partition_of_key(key: bytes, partitions: int) -> int:
    """Return the partition of a key in a topic of so many partitions, as Java's default partitioner chooses it."""
    return int(murmur2(key) & _POSITIVE) % partitions


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


_PLACE = ("topic", "partition")
_UNPLACED = -1


@dataclass(frozen=True, slots=True)
class TopicPartitioning:
    """The properties of a topic that decide where rows without a partition go."""

    count: int  # all of them: keys are hashed to these, led or not
    keyless: int  # the partition of rows without a key


def topics_without_partition(batch: pa.RecordBatch) -> list[str]:
    """Return the topics of rows that name no partition."""
    metadata = batch.schema.metadata or {}
    if TOPIC in metadata and "partition" not in batch.schema.names:
        return [] if PARTITION in metadata else [metadata[TOPIC].decode()]
    topics, codes = _topics(batch)
    return [topics[code] for code in np.unique(codes[_partitions(batch) == _UNPLACED])]


def rows_by_partition(
    batch: pa.RecordBatch, unplaced: Mapping[str, TopicPartitioning]
) -> list[tuple[TopicPartition, pa.RecordBatch]]:
    """Return the rows of each partition, without the columns that say where they go.

    Args:
        batch: produce form.
        unplaced: of each of ``topics_without_partition``.
    """
    rows = batch.drop_columns([name for name in _PLACE if name in batch.schema.names]).replace_schema_metadata(None)
    only = _only_place(batch, unplaced)
    if only is not None:
        return [(only, rows)]
    topics, codes = _topics(batch)
    partitions = _partitions(batch)
    if (partitions == _UNPLACED).any():
        chosen = _chosen(batch, [unplaced.get(topic, TopicPartitioning(1, 0)) for topic in topics], codes)
        partitions = np.where(partitions == _UNPLACED, chosen, partitions)
    places = (codes << 32) | partitions
    if len(_edges(places)) - 1 > len(np.unique(places)):
        order = np.argsort(places, kind="stable")
        rows, places = rows.take(pa.array(order)), places[order]
    edges = _edges(places)
    return [
        (TopicPartition(topics[places[first] >> 32], int(places[first] & 0xFFFFFFFF)), rows.slice(first, end - first))
        for first, end in pairwise(edges)
    ]


def _only_place(batch: pa.RecordBatch, unplaced: Mapping[str, TopicPartitioning]) -> TopicPartition | None:
    """Return the partition of all rows where it is known without reading them."""
    metadata, names = batch.schema.metadata or {}, batch.schema.names
    if TOPIC not in metadata or "partition" in names:
        return None
    topic = metadata[TOPIC].decode()
    if PARTITION in metadata:
        return TopicPartition(topic, int(metadata[PARTITION]))
    if "key" in names and batch.column("key").null_count < batch.num_rows:
        return None
    return TopicPartition(topic, unplaced[topic].keyless)


def _edges(places: Numbers) -> list[int]:
    """Return where runs of equal numbers begin, and the end."""
    edges: list[int] = (np.flatnonzero(np.diff(places)) + 1).tolist()
    return [0, *edges, len(places)]


def _topics(batch: pa.RecordBatch) -> tuple[list[str], Numbers]:
    """Return the topics, and the number of each row's among them."""
    topic = (batch.schema.metadata or {}).get(TOPIC)
    if topic is not None:
        return [topic.decode()], np.zeros(batch.num_rows, np.int64)
    column = batch.column("topic").dictionary_encode()
    return column.dictionary.to_pylist(), numbers_of(column.indices)


def _partitions(batch: pa.RecordBatch) -> Numbers:
    partition = (batch.schema.metadata or {}).get(PARTITION)
    if partition is not None or "partition" not in batch.schema.names:
        return np.full(batch.num_rows, _UNPLACED if partition is None else int(partition))
    return numbers_of(batch.column("partition").fill_null(_UNPLACED))


def _chosen(batch: pa.RecordBatch, places: Sequence[TopicPartitioning], codes: Numbers) -> Numbers:
    """Return where rows go that name no partition; ``codes``: the number of each row's topic among ``places``."""
    chosen = np.array([topic.keyless for topic in places])[codes]
    if "key" not in batch.schema.names:
        return chosen
    keys = batch.column("key")
    hashed = key_hashes(keys) % np.array([topic.count for topic in places])[codes]
    return np.where(numbers_of(keys.is_null()) == 1, chosen, hashed)

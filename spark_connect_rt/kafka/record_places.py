"""A batch in produce form -> its rows by topic and partition, in their order, without a loop over rows.

Owns: which partition a row without one goes to, as Java's default partitioner: by the hash of its key, or any, the
same for one batch. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import pyarrow as pa
from aiokafka.partitioner import murmur2

from spark_connect_rt.kafka.record_batch_columns import Numbers, numbers_of
from spark_connect_rt.pipeline.columns import PARTITION, TOPIC
from spark_connect_rt.protocol.ids import TopicPartition

_PLACE = ("topic", "partition")
_UNPLACED = -1


def unplaced_topics(batch: pa.RecordBatch) -> list[str]:
    """Return the topics of rows that name no partition."""
    topics, codes = _topics(batch)
    return [topics[code] for code in np.unique(codes[_partitions(batch) == _UNPLACED])]


def by_place(
    batch: pa.RecordBatch, counts: Mapping[str, int], any_below: Callable[[int], int]
) -> list[tuple[TopicPartition, pa.RecordBatch]]:
    """Return the rows of each partition, without the columns that say where they go.

    Args:
        batch: produce form.
        counts: how many partitions each of ``unplaced_topics`` has.
        any_below: chooses a number below its argument.
    """
    topics, codes = _topics(batch)
    partitions = _partitions(batch)
    if (partitions == _UNPLACED).any():
        chosen = _chosen(batch, np.array([counts.get(topic, 1) for topic in topics])[codes], any_below)
        partitions = np.where(partitions == _UNPLACED, chosen, partitions)
    rows = batch.drop_columns([name for name in _PLACE if name in batch.schema.names]).replace_schema_metadata(None)
    places = (codes << 32) | partitions
    if len(_edges(places)) - 1 > len(np.unique(places)):
        order = np.argsort(places, kind="stable")
        rows, places = rows.take(pa.array(order)), places[order]
    edges = _edges(places)
    return [
        (TopicPartition(topics[places[first] >> 32], int(places[first] & 0xFFFFFFFF)), rows.slice(first, end - first))
        for first, end in pairwise(edges)
    ]


def _edges(places: Numbers) -> list[int]:
    """Return where runs of equal numbers begin, and the end."""
    edges: list[int] = (np.flatnonzero(np.diff(places)) + 1).tolist()
    return [0, *edges, len(places)]


def _topics(batch: pa.RecordBatch) -> tuple[list[str], Numbers]:
    """Return the topics, and the number of each row's among them."""
    one = (batch.schema.metadata or {}).get(TOPIC)
    if one is not None:
        return [one.decode()], np.zeros(batch.num_rows, np.int64)
    column = batch.column("topic").dictionary_encode()
    return column.dictionary.to_pylist(), numbers_of(column.indices)


def _partitions(batch: pa.RecordBatch) -> Numbers:
    one = (batch.schema.metadata or {}).get(PARTITION)
    if one is not None or "partition" not in batch.schema.names:
        return np.full(batch.num_rows, _UNPLACED if one is None else int(one))
    return numbers_of(batch.column("partition").fill_null(_UNPLACED))


def _chosen(batch: pa.RecordBatch, counts: Numbers, any_below: Callable[[int], int]) -> Numbers:
    anywhere: dict[int, int] = {count: any_below(count) for count in np.unique(counts).tolist()}
    chosen = np.array([anywhere[count] for count in counts.tolist()])
    if "key" not in batch.schema.names:
        return chosen
    keys = batch.column("key").dictionary_encode()
    hashes = np.array([*(murmur2(key) & 0x7FFFFFFF for key in keys.dictionary.to_pylist()), 0])
    indices = numbers_of(keys.indices.fill_null(len(keys.dictionary)))
    return np.where(indices == len(keys.dictionary), chosen, hashes[indices] % counts)

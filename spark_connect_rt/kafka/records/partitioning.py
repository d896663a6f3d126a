"""A batch in produce form -> its rows by topic and partition, in their order, without a loop over rows.

Owns: which partition a row without one goes to, as Java's default partitioner: by the hash of its key, or, without a
key, where the caller says, the same for one batch and topic. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.records.key_hashes import key_hashes
from spark_connect_rt.kafka.records.varint_columns import Numbers, numbers_of
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC

_PLACE = ("topic", "partition")
_UNPLACED = -1


@dataclass(frozen=True, slots=True)
class TopicPartitioning:
    """What of a topic's partitions decides where rows without one go."""

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
    """Return the partition of all rows where it is known without a look at them."""
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

"""Rows of a consumed batch by their topic partition: apart, and a batch without some of them. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC


def without_partitions(batch: pa.RecordBatch, leaving: AbstractSet[TopicPartition]) -> pa.RecordBatch:
    """Drop the rows of ``leaving`` from a batch in consume form: their next owner reads them again."""
    if not leaving:
        return batch
    kept = [place not in leaving for place in _places(batch)]
    return batch if all(kept) else batch.filter(pa.array(kept))


def is_of_one_partition(batch: pa.RecordBatch) -> bool:
    """Tell whether topic and partition of a batch in consume form are in its metadata."""
    return not {"topic", "partition"} & set(batch.schema.names)


def by_partition(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return a batch in consume form as one of each partition, topic and partition in the metadata."""
    if is_of_one_partition(batch):
        return [batch]
    rows: dict[TopicPartition, list[int]] = {}
    for row, place in enumerate(_places(batch)):
        rows.setdefault(place, []).append(row)
    plain = batch.select([name for name in batch.schema.names if name not in ("topic", "partition")])
    return [
        plain.take(pa.array(chosen)).replace_schema_metadata(
            {TOPIC: place.topic.encode(), PARTITION: str(place.partition).encode()}
        )
        for place, chosen in rows.items()
    ]


def first_offsets(batch: pa.RecordBatch, partitions: AbstractSet[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the least offset of each of ``partitions`` that has rows in a batch in consume form."""
    found: dict[TopicPartition, int] = {}
    if partitions:
        for place, offset in zip(_places(batch), batch.column("offset").to_pylist(), strict=True):
            if place in partitions:
                found[place] = min(offset, found.get(place, offset))
    return found


def _places(batch: pa.RecordBatch) -> list[TopicPartition]:
    metadata = batch.schema.metadata or {}
    columns = []
    for name, key, read in (("topic", TOPIC, bytes.decode), ("partition", PARTITION, int)):
        stands = metadata.get(key)
        fixed = None if stands is None or name in batch.schema.names else read(stands)
        columns.append(batch.column(name).to_pylist() if fixed is None else [fixed] * batch.num_rows)
    return [TopicPartition(*pair) for pair in zip(*columns, strict=True)]

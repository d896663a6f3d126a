"""The engine's two Arrow forms of a batch of Kafka records. A column that is absent is null in every row.

Produce form (on its way to Kafka): topic, partition, key, value, headers, timestamp.
Consume form (on its way from Kafka): topic, partition, offset, timestamp, key, value, headers.
If all rows share it, ``topic`` may instead be in the schema metadata under ``TOPIC``, ``partition`` under
``PARTITION``.

Within a process, the values of the consume form may be views (`binary_view`) of the memory in which they were received.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

TOPIC = b"connectrt.topic"
PARTITION = b"connectrt.partition"

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

PRODUCE_FIELDS = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS_TYPE,
    "timestamp": pa.int64(),  # ms since the epoch
}
CONSUME_FIELDS = {**PRODUCE_FIELDS, "offset": pa.int64()}
VIEWS = pa.binary_view()
_VIEW_BYTES = 16


def without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch with a copy of its values, if they are views."""
    place = batch.schema.get_field_index("value")
    if place < 0 or batch.schema.types[place] != VIEWS:
        return batch
    columns = batch.columns
    columns[place] = columns[place].cast(pa.binary())
    schema = batch.schema.set(place, pa.field("value", pa.binary()))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def content_bytes(batch: pa.RecordBatch) -> int:
    """Return the size of a batch without views, in bytes."""
    return sum(_viewed_bytes(column) if column.type == VIEWS else int(column.nbytes) for column in batch.columns)


def _viewed_bytes(column: pa.Array) -> int:
    lengths = np.frombuffer(column.buffers()[1], np.int32)[:: _VIEW_BYTES // 4]
    return int(lengths[column.offset : column.offset + len(column)].sum(dtype=np.int64)) + 4 * len(column)


def produce_batch(topic: str, values: pa.Array, keys: pa.Array | None = None) -> pa.RecordBatch:
    """Return a produce-form batch of one topic; ``values`` and ``keys`` are binary or string arrays."""
    columns = {"value": values.cast(pa.binary())}
    if keys is not None:
        columns["key"] = keys.cast(pa.binary())
    schema = pa.schema([pa.field(name, PRODUCE_FIELDS[name]) for name in columns], metadata={TOPIC: topic.encode()})
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


# Builds batches in produce form (records.pipeline.columns), from rows or from whole columns.


ProduceRow = tuple[str, int | None, bytes | None, bytes | None, list[tuple[str, bytes | None]] | None, int | None]
"""(topic, partition, key, value, headers, timestamp in ms)"""

_ROW_BYTES = 48  # about the size of a row without its key and value


def columns_batch(
    topic: str,
    values: pa.Array,
    keys: pa.Array | None = None,
    timestamps_ms: pa.Array | None = None,
    partition: int | None = None,
    headers: pa.Array | None = None,
) -> pa.RecordBatch:
    """Return a produce-form batch of one topic; ``values`` and ``keys`` are binary or string arrays."""
    given = {"key": keys, "value": values, "headers": headers, "timestamp": timestamps_ms}
    columns = {name: _as_kind(column, PRODUCE_FIELDS[name]) for name, column in given.items() if column is not None}
    return _batch(columns, topic, partition)


def _as_kind(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return ``column.cast(kind)``, without a call of a kernel where that would copy nothing."""
    found = column.type
    if found == kind:
        return column
    return column.view(kind) if pa.types.is_string(found) and pa.types.is_binary(kind) else column.cast(kind)


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch | None:
    """Return batches of one topic as one, a row with its partition; None: they are of several, or may be."""
    topics = {(batch.schema.metadata or {}).get(TOPIC) for batch in batches}
    if len(topics) != 1 or None in topics:
        return None
    placed = [_with_partition(batch) for batch in batches]
    if all(batch.schema.equals(placed[0].schema) for batch in placed):
        table = pa.Table.from_batches(placed)
    else:  # a column that is absent is null in every row
        table = pa.concat_tables([pa.Table.from_batches([batch]) for batch in placed], promote_options="default")
    return table.combine_chunks().replace_schema_metadata({TOPIC: topics.pop()}).to_batches()[0]


def _with_partition(batch: pa.RecordBatch) -> pa.RecordBatch:
    number = (batch.schema.metadata or {}).get(PARTITION)
    plain = batch.replace_schema_metadata(None)
    if number is None:
        return plain
    kind = PRODUCE_FIELDS["partition"]
    return plain.append_column("partition", pa.repeat(pa.scalar(int(number), kind), batch.num_rows))


class ProduceRows:
    """Rows gathered until they are taken as one batch; columns that are null in every row are left out."""

    def __init__(self) -> None:
        """Start with an empty batch."""
        self.bytes = 0
        self._rows: list[ProduceRow] = []

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, row: ProduceRow) -> None:
        """Add one row and its size, bytes."""
        self._rows.append(row)
        self.bytes += len(row[2] or b"") + len(row[3] or b"") + _ROW_BYTES

    def topics(self) -> tuple[str, ...]:
        """Return the topics of the rows, in order of first sight."""
        return tuple(dict.fromkeys(row[0] for row in self._rows))

    def take(self) -> pa.RecordBatch:
        """Return the rows as a batch and start an empty one."""
        topics = self.topics()
        by_column: list[Any] = list(zip(*self._rows, strict=True)) or [()] * len(PRODUCE_FIELDS)
        columns = {
            name: pa.array(_headers(values) if name == "headers" else values, kind)
            for (name, kind), values in zip(PRODUCE_FIELDS.items(), by_column, strict=True)
            if any(value is not None for value in values)
        }
        self._rows, self.bytes = [], 0
        if len(topics) == 1:
            del columns["topic"]
        columns.setdefault("value", pa.nulls(0 if not topics else len(by_column[0]), pa.binary()))
        return _batch(columns, topics[0] if len(topics) == 1 else None)


def _headers(values: tuple[list[tuple[str, bytes | None]] | None, ...]) -> list[Any]:
    return [value and [{"key": key, "value": data} for key, data in value] for value in values]


def _batch(columns: dict[str, pa.Array], topic: str | None, partition: int | None = None) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=_schema(tuple(columns), topic, partition))


@lru_cache(1_000)
def _schema(names: tuple[str, ...], topic: str | None, partition: int | None) -> pa.Schema:
    metadata = {} if topic is None else {TOPIC: topic.encode()}
    if partition is not None:
        metadata[PARTITION] = str(partition).encode()
    return pa.schema([pa.field(name, PRODUCE_FIELDS[name]) for name in names], metadata=metadata)

"""The engine's two Arrow forms of a batch of Kafka records. A column that is absent is null in every row.

Produce form (on its way to Kafka): topic, partition, key, value, headers, timestamp.
Consume form (on its way from Kafka): topic, partition, offset, timestamp, key, value, headers.
``topic`` may instead stand once in the schema metadata under ``TOPIC``, ``partition`` under ``PARTITION``.
"""

from __future__ import annotations

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


def produce_batch(topic: str, values: pa.Array, keys: pa.Array | None = None) -> pa.RecordBatch:
    """Return a produce-form batch of one topic; ``values`` and ``keys`` are binary or string arrays."""
    columns = {"value": values.cast(pa.binary())}
    if keys is not None:
        columns["key"] = keys.cast(pa.binary())
    schema = pa.schema([pa.field(name, PRODUCE_FIELDS[name]) for name in columns], metadata={TOPIC: topic.encode()})
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)

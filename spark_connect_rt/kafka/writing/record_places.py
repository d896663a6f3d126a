"""Where each record went that a ``ColumnProducer`` wrote, in the order of its ``produce``: for tasks with commitRecord.

A number travels with each row as a column of its own, which no layout looks at; what is acknowledged comes as columns,
too, so nothing is called for each record. Owns the numbers. Not thread-safe: the producer's lock is around it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_connect_rt.api.records import RecordMetadata
from spark_connect_rt.base.ids import TopicPartition

NUMBER = "connectrt.number"


class RecordPlaces:
    """Of one producer."""

    def __init__(self) -> None:
        """Start with no record."""
        self._first = self._next = 0  # numbers that are not taken yet
        self._places: list[RecordMetadata | None] = []

    def numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in produce form with the numbers of its rows, which are the next ones."""
        numbers = np.arange(self._next, self._next + batch.num_rows, dtype=np.int64)
        self._next += batch.num_rows
        self._places.extend([None] * batch.num_rows)
        fields = [*batch.schema, pa.field(NUMBER, pa.int64())]
        return pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(numbers)], schema=pa.schema(fields, batch.schema.metadata)
        )

    def note(
        self, place: TopicPartition, offset: int, rows: pa.RecordBatch, now_ms: int, appended_ms: int | None
    ) -> None:
        """Take note of records that a partition holds from this offset on.

        Args:
            place: the partition.
            offset: of the first row.
            rows: numbered, as they were laid out.
            now_ms: the timestamp of those without one.
            appended_ms: the broker's own for all of them; None: the topic keeps theirs.
        """
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        stamps = columns["timestamp"].to_pylist() if "timestamp" in columns else [None] * rows.num_rows
        topic, partition = place.topic, place.partition
        numbers = columns[NUMBER].to_pylist()
        for index, (number, stamp) in enumerate(zip(numbers, stamps, strict=True)):
            own_ms = now_ms if stamp is None else stamp
            metadata = RecordMetadata(topic, partition, offset + index, own_ms if appended_ms is None else appended_ms)
            self._places[number - self._first] = metadata

    def take(self) -> list[RecordMetadata | None]:
        """Return those of all records since the last call, None of one that is not acknowledged; forget them."""
        taken, self._places = self._places, []
        self._first = self._next
        return taken

"""What a JVM's source task sent and is not durable yet: from BATCH rows back to the JVM's own batches. Pure.

A JVM batch becomes some BATCH rows, maybe none; when the last of them is durable, so is the batch.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from spark_connect_rt.api.records import RecordMetadata
from spark_connect_rt.records.pipeline.delivery_runs import metadata_runs

Segment = tuple[str, int, int]
"""(the topic that the JVM knows, Kafka records, how many of the JVM's records they are)"""


@dataclass(slots=True)
class _Row:
    """One BATCH row: ``rows`` Kafka records, of which the first ``records`` are the task's, the others dead letters."""

    records: int
    rows: int
    segments: Sequence[Segment] = ()  # of a JVM batch's last row
    ends: int = 0  # JVM batches that end with it
    data_bytes: int = 0  # of those batches


class SentFrames:
    """Of one task, in order. The task's thread."""

    def __init__(self) -> None:
        """Start with nothing sent."""
        self.data_bytes = 0  # not durable yet
        self._rows: deque[_Row] = deque()
        self._places: deque[RecordMetadata | None] = deque()  # of a JVM batch that is durable in part

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, rows: Sequence[tuple[int, int]], segments: Sequence[Segment], data_bytes: int = 0
    ) -> dict[str, Any] | None:
        """Remember a JVM batch; return the DURABLE head if it is durable at once: nothing of it is sent.

        Args:
            rows: (the task's records, all records) of each BATCH row.
            segments: the task's records of all its rows, in their order.
            data_bytes: how large it is, about.
        """
        if not rows:
            if not self._rows:
                return {"batches": 1, "places": {}}
            self._rows[-1].ends += 1
            return None
        self._rows.extend(_Row(*row) for row in rows)
        last = self._rows[-1]
        last.segments, last.ends, last.data_bytes = segments, 1, data_bytes
        self.data_bytes += data_bytes
        return None

    def add_row(self) -> None:
        """Remember a BATCH row without records, which belongs to no JVM batch."""
        self._rows.append(_Row(0, 0))

    def durable(self, rows: int, metadata: Iterable[RecordMetadata | None]) -> dict[str, Any] | None:
        """Return the DURABLE head now that so many more BATCH rows are durable; None: no JVM batch is.

        Args:
            metadata: of each Kafka record of these rows, in order.
        """
        found = iter(metadata)
        batches, places = 0, dict[str, list[RecordMetadata | None]]()
        for _ in range(min(rows, len(self._rows))):
            row = self._rows.popleft()
            self._places.extend(list(islice(found, row.rows))[: row.records])
            for topic, count, wanted in row.segments:
                taken = [self._places.popleft() for _ in range(min(count, len(self._places)))][:wanted]
                places.setdefault(topic, []).extend(taken + [None] * (wanted - len(taken)))
            if row.ends:
                self._places.clear()
            batches += row.ends
            self.data_bytes -= row.data_bytes
        return {"batches": batches, "places": {t: _runs(ones) for t, ones in places.items()}} if batches else None


def _runs(places: Sequence[RecordMetadata | None]) -> list[tuple[int, int, int, int, str]]:
    """Return [partition, first offset, records, timestamp, topic]; of what no one can read the offset is -1."""
    return [
        (partition, first, count, -1 if timestamp_ms is None else timestamp_ms, topic)
        for topic, partition, first, timestamp_ms, count in metadata_runs(places)
    ]

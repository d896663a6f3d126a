"""How far one sink task is: what it was put, what of it was reported, and where a failed commit goes back to. Pure.

Owns the next offset of each open partition, twice: behind the last put, and behind what is committed as far as the
executor knows (Java ``WorkerSinkTask``, its ``currentOffsets`` and ``lastCommittedOffsets``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet

import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.executor.sink_rows import first_offsets

Offsets = dict[TopicPartition, int]


class SinkOffsets:
    """Of the partitions that are open. The lane's thread."""

    def __init__(self) -> None:
        self._put: Offsets = {}
        self._committed: Offsets = {}  # where it began, until something was reported

    def took(self, batch: pa.RecordBatch, next_offsets: Mapping[TopicPartition, int]) -> None:
        """A batch in consume form was put; ``next_offsets`` is behind it."""
        new = next_offsets.keys() - self._committed.keys()
        self._committed.update(first_offsets(batch, new))
        self._put.update(next_offsets)

    def of(self, partitions: AbstractSet[TopicPartition]) -> Offsets:
        """Return the next offsets behind what was put of these."""
        return {partition: offset for partition, offset in self._put.items() if partition in partitions}

    def safe(self, answered: Mapping[TopicPartition, int]) -> Offsets:
        """Return what of a task's answer may be committed: nothing that it was not put."""
        return {
            partition: min(offset, self._put[partition])
            for partition, offset in answered.items()
            if partition in self._put
        }

    def reported(self, safe: Mapping[TopicPartition, int]) -> Offsets:
        """Take ``safe`` as committed; return what of it is new."""
        changed = {partition: offset for partition, offset in safe.items() if self._committed.get(partition) != offset}
        self._committed.update(changed)
        return changed

    def all_safe(self, safe: Mapping[TopicPartition, int]) -> bool:
        """Tell whether nothing else is left to commit."""
        return self._put == safe

    def behind(self) -> Offsets:
        """Return where each partition goes back to when nothing that was put since may count."""
        return {
            partition: self._committed[partition]
            for partition, offset in self._put.items()
            if self._committed[partition] != offset
        }

    def moved(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These are read from there, newly opened or sought: a later failure goes back to there, too, as in Java."""
        self._put.update(offsets)
        self._committed.update(offsets)

    def gone(self, partitions: Iterable[TopicPartition]) -> None:
        """These are the task's no more."""
        for partition in partitions:
            self._put.pop(partition, None)
            self._committed.pop(partition, None)

"""Which records' offsets are synced, and when (Java ``OffsetSyncWriter``).

At once: the first record of a partition in a task's life, one behind a gap at the source, one at a target that was cut
off, and whenever ``offset.lag.max`` records have gone by. The last record otherwise waits for ``promote``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.records import OffsetSync


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """Records of one partition whose offsets go up by one on both sides."""

    upstream_offset: int  # of the first one
    downstream_offset: int
    count: int  # at least 1


@dataclass(slots=True)
class _Partition:
    """What is remembered of the last record and of the last sync."""

    upstream: int = -1
    downstream: int = -1
    synced_downstream: int = -1

    def syncs(self, run: OffsetRun, max_lag: int) -> Iterator[int]:
        """Yield the places in the run, from 0, of records that are synced at once; take note of all of it."""
        gap = run.upstream_offset - self.upstream != 1
        cut_off = run.downstream_offset < self.downstream
        at = 0 if self.synced_downstream == -1 or gap or cut_off else self._stale_at(run, max_lag)
        while at < run.count:
            self.synced_downstream = run.downstream_offset + at
            yield at
            at = max(at + 1, self._stale_at(run, max_lag))
        self.upstream = run.upstream_offset + run.count - 1
        self.downstream = run.downstream_offset + run.count - 1

    def _stale_at(self, run: OffsetRun, max_lag: int) -> int:
        # An offset is translated to one behind the last sync, so that is what the lag is counted from.
        return max(0, self.synced_downstream + 1 + max_lag - run.downstream_offset)


class OffsetSyncQueue:
    """Syncs that wait to be written. One thread."""

    def __init__(self, max_lag: int) -> None:
        """Take ``offset.lag.max``."""
        self._max_lag = max_lag
        self._partitions: dict[TopicPartition, _Partition] = {}
        self._delayed: dict[TopicPartition, OffsetSync] = {}
        self._pending: dict[TopicPartition, OffsetSync] = {}

    def take_in(self, partition: TopicPartition, run: OffsetRun) -> Iterator[None]:
        """Note acknowledged records; yields whenever a sync became pending, so that it can be written there and then.

        A sync that is not taken by the time the next of its partition comes is replaced.
        """
        state = self._partitions.setdefault(partition, _Partition())
        last = run.count - 1
        synced_last = False
        for at in state.syncs(run, self._max_lag):
            self._delayed.pop(partition, None)
            self._pending[partition] = _sync(partition, run, at)
            synced_last = at == last
            yield
        if not synced_last:
            self._delayed[partition] = _sync(partition, run, last)

    def promote(self) -> None:
        """Make what waits pending: low traffic must not leave a partition out of date."""
        self._pending.update(self._delayed)
        self._delayed.clear()

    def __len__(self) -> int:
        """Return how many are pending."""
        return len(self._pending)

    def take(self) -> OffsetSync | None:
        """Return the next sync to write, None: there is none."""
        for partition in self._pending:
            return self._pending.pop(partition)
        return None


def _sync(partition: TopicPartition, run: OffsetRun, at: int) -> OffsetSync:
    return OffsetSync(partition, run.upstream_offset + at, run.downstream_offset + at)

"""Which records' offsets are synced, and when (Java ``OffsetSyncWriter``).

These records are synced at once:

- the first record of a partition in a task's life
- the first record after a gap at the source
- the first record at a truncated target
- each record after ``offset.lag.max`` others

Otherwise the last record waits for ``promote``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.records import OffsetSync


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """Records of one partition whose offsets increase by one on both sides."""

    upstream_offset: int  # of the first one
    downstream_offset: int
    count: int  # at least 1


@dataclass(slots=True)
class _Partition:
    """The last record and the last sync of a partition."""

    upstream: int = -1
    downstream: int = -1
    synced_downstream: int = -1

    def syncs(self, run: OffsetRun, max_lag: int) -> Iterator[int]:
        """Yield the places in the run, from 0, of records that are synced at once; note all of the run."""
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
        # An offset is translated to one after the last sync, so the lag is counted from there.
        return max(0, self.synced_downstream + 1 + max_lag - run.downstream_offset)


class OffsetSyncQueue:
    """Syncs that wait to be written. One thread."""

    def __init__(self, max_lag: int) -> None:
        """Take ``offset.lag.max``, the number of records between syncs."""
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
        """Make the delayed syncs pending: low traffic must not leave a partition out of date."""
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


# Offset syncs by partition, and the translation of source offsets to the target (Java ``OffsetSyncStore``).
#
# Per partition at most 64 syncs are kept, ever further apart the older they are: entry ``i`` is at most ``2**i``
# upstream records older than the newest. Source: KAFKA-12468, KAFKA-14666, KAFKA-15906.


SYNCS_PER_PARTITION = 64
TOO_OLD = -1
"""Translation of an offset before the oldest sync that is kept: the result is unknown."""


class OffsetSyncStore:
    """Translates offsets. Add the topic's records in order, call ``loaded`` at its end, then translate. One thread."""

    def __init__(self, *, must_read_to_end: bool = True) -> None:
        """Start empty. ``must_read_to_end`` False: translate also by syncs from before the start.

        That is right only where earlier checkpoints are known, which keep a group from going back.
        """
        self._must_read_to_end = must_read_to_end
        self._loaded = False
        self._syncs: dict[TopicPartition, list[OffsetSync]] = {}

    def loaded(self) -> None:
        """Note that the topic has been read to its end once."""
        self._loaded = True

    def add(self, sync: OffsetSync) -> None:
        """Add the next record of the topic."""
        kept = self._syncs.get(sync.partition)
        only_newest = self._must_read_to_end and not self._loaded
        if kept is None or only_newest or sync.upstream_offset < kept[0].upstream_offset:
            self._syncs[sync.partition] = [sync] * SYNCS_PER_PARTITION
        else:
            self._syncs[sync.partition] = _with(kept, sync)

    def translate_downstream(self, partition: TopicPartition, upstream_offset: int) -> int | None:
        """Return the offset at the target for an upstream offset. TOO_OLD: too old; None: not known (yet).

        Exact where there is a sync of this very offset, otherwise just after the nearest sync before it. A group that
        resumes there may read records again, but misses none.
        """
        kept = self._syncs.get(partition) if self._loaded else None
        if kept is None:
            return None
        sync = next((offset_sync for offset_sync in kept if offset_sync.upstream_offset <= upstream_offset), None)
        if sync is None:
            return TOO_OLD
        return sync.downstream_offset + (0 if sync.upstream_offset == upstream_offset else 1)


def _with(kept: list[OffsetSync], sync: OffsetSync) -> list[OffsetSync]:
    """Return the entries with ``sync`` as the newest; older ones move back as far as their distance asks."""
    syncs = list(kept)
    syncs[0] = replacement = sync
    taken = 0  # of ``kept``, how many have been moved or passed over
    for current in range(1, SYNCS_PER_PARTITION):
        before = syncs[current - 1]
        while True:
            old = kept[taken]
            apart = _far_enough(before, old, current - 1)
            last = current + 1 >= SYNCS_PER_PARTITION
            fits = _near_enough(before, old, current - 1, current) and apart
            fits = fits and (last or _far_enough(old, syncs[current + 1], current))
            twice = taken + 1 < SYNCS_PER_PARTITION and old is kept[taken + 1]
            if fits:
                replacement = old
            skip = twice or not apart
            if fits or skip:
                taken += 1
            if taken >= current or not skip:
                break
        if _near_enough(before, syncs[current], current - 1, current):
            break
        syncs[current] = replacement
    return syncs


def _near_enough(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    """Entry ``j`` is at most 2**j - 2**i upstream records behind entry ``i``."""
    bound = _as_long(older.upstream_offset + (1 << j) - (1 << i))
    return newer is older or bound < 0 or newer.upstream_offset <= bound


def _far_enough(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    """Entry ``i`` is at least 2**(i-2) upstream records before the next one, so that syncs are not all of one time."""
    bound = _as_long(older.upstream_offset + (1 << max(i - 2, 0)))
    return newer is older or (bound >= 0 and newer.upstream_offset >= bound)


def _as_long(number: int) -> int:
    """Return the number as Java's 64 bits hold it: the last entries' bounds overflow, which means no bound."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)

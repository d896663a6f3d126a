"""Offset syncs by partition, and what an offset of the source is at the target (Java ``OffsetSyncStore``).

Per partition at most 64 syncs are kept, ever further apart the older they are: entry ``i`` is at most ``2**i`` upstream
records behind the newest. Source: KAFKA-12468, KAFKA-14666, KAFKA-15906.
"""

from __future__ import annotations

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.records import OffsetSync

SYNCS_PER_PARTITION = 64
TOO_OLD = -1
"""Translation of an offset before the oldest sync that is kept: no one knows any more."""


class OffsetSyncStore:
    """Feed it the topic's records in order, say ``loaded`` at its end, then ask. One thread."""

    def __init__(self, *, must_read_to_end: bool = True) -> None:
        """Start empty; ``must_read_to_end`` False: what was written before is translated by, too.

        That is right only where earlier checkpoints are known, which keep a group from going back.
        """
        self._must_read_to_end = must_read_to_end
        self._loaded = False
        self._syncs: dict[TopicPartition, list[OffsetSync]] = {}

    def loaded(self) -> None:
        """Take note that the topic has been read to its end once."""
        self._loaded = True

    def add(self, sync: OffsetSync) -> None:
        """Take in the next record of the topic."""
        kept = self._syncs.get(sync.partition)
        only_newest = self._must_read_to_end and not self._loaded
        if kept is None or only_newest or sync.upstream_offset < kept[0].upstream_offset:
            self._syncs[sync.partition] = [sync] * SYNCS_PER_PARTITION
        else:
            self._syncs[sync.partition] = _with(kept, sync)

    def translate_downstream(self, partition: TopicPartition, upstream_offset: int) -> int | None:
        """Return what an upstream offset is at the target; TOO_OLD, or None: not known (yet).

        Exact where there is a sync of this very offset, else just behind the nearest sync before it: a group that goes
        on there may read records again, but misses none.
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

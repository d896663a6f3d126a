"""Which parts of a partition are compared when not all of it is: between two offset syncs, where both sides are known.

A sync says that record ``u`` of the source is record ``d`` of the target. What follows ``u`` up to the next sync's is
then among what follows ``d`` up to the next sync's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from spark_connect_rt.connectors.mirror.records import OffsetSync


@dataclass(frozen=True, slots=True)
class Window:
    """Offsets of the source, and those of the target that hold the same records."""

    source: range
    target: range


def windows(syncs: Sequence[OffsetSync], records: int, source: range, target: range) -> list[Window]:
    """Return windows over about so many records, spread over the partition; none: no sync helps.

    Args:
        syncs: of this partition, in the order of their topic.
        source: the offsets that are there and have been copied.
        target: the offsets that are there.
    """
    found = [*_between(syncs, source, target), *_after_last(syncs[-1:], source, target)]
    size = sum(len(window.source) for window in found)
    apart = max(1, -(-size // max(1, records)))
    return found[::-1][::apart][::-1]  # counted from the newest, which matters most


def _between(syncs: Sequence[OffsetSync], source: range, target: range) -> Iterable[Window]:
    for sync, following in pairwise(syncs):
        upstream = range(sync.upstream_offset, following.upstream_offset)
        downstream = range(sync.downstream_offset, following.downstream_offset)
        if upstream and downstream and _within(upstream, source) and _within(downstream, target):
            yield Window(upstream, downstream)


def _after_last(last: Sequence[OffsetSync], source: range, target: range) -> Iterable[Window]:
    for sync in last:
        if sync.upstream_offset in source and sync.downstream_offset in target:
            yield Window(range(sync.upstream_offset, source.stop), range(sync.downstream_offset, target.stop))


def _within(part: range, whole: range) -> bool:
    return whole.start <= part.start and part.stop <= whole.stop

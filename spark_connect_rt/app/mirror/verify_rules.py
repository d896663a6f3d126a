"""Whether two partitions hold the same records, and what a group would miss or see again at the other one.

Pure: records come in as digests, in order. Records are compared as bags, since a flow that delivers at least once may
have copied some twice, and a topic that is cleaned up is not cleaned at the same moment on both sides.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from spark_connect_rt.connectors.mirror.records import OffsetSync

DIGEST_BYTES = 16


class ComparedRecord(NamedTuple):
    """One record as it is compared."""

    offset: int
    digest: bytes
    key: bytes | None
    deletes: bool  # a tombstone: in a compacted topic it may be gone at any time


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of one partition's records at source and target, as counts of records."""

    same: int = 0
    missing: int = 0  # at the source, should be at the target, are not
    not_copied_yet: int = 0
    expired: int = 0  # cleaned up on one side only
    repeated: int = 0  # more often at the target
    foreign: int = 0  # at the target, never at the source
    out_of_order: int = 0

    @property
    def records(self) -> int:
        """Return how many records were compared: those that one side has, and the other has or should have."""
        return self.same + self.missing + self.foreign + self.repeated

    @property
    def is_right(self) -> bool:
        """Return whether everything copied is there, unchanged and in order."""
        return not (self.missing or self.foreign or self.out_of_order)


@dataclass(frozen=True, slots=True)
class Sides:
    """Records of one partition on both sides, and what is known about it.

    Args:
        position: source offset of the last record that the flow has surely copied; None: not known.
        source_begins, target_begins: where the logs begin now; above 0, older records have been deleted.
    """

    source: Sequence[ComparedRecord]
    target: Sequence[ComparedRecord]
    position: int | None = None
    source_begins: int = 0
    target_begins: int = 0
    compacted: bool = False


def digest(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes | None]], time_ms: int) -> bytes:
    """Return the digest of a record; everything that a copy keeps goes into it."""
    content = hashlib.blake2b(digest_size=DIGEST_BYTES)
    parts = [key, value, *(part for name, data in headers for part in (name.encode(), data))]
    for part in parts:
        content.update(b"-" if part is None else b"%d:%b" % (len(part), part))
    content.update(b"@%d" % time_ms)
    return content.digest()


def compare(sides: Sides) -> Compared:
    """Compare both sides of a partition record by record, by their digests."""
    if sides.compacted:
        sides = _newest_of_each_key(sides)
    left = Counter(record.digest for record in sides.target)
    matched, unmatched = _taken(sides.source, left)
    known = {record.digest for record in sides.source}
    copied_to = max((record.offset for record in matched), default=-1)
    copied_to = copied_to if sides.position is None else max(copied_to, sides.position)
    first_copy = min((record.offset for record in matched), default=copied_to + 1)
    expired = [record for record in unmatched if record.offset < first_copy and sides.target_begins > 0]
    late = [record for record in unmatched if record.offset > copied_to]
    first_known = min((record.offset for record in sides.target if record.digest in known), default=-1)
    older = [
        record
        for record in sides.target
        if sides.source_begins > 0 and record.offset < first_known and record.digest not in known
    ]
    foreign = sum(count for content, count in left.items() if content not in known) - len(older)
    return Compared(
        same=len(matched),
        missing=len(unmatched) - len(expired) - len(late),
        not_copied_yet=len(late),
        expired=len(expired) + len(older),
        repeated=sum(count for content, count in left.items() if content in known),
        foreign=foreign,
        out_of_order=0 if sides.compacted else _out_of_order(sides.source, sides.target),
    )


def contains(sides: Sides) -> Compared:
    """Compare a window: every record of the source's must be in the target's, which may hold others too."""
    matched, unmatched = _taken(sides.source, Counter(record.digest for record in sides.target))
    return Compared(same=len(matched), missing=len(unmatched))


@dataclass(frozen=True, slots=True)
class FailOver:
    """The effect on a group that would continue at the target now, in one partition; counts of records.

    ``lost`` are neither seen yet nor to come; ``not_copied_yet`` are those of them that the flow may still bring.
    """

    lost: int = 0
    not_copied_yet: int = 0
    repeated: int = 0


def fail_over(sides: Sides) -> FailOver:
    """Return what failing over means, given the records from the group's offset on, at the source and at the target."""
    if sides.compacted:
        sides = _newest_of_each_key(sides)
    left = Counter(record.digest for record in sides.target)
    matched, unmatched = _taken(sides.source, left)
    copied_to = max((record.offset for record in matched), default=-1) if sides.position is None else sides.position
    late = sum(record.offset > copied_to for record in unmatched)
    return FailOver(lost=len(unmatched), not_copied_yet=late, repeated=sum(left.values()))


def total(parts: Iterable[Compared]) -> Compared:
    """Return the sums over several partitions."""
    summed = Compared()
    for part in parts:
        summed = replace(summed, **{name: getattr(summed, name) + getattr(part, name) for name in Compared.__slots__})
    return summed


def _taken(source: Sequence[ComparedRecord], left: Counter[bytes]) -> tuple[list[ComparedRecord], list[ComparedRecord]]:
    """Return the source's records that ``left`` has, each taken out of it once, and those that it has not."""
    matched, unmatched = [], []
    for record in source:
        if left[record.digest] > 0:
            left[record.digest] -= 1
            matched.append(record)
        else:
            unmatched.append(record)
    left += Counter()  # drops what is used up
    return matched, unmatched


def _out_of_order(source: Sequence[ComparedRecord], target: Sequence[ComparedRecord]) -> int:
    """Return how many records first came to the target before one that precedes them at the source."""
    once = {content for content, count in Counter(record.digest for record in source).items() if count == 1}
    first: dict[bytes, int] = {}
    for record in target:
        first.setdefault(record.digest, record.offset)
    places = [first[record.digest] for record in source if record.digest in once and record.digest in first]
    return sum(later < earlier for earlier, later in pairwise(places))


def _newest_of_each_key(sides: Sides) -> Sides:
    """Return what compaction leaves in the end. Of the source what has been copied counts, or has just arrived."""
    target = {record.key: record for record in sides.target}
    source: dict[bytes | None, ComparedRecord] = {}
    late: list[ComparedRecord] = []
    for record in sides.source:
        has_arrived = record.key in target and target[record.key].digest == record.digest
        if sides.position is None or record.offset <= sides.position or has_arrived:
            source[record.key] = record
        else:
            late.append(record)
    gone = {key for key in source.keys() ^ target.keys() if (source.get(key) or target[key]).deletes}
    return replace(
        sides,
        source=[*(record for key, record in source.items() if key not in gone), *late],
        target=[record for key, record in target.items() if key not in gone],
    )


# Which parts of a partition are compared when not all of it is: between two offset syncs, where both sides are known.
#
# A sync says that record ``u`` of the source is record ``d`` of the target. The records after ``u`` up to the next
# sync's are then among those after ``d`` up to the next sync's.


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

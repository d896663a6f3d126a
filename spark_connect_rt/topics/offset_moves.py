"""What an undo of offsets, or a way back in time, writes, and when it is not safe. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.topics.offset_changes import OFFSET, PARTITION, TOPIC, OffsetPair
from spark_connect_rt.topics.offset_records import OffsetMap, canonical


@dataclass(frozen=True, slots=True)
class OffsetMove:
    """One partition: where it is, and where it is to go on; None: nowhere, it begins as if it were new."""

    partition: OffsetMap | None
    from_: OffsetMap | None
    to: OffsetMap | None


Table = Mapping[Any, OffsetPair]


def by_partition(pairs: Sequence[OffsetPair]) -> dict[Any, OffsetPair]:
    """Return the pairs by what makes a partition the same."""
    return {canonical(partition): (partition, offset) for partition, offset in pairs}


def offset_moves(now: Sequence[OffsetPair], then: Sequence[OffsetPair]) -> list[OffsetMove]:
    """Return what takes every partition from where it is to where it was; a partition without one is forgotten."""
    present, wanted = by_partition(now), by_partition(then)
    moves = []
    for key in [*present, *(key for key in wanted if key not in present)]:
        partition = (present.get(key) or wanted[key])[0]
        at, to = present.get(key, (None, None))[1], wanted.get(key, (None, None))[1]
        if not _same(at, to):
            moves.append(OffsetMove(partition, at, to))
    return moves


def undo_moves(
    now: Sequence[OffsetPair], before: Sequence[OffsetPair], after: Sequence[OffsetPair]
) -> tuple[list[OffsetMove], list[OffsetMove]]:
    """Return what undoes a change from ``before`` to ``after``, and what moved since the change was made.

    Only partitions that the change changed are touched. What moved: partition, where the change left it, where it is.
    """
    present, old = by_partition(now), by_partition(before)
    moves, moved = [], []
    for move in offset_moves(before, after):
        key = canonical(move.partition)
        at, back = present.get(key, (None, None))[1], old.get(key, (None, None))[1]
        if not _same(at, move.to):
            moved.append(OffsetMove(move.partition, move.to, at))
        if not _same(at, back):
            moves.append(OffsetMove(move.partition, at, back))
    return moves, moved


def pairs_of(moves: Sequence[OffsetMove]) -> list[OffsetPair]:
    """Return what a request to alter offsets is given."""
    return [(move.partition, move.to) for move in moves]


def changed_pairs(before: Sequence[OffsetPair], change: Sequence[OffsetPair] | None) -> list[OffsetPair]:
    """Return the offsets after a change: pairs to set, an offset of None forgetting its partition; None: forget all."""
    table = {} if change is None else by_partition(before) | by_partition(change)
    return [pair for pair in table.values() if pair[1] is not None]


def as_sink_offsets(pairs: Sequence[OffsetPair]) -> list[tuple[str, int, int]] | None:
    """Return (topic, partition, offset) of a sink's offsets; None: these are not a sink's."""
    found = []
    for partition, offset in pairs:
        if partition is None or offset is None or TOPIC not in partition or OFFSET not in offset:
            return None
        found.append((str(partition[TOPIC]), int(partition[PARTITION]), int(offset[OFFSET])))
    return found


def _same(offset_map: OffsetMap | None, other: OffsetMap | None) -> bool:
    return offset_map is other if offset_map is None or other is None else canonical(offset_map) == canonical(other)

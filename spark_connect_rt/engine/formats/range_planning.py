"""When a Spark table sink runs its next batch, and how the batch is cut into pieces. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.table_sink_config import TableFlushSettings


def pending_count(positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """Return how many offsets lie between the positions and the log ends."""
    return sum(max(0, ends.get(partition, start) - start) for partition, start in positions.items())


def flush_is_due(settings: TableFlushSettings, pending: int, waited_ms: int) -> bool:
    """Return whether a batch should be written now."""
    return pending > 0 and (pending >= settings.flush_size or waited_ms >= settings.flush_interval_ms)


def bounded_ends(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], max_records: int
) -> dict[TopicPartition, int]:
    """Return the end offset of each partition in the next batch, at most ``max_records`` in all.

    Every partition with something to read gets an even share, so none starves behind a long one.
    """
    waiting = {p: ends[p] - start for p, start in positions.items() if ends.get(p, start) > start}
    chosen: dict[TopicPartition, int] = {}
    left = max_records
    for count, partition in enumerate(sorted(waiting, key=lambda p: (waiting[p], p))):
        share = max(1, left // (len(waiting) - count))
        take = min(waiting[partition], share)
        chosen[partition] = positions[partition] + take
        left -= take
    return chosen


def cut(
    positions: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], pieces: int
) -> list[list[tuple[TopicPartition, int, int]]]:
    """Deal the ranges (partition, start, end) to at most ``pieces`` lists of about equal size.

    A long range is split; the pieces of one topic partition stay in offset order over the lists.
    """
    total = pending_count(positions, ends)
    if total == 0:
        return []
    size = -(-total // max(1, pieces))
    lists: list[list[tuple[TopicPartition, int, int]]] = [[]]
    room = size
    for partition in sorted(ends):
        start, end = positions[partition], ends[partition]
        while start < end:
            if room == 0:
                lists.append([])
                room = size
            stop = min(end, start + room)
            lists[-1].append((partition, start, stop))
            room -= stop - start
            start = stop
    return lists

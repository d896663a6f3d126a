"""Which record of a key counts when the key is in several partitions of its topic.

That happens when partitions were added to an internal topic, or another client wrote to it. Then the records' times
decide the order between partitions. Within a partition the order is that of the log, whatever the times are. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

R = TypeVar("R", bound=Any)  # has partition, key, value and timestamp_ms


def in_time_order(records: Iterable[R]) -> list[R]:
    """Return records in an order in which the newest of each key comes last. Each partition's are given in log order.

    Those of one partition keep their order. Others are ordered by time. A record that is older than an earlier one of
    its key in its partition counts as having that one's time.
    """
    given = list(records)
    if len({record.partition for record in given}) < _SEVERAL:
        return given
    latest_ms: dict[tuple[int, bytes | None], int] = {}
    ordered = []
    for number, record in enumerate(given):
        place = (record.partition, record.key)
        latest_ms[place] = max(record.timestamp_ms, latest_ms.get(place, record.timestamp_ms))
        ordered.append((latest_ms[place], record.partition, number))
    return [given[number] for _, _, number in sorted(ordered)]


class NewestOfKey:
    """Decides for each record, as it is read, whether it is the newest of its key. Keeps no values. Not thread-safe.

    The outcome is the same in whatever order the partitions are read. Any thread may call ``elsewhere``,
    ``is_newest_at`` and ``is_scattered``.
    """

    def __init__(self) -> None:
        self._newest: dict[bytes | None, int] = {}  # key -> time and partition of its newest record, packed
        # Only keys that were in several partitions: partition -> the time of the live record there.
        self._places: dict[bytes | None, Mapping[int, int]] = {}

    def take(self, records: Sequence[R]) -> list[R]:
        """Return those that count, in order; the others are older than a record of another partition."""
        return [record for record in records if self._counts(record)]

    def is_scattered(self, key: bytes | None, home: int) -> bool:
        """Return whether a live record of the key may be in another partition than ``home``."""
        newest = self._newest.get(key)
        return key in self._places or (newest is not None and newest & _PARTITION != home)

    def is_newest_at(self, key: bytes | None, home: int) -> bool:
        """Return whether the newest record of the key was read from this partition."""
        newest = self._newest.get(key)
        return newest is not None and newest & _PARTITION == home

    def elsewhere(self, key: bytes | None, home: int) -> Iterator[tuple[int, int]]:
        """Yield partition and time of each record that the newest one of its key replaces, but one at ``home``."""
        newest = self._newest.get(key, 0) & _PARTITION
        for partition, at_ms in self._places.get(key, {}).items():
            if partition not in (home, newest):
                yield partition, at_ms

    def _counts(self, record: R) -> bool:
        key, packed = record.key, record.timestamp_ms << _SHIFT | record.partition
        known = self._newest.get(key)
        if known is None:
            self._newest[key] = packed
            return True
        holder = known & _PARTITION
        if holder != record.partition or key in self._places:
            self._note_place(record, {holder: known >> _SHIFT})
        if packed > known:
            self._newest[key] = packed
        return bool(packed > known or holder == record.partition)

    def _note_place(self, record: R, first: Mapping[int, int]) -> None:
        places = {**self._places.get(record.key, first)}
        places.pop(record.partition, None)
        if record.value is not None:
            places[record.partition] = record.timestamp_ms
        self._places[record.key] = places


_SEVERAL = 2
_SHIFT = 16  # a broker allows fewer partitions by far
_PARTITION = (1 << _SHIFT) - 1

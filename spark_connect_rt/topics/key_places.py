"""Where in a topic of several partitions the records of a key are, and what a write must add to be its only one.

A producer places a record by its key and the number of partitions. After that number was raised, or when another client
wrote, older records of the key are in other partitions: readers take the newest (``topics.newest_records``), and the
next write deletes what it replaces there. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from spark_connect_rt.topics.compacted_log import LogRecord, OnRecords
from spark_connect_rt.topics.newest_records import NewestOfKey

BY_KEY, NOW = -1, 0  # the client's words for "you choose"

Placement = Callable[[bytes, int], int]
"""Returns the partition in which a producer puts a key, of a topic of so many partitions."""


class Write(NamedTuple):
    """One record to produce, with the partition and the time that it is to have."""

    key: bytes
    value: bytes | None
    partition: int = BY_KEY
    timestamp_ms: int = NOW


class KeyPlaces:
    """The places of one topic's keys. The reader's thread calls ``reading`` and ``grow``, any thread the others."""

    def __init__(self, partitions: int, placement: Placement, *, may_grow: bool = True) -> None:
        """``may_grow``: partitions may be added, so the places of keys matter although there is only one now.

        Without it every record goes to partition 0, whatever number of partitions a producer finds.
        """
        self._partitions = partitions
        self._placement = placement
        self._only = 0 if not may_grow and partitions == 1 else BY_KEY
        self._newest = NewestOfKey() if self._only == BY_KEY else None

    def grow(self, partitions: int) -> None:
        """Take that the topic has so many partitions now."""
        self._partitions = partitions

    def reading(self, on_records: OnRecords) -> OnRecords:
        """Return what takes records as they are read and hands on those that count."""
        newest = self._newest
        if newest is None:
            return on_records

        def take(records: Sequence[LogRecord]) -> None:
            on_records(newest.take(records))

        return take

    def writes(self, records: Sequence[tuple[bytes, bytes | None]]) -> list[Write]:
        """Return what to produce so that these become the newest of their keys, and nothing older stays elsewhere.

        A key that was only ever where its hash places it is left to the producer. For another one older records are
        deleted first, under their own times: the deletion must not seem newer than the value. The record that was the
        newest so far goes last of all, with the write after this one: until then it can replace a lost value.
        """
        return [write for record in records for write in self._writes(*record)]

    def leftovers(self, keys: Sequence[bytes]) -> list[Write]:
        """Return what deletes older records of these keys, for keys that others write, in transactions.

        Only of keys whose newest record is where producers place it. A producer that does not know new partitions yet
        still writes to the older place, and its next record there must not be deleted.
        """
        newest, found = self._newest, list[Write]()
        if newest is None:
            return found
        for key in keys:
            home = self._placement(key, self._partitions)
            if newest.is_newest_at(key, home):
                found += [Write(key, None, partition, at_ms) for partition, at_ms in newest.elsewhere(key, home)]
        return found

    def _writes(self, key: bytes, value: bytes | None) -> Iterator[Write]:
        if self._newest is None:
            yield Write(key, value, self._only)
            return
        home = self._placement(key, self._partitions)
        if not self._newest.is_scattered(key, home):
            yield Write(key, value)
            return
        for partition, at_ms in self._newest.elsewhere(key, home):
            yield Write(key, None, partition, at_ms)
        yield Write(key, value, home)

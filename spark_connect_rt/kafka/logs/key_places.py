"""Where in a topic of several partitions the records of a key are, and what a write must add to be its only one.

A producer places a record by its key and the number of partitions. After that number was raised, or when another client
wrote, older records of the key are in other partitions: readers take the newest (``topics.newest_records``), and the
next write deletes what it replaces there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from aiokafka.partitioner import murmur2

from spark_connect_rt.topics.compacted_log import LogRecord, OnRecords
from spark_connect_rt.topics.newest_records import NewestOfKey

BY_KEY, NOW = -1, 0  # the client's words for "you choose"
_POSITIVE = 0x7FFFFFFF


class Write(NamedTuple):
    """One record to produce."""

    key: bytes
    value: bytes | None
    partition: int = BY_KEY
    timestamp_ms: int = NOW


class KeyPlaces:
    """Of one topic with so many partitions. ``reading`` by the reader's thread, ``writes`` by any."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions
        self._newest = NewestOfKey() if partitions > 1 else None

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
        newest so far goes last of all, with the write after this one: until then it can stand in for a lost value.
        """
        return [write for record in records for write in self._writes(*record)]

    def _writes(self, key: bytes, value: bytes | None) -> Iterator[Write]:
        if self._newest is None:
            yield Write(key, value)
            return
        home = (murmur2(key) & _POSITIVE) % self._partitions
        if not self._newest.is_scattered(key, home):
            yield Write(key, value)
            return
        for partition, at_ms in self._newest.elsewhere(key, home):
            yield Write(key, None, partition, at_ms)
        yield Write(key, value, home)

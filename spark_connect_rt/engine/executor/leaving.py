"""Partitions that leave a sink task: known as soon as their REVOKED row is queued, long before it is served.

Owns the count of such rows. What waits for a put looks here, so that a target that refuses does not hold them up.
"""

from __future__ import annotations

import threading
from collections import Counter

from spark_connect_rt.base.ids import TopicPartition

Partitions = frozenset[TopicPartition]


class Leaving:
    """Of one task. ``note`` comes from the thread that queues rows, everything else from the lane's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queued: Counter[TopicPartition] = Counter()
        self.now: Partitions = frozenset()  # another object with each row
        self._seen = self.now  # when the batch in hand was cut
        self._released: Partitions = frozenset()  # ahead of their row

    def note(self, partitions: Partitions) -> None:
        """Their row is queued."""
        with self._lock:
            self._queued.update(partitions)
            self.now = frozenset(self._queued)

    def see(self) -> Partitions:
        """Return those of now; what comes later is news."""
        self._seen = self.now
        return self._seen

    @property
    def is_news(self) -> bool:
        """Whether a row was queued since ``see``."""
        return self.now is not self._seen

    def unreleased(self, partitions: Partitions) -> Partitions:
        """Return those of them that are not released ahead of their row."""
        return partitions - self._released

    def released(self, partitions: Partitions) -> None:
        """They are closed and reported."""
        self._released |= partitions

    def served(self, partitions: Partitions) -> None:
        """Their row is served: nothing of them is behind it; they may be assigned again."""
        self._released -= partitions
        with self._lock:
            self._queued -= Counter(partitions)  # counted: another revocation of the same may be queued
            self.now = frozenset(self._queued)

"""Which revocations of a run still want their answer. Pure; the engine's loop asks and changes it.

Counted, not a set: a partition may be lost, come back and be revoked again before the first answer is there, and
that first answer says nothing about the second hosting of it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from spark_connect_rt.protocol.ids import TopicPartition


class Revocations:
    """The open revocations of one run, oldest first."""

    def __init__(self) -> None:
        self._open: list[set[TopicPartition]] = []

    def add(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Remember one; what is returned is empty as soon as all of it was answered."""
        unanswered = set(partitions)
        self._open.append(unanswered)
        return unanswered

    def answered(self, partitions: Collection[TopicPartition]) -> None:
        """Each partition was released once: that answers the oldest revocation that named it."""
        for partition in partitions:
            oldest = next((one for one in self._open if partition in one), None)
            if oldest is not None:
                oldest.discard(partition)
        self._open = [one for one in self._open if one]

    def unanswered(self) -> list[Sequence[TopicPartition]]:
        """Return what is open, a list for each revocation."""
        return [sorted(one) for one in self._open]

"""A log that is not what was read before: records deleted behind a reader, a topic deleted and created again.

Owns the definition of such a move, and which topic a reader's positions belong to (KIP-516). What to do about a move is
its reader's choice: ``LogWatch`` asks it before anything is read on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LogMove:
    """One partition that cannot be read on where it was to be."""

    partition: TopicPartition
    wanted: int  # the offset that was to be read next
    found: int  # the offset at which reading continues
    recreated: bool  # the topic of that name is another one now

    @property
    def missed(self) -> int:
        """Return how many offsets are gone: at most so many records. 0 where the number is not known."""
        return 0 if self.recreated else max(0, self.found - self.wanted)

    def __str__(self) -> str:
        """Return the sentence for a log or an error."""
        if self.recreated:
            what = f"its topic was deleted and created again; the old one was read up to offset {self.wanted}"
        elif self.missed:
            what = f"{self.missed} offsets from {self.wanted} on were deleted before they were read"
        else:
            what = f"its log ends before offset {self.wanted}, the next one to read"
        return f"{self.partition}: {what}; it continues at offset {self.found}"


def warn_of(move: LogMove) -> None:
    """Log a move and let the reader continue."""
    log.warning("%s", move)


class LogWatch:
    """Which topics a reader's positions belong to, and who decides about moves. One thread."""

    def __init__(
        self, topic_ids: Mapping[TopicPartition, str] | None = None, decide: Callable[[LogMove], None] = warn_of
    ) -> None:
        """Take what is known from an earlier run, and who is asked about a move.

        Args:
            topic_ids: the topic that a partition's stored offset belongs to; one without is taken as it is.
            decide: returns when reading may continue; raises ConnectError when it must not. It is asked again then.
        """
        self._topic_ids = dict(topic_ids or {})
        self.decide = decide

    def is_another(self, partition: TopicPartition, topic_id: str) -> bool:
        """Return whether a topic is not the one that the position belongs to; the first one seen is taken note of."""
        return self._topic_ids.setdefault(partition, topic_id) != topic_id

    def take(self, partition: TopicPartition, topic_id: str) -> None:
        """From now on the position belongs to this topic."""
        self._topic_ids[partition] = topic_id

    def topic_id(self, partition: TopicPartition) -> str | None:
        """Return the id of the topic that the position belongs to; None: it is not known."""
        return self._topic_ids.get(partition)

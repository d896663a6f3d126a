"""The consumer-group membership of one sink task, held in the driver.

The member is a consumer with every partition paused: it takes part in rebalances, holds the generation and
commits; it fetches nothing. Executors read what the callbacks tell the engine to assign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_connect_rt.base.ids import TopicPartition

OnAssigned = Callable[[Mapping[TopicPartition, int]], None]
"""Newly assigned partitions -> committed offset (-1: none, start as auto.offset.reset says)."""
OnRevoked = Callable[[Sequence[TopicPartition]], None]
"""Called BEFORE the partitions go; they are released when it returns. It may call ``commit``."""
OnLost = Callable[[Sequence[TopicPartition]], None]
"""The partitions are gone already; nothing may be committed."""


@dataclass(frozen=True, slots=True)
class GroupGeneration:
    """One member in one generation of its group: what a broker fences transactions by (KIP-447)."""

    group: str
    generation: int
    member: str
    instance: str | None = None  # of a static member


class SinkGroup(Protocol):
    """One member of group ``connect-<name>``. One thread calls everything but ``wakeup``."""

    def subscribe(
        self,
        topics: Sequence[str],
        pattern: str | None,
        on_assigned: OnAssigned,
        on_revoked: OnRevoked,
        on_lost: OnLost,
    ) -> None:
        """Join with a list of topics, or a Java regex that matches whole names."""

    def poll(self, timeout_ms: int) -> None:
        """Serve the membership; callbacks run inside."""

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit next offsets now. Raises FencedError (generation is over), RetriableError."""

    def generation(self) -> GroupGeneration | None:
        """Return which generation this member is in; None: it has not joined."""

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end of each partition (for lag, and for bounded batches)."""

    def close(self) -> None:
        """Leave the group (revokes first)."""


SinkGroupFactory = Callable[[Mapping[str, str]], SinkGroup]
"""Makes a member from Java consumer properties (group.id, client.id, bootstrap.servers ...)."""

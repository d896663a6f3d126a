"""The consumer-group membership of one sink task, held in the driver.

The member is a consumer with every partition paused: it takes part in rebalances, holds the generation and
commits; it fetches nothing. Executors read the partitions that the callbacks pass to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError

OnAssigned = Callable[[Mapping[TopicPartition, int]], None]
"""Newly assigned partitions -> committed offset (-1: none, start as auto.offset.reset says)."""
OnRevoked = Callable[[Sequence[TopicPartition]], None]
"""Called BEFORE the partitions go; they are released when it returns. It may call ``commit``."""
OnLost = Callable[[Sequence[TopicPartition]], None]
"""The partitions are gone already; nothing may be committed."""


@dataclass(frozen=True, slots=True)
class GroupGeneration:
    """One member in one generation of its group, by which a broker fences transactions (KIP-447)."""

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


# Offsets of consumer groups seen from outside, as an admin sees them: where sink connectors are.


class GroupInUseError(ConnectError):
    """The group has members: only they may change its offsets."""

    code = "CRT-1035"


class GroupOffsets(Protocol):
    """Of any group, on the cluster that ``properties`` (an admin's, Java's names) lead to. Every method blocks.

    Raises RetriableError, or ConnectError with the broker's reason.
    """

    def committed(self, properties: Mapping[str, str], group: str) -> dict[TopicPartition, int]:
        """Return what the group has committed; empty when there is no such group."""

    def is_in_use(self, properties: Mapping[str, str], group: str) -> bool:
        """Return whether the group has members."""

    def alter(self, properties: Mapping[str, str], group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets in the name of the group, which is made when there is none. Raises GroupInUseError."""

    def forget(self, properties: Mapping[str, str], group: str, partitions: Collection[TopicPartition]) -> None:
        """Forget the offsets of some partitions; none may be subscribed to. Raises GroupInUseError."""

    def delete(self, properties: Mapping[str, str], group: str) -> None:
        """Forget the whole group; it may be gone already. Raises GroupInUseError."""


class TableMemory(Protocol):
    """The memory that the table of a Spark-written sink has of its last batch (decision 0001)."""

    def held(self, connector: str, config: Mapping[str, str]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Finish what a crash left half done; return per partition the (start, end) that the table holds."""

    def forget(self, connector: str, config: Mapping[str, str]) -> None:
        """Remember nothing: from now on the group's offsets alone decide where the sink resumes."""


# Transactions of the driver's side for exactly-once sources (KIP-618): fencing producers, one atomic write.
#
# Implementations: kafka.writing.fenced_writer; testing.memory_transactions.


ProducerProperties = Mapping[str, str]
"""Of a transactional producer, under Java's names, secrets resolved, ``transactional.id`` among them."""


class Transactions(Protocol):
    """Stateless. Any thread; every call blocks."""

    def fence(self, producers: Sequence[ProducerProperties], timeout_ms: int) -> None:
        """Fence any producer that uses these transactional ids, and abort what they left open.

        Raises TimedOutError, RetriableError, ConnectError (not allowed); then some may not be fenced.
        """

    def write(
        self,
        producer: ProducerProperties,
        topic: str,
        records: Sequence[tuple[bytes, bytes | None]],
        timeout_ms: int,
    ) -> None:
        """Fence the id's producer, then append all records in one transaction. Raises as ``fence``."""

"""Offsets of consumer groups seen from outside, as an admin sees them: where sink connectors are."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError


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
    """What the table of a Spark-written sink remembers of its last batch (decision 0001)."""

    def held(self, connector: str, config: Mapping[str, str]) -> Mapping[TopicPartition, tuple[int, int]]:
        """Finish what a crash left half done; return per partition the (start, end) that the table holds."""

    def forget(self, connector: str, config: Mapping[str, str]) -> None:
        """Remember nothing: from now on the group's offsets alone say where the sink goes on."""

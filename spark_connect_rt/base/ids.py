"""Names of the things a group shares: tasks, topic partitions."""

from __future__ import annotations

from typing import NamedTuple


class ConnectorTaskId(NamedTuple):
    """``a-2`` is task 2 of connector ``a`` (Java ``ConnectorTaskId``).

    A tuple, because the leader hashes and sorts all tasks of the group: 100,000 of them several times a round.
    """

    connector: str
    task: int

    def __str__(self) -> str:
        return f"{self.connector}-{self.task}"


class TopicPartition(NamedTuple):
    """One partition of one topic. A tuple as well: readers and writers hash a dozen of them for each batch."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"

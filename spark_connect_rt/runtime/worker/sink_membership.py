"""The consumer-group side of a sink task as the task sees it; worker_sink_task has the real one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from spark_connect_rt.base.ids import TopicPartition


class SinkMembership(Protocol):
    """The consumer-group side of a sink task (worker_sink_task.SinkTaskMembership)."""

    @property
    def lag(self) -> int | None:
        """Records between what is durable and the log ends; None: unknown."""

    @property
    def partition_count(self) -> int:
        """How many partitions it holds."""

    @property
    def behind(self) -> bool:
        """Whether there are records that the engine has not read."""

    def read_to(self, positions: Mapping[TopicPartition, int]) -> None:
        """The engine will read these offsets next."""

    def join(self) -> None:
        """Join the consumer group; called once for a run."""

    def durable(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These next offsets may be committed."""

    def released(self, partitions: frozenset[TopicPartition]) -> None:
        """The engine let go of these partitions."""

    @property
    def committed(self) -> bool:
        """Whether the group holds every offset that was durable."""

    def leave(self, commit: bool) -> None:
        """Leave, after a last commit if ``commit``; ``on_left`` is called when it is done."""

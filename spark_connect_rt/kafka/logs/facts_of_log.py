"""Asks the brokers what says whether a snapshot of a log is of this log, and young enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.topics.planning_log_snapshot import LogFacts


@dataclass(frozen=True, slots=True)
class FactsOfLog:
    """Of one topic."""

    admin: KafkaAdmin
    topic: str
    committed: bool  # whether its reader sees committed records only
    limit_ms: int

    def facts(self, beginning: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], asks: bool) -> LogFacts:
        """Return them; without asking, where no snapshot wants them, only where the log begins and ends."""
        begins, ends = (
            {partition.partition: offset for partition, offset in found.items()} for found in (beginning, end)
        )
        if not asks:
            return LogFacts("", self.topic, "", begins, ends, 0)
        described = self.admin.describe_topic(self.topic, self.limit_ms)
        settings = self.admin.topic_settings(self.topic, self.limit_ms) or {}  # not allowed to know: none is young
        retention_ms = int(settings.get("delete.retention.ms") or 0)
        topic_id = described.topic_id if described is not None else ""
        cluster = self.admin.cluster_id(self.limit_ms)
        return LogFacts(cluster, self.topic, topic_id, begins, ends, retention_ms, self.committed)

"""The history of one worker put together: its topics, or its file, and how much of it is kept."""

from __future__ import annotations

from dataclasses import dataclass

from spark_connect_rt.config.worker.management import ManagementSettings
from spark_connect_rt.config.worker.worker_settings import WorkerConfig
from spark_connect_rt.kafka.admin import TopicSpec


@dataclass(frozen=True, slots=True)
class HistoryLimits:
    """How much is kept: changes of each connector and their age, bytes of the course of one connector's offsets."""

    changes_max: int  # 0: no history at all
    age_max_ms: int
    course_bytes_max: int  # 0: no course

    @classmethod
    def of(cls, settings: ManagementSettings) -> HistoryLimits:
        """Return those of the worker's file."""
        return cls(
            settings.connectrt_history_changes_max,
            settings.connectrt_history_age_max_ms,
            settings.connectrt_history_course_max_bytes,
        )


def history_topics(config: WorkerConfig) -> tuple[TopicSpec, TopicSpec] | None:
    """Return the topics of changes and of the course of offsets; None: a standalone worker has none."""
    if "config" not in config.storage:
        return None
    configs = config.storage["config"]
    name = config.management.connectrt_history_storage_topic or f"{configs.name}-history"
    small = {"segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}  # else starts read what is long replaced
    return (
        TopicSpec(name, 1, configs.replication_factor, small),
        TopicSpec(f"{name}-course", 1, configs.replication_factor, small),
    )

"""Reaction of a connector that reads topics to lost records or a recreated topic (``on.gap`` and its like).

Owns the place of a topic's id in source offsets, and the counts. A reader notices that a log has moved
(``kafka.reading.log_moves``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.task import PluginMetrics
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.topics.moved_logs_config import FAIL, ON_GAP, ON_RECREATED
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.reading.log_moves import LogMove, LogWatch

TOPIC_ID = "topicId"
"""The field of a source offset with the id of its topic. Java reads the field ``offset`` and no other."""
GROUP = "topic-reader"
TakeEvent = Callable[..., None]
"""The ``record_event`` of a task's context."""
log = logging.getLogger(__name__)


class LogPolicy:
    """Decides about the moves of one task's partitions. One thread."""

    def __init__(
        self, values: Mapping[str, Any], metrics: PluginMetrics, record_event: TakeEvent = lambda summary, **_: None
    ) -> None:
        """Take the parsed configuration, where to count, and where to show what happened."""
        self._values = values
        self._metrics = metrics
        self._record_event = record_event

    def watch(self, partitions: Sequence[TopicPartition], stored: Sequence[Mapping[str, Any] | None]) -> LogWatch:
        """Return the watch of partitions that were read up to these source offsets."""
        known = {
            partition: str(offset[TOPIC_ID])
            for partition, offset in zip(partitions, stored, strict=True)
            if offset and offset.get(TOPIC_ID)
        }
        return LogWatch(known, self.decide)

    def decide(self, move: LogMove) -> None:
        """Count a move and let it pass. Raises ConnectError: the configuration requires that the task fails."""
        setting = ON_RECREATED if move.recreated else ON_GAP
        if fails(self._values, recreated=move.recreated):
            raise ConnectError(
                f"{move} (setting {setting}=fail). Set {setting}=continue to resume from there, or alter the "
                "offset of this partition."
            )
        log.warning("%s (setting %s=continue)", move, setting)
        place = {"topic": move.partition.topic, "partition": move.partition.partition}
        self._record_event(str(move), **place, found=move.found, wanted=move.wanted)
        tags = {"topic": move.partition.topic, "partition": str(move.partition.partition)}
        if move.recreated:
            self._metrics.count("recreated-topics", 1, GROUP, **tags)
        else:
            self._metrics.count("missed-records", move.missed, GROUP, **tags)


def fails(values: Mapping[str, Any], *, recreated: bool) -> bool:
    """Return whether a parsed configuration lets a gap, or a topic that was created again, fail its reader."""
    return bool(values[ON_RECREATED if recreated else ON_GAP].lower() == FAIL)


def is_of_another(offset: Mapping[str, Any], topic_id: str | None) -> bool:
    """Return whether a source offset belongs to another topic than the one of this id, which has its name now."""
    return topic_id is not None and offset.get(TOPIC_ID, topic_id) != topic_id


def offset_of(last: int, topic_id: str | None) -> dict[str, Any]:
    """Return the source offset of a partition whose last safe record is ``last``."""
    return {"offset": last} if topic_id is None else {"offset": last, TOPIC_ID: topic_id}

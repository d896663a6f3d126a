"""Notices that a topic at the target is not the one that was copied to before: deleted, and created again.

Owns the judgement by offsets alone: what arrives at the target never gets a smaller offset than what came before it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from spark_connect_rt.api.task import PluginMetrics
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.topics.moved_logs_config import FAIL, ON_RECREATED
from spark_connect_rt.errors import ConnectError

GROUP = "mirror-MirrorSourceConnector"
log = logging.getLogger(__name__)


class TargetLogs:
    """Of one task. One thread."""

    def __init__(self, values: Mapping[str, Any], metrics: PluginMetrics, copied: Iterable[TopicPartition]) -> None:
        """Take the parsed configuration, where to count, and the target's partitions that earlier runs wrote to."""
        self._fails = values[ON_RECREATED].lower() == FAIL
        self._metrics = metrics
        self._next = dict.fromkeys(copied, 1)  # the smallest offset that a record can get there; 0 was taken
        self._first_of_run = set(self._next)
        self._problem: ConnectError | None = None  # raised once what arrived is taken note of elsewhere, too

    def arrived(self, partition: TopicPartition, offset: int, records: int) -> None:
        """Take note of records whose first one is at ``offset``; -1: not known."""
        if offset < 0:
            return
        expected, is_first = self._next.get(partition, 0), partition in self._first_of_run
        self._next[partition] = offset + records
        self._first_of_run.discard(partition)
        if offset >= expected:
            return
        text = (
            f"{partition} at the target was deleted and created again: records arrive at offset {offset}, after "
            f"{'an earlier run' if is_first else f'offset {expected - 1}'}. Only new records are copied. To copy all "
            "of them, reset the connector's offsets."
        )
        tags = {"topic": partition.topic, "partition": str(partition.partition)}
        self._metrics.count("recreated-target-topics", 1, GROUP, **tags)
        # Offsets that a user has set look like an earlier run: that alone fails nothing.
        if self._fails and not is_first:
            self._problem = ConnectError(f"{text} (setting {ON_RECREATED}=fail)")
        log.warning("%s", text)

    def check(self) -> None:
        """Raises ConnectError: records came to another topic than those before them; on.topic.recreated is fail."""
        if self._problem is not None:
            raise self._problem

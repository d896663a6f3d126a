"""Partitions copied by whole record batches, as a MirrorSource task's ``poll`` wants them.

Owns the choice whether a task may copy so, and says what it chose; and what its metrics and offset syncs learn of
batches. Records are not looked at.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from spark_connect_rt.api.records import Written
from spark_connect_rt.api.task import OwnWrites
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.config import COPY_BATCHES
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.mirror_metrics import MirrorSourceMetrics
from spark_connect_rt.connectors.mirror.offset_sync_writer import OffsetSyncWriter
from spark_connect_rt.connectors.mirror.offset_syncs import OffsetRun
from spark_connect_rt.connectors.mirror.source_offsets import source_partition
from spark_connect_rt.connectors.mirror.target_logs import TargetLogs
from spark_connect_rt.connectors.topics.log_policy import offset_of
from spark_connect_rt.kafka.copying.batch_copier import BatchCopier, Copied, obstacles
from spark_connect_rt.kafka.reading.log_moves import LogWatch

POLL_MS = 100
log = logging.getLogger(__name__)


def batches_refused(config: Mapping[str, str], consumer: Mapping[str, str], own: OwnWrites) -> list[str]:
    """Return the settings because of which a task copies record by record; none: it copies whole batches."""
    if config.get(COPY_BATCHES, "auto").strip().lower() == "never":
        return [COPY_BATCHES]
    if own.properties is None:
        return list(own.obstacles) or ["a task outside of a worker"]
    return list(own.obstacles) + obstacles(consumer, own.properties)


class BatchCopies:
    """Of one task. One thread."""

    def __init__(
        self,
        flow: Flow,
        consumer: Mapping[str, str],
        producer: Mapping[str, str],
        metrics: MirrorSourceMetrics,
        syncs: OffsetSyncWriter | None,
        watch: LogWatch,
        targets: TargetLogs,
    ) -> None:
        """Take the flow, the properties of both sides' clients, who learns of what is copied and of moved logs."""
        self._flow = flow
        self._metrics = metrics
        self._syncs = syncs
        self._targets = targets
        self._copier = BatchCopier(consumer, producer, self._target, watch)

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Copy these partitions from these offsets on. Raises ConnectError."""
        self._copier.assign(offsets)

    def poll(self) -> Sequence[Written]:
        """Copy for a while; return what is acknowledged. Raises ConnectError."""
        return self._written(self._copier.poll(POLL_MS))

    def under_way(self) -> bool:
        """Tell whether ``finish`` may have something to return."""
        return self._copier.under_way()

    def finish(self) -> Sequence[Written]:
        """Read nothing more; return what is acknowledged within a while."""
        return self._written(self._copier.finish(POLL_MS))

    def close(self) -> None:
        """Give up what is under way."""
        self._copier.close()

    def _target(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._flow.remote_topic(partition.topic), partition.partition)

    def _written(self, copied: Sequence[Copied]) -> list[Written]:
        for batch in copied:
            self._targets.arrived(batch.target, batch.first_target, batch.records)
            self._metrics.copied(batch.target, batch.records, batch.size, batch.stamps)
            if self._syncs is not None:
                for upstream, downstream, count in batch.runs:
                    self._syncs.take_in(batch.source, OffsetRun(upstream, downstream, count))
        return [
            Written(
                source_partition(self._flow.source_alias, batch.source),
                offset_of(batch.last, batch.topic_id),
                batch.target.topic,
                batch.records,
                batch.size,
            )
            for batch in copied
        ]

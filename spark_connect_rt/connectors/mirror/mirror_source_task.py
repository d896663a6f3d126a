"""Copies partitions byte for byte and says which offset of the target is which of the source (``MirrorSourceTask``).

Two ways. Where nothing looks at records, whole record batches go from fetch to produce in this process
(``batch_copies``), and ``poll`` returns what is acknowledged. Else batches are columns, each of one partition, and go
to the worker's producer as any source's.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.records import Delivered, Polled, SourceBatch, Written
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.batch_copies import BatchCopies, batches_refused
from spark_connect_rt.connectors.mirror.config import EMIT_OFFSET_SYNCS, MIRROR_SOURCE, SOURCE
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.mirror_metrics import MirrorSourceMetrics
from spark_connect_rt.connectors.mirror.offset_sync_writer import OffsetSyncWriter
from spark_connect_rt.connectors.mirror.offset_syncs import OffsetRun
from spark_connect_rt.connectors.mirror.source_offsets import next_offset, source_partition
from spark_connect_rt.connectors.mirror.target_logs import TargetLogs
from spark_connect_rt.connectors.mirror.task_shares import partitions_of
from spark_connect_rt.connectors.topics.kafka_source_task import source_batch
from spark_connect_rt.connectors.topics.log_policy import LogPolicy
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.kafka.reading.consumers import batch_consumer, polled_apart

POLL_MS, IDLE_WAIT_MS = 50, 10
MOST_RECORDS = 5_000  # of one poll, unless max.poll.records says
SAY_MISSING_EACH_S = 60.0
# A number where it can be one: nothing is asked, so that a topic deleted meanwhile keeps no task from starting.
_BEGINNINGS = {"latest": -2, "earliest": 0}
log = logging.getLogger(__name__)


class MirrorSourceTask(SourceTask):
    """Reads its partitions without a group; offsets are Connect's."""

    def start(self, config: Mapping[str, str]) -> None:
        """Go behind the stored offsets; a partition without one begins where auto.offset.reset says."""
        values = MIRROR_SOURCE.parse(config)
        self._flow = Flow.of(config)
        self._copies: BatchCopies | None = None
        properties = self._flow.client(SOURCE, "consumer", "replication-consumer")
        self._most = int(properties.get("max.poll.records", MOST_RECORDS))
        self._offsets = UpstreamOffsets()
        # Behind a transformation no one can tell which record is which.
        syncs = values[EMIT_OFFSET_SYNCS] and not config.get("transforms")
        self._syncs = OffsetSyncWriter(self._flow, values["offset.lag.max"]) if syncs else None
        self._metrics = MirrorSourceMetrics(self.context.metrics, self._flow, lambda: time.time() * 1_000)
        self._say_missing_s = 0.0
        partitions = partitions_of(config)
        stored = self.context.offset_reader.offsets([self._place(partition) for partition in partitions])
        begin = _BEGINNINGS.get(properties["auto.offset.reset"].lower(), -1)
        starts = {partition: next_offset(offset, begin) for partition, offset in zip(partitions, stored, strict=True)}
        self._watch = LogPolicy(values, self.context.metrics).watch(partitions, stored)
        before = [
            self._remote(partition)
            for partition, offset in zip(partitions, stored, strict=True)
            if next_offset(offset, 0)
        ]
        self._targets = TargetLogs(values, self.context.metrics, before)
        self._copies = self._batch_copies(config, properties)
        if self._copies is not None:
            self._copies.assign(starts)
        else:
            self._consumer = batch_consumer(properties, self._watch)
            self._consumer.assign(starts)

    def _batch_copies(self, config: Mapping[str, str], properties: Mapping[str, str]) -> BatchCopies | None:
        own = self.context.own_writes
        refused = batches_refused(config, properties, own)
        if refused or own.properties is None:
            log.info("records are copied one by one because of %s", ", ".join(refused))
            return None
        log.info("record batches are copied whole")
        sides = properties, own.properties
        return BatchCopies(self._flow, *sides, self._metrics, self._syncs, self._watch, self._targets)

    def poll(self) -> Sequence[Polled] | None:
        """Return what is there, one batch of columns for each partition; or what is copied and acknowledged."""
        self._targets.check()
        if self._syncs is not None:
            self._syncs.write_due()
        try:
            if self._copies is not None:
                return self._copies.poll()
            polled = polled_apart(self._consumer, self._most, POLL_MS)
        except NotFoundError as error:  # as in Java: a topic may come back, the others go on meanwhile
            self._say_missing(str(error))
            return None
        return [self._copied(partition, rows) for partition, rows in polled]

    def idle_wait_ms(self) -> int:
        """Return a short wait, or none: ``poll`` waits by itself."""
        return 0 if self._copies is not None else IDLE_WAIT_MS

    def is_writing(self) -> bool:
        """Tell whether batches are under way."""
        return self._copies is not None and self._copies.under_way()

    def finish_writing(self) -> Sequence[Written]:
        """Wait a little for batches that are under way."""
        return self._copies.finish() if self._copies is not None else ()

    def commit_offsets(self, delivered: Sequence[Delivered]) -> None:
        """Sync offsets where that is due."""
        for delivery in delivered:
            self._metrics.arrived(delivery)
            self._targets.arrived(TopicPartition(delivery.topic, delivery.partition), delivery.offset, delivery.records)
            for partition, run in self._offsets.matched(delivery):
                if self._syncs is not None:
                    self._syncs.take_in(partition, run)

    def stop(self) -> None:
        """Write the last syncs and close the clients."""
        for name in ("_consumer", "_copies"):
            if getattr(self, name, None) is not None:
                getattr(self, name).close()
        if getattr(self, "_syncs", None) is not None:
            self._syncs.close()  # type: ignore[union-attr]

    def _say_missing(self, what: str) -> None:
        if time.monotonic() >= self._say_missing_s:
            self._say_missing_s = time.monotonic() + SAY_MISSING_EACH_S
            log.warning("%s, waiting for it", what)

    def _place(self, partition: TopicPartition) -> dict[str, Any]:
        return source_partition(self._flow.source_alias, partition)

    def _remote(self, partition: TopicPartition) -> TopicPartition:
        return TopicPartition(self._flow.remote_topic(partition.topic), partition.partition)

    def _copied(self, partition: TopicPartition, rows: pa.RecordBatch) -> SourceBatch:
        remote = self._remote(partition)
        self._metrics.read(remote, rows)
        if self._syncs is not None:
            self._offsets.add(remote, partition, rows.column("offset"))
        topic_id = self._watch.topic_id(partition)
        return source_batch(self._place(partition), remote.topic, rows, partition.partition, topic_id)


class UpstreamOffsets:
    """The offsets at the source of records under way, to be matched with those at the target in the same order."""

    def __init__(self) -> None:
        """Start with none."""
        self._runs: dict[TopicPartition, deque[tuple[TopicPartition, int, int]]] = {}

    def add(self, remote: TopicPartition, partition: TopicPartition, offsets: pa.Array) -> None:
        """Take in records that are sent to ``remote``, by their offsets in ``partition``."""
        runs = self._runs.setdefault(remote, deque())
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        if last - first + 1 == len(offsets):
            runs.append((partition, first, len(offsets)))
        else:  # compacted, or with transactions' markers between them
            runs.extend((partition, offset, 1) for offset in offsets.to_pylist())

    def matched(self, delivery: Delivered) -> list[tuple[TopicPartition, OffsetRun]]:
        """Return (partition at the source, offsets on both sides) of records that arrived."""
        runs = self._runs.get(TopicPartition(delivery.topic, delivery.partition))
        found, at, left = [], delivery.offset, delivery.records
        while left and runs:
            partition, first, count = runs.popleft()
            taken = min(count, left)
            found.append((partition, OffsetRun(first, at, taken)))
            at, left = at + taken, left - taken
            if taken < count:
                runs.appendleft((partition, first + taken, count - taken))
        return found

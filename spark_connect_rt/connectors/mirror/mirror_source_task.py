"""Copies partitions byte for byte and writes which target offset belongs to which source offset (``MirrorSourceTask``).

Two ways. If nothing inspects the records, whole record batches go from fetch to produce in this process
(``batch_copies``), and ``poll`` returns the acknowledged ones. Otherwise batches are columns, each of one partition,
and go to the worker's producer as any source's.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.records import Delivered, Polled, SourceBatch, Written
from spark_connect_rt.api.task import OwnWrites, PluginMetrics, SourceTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror.config import COPY_BATCHES, EMIT_OFFSET_SYNCS, MIRROR_SOURCE, SOURCE
from spark_connect_rt.connectors.mirror.flow import Flow
from spark_connect_rt.connectors.mirror.offset_syncs import OffsetRun, OffsetSyncQueue
from spark_connect_rt.connectors.mirror.source_offsets import next_offset, partitions_of, source_partition
from spark_connect_rt.connectors.topics.kafka_source_task import source_batch
from spark_connect_rt.connectors.topics.log_policy import LogPolicy, TakeEvent, offset_of
from spark_connect_rt.connectors.topics.moved_logs_config import FAIL, ON_RECREATED
from spark_connect_rt.errors import ConnectError, NotFoundError
from spark_connect_rt.kafka.client_factory import make_producer
from spark_connect_rt.kafka.client_lifetime import close_producer
from spark_connect_rt.kafka.copying.batch_copier import BatchCopier, Copied, obstacles
from spark_connect_rt.kafka.lost_brokers import BrokerWatch
from spark_connect_rt.kafka.reading.consumers import batch_consumer, polled_apart
from spark_connect_rt.kafka.reading.log_moves import LogWatch

# The metrics of a MirrorSource task for each partition that it copies (Java ``MirrorSourceMetrics``).
#
# Owns the names and their meaning. A batch is timed by its first and its last record, not by each of them.


GROUP = "mirror-MirrorSourceConnector"
NowMs = Callable[[], float]
Stamps = tuple[int, int, float, float]
"""Of a batch: its first and its newest timestamp, when it was read, when it was acknowledged, ms."""


class MirrorSourceMetrics:
    """Of one task. One thread."""

    def __init__(self, metrics: PluginMetrics, flow: Flow, now_ms: NowMs) -> None:
        """Take the metrics, the flow, and a clock: the time of day in ms."""
        self._metrics = metrics
        self._flow = flow
        self._now_ms = now_ms
        self._under_way: dict[TopicPartition, deque[tuple[int, list[int]]]] = defaultdict(deque)

    def read(self, remote: TopicPartition, rows: pa.RecordBatch) -> None:
        """Note records that were read, on their way to ``remote``."""
        times = rows.column("timestamp")
        ends = [times[0].as_py(), times[-1].as_py()]
        tags = self._tags(remote)
        size = pc.sum(pc.binary_length(rows.column("value"))).as_py()
        self._metrics.count("byte", size or 0, GROUP, **tags)
        self._metrics.observe("record-age-ms", self._ages(ends), GROUP, **tags)
        self._under_way[remote].append((rows.num_rows, ends))

    def arrived(self, delivery: Delivered) -> None:
        """Note records that are acknowledged."""
        remote = TopicPartition(delivery.topic, delivery.partition)
        runs, left = self._under_way.get(remote), delivery.records
        if not runs:
            return
        tags = self._tags(remote)
        self._metrics.count("record", delivery.records, GROUP, **tags)
        while left and runs:
            count, ends = runs.popleft()
            self._metrics.observe("replication-latency-ms", self._ages(ends), GROUP, **tags)
            if count > left:
                runs.appendleft((count - left, ends))
            left -= min(count, left)

    def copied(self, remote: TopicPartition, records: int, size: int, stamps: Sequence[Stamps]) -> None:
        """Note whole batches that are acknowledged. Their bytes are those of the batches."""
        tags = self._tags(remote)
        self._metrics.count("byte", size, GROUP, **tags)
        self._metrics.count("record", records, GROUP, **tags)
        ages = [read - time for *times, read, _ in stamps for time in times if time >= 0]
        latencies = [arrived - time for *times, _, arrived in stamps for time in times if time >= 0]
        self._metrics.observe("record-age-ms", ages, GROUP, **tags)
        self._metrics.observe("replication-latency-ms", latencies, GROUP, **tags)

    def _ages(self, times: list[int]) -> list[float]:
        now = self._now_ms()
        return [now - time for time in times if time >= 0]

    def _tags(self, remote: TopicPartition) -> dict[str, str]:
        source, target = self._flow.source_alias, self._flow.target_alias
        return {"source": source, "target": target, "topic": remote.topic, "partition": str(remote.partition)}


# Writes the offset syncs of one MirrorSource task (Java ``OffsetSyncWriter``).


PROMOTE_EACH_S = 5.0  # Java: offset.flush.interval.ms, a minute
SYNCS_IN_FLIGHT = 10
LAST_FLUSH_S = 5.0
log = logging.getLogger(__name__)


class OffsetSyncWriter:
    """Writes offset syncs: a few at a time, none of them waited for, as in Java. One thread."""

    def __init__(self, flow: Flow, max_lag: int) -> None:
        """Take the flow and ``offset.lag.max``."""
        side, self._topic = flow.offset_syncs()
        self._properties = flow.client(side, "producer", f"offset-syncs-{side}-producer")
        self._watch = BrokerWatch(f"the producer of topic {self._topic}")
        self._producer = self._new_producer()
        self._queue = OffsetSyncQueue(max_lag)
        self._in_flight = 0
        self._promote_at_s = time.monotonic() + PROMOTE_EACH_S

    def take_in(self, partition: TopicPartition, run: OffsetRun) -> None:
        """Note acknowledged records, and write the syncs that are due at once."""
        for _ in self._queue.take_in(partition, run):
            self._write()

    def write_due(self) -> None:
        """Write syncs that waited for room, and periodically those that low traffic leaves out of date."""
        if time.monotonic() >= self._promote_at_s:
            self._promote_at_s = time.monotonic() + PROMOTE_EACH_S
            self._queue.promote()
        self._write()

    def close(self) -> None:
        """Write everything there is, for a short while."""
        self._queue.promote()
        self._write(SYNCS_IN_FLIGHT + len(self._queue))
        self._producer.flush(LAST_FLUSH_S)
        close_producer(self._producer)

    def _write(self, room: int = SYNCS_IN_FLIGHT) -> None:
        self._producer.poll(0)
        if self._watch.is_lost():
            self._watch.replaced()
            close_producer(self._producer)
            self._producer = self._new_producer()
        while self._in_flight < room and (sync := self._queue.take()) is not None:
            self._producer.produce(self._topic, sync.value(), sync.key(), 0)
            self._in_flight += 1

    def _new_producer(self) -> Any:
        return make_producer(self._properties, {**self._watch.settings(), "on_delivery": self._reported})

    def _reported(self, error: Any, message: Any) -> None:
        self._in_flight -= 1
        if error is not None:
            log.error("an offset sync cannot be written to %s: %s", self._topic, error.str())


# Notices that a topic at the target was deleted and created again since the last copy.
#
# Owns the judgement by offsets alone: the offsets of arriving records never decrease unless the topic was created
# again.


class TargetLogs:
    """Notices new logs at the target for one task. One thread."""

    def __init__(
        self,
        values: Mapping[str, Any],
        metrics: PluginMetrics,
        copied: Iterable[TopicPartition],
        record_event: TakeEvent = lambda summary, **_: None,
    ) -> None:
        """Take the parsed configuration, where to count, and the target's partitions that earlier runs wrote to.

        ``record_event`` is called for what happened between two runs: while one runs, the connector looks.
        """
        self._record_event = record_event
        self._fails = values[ON_RECREATED].lower() == FAIL
        self._metrics = metrics
        self._next = dict.fromkeys(copied, 1)  # the smallest offset that a record can get there; 0 was taken
        self._first_of_run = set(self._next)
        self._problem: ConnectError | None = None  # raised once the acknowledged records are noted elsewhere, too

    def arrived(self, partition: TopicPartition, offset: int, records: int) -> None:
        """Note records whose first one is at ``offset``; -1: not known."""
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
        if is_first:
            self._record_event(text, topic=partition.topic, partition=partition.partition)
        tags = {"topic": partition.topic, "partition": str(partition.partition)}
        self._metrics.count("recreated-target-topics", 1, GROUP, **tags)
        # Offsets that a user has set look like an earlier run: that alone fails nothing.
        if self._fails and not is_first:
            self._problem = ConnectError(f"{text} (setting {ON_RECREATED}=fail)")
        log.warning("%s", text)

    def check(self) -> None:
        """Raise ConnectError if records went to another topic than earlier ones and on.topic.recreated is fail."""
        if self._problem is not None:
            raise self._problem


# Partitions copied by whole record batches, as a MirrorSource task's ``poll`` returns them.
#
# Owns the choice whether a task may copy so, and logs it; and the reports of batches to its metrics and offset syncs.
# Records are not inspected.


COPY_POLL_MS = 100


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
        """Take the flow, the properties of both sides' clients, and the receivers of reports on copies and moves."""
        self._flow = flow
        self._metrics = metrics
        self._syncs = syncs
        self._targets = targets
        self._copier = BatchCopier(consumer, producer, self._target, watch)

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Copy these partitions from these offsets on. Raises ConnectError."""
        self._copier.assign(offsets)

    def poll(self) -> Sequence[Written]:
        """Copy for a while; return the acknowledged records. Raises ConnectError."""
        return self._written(self._copier.poll(COPY_POLL_MS))

    def under_way(self) -> bool:
        """Return whether ``finish`` may have something to return."""
        return self._copier.under_way()

    def finish(self) -> Sequence[Written]:
        """Read nothing more; return the records that are acknowledged within a while."""
        return self._written(self._copier.finish(COPY_POLL_MS))

    def close(self) -> None:
        """Give up the batches in flight and close the clients."""
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


POLL_MS, IDLE_WAIT_MS = 50, 10
MOST_RECORDS = 5_000  # of one poll, unless max.poll.records is set
SAY_MISSING_EACH_S = 60.0
# A number where it can be one: nothing is asked, so that a topic deleted meanwhile keeps no task from starting.
_BEGINNINGS = {"latest": -2, "earliest": 0}


class MirrorSourceTask(SourceTask):
    """Reads its partitions without a group; offsets are Connect's."""

    def start(self, config: Mapping[str, str]) -> None:
        """Resume after the stored offsets; a partition without one begins as auto.offset.reset requires."""
        values = MIRROR_SOURCE.parse(config)
        self._flow = Flow.of(config)
        self._copies: BatchCopies | None = None
        properties = self._flow.client(SOURCE, "consumer", "replication-consumer")
        self._most = int(properties.get("max.poll.records", MOST_RECORDS))
        self._offsets = UpstreamOffsets()
        # A transformation may drop, add or reorder records, so their source offsets would be unknown.
        syncs = values[EMIT_OFFSET_SYNCS] and not config.get("transforms")
        self._syncs = OffsetSyncWriter(self._flow, values["offset.lag.max"]) if syncs else None
        self._metrics = MirrorSourceMetrics(self.context.metrics, self._flow, lambda: time.time() * 1_000)
        self._say_missing_s = 0.0
        partitions = partitions_of(config)
        stored = self.context.offset_reader.offsets([self._place(partition) for partition in partitions])
        begin = _BEGINNINGS.get(properties["auto.offset.reset"].lower(), -1)
        starts = {partition: next_offset(offset, begin) for partition, offset in zip(partitions, stored, strict=True)}
        self._watch = LogPolicy(values, self.context.metrics, self.context.record_event).watch(partitions, stored)
        before = [
            self._remote(partition)
            for partition, offset in zip(partitions, stored, strict=True)
            if next_offset(offset, 0)
        ]
        self._targets = TargetLogs(values, self.context.metrics, before, self.context.record_event)
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
        """Return the available records, one batch of columns for each partition; or those copied and acknowledged."""
        self._targets.check()
        if self._syncs is not None:
            self._syncs.write_due()
        try:
            if self._copies is not None:
                return self._copies.poll()
            polled = polled_apart(self._consumer, self._most, POLL_MS)
        except NotFoundError as error:  # as in Java: a topic may exist again later, and the others continue meanwhile
            self._say_missing(str(error))
            return None
        return [self._copied(partition, rows) for partition, rows in polled]

    def idle_wait_ms(self) -> int:
        """Return a short wait, or none: ``poll`` waits by itself."""
        return 0 if self._copies is not None else IDLE_WAIT_MS

    def is_writing(self) -> bool:
        """Return whether batches are in flight."""
        return self._copies is not None and self._copies.under_way()

    def finish_writing(self) -> Sequence[Written]:
        """Wait a little for batches in flight, and return those that are acknowledged."""
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
    """The source offsets of records in flight, to be matched with target offsets in the same order."""

    def __init__(self) -> None:
        """Start without any record in flight."""
        self._runs: dict[TopicPartition, deque[tuple[TopicPartition, int, int]]] = {}

    def add(self, remote: TopicPartition, partition: TopicPartition, offsets: pa.Array) -> None:
        """Add records that are sent to ``remote``, by their offsets in ``partition``."""
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

"""The task of KafkaSource: partitions of a topic, or ranges of them, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data.schema import OPTIONAL_BYTES
from spark_connect_rt.api.ranges import SourceRange
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.topics import kafka_settings as settings
from spark_connect_rt.connectors.topics.log_policy import LogPolicy, offset_of
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.kafka.reading.log_moves import LogWatch

CLUSTER, TOPIC_KEY, PARTITION_KEY, OFFSET = "cluster", "topic", "partition", "offset"
PARTITIONS = "kafka.partitions"  # of a task's configuration: topic-partition, separated by commas
RANGES = "kafka.ranges"  # the same, of a task that reads ranges: topic-partition:first:end, end "" where it is open
POLL_MS, IDLE_WAIT_MS = 50, 10
DEFAULTS = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}


class KafkaSourceTask(SourceTask):
    """Reads its partitions without a group, or ranges of them; offsets are Connect's."""

    def start(self, config: Mapping[str, str]) -> None:
        """Resume after the stored offsets; a partition without one begins as auto.offset.reset requires."""
        self._values = settings.SOURCE.parse(config)
        properties = {**DEFAULTS, **settings.client_properties(config, "source", "consumer")}
        self._ends: dict[TopicPartition, int] = {}  # of ranges that are being read
        self._watch: LogWatch | None = None
        if RANGES in config:
            ranges = dict(map(_range_of, config[RANGES].split(",")))
            starts = {partition: first for partition, (first, _) in ranges.items()}
            self._ends = {partition: end for partition, (_, end) in ranges.items() if end is not None}
            properties["auto.offset.reset"] = "none"
        else:
            own = [_partition_of(text) for text in config[PARTITIONS].split(",")]
            stored = self.context.offset_reader.offsets([place_of(self._values, partition) for partition in own])
            starts = _starts(own, stored, properties["auto.offset.reset"])
            self._watch = LogPolicy(self._values, self.context.metrics, self.context.record_event).watch(own, stored)
        # The connector, which plans, does without.
        from spark_connect_rt.kafka.reading.consumers import batch_consumer, polled_apart

        self._partitions = list(starts)
        self._consumer = batch_consumer(properties, self._watch)
        self._poll = partial(polled_apart, self._consumer)
        self._consumer.assign(starts)

    def has_more(self) -> bool:
        """Return whether a partition has records that were not returned yet. A fetch may be in flight.

        Raises DataError: the log ends before a range does.
        """
        if not self._partitions:
            return False  # every range is read
        ends = self._consumer.end_offsets(self._partitions)
        for partition in self._partitions:
            if ends[partition] < self._ends.get(partition, 0):
                raise DataError(
                    f"{partition} ends at {ends[partition]} now, but the range to read ends at {self._ends[partition]}"
                )
        return any(
            self._consumer.position(partition) < self._ends.get(partition, ends[partition])
            for partition in self._partitions
        )

    def poll(self) -> Sequence[SourceBatch] | None:
        """Return the available records, a batch of columns for each partition."""
        if not self._partitions:
            return []
        polled = self._poll(self._values["poll.max.records"], POLL_MS)
        found = [self._batch(partition, rows) for partition, rows in self._within(polled)]
        if self._ends:
            self._leave_what_is_read()
        return found

    def idle_wait_ms(self) -> int:
        """Return a short wait: ``poll`` waits by itself."""
        return IDLE_WAIT_MS

    def stop(self) -> None:
        """Close the consumer, if it is open."""
        if hasattr(self, "_consumer"):
            self._consumer.close()

    def _within(
        self, found: Iterable[tuple[TopicPartition, pa.RecordBatch]]
    ) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
        """Yield the rows before the ends."""
        import pyarrow.compute as pc  # not where the connector plans

        for partition, rows in found:
            end = self._ends.get(partition)
            if end is not None and rows.column("offset")[-1].as_py() >= end:
                rows = rows.filter(pc.less(rows.column("offset"), end))
            if rows.num_rows:
                yield partition, rows

    def _leave_what_is_read(self) -> None:
        bounded = [partition for partition in self._partitions if partition in self._ends]
        read = [partition for partition in bounded if self._consumer.position(partition) >= self._ends[partition]]
        self._consumer.unassign(read)
        self._partitions = [partition for partition in self._partitions if partition not in read]

    def _batch(self, partition: TopicPartition, rows: pa.RecordBatch) -> SourceBatch:
        topic = settings.target_topic(self._values["topic.format"], partition.topic)
        number = partition.partition if self._values["partition.keep"] else None
        topic_id = None if self._watch is None else self._watch.topic_id(partition)
        return source_batch(place_of(self._values, partition), topic, rows, number, topic_id)


def place_of(values: Mapping[str, Any], partition: TopicPartition) -> dict[str, Any]:
    """Return the source partition of a topic's partition."""
    alias = values["source.cluster.alias"]
    return {CLUSTER: alias, TOPIC_KEY: partition.topic, PARTITION_KEY: partition.partition}


def source_batch(
    place: Mapping[str, Any],
    topic: str,
    rows: pa.RecordBatch,
    partition: int | None = None,
    topic_id: str | None = None,
) -> SourceBatch:
    """Return the rows of one partition, in consume form, as they go to ``topic``; ``partition`` None: by their keys.

    ``topic_id``: of the topic that they were read from, where it is known.
    """
    names = rows.schema.names
    return SourceBatch(
        place,
        offset_of(rows.column("offset")[-1].as_py(), topic_id),
        topic,
        rows.column("value"),
        OPTIONAL_BYTES,
        rows.column("key") if "key" in names else None,
        OPTIONAL_BYTES,
        rows.column("timestamp"),
        partition,
        rows.column("headers") if "headers" in names else None,
    )


def _starts(
    partitions: Sequence[TopicPartition], stored: Sequence[Mapping[str, Any] | None], reset: str
) -> dict[TopicPartition, int]:
    begin = {"latest": -2}.get(reset.lower(), -1)
    pairs = zip(partitions, stored, strict=True)
    return {partition: begin if offset is None else last_offset(offset) + 1 for partition, offset in pairs}


def _partition_of(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def range_text(source_range: SourceRange) -> str:
    """Return a range as a task configuration has it."""
    topic, number = source_range.partition[TOPIC_KEY], source_range.partition[PARTITION_KEY]
    return f"{topic}-{number}:{source_range.first}:{'' if source_range.end is None else source_range.end}"


def _range_of(text: str) -> tuple[TopicPartition, tuple[int, int | None]]:
    partition, first, end = text.split(":")
    return _partition_of(partition), (int(first), int(end) if end else None)


def last_offset(offset: Mapping[str, Any]) -> int:
    """Return the offset of the last record. Raises ConnectError: it is invalid."""
    last = offset.get(OFFSET)
    if isinstance(last, bool) or not isinstance(last, int) or last < 0:
        raise ConnectError(f"the '{OFFSET}' of an offset must be a whole number that is not negative, not {last!r}")
    return last

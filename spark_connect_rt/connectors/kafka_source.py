"""Topics of another Kafka cluster, byte for byte: keys, values, headers, timestamps and, where wanted, partitions.

Offsets are MirrorMaker's: ``{"cluster": alias, "topic": t, "partition": p}`` -> ``{"offset": of the last record}``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException

from spark_connect_rt.api.connector import ExactlyOnceSupport, SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import OPTIONAL_BYTES
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.connectors import kafka_settings as settings
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.batch_consumer import KafkaBatchConsumer
from spark_connect_rt.kafka.client_factory import make_admin
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.pipeline.columns import PARTITION, TOPIC
from spark_connect_rt.protocol.ids import TopicPartition

CLUSTER, TOPIC_KEY, PARTITION_KEY, OFFSET = "cluster", "topic", "partition", "offset"
PARTITIONS = "kafka.partitions"  # of a task's configuration: topic-partition, separated by commas
LOOK_TIMEOUT_S = 30.0
POLL_MS, IDLE_WAIT_MS = 50, 10
DEFAULTS = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
log = logging.getLogger(__name__)


class KafkaSourceConnector(SourceConnector):
    """Deals partitions to tasks; looks for new ones and has them dealt again."""

    def config_def(self) -> ConfigDef:
        """Declare the settings; ``source.consumer.*`` go to the consumers as they are."""
        return settings.SOURCE

    def task_class(self) -> type[Any]:
        """Return the task."""
        return KafkaSourceTask

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Refuse a source of no topics, of both kinds of them, and converters that are not said."""
        found = settings.converter_problems(config)
        if bool(config.get("topics")) == bool(config.get("topics.regex")):
            found["topics"] = ["either topics or topics.regex must be set"]
        return found

    def start(self, config: Mapping[str, str]) -> None:
        """Find the partitions, then look for new ones now and then. Raises ConnectError: no broker answers."""
        super().start(config)
        self._values = settings.SOURCE.parse(config)
        self._partitions = self._look()
        self._ended = threading.Event()
        threading.Thread(target=self._look_now_and_then, name="kafka-source-watch", daemon=True).start()

    def stop(self) -> None:
        """End the look-out; one that waits for a broker ends by itself."""
        if hasattr(self, "_ended"):
            self._ended.set()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Deal the partitions one by one; no task without any."""
        shares = [self._partitions[first::max_tasks] for first in range(min(max_tasks, len(self._partitions)))]
        return [{**self.config, PARTITIONS: ",".join(map(str, share))} for share in shares]

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Offsets name the last record of each batch."""
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        for partition, offset in offsets:
            place = partition or {}
            if not {CLUSTER, TOPIC_KEY, PARTITION_KEY} <= place.keys():
                raise ConnectError(f"a source partition needs {CLUSTER}, {TOPIC_KEY}, {PARTITION_KEY}, got {place}")
            if offset is not None:
                _last_offset(offset)
        return True

    def _look_now_and_then(self) -> None:
        while not self._ended.wait(self._values["refresh.topics.interval.ms"] / 1000):
            try:
                found = self._look()
            except RetriableError as error:
                log.warning("new partitions are looked for again: %s", error)
                continue
            if found != self._partitions and not self._ended.is_set():
                log.info("partitions to read: %d, so far %d", len(found), len(self._partitions))
                self._partitions = found
                self.context.request_task_reconfiguration()

    def _look(self) -> list[TopicPartition]:
        admin = make_admin(settings.client_properties(self.config, "source", "consumer"))
        try:
            topics = admin.list_topics(timeout=LOOK_TIMEOUT_S).topics
        except KafkaException as error:
            servers = self._values["source.bootstrap.servers"]
            raise RetriableError(str(connect_error(error, f"looking for topics at {servers}"))) from error
        found = [
            TopicPartition(name, number) for name in filter(self._wanted, topics) for number in topics[name].partitions
        ]
        return sorted(found)

    def _wanted(self, topic: str) -> bool:
        pattern = self._values["topics.regex"]
        if pattern is None:
            return topic in self._values["topics"]
        return not topic.startswith("__") and java_pattern(pattern).fullmatch(topic) is not None


class KafkaSourceTask(SourceTask):
    """Reads its partitions without a group; offsets are Connect's."""

    def start(self, config: Mapping[str, str]) -> None:
        """Go behind the stored offsets; a partition without one begins where auto.offset.reset says."""
        self._values = settings.SOURCE.parse(config)
        partitions = [_partition_of(text) for text in config[PARTITIONS].split(",")]
        properties = {**DEFAULTS, **settings.client_properties(config, "source", "consumer")}
        stored = self.context.offset_reader.offsets([self._place(one) for one in partitions])
        begin = {"latest": -2}.get(properties["auto.offset.reset"].lower(), -1)
        starts = {
            one: begin if offset is None else _last_offset(offset) + 1
            for one, offset in zip(partitions, stored, strict=True)
        }
        self._partitions = partitions
        self._consumer = KafkaBatchConsumer(properties)
        self._consumer.assign(starts)

    def has_more(self) -> bool:
        """Tell whether a partition's end lies behind what was handed on: a fetch may be under way."""
        ends = self._consumer.end_offsets(self._partitions)
        return any(self._consumer.position(one) < ends[one] for one in self._partitions)

    def poll(self) -> Sequence[SourceBatch] | None:
        """Return what is there, a batch of columns for each partition."""
        batch = self._consumer.poll(self._values["poll.max.records"], POLL_MS)
        if batch is None:
            return None
        keep, form = self._values["partition.keep"], self._values["topic.format"]
        return [
            source_batch(
                self._place(partition),
                settings.target_topic(form, partition.topic),
                rows,
                partition.partition if keep else None,
            )
            for partition, rows in by_partition(batch)
        ]

    def idle_wait_ms(self) -> int:
        """Return a short wait: ``poll`` waits by itself."""
        return IDLE_WAIT_MS

    def stop(self) -> None:
        """Close the consumer."""
        if hasattr(self, "_consumer"):
            self._consumer.close()

    def _place(self, partition: TopicPartition) -> dict[str, Any]:
        alias = self._values["source.cluster.alias"]
        return {CLUSTER: alias, TOPIC_KEY: partition.topic, PARTITION_KEY: partition.partition}


def source_batch(
    place: Mapping[str, Any], topic: str, rows: pa.RecordBatch, partition: int | None = None
) -> SourceBatch:
    """Return the rows of one partition, in consume form, as they go to ``topic``; ``partition`` None: by their keys."""
    names = rows.schema.names
    return SourceBatch(
        place,
        {OFFSET: rows.column("offset")[-1].as_py()},
        topic,
        rows.column("value"),
        OPTIONAL_BYTES,
        rows.column("key") if "key" in names else None,
        OPTIONAL_BYTES,
        rows.column("timestamp"),
        partition,
        rows.column("headers") if "headers" in names else None,
    )


def by_partition(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Yield the rows of each topic partition of a batch in consume form, in order."""
    metadata = batch.schema.metadata or {}
    topics = [metadata[TOPIC].decode()] if TOPIC in metadata else pc.unique(batch.column("topic")).to_pylist()
    for topic in topics:
        of_topic = batch if TOPIC in metadata else batch.filter(pc.equal(batch.column("topic"), topic))
        if PARTITION in metadata:
            yield TopicPartition(topic, int(metadata[PARTITION])), of_topic
            continue
        numbers = of_topic.column("partition")
        for number in pc.unique(numbers).to_pylist():
            yield TopicPartition(topic, number), of_topic.filter(pc.equal(numbers, number))


def _partition_of(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _last_offset(offset: Mapping[str, Any]) -> int:
    """Return the offset of the last record. Raises ConnectError: it is none."""
    last = offset.get(OFFSET)
    if isinstance(last, bool) or not isinstance(last, int) or last < 0:
        raise ConnectError(f"the '{OFFSET}' of an offset must be a whole number that is not negative, got {last!r}")
    return last

"""Topics of another Kafka cluster, byte for byte: keys, values, headers, timestamps and, where wanted, partitions.

Offsets are MirrorMaker's: ``{"cluster": alias, "topic": t, "partition": p}`` -> ``{"offset": of the last record}``.
A record's number, in a range, is its offset in Kafka.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from confluent_kafka import KafkaException

from spark_connect_rt.api.connector import ExactlyOnceSupport, SourceOffset
from spark_connect_rt.api.ranges import RangeSourceConnector, SourceRange
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.connectors.topics import kafka_settings as settings
from spark_connect_rt.connectors.topics.kafka_source_task import (
    CLUSTER,
    DEFAULTS,
    OFFSET,
    PARTITION_KEY,
    PARTITIONS,
    RANGES,
    TOPIC_KEY,
    KafkaSourceTask,
    last_offset,
    place_of,
    range_text,
)
from spark_connect_rt.connectors.topics.log_policy import fails, is_of_another
from spark_connect_rt.connectors.topics.moved_logs_config import FAIL, ON_GAP, ON_RECREATED
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.admin_answers import topic_ids
from spark_connect_rt.kafka.client_factory import make_admin, make_consumer
from spark_connect_rt.kafka.client_lifetime import SharedClient, close_admin
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.lost_brokers import has_broker
from spark_connect_rt.kafka.reading.offset_lookup import FIRST, NEXT, look_up_offsets

LOOK_TIMEOUT_S = 30.0
log = logging.getLogger(__name__)


class KafkaSourceConnector(RangeSourceConnector):
    """Copies topics of another Kafka cluster, byte for byte.

    Divides partitions among tasks, and checks for new ones.
    """

    # The size of a chunk of an answer: smaller batches cost more on their way to Spark's JVM without a benefit.
    # A stream of Spark's own Kafka source ends where records are lost, too.
    format_defaults: ClassVar = {
        **dict.fromkeys(settings.CONVERTERS, settings.BYTES),
        "poll.max.records": "20000",
        ON_GAP: FAIL,
        ON_RECREATED: FAIL,
    }

    def config_def(self) -> ConfigDef:
        """Declare the settings; ``source.consumer.*`` go to the consumers as they are."""
        return settings.SOURCE

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return KafkaSourceTask

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Complain about both or none of ``topics`` and ``topics.regex``, and about converters that are not set."""
        found = settings.converter_problems(config)
        if bool(config.get("topics")) == bool(config.get("topics.regex")):
            found["topics"] = ["either topics or topics.regex must be set"]
        return found

    def start(self, config: Mapping[str, str]) -> None:
        """Find the partitions, then search for new ones periodically. Raises ConnectError: no broker answers."""
        super().start(config)
        self._values = settings.SOURCE.parse(config)
        self._partitions = self._look()
        self._make_clients()
        self._ended = threading.Event()
        threading.Thread(target=self._look_now_and_then, name="kafka-source-watch", daemon=True).start()

    def _make_clients(self) -> None:
        """Make the clients that answer questions about the source, each when it is first asked."""
        of = f"of {self._values['source.bootstrap.servers']}"
        consumer, admin = self._properties(), settings.client_properties(self.config, "source", "consumer")
        self._offsets: SharedClient[Any] = SharedClient(
            f"the client for offsets {of}",
            lambda: make_consumer({"group.id": "unused", **consumer}, {}),
            lambda client: client.close(),
            has_broker,
        )
        self._admin: SharedClient[Any] = SharedClient(  # for topics' ids
            f"the admin client {of}",
            lambda: make_admin(admin),
            close_admin,
            has_broker,
        )

    def stop(self) -> None:
        """End the look-out; one that waits for a broker ends by itself."""
        if hasattr(self, "_ended"):
            self._ended.set()
            self._offsets.close()
            self._admin.close()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Divide the partitions among tasks one by one; no task is without any."""
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
                raise ConnectError(
                    f"a source partition must have {CLUSTER}, {TOPIC_KEY} and {PARTITION_KEY}, but is {place}"
                )
            if offset is not None:
                last_offset(offset)
        return True

    def ranges(self, stored: Sequence[SourceOffset], since_ms: int | None = None) -> list[SourceRange]:
        """Return the range of each partition after its stored offset.

        Raises ConnectError: the cluster cannot be asked.
        """
        partitions = self._partitions
        begins, ends = self._found(partitions, FIRST), self._found(partitions, NEXT)
        ids = self._topic_ids(sorted({partition.topic for partition in partitions}))
        numbers = {
            _key(place): self.number_behind(offset)
            for place, offset in stored
            if place and offset and not is_of_another(offset, ids.get(place.get(TOPIC_KEY, "")))
        }
        later = {} if since_ms is None else self._found(partitions, max(0, since_ms))
        missing = ends if self._properties()["auto.offset.reset"].lower() == "latest" else begins
        keep, form = self._values["partition.keep"], self._values["topic.format"]
        found = []
        for partition in partitions:
            place, begin, end = place_of(self._values, partition), begins[partition], ends[partition]
            first = numbers.get(_key(place), -1)
            first = first if begin <= first <= end else missing[partition]
            if partition in later:
                first = max(first, end if later[partition] < 0 else later[partition])
            number = partition.partition if keep else None
            topic = settings.target_topic(form, partition.topic)
            found.append(SourceRange(place, first, end, topic, number, ids.get(partition.topic)))
        return found

    def absent(self) -> list[str]:
        """Return the topics of ``topics`` that the cluster lacks; a pattern names none."""
        servers, found = self._values["source.bootstrap.servers"], {partition.topic for partition in self._partitions}
        absent = [name for name in self._values["topics"] if name not in found]
        return [f'topics: topic "{name}" does not exist at {servers}' for name in absent]

    def may_lose(self, *, recreated: bool) -> bool:
        """Return whether a stream continues after such a loss, by ``on.gap`` and ``on.topic.recreated``."""
        return not fails(self._values, recreated=recreated)

    def range_tasks(self, ranges: Sequence[SourceRange], max_tasks: int) -> list[dict[str, str]]:
        """Divide ranges among at most ``max_tasks`` task configurations."""
        shares = [ranges[first::max_tasks] for first in range(min(max_tasks, len(ranges)))]
        return [{**self.config, RANGES: ",".join(map(range_text, share))} for share in shares]

    def number_behind(self, offset: Mapping[str, Any]) -> int:
        """Return the number after the last record. Raises ConnectError: the offset is invalid."""
        return last_offset(offset) + 1

    def offset_before(self, number: int) -> Mapping[str, Any] | None:
        """Return the source offset of the record before a number, None for the first one."""
        return {OFFSET: number - 1} if number > 0 else None

    def _properties(self) -> dict[str, str]:
        return {**DEFAULTS, **settings.client_properties(self.config, "source", "consumer")}

    def _found(self, partitions: Sequence[TopicPartition], what: int) -> dict[TopicPartition, int]:
        with self._offsets.use() as client:
            return look_up_offsets(client, dict.fromkeys(partitions, what), LOOK_TIMEOUT_S)

    def _look_now_and_then(self) -> None:
        while not self._ended.wait(self._values["refresh.topics.interval.ms"] / 1000):
            try:
                found = self._look()
            except RetriableError as error:
                log.warning("looking for new partitions again: %s", error)
                continue
            if found != self._partitions and not self._ended.is_set():
                log.info("partitions to read: %d, before %d", len(found), len(self._partitions))
                self._partitions = found
                self.context.request_task_reconfiguration()

    def _topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the id of each topic that has one (KIP-516)."""
        with self._admin.use() as client:
            return topic_ids(client, topics, LOOK_TIMEOUT_S)

    def _look(self) -> list[TopicPartition]:
        admin = make_admin(settings.client_properties(self.config, "source", "consumer"))
        try:
            topics = admin.list_topics(timeout=LOOK_TIMEOUT_S).topics
        except KafkaException as error:
            servers = self._values["source.bootstrap.servers"]
            raise RetriableError(str(connect_error(error, f"looking for topics at {servers}"))) from error
        finally:
            close_admin(admin)
        found = [
            TopicPartition(name, number) for name in filter(self._wanted, topics) for number in topics[name].partitions
        ]
        return sorted(found)

    def _wanted(self, topic: str) -> bool:
        pattern = self._values["topics.regex"]
        if pattern is None:
            return topic in self._values["topics"]
        return not topic.startswith("__") and java_pattern(pattern).fullmatch(topic) is not None


def _key(place: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(place.get(name) for name in (CLUSTER, TOPIC_KEY, PARTITION_KEY))

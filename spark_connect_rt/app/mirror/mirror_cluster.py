"""One cluster as ``connectrt mirror client`` and ``verify`` see it: its topics, its groups, its records as digests."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from spark_connect_rt.app.mirror.verify_rules import Seen, digest
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.kafka.admin_answers import answer_of
from spark_connect_rt.kafka.client_factory import make_consumer
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.kafka.logs.topic_records import STALLED_MS, end_of_read, read_topic
from spark_connect_rt.topics.compacted_log import LogRecord

REACH_LIMIT_MS = 15_000
LIMIT_S = 30.0
BATCH_COUNT = 10_000


class MirroredCluster:
    """A cluster, by the properties of its admin clients and consumers. Reads only."""

    def __init__(self, admin: Mapping[str, str], consumer: Mapping[str, str]) -> None:
        """Connect. Raises RetriableError: no broker answers."""
        self._properties = dict(admin)
        self._consumer = dict(consumer)
        self.admin = KafkaAdmin(admin)
        self.admin.check_reachable(REACH_LIMIT_MS)

    def partition_counts(self) -> dict[str, int]:
        """Return topic -> number of partitions, of all topics."""
        with self.admin.client() as client:
            found: AdminClient = client
            return {name: len(topic.partitions) for name, topic in found.list_topics(timeout=LIMIT_S).topics.items()}

    def ranges(self, topics: Mapping[str, int]) -> dict[TopicPartition, range]:
        """Return the offsets that each partition of these topics holds now."""
        partitions = [TopicPartition(topic, n) for topic, count in topics.items() for n in range(count)]
        ends, begins = self.admin.end_offsets(partitions), self.admin.earliest_offsets(partitions)
        return {
            partition: range(begins[partition], max(begins[partition], ends[partition])) for partition in partitions
        }

    def groups(self) -> list[str]:
        """Return the consumer groups, sorted."""
        with self.admin.client() as client:
            found = answer_of(client, client.list_consumer_groups(request_timeout=LIMIT_S), LIMIT_S)
        if found.errors:
            raise connect_error(found.errors[0], "listing consumer groups")
        return sorted(group.group_id for group in found.valid)

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """Return what a group has committed; nothing for one that is not there."""
        return KafkaGroupOffsets().committed(self._properties, group)

    def records(self, topic: str) -> list[LogRecord]:
        """Return every record of one of MirrorMaker's own topics, none when there is no such topic."""
        count = self.admin.partition_count(topic)
        return [] if count is None else read_topic(self._consumer, topic, count)

    def is_compacted(self, topic: str) -> bool:
        """Return whether old values of a key may be gone."""
        return "compact" in (self.admin.cleanup_policy(topic) or "")

    def keeps_time(self, topic: str) -> bool:
        """Return whether records keep their producers' time; else the broker's replaces it."""
        return (self.admin.topic_settings(topic) or {}).get("message.timestamp.type") != "LogAppendTime"

    def seen(self, partition: TopicPartition, offsets: range, with_time: bool) -> list[Seen]:
        """Return the records with these offsets, as digests. Raises TimedOutError, ConnectError."""
        if not offsets:
            return []
        # What is deleted meanwhile is passed over, whatever the flow's own consumers do.
        own = {"group.id": "connectrt-mirror-verify", **self._consumer, "auto.offset.reset": "earliest"}
        client = make_consumer(own, {"enable.partition.eof": "true"})
        try:
            client.assign([ClientPartition(partition.topic, partition.partition, offsets.start)])
            return self._read(client, offsets, with_time)
        finally:
            client.close()

    def _read(self, client: Any, offsets: range, with_time: bool) -> list[Seen]:
        found: list[Seen] = []
        received_s = time.monotonic()
        while True:
            messages = client.consume(BATCH_COUNT, 0.1)
            received_s = time.monotonic() if messages else received_s
            if time.monotonic() - received_s > STALLED_MS / 1000:
                raise TimedOutError(f"no data could be read for {STALLED_MS} ms")
            for message in messages:
                # At the end there may be less than was asked for: an open transaction, markers of closed ones.
                if end_of_read(message) is not None or message.offset() >= offsets.stop:
                    return found
                found.append(_seen(message, with_time))
            if found and found[-1].offset + 1 >= offsets.stop:
                return found


def _seen(message: Any, with_time: bool) -> Seen:
    key, value = message.key(), message.value()
    content = digest(key, value, message.headers() or (), message.timestamp()[1] if with_time else 0)
    return Seen(message.offset(), content, key, value is None)

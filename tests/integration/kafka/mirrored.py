"""Two clusters and flows between them, for the tests of the mirror connectors."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.support.connect_rest import ConnectRest
from tests.support.consumed import consumed
from tests.support.worker_process import WorkerProcess

LIMIT_S = 240.0
SILENCE_S = 10.0  # a client that knows no leader of a new topic may not look again for minutes
JAVA = "org.apache.kafka.connect.mirror.Mirror"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
Row = tuple[int, bytes | None, bytes | None, int, tuple[tuple[str, bytes | None], ...]]
"""(partition, key, value, timestamp in ms, headers)"""


def unique(name: str) -> str:
    return f"{name}-{uuid.uuid4().hex[:8]}"


@dataclass
class Cluster:
    """One cluster under the alias that flows know it by."""

    alias: str
    servers: str
    admin: Any = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.servers})

    def create(self, topic: str, partitions: int = 1, **settings: str) -> str:
        config = {name.replace("_", "."): value for name, value in settings.items()}
        self.admin.create_topics([NewTopic(topic, partitions, 1, config=config)])[topic].result(30)
        return topic

    def write(self, topic: str, values: Sequence[Any], partition: int = 0, **more: Any) -> None:
        producer = Producer(
            {"bootstrap.servers": self.servers, "enable.idempotence": True}
        )  # a new one knows the partitions there are now
        for value in values:
            producer.produce(topic, value, partition=partition, **more)
        assert producer.flush(30) == 0

    def rows(self, topic: str) -> list[Row]:
        """Return every record there is now, partition by partition; none of a topic that is not there."""
        found: list[Row] = []
        for message in self.messages(topic):
            place = message.partition(), message.key(), message.value(), message.timestamp()[1]
            found.append((*place, tuple(message.headers() or ())))
        return sorted(found, key=lambda row: row[0])

    def messages(self, topic: str) -> list[Any]:
        """Return every committed record there is now."""
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            found = self._messages_of_one_client(topic)
            if found is not None:
                return found
        raise AssertionError(f"no client reads {topic} to its end within {LIMIT_S} s")

    def _messages_of_one_client(self, topic: str) -> list[Any] | None:
        """Return every committed record, or None if the client hears nothing for long."""
        settings = {"group.id": "look", "log_level": 0, "enable.partition.eof": True}
        consumer = Consumer({"bootstrap.servers": self.servers, **settings})
        found: list[Any] = []
        try:
            left = self.partitions(topic)
            consumer.assign([TopicPartition(topic, number, 0) for number in range(left)])
            received_s = time.monotonic()
            while left and time.monotonic() - received_s < SILENCE_S:
                for message in consumed(consumer, 1_000, 0.2):
                    received_s = time.monotonic()
                    if message.error() is None:
                        found.append(message)
                    else:
                        left -= message.error().code() == KafkaError._PARTITION_EOF
            return None if left else found
        finally:
            consumer.close()

    def partitions(self, topic: str) -> int:
        topics = self.admin.list_topics(timeout=10).topics
        return len(topics[topic].partitions) if topic in topics else 0

    def setting(self, topic: str, name: str) -> str:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        return str(self.admin.describe_configs([resource])[resource].result(10)[name].value)

    def set(self, topic: str, name: str, value: str) -> None:
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[entry])
        self.admin.incremental_alter_configs([resource])[resource].result(10)

    def consumer(self, group: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        consumer = self.consumer(group)
        places = [TopicPartition(topic, number, offset) for number, offset in offsets.items()]
        consumer.commit(offsets=places, asynchronous=False)
        consumer.close()

    def committed(self, group: str, topic: str, partition: int = 0) -> int:
        consumer = self.consumer(group)
        (found,) = consumer.committed([TopicPartition(topic, partition)], timeout=20)
        consumer.close()
        return int(found.offset)


@dataclass
class Flow:
    """A flow between two clusters, run by a worker of the target's."""

    source: Cluster
    target: Cluster
    worker: WorkerProcess

    @property
    def rest(self) -> ConnectRest:
        return self.worker.rest

    def start(self, kind: str, tasks: int = 1, **settings: str) -> str:
        """Create a connector of ``kind`` and return its name; underscores stand for dots."""
        name = unique(kind.lower())
        more = {key.replace("_", "."): value for key, value in settings.items()}
        factors = {
            f"{topic}replication.factor": "1"
            for topic in ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.")
        }
        rounds = ("refresh.topics", "sync.topic.configs", "sync.topic.acls", "refresh.groups", "emit.checkpoints")
        config = {
            "connector.class": f"{JAVA}{kind}Connector",
            "source.cluster.alias": self.source.alias,
            "target.cluster.alias": self.target.alias,
            "source.cluster.bootstrap.servers": self.source.servers,
            "target.cluster.bootstrap.servers": self.target.servers,
            "tasks.max": str(tasks),
            **{f"{side}.converter": BYTES for side in ("key", "value", "header")},
            **factors,
            **{f"{setting}.interval.seconds": "1" for setting in (*rounds, "sync.group.offsets")},
            **more,
        }
        answer = self.rest.settled("PUT", f"/connectors/{name}/config", config, LIMIT_S)
        assert answer.status == 201, answer
        return name

    def logs(self) -> str:
        return self.worker.log_file.read_text(encoding="utf-8", errors="replace")[-3_000:]


def until(condition: Callable[[], bool], what: str, say: Callable[[], object] = lambda: "") -> None:
    """Await a fact; say what was last seen when it does not come."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {LIMIT_S} s: {what}; last seen: {say()}"
        time.sleep(0.1)

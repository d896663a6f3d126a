"""What is really in a topic: the ground truth of tests."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from tests.support.consumed import consumed


def count_records(bootstrap_servers: str, topic: str) -> int:
    """Return the sum of the partitions' end offsets less their beginnings; 0 for no such topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "count"})
    try:
        metadata = consumer.list_topics(topic, timeout=10).topics[topic]
        total = 0
        for number in metadata.partitions:
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)
            total += high - low
        return total
    except KafkaException:
        return 0
    finally:
        consumer.close()


def partition_count(bootstrap_servers: str, topic: str) -> int:
    """Return how many partitions a topic has; 0 for no such topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "count"})
    try:
        return len(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    finally:
        consumer.close()


def read_values(bootstrap_servers: str, topic: str, count: int, limit_s: float = 30.0) -> list[bytes | None]:
    """Return the values of the first ``count`` records of a topic, partition by partition."""
    return [record.value() for record in read_records(bootstrap_servers, topic, count, limit_s)]


def read_records(bootstrap_servers: str, topic: str, count: int, limit_s: float = 30.0) -> list[Message]:
    """Return the first ``count`` records of a topic, fewer when the limit has passed."""
    import time

    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "read", "enable.auto.commit": False, "log_level": 0}
    )
    records: list[Message] = []
    deadline = time.monotonic() + limit_s
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
        while len(records) < count and time.monotonic() < deadline:
            records += [message for message in consumed(consumer, 1000, 0.5) if message.error() is None]
    finally:
        consumer.close()
    return records


class CommittedReader:
    """What a reader of committed data gets from partition 0 of a topic: (key, value) in order."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.records: list[tuple[bytes, bytes]] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "truth",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, 0, 0)])

    def more(self) -> list[tuple[bytes, bytes]]:
        """Take what is there by now; return everything since the beginning."""
        self._take()
        return self.records

    def to_end(self) -> list[tuple[bytes, bytes]]:
        """Read to the end of a topic that nobody writes; return everything since the beginning. Once."""
        while not self._take():
            pass
        return self.records

    def _take(self) -> bool:
        """Read on; return whether the end was met, which is told only where nothing more comes."""
        messages = consumed(self._consumer, 1_000, 0.2)
        self.records += [
            (message.key() or b"", message.value() or b"") for message in messages if message.error() is None
        ]
        return any(message.error() is not None for message in messages)

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()


def add_partitions(bootstrap_servers: str, topic: str, count: int) -> None:
    """Give a topic so many partitions."""
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(20)


def delete_topic(bootstrap_servers: str, topic: str) -> None:
    """Delete a topic, and return once no broker lists it."""
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.delete_topics([topic])[topic].result(20)
    while topic in admin.list_topics(timeout=10).topics:
        pass

"""Reads a topic from its beginning to its end: every record's bytes, as text."""

from __future__ import annotations

from typing import TypedDict

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition


class DumpedRecord(TypedDict):
    """One record; Connect's internal topics hold UTF-8 only, so text keeps every byte."""

    partition: int
    offset: int
    key: str | None
    value: str | None


def dump(bootstrap_servers: str, topic: str, isolation: str = "read_uncommitted") -> list[DumpedRecord]:
    """Return every record of ``topic``, by partition, then offset. Transaction markers are not records."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "dump",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        return sorted(
            _read(consumer, len(partitions)),
            key=lambda record: (record["partition"], record["offset"]),
        )
    finally:
        consumer.close()


def _read(consumer: Consumer, open_partitions: int) -> list[DumpedRecord]:
    records: list[DumpedRecord] = []
    while open_partitions:
        message = consumer.poll(20)
        assert message is not None, f"no end of partition after 20 s, {open_partitions} still open"
        if message.error():
            open_partitions -= 1  # the only event that enable.partition.eof adds
            continue
        records.append(
            {
                "partition": message.partition(),
                "offset": message.offset(),
                "key": _text(message.key()),
                "value": _text(message.value()),
            }
        )
    return records


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8")

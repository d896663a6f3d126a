"""The content of topics, record by record with headers, and whether two of them are equal.

Owns: reading to the end, which parts of a Debezium record depend on the run and not on the change, digests by key.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

LEADER_LIMIT_S = 20.0
Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Content:
    """The bytes of one record."""

    key: bytes | None
    value: bytes | None
    headers: Headers


_RUN_ID = "__debezium.context.runId"
# When a record was made, by the clock of the process that made it: in every record.
_CLOCK = re.compile(rb'"ts_(ms|us|ns)":\d+')
# The position of a snapshot in the log, and its transaction: each side takes a separate snapshot.
_PLACE = re.compile(rb'"(lsn|txId|sequence|xmin)":(?:"(?:[^"\\]|\\.)*"|null|\d+)')
# Which commit the connector had seen last; a restart in the middle of a transaction begins again without it.
_SEQUENCE = re.compile(rb'"sequence":"(?:[^"\\]|\\.)*"')


def normalised(content: Content) -> Content:
    """Return a Debezium record without the parts that differ from run to run."""
    headers = tuple((name, b"" if name == _RUN_ID else value) for name, value in content.headers)
    if content.value is None:
        return Content(content.key, None, headers)
    value = _SEQUENCE.sub(b'"sequence":""', _CLOCK.sub(rb'"ts_\1":0', content.value))
    if b'"op":"r"' in value or b'"op"' not in value:
        value = _PLACE.sub(rb'"\1":0', value)
    return Content(content.key, value, headers)


def as_it_is(content: Content) -> Content:
    """Return the record itself: every byte is compared."""
    return content


def placeless(value: bytes, database: str) -> bytes:
    """Return a Debezium value without clocks, positions in the log and the name of the database, to compare runs."""
    value = _PLACE.sub(rb'"\1":0', _CLOCK.sub(rb'"ts_\1":0', value))
    return value.replace(b'"db":"%b"' % database.encode(), b'"db":""')


class TopicReader:
    """Reads whole topics of one cluster."""

    def __init__(self, bootstrap_servers: str, isolation: str = "read_committed") -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "content",
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
            }
        )

    def topics(self, prefix: str) -> list[str]:
        """Return the topics that begin with ``prefix``, sorted."""
        return sorted(topic for topic in self._consumer.list_topics(timeout=20).topics if topic.startswith(prefix))

    def count(self, topic: str) -> int:
        """Return how many offsets a topic has given out; 0 when it is not there."""
        deadline = time.monotonic() + LEADER_LIMIT_S
        while (known := self._consumer.list_topics(timeout=20).topics.get(topic)) is not None:
            try:
                ends = [
                    self._consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=20)
                    for partition in known.partitions
                ]
                return sum(high - low for low, high in ends)
            except KafkaException as error:  # it was made a moment ago: its leader does not know of it yet
                if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION or time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        return 0

    def last_keys(self, topic: str, count: int = 500) -> set[bytes | None]:
        """Return the keys of a topic's last records, of each partition so many at most."""
        known = self._consumer.list_topics(timeout=20).topics.get(topic)
        keys: set[bytes | None] = set()
        for number in known.partitions if known else ():
            low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=20)
            self._consumer.assign([TopicPartition(topic, number, max(low, high - count))])
            keys |= {content.key for content in self._to_end()}
            self._consumer.unassign()
        return keys

    def read(self, topic: str) -> list[Content]:
        """Return every record, a partition after the other."""
        return list(self.each(topic))

    def each(self, topic: str) -> Iterator[Content]:
        """Yield every record, a partition after the other; to the end, or the reader serves nothing else."""
        for partition in sorted(self._consumer.list_topics(topic, timeout=20).topics[topic].partitions):
            self._consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
            yield from self._to_end()
        self._consumer.unassign()

    def _to_end(self) -> Iterator[Content]:
        while True:
            for message in self._consumer.consume(10_000, timeout=1.0):
                if message.error():
                    return
                headers = tuple((name, value) for name, value in message.headers() or ())
                yield Content(message.key(), message.value(), headers)

    def close(self) -> None:
        """Close the consumer of the topics."""
        self._consumer.close()


def by_key(records: Iterable[Content]) -> dict[bytes | None, list[Content]]:
    """Return the records of each key in their order, of a repetition after a crash only the first."""
    found: dict[bytes | None, list[Content]] = defaultdict(list)
    seen: dict[bytes | None, set[Content]] = defaultdict(set)
    for record in records:
        if record not in seen[record.key]:
            seen[record.key].add(record)
            found[record.key].append(record)
    return found


class Digests:
    """SHA-256 of each key's records (key, value, headers) in their order, as ``by_key`` has them.

    Of a record only its digest is kept: a topic may have millions.
    """

    def __init__(self, records: Iterable[Content], form: Callable[[Content], Content] = normalised) -> None:
        self.count = 0
        held: dict[bytes | None, dict[bytes, None]] = {}
        for content in map(form, records):
            self.count += 1
            held.setdefault(content.key, {})[_sha256(content)] = None
        self.of_keys = {key: hashlib.sha256(b"".join(those)).digest() for key, those in held.items()}


def digests(records: Iterable[Content], form: Callable[[Content], Content] = normalised) -> dict[bytes | None, bytes]:
    """Return the digest of each key's records."""
    return Digests(records, form).of_keys


def _sha256(content: Content) -> bytes:
    digest = hashlib.sha256()
    for part in (
        content.key,
        content.value,
        *(part for name, value in content.headers for part in (name.encode(), value)),
    ):
        digest.update(b"-" if part is None else b"%d:" % len(part) + part)
    return digest.digest()


def differences(
    first: Iterable[Content],
    other: Iterable[Content],
    form: Callable[[Content], Content] = normalised,
    most: int = 3,
) -> list[str]:
    """Return the differences of two topics: the first keys, with the content of each side."""
    left, right = by_key(map(form, first)), by_key(map(form, other))
    wrong = [key for key in [*left, *(key for key in right if key not in left)] if left.get(key) != right.get(key)]
    return [f"{key!r}:\n  {left.get(key)}\n  {right.get(key)}" for key in wrong[:most]]

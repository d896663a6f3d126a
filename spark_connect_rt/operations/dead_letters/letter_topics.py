"""Reading dead letters from Kafka: where a queue begins and ends now, its letters in the order of their times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.admin import DescribedTopic, KafkaAdmin
from spark_connect_rt.kafka.logs.merged_read import MergedRead
from spark_connect_rt.operations.dead_letters.letter import Letter, letter_of


@dataclass(frozen=True, slots=True)
class Span:
    """What there is of a topic now, by partition: first offset, and the one behind the last."""

    begins: Mapping[int, int]
    ends: Mapping[int, int]


class Reading:
    """Letters being read. One thread."""

    def __init__(self, topic: str, read: MergedRead) -> None:
        self._topic = topic
        self._read = read

    @property
    def positions(self) -> Mapping[int, int]:
        """Return the next offset by partition that was not given."""
        return self._read.positions

    def __iter__(self) -> Iterator[Letter | None]:
        """Yield letters, and None each time that none came for a while. Raises ConnectError."""
        for message in self._read:
            if message is None:
                yield None
                continue
            place = (message.partition(), message.offset(), max(0, message.timestamp()[1]))
            yield letter_of(self._topic, place, message.key(), message.value(), message.headers() or ())


class LetterTopics:
    """The topics of one cluster. Any thread."""

    def __init__(self, admin: KafkaAdmin, consumer: Mapping[str, str]) -> None:
        """``consumer``: Java properties, as the worker's own."""
        self.admin = admin
        self._consumer = consumer

    def describe(self, topic: str) -> DescribedTopic | None:
        """Return what there is of a topic, None: it does not exist. Raises ConnectError."""
        return self.admin.describe_topic(topic)

    def span(self, topic: str, numbers: Sequence[int], from_ms: int | None = None) -> Span:
        """Return the offsets of these partitions; ``from_ms``: leave out what lies before the first so late."""
        wanted = [TopicPartition(topic, number) for number in numbers]
        begins = {partition.partition: offset for partition, offset in self.admin.earliest_offsets(wanted).items()}
        ends = {partition.partition: offset for partition, offset in self.admin.end_offsets(wanted).items()}
        if from_ms is not None:
            for partition, offset in self.admin.offsets_since(wanted, from_ms).items():
                begins[partition.partition] = ends[partition.partition] if offset < 0 else offset
        return Span(begins, ends)

    @contextmanager
    def reading(self, topic: str, positions: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[Reading]:
        """Read from positions to before ends."""
        read = MergedRead(self._consumer, topic, positions, ends)
        try:
            yield Reading(topic, read)
        finally:
            read.close()

"""Reading dead letters from Kafka: where a queue begins and ends now, its letters in the order of their times."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.errors import BadRequestError, ConnectError, ForbiddenError, NotFoundError
from spark_connect_rt.kafka.admin import DescribedTopic, KafkaAdmin
from spark_connect_rt.kafka.logs.topic_records import MergedRead
from spark_connect_rt.operations.dead_letters.letter import Letter, letter_of
from spark_connect_rt.runtime.herder.herder_api import HerderViews


@dataclass(frozen=True, slots=True)
class Span:
    """The present extent of a topic, by partition: first offset, and the next one after the last."""

    begins: Mapping[int, int]
    ends: Mapping[int, int]


class LetterReader:
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
    def reading(self, topic: str, positions: Mapping[int, int], ends: Mapping[int, int]) -> Iterator[LetterReader]:
        """Read from positions to before ends."""
        read = MergedRead(self._consumer, topic, positions, ends)
        try:
            yield LetterReader(topic, read)
        finally:
            read.close()


# Which topic a question about dead letters means, and whether it may be shown.
#
# Owns the refusals: REST reads topics with the worker's rights, so that only a topic which a connector of the group
# names as its dead letter queue is read whole. Of any other only records with Connect's own headers are letters;
# topics of the workers and the brokers are never read.


QUEUE = "errors.deadletterqueue.topic.name"
_ELSEWHERE = ("producer.override.bootstrap.servers", "admin.override.bootstrap.servers")
_NAME_MAX = 249  # characters of a topic
Resolved = Callable[[Mapping[str, str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class Queue:
    """A dead letter queue. ``is_named``: a connector of the group names it."""

    topic: str
    connector: str | None
    is_named: bool

    def holds(self, letter: Letter) -> bool:
        """Return whether a record of the topic is a letter of this queue that may be shown."""
        if not self.is_named and "topic" not in letter.errors:
            return False
        writer = letter.errors.get("connector.name")
        return self.connector is None or writer in (None, self.connector)


class DeadLetterTopics:
    """Finds the queues of the group's connectors. Any thread."""

    def __init__(self, views: HerderViews, resolve: Resolved, internal: Collection[str]) -> None:
        """``internal``: topics of the workers, which no request may read or write through dead letters."""
        self._views = views
        self._resolve = resolve
        self._internal = frozenset(internal)

    def find(self, connector: str | None, topic: str | None) -> Queue | None:
        """Return the queue, None: the connector has none.

        Raises NotFoundError: no such connector; BadRequestError: neither is given; ForbiddenError: no topic for that.
        """
        named = self._queue_of(connector, self._views.connector_config(connector)) if connector else None
        wanted = topic or named
        if not connector and not topic:
            raise BadRequestError("connector or topic is required: the queue of dead letters")
        if wanted is None:
            return None
        self._refuse(wanted)
        return Queue(wanted, connector, wanted == named or self._is_named(wanted))

    def may_be_written(self, topic: str) -> bool:
        """Return whether a letter may be sent to a topic at all."""
        return not self._is_internal(topic)

    def config_of(self, connector: str | None) -> Mapping[str, str] | None:
        """Return a connector's configuration with its references looked up; None: there is no such connector."""
        try:
            return self._views.connector_config(connector).resolved(self._resolve) if connector else None
        except NotFoundError:
            return None

    def _is_named(self, topic: str) -> bool:
        for name in self._views.list_connectors():
            with contextlib.suppress(ConnectError):  # deleted just now, or its provider does not answer
                if self._named_by(self._views.connector_config(name)) == topic:
                    return True
        return False

    def _named_by(self, config: StoredConfig) -> str | None:
        return (config.only([QUEUE]).resolved(self._resolve).get(QUEUE) or "").strip() or None

    def _queue_of(self, name: str, config: StoredConfig) -> str | None:
        elsewhere = config.only(_ELSEWHERE).resolved(self._resolve)
        if any(elsewhere.values()):
            raise BadRequestError(
                f"the dead letters of {name} are in another cluster ({', '.join(_ELSEWHERE)}). Only those in the "
                "worker's own cluster can be shown and replayed"
            )
        return self._named_by(config)

    def _is_internal(self, topic: str) -> bool:
        return topic in self._internal or topic.startswith("__")

    def _refuse(self, topic: str) -> None:
        if len(topic) > _NAME_MAX or not topic.isprintable():
            raise BadRequestError("topic: not a valid topic name")
        if self._is_internal(topic):
            raise ForbiddenError(f"{topic} is an internal topic of the workers or the brokers, not a dead letter queue")

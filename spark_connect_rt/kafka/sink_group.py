"""One sink task's member of its consumer group: takes part, commits, fetches nothing.

Owns: one consumer whose partitions are all paused, which topics a pattern means now, who may commit.
It has no threads: callbacks run inside ``poll`` and ``close``, on the caller's thread.

Only partitions held now can be committed. librdkafka sends a commit with the generation it is in by then, and
a broker checks only the generation. A late commit for a partition that moved on would be accepted.
Patterns are resolved here, as the Java consumer does, because librdkafka's own regular expressions are POSIX.
Named topics that are not there are looked for here too (``kafka.sink_group``): librdkafka asks once in five minutes.
"""

from __future__ import annotations

import contextlib
import logging
import random
import re
import sys
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_settings import client_setting
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.errors import BadConfigError, ConnectError, FencedError, RetriableError, UnknownTopicError
from spark_connect_rt.kafka.client_config import ClientRole, client_config
from spark_connect_rt.kafka.client_factory import make_consumer
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.interfaces import GroupGeneration, OnAssigned, OnLost, OnRevoked
from spark_connect_rt.kafka.lost_brokers import BrokerWatch
from spark_connect_rt.kafka.reading.offset_lookup import NEXT, look_up_offsets

# Which topics that a consumer named are not there (yet), and when to look for them again. Pure: time is given.
#
# Java's consumer asks for the metadata of its topics again every ``retry.backoff.ms`` as long as one of them is
# unknown; librdkafka asks once, and then when ``metadata.max.age.ms`` has passed. So a member that named a topic
# before it was created would be given it five minutes later. Source: Java ``Metadata.handleMetadataResponse`` (an
# unknown topic asks for another update), ``ExponentialBackoff`` (100 ms to 1 s).
#
# A poll asks for a few names. A listing asks for all topics, and only that makes librdkafka think its subscription
# over: so one follows each find. A name counts as known to librdkafka once a partition of it is held or a listing
# showed it. If neither happened for a while, all are listed once, since one may have come between two requests.


LISTED_AFTER_MS = 5_000  # a group's first assignment may take three seconds (group.initial.rebalance.delay.ms)
MOST_LOOKED_FOR = 50  # names a poll asks for one by one; with more missing all topics are listed


class TopicWatch:
    """The topics of one consumer. All times are monotonic ms."""

    def __init__(self, retry_ms: int, retry_max_ms: int, chance: Callable[[], float]) -> None:
        """Take Java's ``retry.backoff.ms`` and ``retry.backoff.max.ms``: the waits double from one to the other.

        ``chance`` gives that of each wait, see ``Backoff.wait``.
        """
        self._backoff = Backoff(max(1, retry_ms), max(1, retry_ms, retry_max_ms))
        self._chance = chance
        self._failures = 1  # looks in a row that found nothing new
        self._doubted: dict[str, int] = {}  # name -> when it must have been seen, else all topics are listed
        self._missing: set[str] = set()  # not there when last looked for
        self._suspected: set[str] = set()  # held, and perhaps deleted: librdkafka would notice late
        self._look_at_ms: int | None = None

    @property
    def missing(self) -> frozenset[str]:
        """Return the names that were not there when last looked for."""
        return frozenset(self._missing)

    def doubt(self, names: Iterable[str], now_ms: int) -> None:
        """Take these for unknown: just subscribed to, or no longer held."""
        fresh = [name for name in names if name not in self._doubted]
        self._doubted.update(dict.fromkeys(fresh, now_ms + LISTED_AFTER_MS))
        if fresh:
            self._failures = 1
            self._look_at_ms = now_ms + self._wait_ms()

    def suspect(self, names: Iterable[str], now_ms: int) -> None:
        """Look whether these, which are held, are there at all."""
        suspected = set(names)
        self._suspected |= suspected
        self.doubt(suspected, now_ms)

    def held(self, names: Iterable[str]) -> None:
        """Take these for known: a partition of each is this member's."""
        for name in names:
            self._settle(name)

    def names_to_look_for(self, now_ms: int) -> tuple[str, ...]:
        """Return the names to ask for now, none while it is not time. Answer with ``looked``."""
        if self._look_at_ms is None or now_ms < self._look_at_ms:
            return ()
        if not self._doubted:
            self._look_at_ms = None
            return ()
        return tuple(sorted(self._missing or self._doubted)[:MOST_LOOKED_FOR])

    def looked(self, asked: Collection[str], found: Collection[str], now_ms: int) -> bool:
        """Take the result of a poll; return whether all topics must be listed now (then call ``listed``)."""
        came = self._missing.intersection(found)
        absent = set(asked) - set(found)
        gone = self._suspected & absent
        self._suspected -= set(asked)
        self._missing = (self._missing - came) | absent
        self._failures += 1
        self._look_at_ms = now_ms + self._wait_ms()
        overdue = any(now_ms >= at for name, at in self._doubted.items() if name not in self._missing)
        return bool(came or gone) or overdue or len(self._missing) > MOST_LOOKED_FOR

    def listed(self, names: Collection[str]) -> None:
        """Take the names of all topics."""
        for name in list(self._doubted):
            if name in names:
                self._settle(name)
            else:
                self._missing.add(name)

    def _wait_ms(self) -> int:
        return int(self._backoff.wait(self._failures, self._chance()))

    def _settle(self, name: str) -> None:
        self._doubted.pop(name, None)
        self._missing.discard(name)
        self._suspected.discard(name)


_log = logging.getLogger(__name__)

REQUEST_TIMEOUT_S = 30.0
LOOKUP_TIMEOUT_S = 5.0  # for lag: rather not known for a moment than a rebalance missed
UNKNOWN_S = 1.0  # a topic that no broker has known for so long may be deleted: its partitions are to go soon
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_SETTINGS = {
    "enable.partition.eof": "false",
    # Between assign and pause one fetch may slip through. Its records are dropped, so let it be small.
    "queued.min.messages": "1",
    "fetch.message.max.bytes": "1024",
}
_METADATA_MARK = b"CGMDv2:"
_FINAL = (
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.INCONSISTENT_GROUP_PROTOCOL,
    KafkaError._AUTHENTICATION,
    KafkaError.FENCED_INSTANCE_ID,
)


class KafkaSinkGroup:
    """A SinkGroup on confluent-kafka. One thread."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.group = properties.get("group.id", "")
        self._own = {name: value for name, value in properties.items() if name != "max.partition.fetch.bytes"}
        settings = client_config(self._own, ClientRole.CONSUMER).settings
        self._incremental = "cooperative" in settings.get("partition.assignment.strategy", "cooperative")
        self._topics_max_age_s = client_setting("consumer", "metadata.max.age.ms", properties) / 1000
        self._hide_internal = client_setting("consumer", "exclude.internal.topics", properties)
        self._consumer: Any = None  # made by ``subscribe``
        self._brokers = BrokerWatch(f"the consumer of group {self.group}")
        self._held: set[TopicPartition] = set()
        self._member_id = ""
        self._pattern: re.Pattern[str] | None = None
        self._topics: list[str] = []
        self._resolve_at_s = 0.0  # monotonic
        backoff = ("retry.backoff.ms", "retry.backoff.max.ms")
        first_ms, longest_ms = (client_setting("consumer", name, properties) for name in backoff)
        self._watch = TopicWatch(first_ms, longest_ms, random.random)  # of the topics of a list
        self._raised: BaseException | None = None  # by a callback
        self._closed = False

    def subscribe(
        self,
        topics: Sequence[str],
        pattern: str | None,
        on_assigned: OnAssigned,
        on_revoked: OnRevoked,
        on_lost: OnLost,
    ) -> None:
        """See the port. Raises BadConfigError for a pattern that cannot be understood."""
        self._tell_assigned, self._tell_revoked, self._tell_lost = on_assigned, on_revoked, on_lost
        if pattern is None:
            self._consumer = self._new_consumer()
            self._subscribe(list(topics))
            self._watch.doubt(topics, _now_ms())
            return
        try:
            self._pattern = java_pattern(pattern)
        except ValueError as error:
            raise BadConfigError({"topics.regex": [str(error)]}) from error
        self._consumer = self._new_consumer()

    def poll(self, timeout_ms: int) -> None:
        """See the port. An error of a callback is raised here, after the rebalance step is completed."""
        if self._pattern is not None and time.monotonic() >= self._resolve_at_s:
            self._resolve()
        elif names := self._watch.names_to_look_for(_now_ms()):
            self._look_for(names)
        message = self._consumer.poll(timeout_ms / 1000)
        if self._brokers.is_lost():
            self._replace_lost()
        self._raise_from_callback()
        if message is not None and message.error() is not None:
            self._take_error(message.error())

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit next offsets now. Raises FencedError if a partition or the generation is no longer this member's."""
        if not offsets:
            return
        gone = sorted(str(partition) for partition in offsets if partition not in self._held)
        if gone or self._consumer.memberid() != self._member_id:
            raise FencedError(
                f"group {self.group}: {', '.join(gone) or 'this generation'} is no longer this member's, so "
                "offsets are not committed"
            )
        asked = [
            _ClientPartition(partition.topic, partition.partition, offset) for partition, offset in offsets.items()
        ]
        try:
            answers = self._consumer.commit(offsets=asked, asynchronous=False)
        except KafkaException as error:
            raise connect_error(error, f"committing offsets of group {self.group}") from error
        for answer in answers:
            if answer.error is not None:
                raise connect_error(answer.error, f"committing {answer.topic}-{answer.partition} of group {self.group}")

    def generation(self) -> GroupGeneration | None:
        """Return the generation that this member is in; None: it has not joined."""
        return None if self._consumer is None else generation_of(self._consumer.consumer_group_metadata())

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """See the port. One request to each broker, however many partitions."""
        try:
            return look_up_offsets(self._consumer, dict.fromkeys(partitions, NEXT), LOOKUP_TIMEOUT_S, UNKNOWN_S)
        except ConnectError as error:
            # First sign of a deleted topic: nothing is fetched here.
            if isinstance(error, UnknownTopicError) or not isinstance(error, RetriableError):
                self._suspect({partition.topic for partition in partitions})
            raise

    def missing_topics(self) -> frozenset[str]:
        """Return the named topics that were not there when last looked for."""
        return self._watch.missing

    def close(self) -> None:
        """Leave the group, which revokes first. Raises an error of the callbacks. May be called twice."""
        if not self._closed:
            self._closed = True
            if self._consumer is not None:
                self._consumer.close()
            self._raise_from_callback()

    def _new_consumer(self) -> Any:
        # As Java: a pattern does not name its topics, so a request must not create a deleted topic again.
        named_only = {} if self._pattern is None else {"allow.auto.create.topics": "false"}
        return make_consumer(self._own, {**_SETTINGS, **self._brokers.settings(), **named_only})

    def _replace_lost(self) -> None:
        """Join again with a new consumer. The partitions of the old one are lost, as after the end of its session."""
        self._brokers.replaced()
        lost, topics = self._consumer, self._topics
        with contextlib.suppress(KafkaException):  # it may not know them any more
            self._lost(lost, [_ClientPartition(held.topic, held.partition) for held in self._held])
        lost.close()
        self._topics, self._resolve_at_s = [], 0.0
        self._consumer = self._new_consumer()
        if self._pattern is None:
            self._subscribe(topics)

    def _look_for(self, names: Sequence[str]) -> None:
        """Ask for topics by name; as with Java a broker may create them. Trouble counts as not found."""
        found = set()
        try:
            for name in names:
                answer = self._consumer.list_topics(name, timeout=LOOKUP_TIMEOUT_S).topics.get(name)
                if answer is not None and answer.error is None and answer.partitions:
                    found.add(name)
            if self._watch.looked(names, found, _now_ms()):
                # This alone makes librdkafka think its subscription over: it joins again when there is news.
                self._watch.listed(self._consumer.list_topics(timeout=LOOKUP_TIMEOUT_S).topics)
        except KafkaException as error:
            _log.info("group %s: looking for %s: %s", self.group, ", ".join(names), error)
            self._watch.looked(names, found, _now_ms())

    def _suspect(self, topics: Iterable[str]) -> None:
        if self._pattern is not None:
            self._resolve_at_s = 0.0
        else:
            self._watch.suspect(topics, _now_ms())

    def _resolve(self) -> None:
        """Subscribe to what the pattern matches now; joining waits until it matches something."""
        self._resolve_at_s = time.monotonic() + self._topics_max_age_s
        try:
            known = self._consumer.list_topics(timeout=REQUEST_TIMEOUT_S).topics
        except KafkaException as error:
            raise connect_error(error, f"group {self.group}: listing topics") from error
        hidden = INTERNAL_TOPICS if self._hide_internal else frozenset()
        assert self._pattern is not None
        found = sorted(name for name in known if name not in hidden and self._pattern.fullmatch(name))
        if found != self._topics:
            _log.info("group %s: %s matches %s", self.group, self._pattern.pattern, ", ".join(found) or "nothing")
            self._subscribe(found)
        if not found:  # look again soon: a sink waits for its first topic
            self._resolve_at_s = time.monotonic() + min(5.0, self._topics_max_age_s)

    def _subscribe(self, topics: list[str]) -> None:
        if topics:
            self._consumer.subscribe(topics, on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        elif self._topics:
            self._consumer.unsubscribe()
        self._topics = topics

    def _assigned(self, consumer: Any, partitions: Sequence[Any]) -> None:
        if self._closed:
            return  # it came while the member was closing: no callback for it, nor for the revocation that follows
        try:
            committed = self._committed(consumer, partitions)
        except KafkaException as error:
            self._raised = connect_error(error, f"group {self.group}: reading committed offsets")
            committed = {}
        # Explicit positions: nothing is fetched, so nothing needs to be looked up either.
        starts = [_ClientPartition(partition.topic, partition.partition, 0) for partition in partitions]
        (consumer.incremental_assign if self._incremental else consumer.assign)(starts)
        consumer.pause(starts)
        self._held.update(_named(partitions))
        self._watch.held({partition.topic for partition in partitions})
        self._member_id = consumer.memberid()
        if self._raised is None:
            self._calling(lambda: self._tell_assigned(committed))

    def _committed(self, consumer: Any, partitions: Sequence[Any]) -> dict[TopicPartition, int]:
        asked = [_ClientPartition(partition.topic, partition.partition) for partition in partitions]
        answers = consumer.committed(asked, timeout=REQUEST_TIMEOUT_S) if asked else []
        for answer in answers:
            if answer.error is not None:
                raise KafkaException(answer.error)
        return {
            TopicPartition(answer.topic, answer.partition): answer.offset if answer.offset >= 0 else -1
            for answer in answers
        }

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        if partitions and self._held.isdisjoint(_named(partitions)):
            self._release(consumer, partitions)
            return
        if consumer.memberid() != self._member_id:
            # librdkafka calls it a revocation too when the group continued without us (max.poll.interval.ms).
            self._lost(consumer, partitions)
            return
        self._calling(lambda: self._tell_revoked(_named(partitions)))
        self._release(consumer, partitions)

    def _lost(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._held.difference_update(_named(partitions))
        self._calling(lambda: self._tell_lost(_named(partitions)))
        self._release(consumer, partitions)

    def _release(self, consumer: Any, partitions: Sequence[Any]) -> None:
        self._held.difference_update(_named(partitions))
        if self._pattern is None:  # it may have been deleted and created again
            held = {partition.topic for partition in self._held}
            self._watch.doubt({partition.topic for partition in partitions} - held, _now_ms())
        if self._incremental:
            consumer.incremental_unassign(list(partitions))
        else:
            consumer.unassign()

    def _calling(self, callback: Callable[[], None]) -> None:
        """Run a callback; an error waits until librdkafka has its answer."""
        try:
            callback()
        except BaseException as error:  # noqa: BLE001 - raised again from poll or close
            self._raised = error

    def _raise_from_callback(self) -> None:
        if self._raised is not None:
            raised, self._raised = self._raised, None
            raise raised

    def _take_error(self, error: Any) -> None:
        if error.code() in _FINAL or error.fatal():
            raised: ConnectError = connect_error(error, f"group {self.group}")
            raise raised
        _log.warning("group %s: %s (%s)", self.group, error.str(), error.name())


def generation_of(metadata: bytes) -> GroupGeneration | None:
    """Return what librdkafka's opaque group metadata holds; None: its consumer has not joined. Raises ConnectError.

    ``CGMDv2:``, the generation as int32, group and member id ended by 0, then 1, or 0 and the instance id ended by 0.
    """
    if not metadata.startswith(_METADATA_MARK):
        raise ConnectError("this librdkafka version writes its group metadata in an unknown form")
    rest = metadata[len(_METADATA_MARK) :]
    generation = int.from_bytes(rest[:4], sys.byteorder, signed=True)
    group, member, instance = rest[4:].split(b"\0", 2)
    static = instance[1:].rstrip(b"\0").decode() if instance[:1] == b"\0" else None
    return GroupGeneration(group.decode(), generation, member.decode(), static) if generation >= 0 else None


def _now_ms() -> int:
    return int(time.monotonic() * 1000)


def _named(partitions: Sequence[Any]) -> list[TopicPartition]:
    return [TopicPartition(partition.topic, partition.partition) for partition in partitions]

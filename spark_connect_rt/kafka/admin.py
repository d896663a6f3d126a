"""Questions to and changes of the cluster: topics, offsets, groups.

Owns: one admin client, one consumer that is asked for offsets, their time limits, and what an internal topic must look
like. Every method blocks up to its limit and raises this package's errors; any thread may call any method.
"""

from __future__ import annotations

import logging
import random
import time
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as _ClientPartition
from confluent_kafka.admin import ConfigResource, NewTopic

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import BadConfigError, ConnectError, RetriableError, UnknownTopicError
from spark_connect_rt.kafka.admin_answers import answer_of
from spark_connect_rt.kafka.client_factory import make_admin, make_offsets_client
from spark_connect_rt.kafka.client_lifetime import SharedClient, close_admin
from spark_connect_rt.kafka.connection_problem import probe_tls
from spark_connect_rt.kafka.error_mapping import COORDINATOR_UNSETTLED, connect_error, is_code
from spark_connect_rt.kafka.lost_brokers import has_broker
from spark_connect_rt.kafka.reading.offset_lookup import FIRST, NEXT, look_up_offsets

# Deletes the beginning of partitions.
#
# Owns: an admin client for each deletion, which no other thread knows. librdkafka's request frees an operation twice
# when metadata arrives while it looks for unknown leaders (bench/notes/librdkafka_admin_race.md). So its client
# learns the leaders before, and is asked for nothing else meanwhile.


GRACE_S = 5.0  # the client's own limit comes first
_RETRY_S = Backoff(first=0.02, longest=0.5)


def delete_records(properties: Mapping[str, str], topic: str, before: Mapping[int, int], timeout_ms: int) -> None:
    """Delete what lies before an offset of each partition. Raises ConnectError; some may be deleted then.

    Args:
        properties: Java properties of an admin client.
        topic: the topic.
        before: partition -> the first offset that is kept.
        timeout_ms: the limit of the whole.
    """
    doing = f"deleting records of {topic} (bootstrap.servers={properties.get('bootstrap.servers', '')})"
    end_s = time.monotonic() + timeout_ms / 1000
    client = make_admin(properties)
    try:
        _await_leaders(client, topic, before, end_s)
        left_s = max(0.1, end_s - time.monotonic())
        asked = [_ClientPartition(topic, number, offset) for number, offset in before.items()]
        # Nothing but waiting until the last answer: see the module.
        for answer in client.delete_records(asked, request_timeout=left_s).values():
            answer.result(left_s + GRACE_S)
    except KafkaException as error:
        raise connect_error(error, doing) from error
    except TimeoutError as error:
        raise ConnectError(f"{doing}: no answer from the client") from error
    finally:
        close_admin(client)


def _await_leaders(client: Any, topic: str, partitions: Mapping[int, int], end_s: float) -> None:
    """Return when the client knows the leaders. Raises KafkaException: it does not know them in time."""
    failures = 0
    while True:
        error = _missing_leader(client, topic, partitions, max(0.1, end_s - time.monotonic()))
        if error is None:
            return
        if not isinstance(connect_error(error, ""), RetriableError) or time.monotonic() >= end_s:
            raise KafkaException(error)
        failures += 1
        time.sleep(_RETRY_S.wait(failures, random.random()))


def _missing_leader(client: Any, topic: str, partitions: Mapping[int, int], limit_s: float) -> KafkaError | None:
    # All topics: to ask for one by its name makes a broker create it.
    found = client.list_topics(timeout=limit_s).topics.get(topic)
    if found is None:
        return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    if found.error is not None:
        return found.error  # type: ignore[no-any-return]
    for number in partitions:
        if number not in found.partitions:
            return KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART, f"{topic} has no partition {number}")
        if found.partitions[number].leader < 0:
            return KafkaError(KafkaError.LEADER_NOT_AVAILABLE)
    return None


_log = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS = 30_000
FIRST_TRY_MS = 3_000  # after which the reason of a refusal is looked for
RETRY_WAIT_S = 0.02  # between attempts while a topic or group is not known yet


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """How a topic is created when it is missing; -1 leaves it to the broker."""

    name: str
    partitions: int = 1
    replication_factor: int = -1
    settings: Mapping[str, str] = field(default_factory=dict)  # topic settings other than cleanup.policy
    factor_settings: tuple[str, ...] = ()  # of the worker's file, that set replication factors: its own, its siblings'


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    """The cluster's description of a topic."""

    topic_id: str  # another one after the topic was deleted and created again
    replicas: tuple[int, ...]  # of each partition, how many copies are wanted
    in_sync: tuple[int, ...]  # of each partition, how many are up to date


def too_few_brokers(spec: TopicSpec) -> str:
    """Return why a topic could not be created with its replication factor, and which settings to change."""
    why = f"replication factor {spec.replication_factor}: the cluster has fewer brokers"
    if not spec.factor_settings:
        return why
    first, *others = spec.factor_settings
    siblings = f", and {' and '.join(others)} as well" if others else ""
    return f"{why}. Set {first} to at most the number of brokers{siblings}. On a single broker, all of them are 1"


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The members of a group, and the protocol that defines the format of their metadata."""

    protocol: str  # the one that the broker chose; empty while the group rebalances
    metadata: tuple[bytes, ...]  # of each member; empty bytes while the group rebalances


class _Refusals:
    """The brokers' answers to a login.

    A separate class, because an object that a client calls back must not refer to the client's owner.
    """

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            self.said.append(error.str())


class KafkaAdmin:
    """The admin clients of one cluster. Any thread; ``close`` it when nothing will be asked any more."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Take Java properties. Raises BadConfigError: no client can be made of them."""
        self.bootstrap_servers = properties["bootstrap.servers"]
        self._properties = own = dict(properties)
        self._refusals = refusals = _Refusals()
        of = f"of {self.bootstrap_servers}"
        self._admin: SharedClient[Any] = SharedClient(
            f"the admin client {of}",
            lambda: make_admin(own, {"error_cb": refusals.note}),
            close_admin,
            has_broker,
        )
        self._admin.make_now()  # since it may raise
        self._offsets_client: SharedClient[Any] = SharedClient(
            f"the client for offsets {of}", lambda: make_offsets_client(own), lambda client: client.close(), has_broker
        )

    def check_reachable(self, timeout_ms: int) -> None:
        """Return when a broker answers.

        Raises RetriableError naming bootstrap.servers; BadConfigError, soon, naming the setting of TLS or SASL that
        keeps this client out.
        """
        first_ms = min(timeout_ms, FIRST_TRY_MS)
        with self._admin.use() as admin:
            try:
                admin.list_topics(topic=None, timeout=first_ms / 1000)
            except KafkaException:
                self._raise_refusal(admin)
                self._await_broker(admin, max(0, timeout_ms - first_ms), timeout_ms)

    def _await_broker(self, admin: Any, left_ms: int, timeout_ms: int) -> None:
        try:
            admin.list_topics(topic=None, timeout=left_ms / 1000)
        except KafkaException as error:
            self._raise_refusal(admin)
            raise RetriableError(
                f"no broker of bootstrap.servers={self.bootstrap_servers} answered in {timeout_ms} ms: "
                f"check the address, the listener and security.protocol ({connect_error(error, 'last error')})",
                code="CRT-1004",
            ) from error

    def _raise_refusal(self, admin: Any) -> None:
        """Say what keeps this client out, if anything is known to; librdkafka itself names its own settings."""
        admin.poll(0)  # hands ``_refusals`` what happened
        if said := self._refusals.said:
            raise BadConfigError({"sasl.jaas.config": [said[-1]]})
        if "SSL" in self._properties.get("security.protocol", "").upper():
            refusal = probe_tls(self._properties)
            if refusal is not None:
                raise BadConfigError({refusal.setting: [refusal.reason]})

    def cluster_id(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> str:
        """Return the cluster's id, a text."""
        return str(self._described_cluster(timeout_ms).cluster_id)

    def broker_count(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Return how many brokers the cluster has now."""
        return len(self._described_cluster(timeout_ms).nodes)

    def _described_cluster(self, timeout_ms: int) -> Any:
        with self._admin.use() as admin:
            answer = admin.describe_cluster(request_timeout=timeout_ms / 1000)
            return self._result(admin, answer, "describing the cluster", timeout_ms)

    def topics(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> frozenset[str]:
        """Return the names of all topics that these credentials may see. Raises ConnectError."""
        with self._admin.use() as admin:
            try:
                return frozenset(admin.list_topics(timeout=timeout_ms / 1000).topics)
            except KafkaException as error:
                raise connect_error(error, "listing topics") from error

    def partition_count(self, topic: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int | None:
        """Return how many partitions a topic has, None when there is no such topic. Never creates it."""
        described = self.describe_topic(topic, timeout_ms)
        return None if described is None else len(described.replicas)

    def describe_topic(self, topic: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> DescribedTopic | None:
        """Return what there is of a topic, None when there is no such topic. Never creates it."""
        with self._admin.use() as admin:
            answers = admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_ms / 1000)
            try:
                found = answer_of(admin, answers[topic], timeout_ms / 1000)
            except KafkaException as error:
                if is_code(error, "UNKNOWN_TOPIC_OR_PART"):
                    return None
                raise connect_error(error, f"describing topic {topic}") from error
        copies = tuple(len(partition.replicas) for partition in found.partitions)
        return DescribedTopic(str(found.topic_id), copies, tuple(len(partition.isr) for partition in found.partitions))

    def create_topic(self, spec: TopicSpec, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> bool:
        """Create a topic; return False when it existed."""
        new = NewTopic(spec.name, spec.partitions, spec.replication_factor, config=dict(spec.settings))
        with self._admin.use() as admin:
            answers = admin.create_topics([new], request_timeout=timeout_ms / 1000)
            try:
                answer_of(admin, answers[spec.name], timeout_ms / 1000)
            except KafkaException as error:
                if is_code(error, "TOPIC_ALREADY_EXISTS"):
                    return False
                if is_code(error, "INVALID_REPLICATION_FACTOR"):
                    raise BadConfigError({spec.name: [too_few_brokers(spec)]}) from error
                raise connect_error(error, f"creating topic {spec.name}") from error
        return True

    def cleanup_policy(self, topic: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> str | None:
        """Return a topic's cleanup.policy, None when this client may not know."""
        settings = self.topic_settings(topic, timeout_ms)
        return None if settings is None else settings.get("cleanup.policy")

    def topic_settings(self, topic: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> dict[str, str] | None:
        """Return a topic's settings, the broker's defaults included; None when this client may not know."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        with self._admin.use() as admin:
            answers = admin.describe_configs([resource], request_timeout=timeout_ms / 1000)
            try:
                entries = answer_of(admin, answers[resource], timeout_ms / 1000)
            except KafkaException as error:
                if is_code(error, "TOPIC_AUTHORIZATION_FAILED", "CLUSTER_AUTHORIZATION_FAILED", "UNSUPPORTED_VERSION"):
                    _log.warning("topic %s: cleanup.policy cannot be checked: %s", topic, error)
                    return None
                raise connect_error(error, f"describing the settings of topic {topic}") from error
        return {name: str(entry.value) for name, entry in entries.items() if entry.value is not None}

    def ensure_compacted(
        self, spec: TopicSpec, exact_partitions: int | None = None, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> int:
        """Create an internal topic when missing, else check it; return its partition count.

        Raises BadConfigError: not compacted, or not ``exact_partitions``.
        """
        count = self.partition_count(spec.name, timeout_ms)
        if count is None:
            settings = {**spec.settings, "cleanup.policy": "compact"}
            compacted = TopicSpec(spec.name, spec.partitions, spec.replication_factor, settings)
            if self.create_topic(compacted, timeout_ms) and spec.partitions > 0:
                return self._checked_count(spec, spec.partitions, exact_partitions)
            count = self._count_of_new(spec.name, timeout_ms)
        policy = self._policy_of_new(spec.name, timeout_ms)
        if policy not in (None, "compact"):
            raise BadConfigError(
                {
                    spec.name: [
                        f"cleanup.policy is {policy} but must be compact, because configurations, offsets or "
                        "statuses get lost otherwise. Set it with kafka-configs --alter --add-config "
                        "cleanup.policy=compact"
                    ]
                }
            )
        return self._checked_count(spec, count, exact_partitions)

    def _count_of_new(self, topic: str, timeout_ms: int) -> int:
        """Return ``partition_count`` of a topic that is there, though a broker may not know it yet."""
        deadline = time.monotonic() + timeout_ms / 1000
        while (count := self.partition_count(topic, timeout_ms)) is None:
            if time.monotonic() > deadline:
                raise UnknownTopicError(f"topic {topic} exists, but no broker knew it within {timeout_ms} ms")
            time.sleep(RETRY_WAIT_S)
        return count

    def _policy_of_new(self, topic: str, timeout_ms: int) -> str | None:
        """Return ``cleanup_policy`` of a topic that another worker may have created this moment.

        Brokers learn of it one after another: the one that is asked may not know it yet.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            try:
                return self.cleanup_policy(topic, timeout_ms)
            except UnknownTopicError:
                if time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_WAIT_S)

    def earliest_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return self._offsets(partitions, FIRST, timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Return the log end of each partition, transaction markers and open transactions included."""
        return self._offsets(partitions, NEXT, timeout_ms)

    def offsets_since(
        self, partitions: Iterable[TopicPartition], since_ms: int, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition that is of that time or later, -1: there is none."""
        return self._offsets(partitions, max(0, since_ms), timeout_ms)

    def delete_records(self, topic: str, before: Mapping[int, int], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Delete what lies before an offset of each partition. Raises ConnectError; some may be deleted then."""
        if not before:
            return
        delete_records(self._properties, topic, before, timeout_ms)

    def delete_topics(self, topics: Iterable[str], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Delete topics. A topic that is missing or may not be deleted is left as it is and named in the log."""
        with self._admin.use() as admin:
            limit_s = timeout_ms / 1000
            answers = admin.delete_topics(list(topics), operation_timeout=limit_s, request_timeout=limit_s)
            for name, future in answers.items():
                try:
                    answer_of(admin, future, limit_s)
                except KafkaException as error:
                    if not is_code(error, "UNKNOWN_TOPIC_OR_PART"):
                        _log.warning("topic %s was not deleted: %s", name, error)

    def group_is_active(self, group: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> bool:
        """Return whether a group, of whatever protocol type, has members now."""
        return bool(self.members(group, timeout_ms).metadata)

    def members(self, group: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> GroupMembers:
        """Return the members of a group, of whatever protocol type; none when there is no such group."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                return self._members(group, left_s)
            except KafkaException as error:
                if time.monotonic() >= deadline or not is_code(error, *COORDINATOR_UNSETTLED):
                    raise connect_error(error, f"looking for members of group {group}") from error
            time.sleep(RETRY_WAIT_S)

    def _members(self, group: str, limit_s: float) -> GroupMembers:
        with warnings.catch_warnings(), self._admin.use() as admin:
            # The calls that came after this one know groups of consumers only, none of workers.
            warnings.simplefilter("ignore", DeprecationWarning)
            found = admin.list_groups(group, timeout=limit_s)
        for listed in found:
            if listed.id == group:
                return GroupMembers(listed.protocol or "", tuple(member.metadata or b"" for member in listed.members))
        return GroupMembers("", ())

    def client(self) -> AbstractContextManager[Any]:
        """Give the library's admin client to an adapter in this package, for calls of it but offsets and deletions."""
        return self._admin.use()

    def close(self) -> None:
        """Close the clients, or have the calls that are in progress close them. May be called twice."""
        self._admin.close()
        self._offsets_client.close()

    def _checked_count(self, spec: TopicSpec, count: int, exact: int | None) -> int:
        if exact is not None and count != exact:
            raise BadConfigError({spec.name: [f"{count} partitions, but must be {exact}. Use another topic"]})
        return count

    def _offsets(self, partitions: Iterable[TopicPartition], what: int, timeout_ms: int) -> dict[TopicPartition, int]:
        wanted = dict.fromkeys(partitions, what)
        if not wanted:
            return {}
        with self._offsets_client.use() as client:
            return look_up_offsets(client, wanted, timeout_ms / 1000)

    def _result(self, admin: Any, future: Future[Any], doing: str, timeout_ms: int) -> Any:
        try:
            return answer_of(admin, future, timeout_ms / 1000)
        except KafkaException as error:
            raise connect_error(error, f"{doing} (bootstrap.servers={self.bootstrap_servers})") from error

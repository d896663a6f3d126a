"""Questions to and changes of the cluster: topics, offsets, groups.

Owns: one admin client, its time limits, and what an internal topic must look like.
Every method blocks up to its limit and raises this package's errors; any thread may call any method.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka import TopicPartition as _ClientPartition
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec

from spark_connect_rt.errors import BadConfigError, ConnectError, RetriableError
from spark_connect_rt.kafka.admin_answers import answer_of
from spark_connect_rt.kafka.client_factory import make_admin
from spark_connect_rt.kafka.connection_problem import probe_tls
from spark_connect_rt.kafka.error_mapping import COORDINATOR_UNSETTLED, connect_error, is_code
from spark_connect_rt.protocol.ids import TopicPartition

_log = logging.getLogger(__name__)

DEFAULT_TIMEOUT_MS = 30_000
FIRST_TRY_MS = 3_000  # after which the reason of a refusal is looked for
RETRY_WAIT_S = 0.02  # between attempts to find the leaders of a topic just created
_LEADER_UNSETTLED = (
    "_NOENT",
    "FENCED_LEADER_EPOCH",
    "LEADER_NOT_AVAILABLE",
    "NOT_LEADER_FOR_PARTITION",
    "OFFSET_NOT_AVAILABLE",
    "REPLICA_NOT_AVAILABLE",
    "UNKNOWN_LEADER_EPOCH",
    "UNKNOWN_TOPIC_OR_PART",
)


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """How a topic is created when it is missing; -1 leaves it to the broker."""

    name: str
    partitions: int = 1
    replication_factor: int = -1
    settings: Mapping[str, str] = field(default_factory=dict)  # topic settings besides cleanup.policy


@dataclass(frozen=True, slots=True)
class DescribedTopic:
    """What the cluster says of a topic."""

    topic_id: str  # another one after the topic was deleted and created again
    replicas: tuple[int, ...]  # of each partition, how many copies are wanted
    in_sync: tuple[int, ...]  # of each partition, how many are up to date


class KafkaAdmin:
    """One admin client of one cluster."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self.bootstrap_servers = properties["bootstrap.servers"]
        self._properties = dict(properties)
        self._refusals: list[str] = []
        self._admin = make_admin(properties, {"error_cb": self._note})

    def check_reachable(self, timeout_ms: int) -> None:
        """Return when a broker answers.

        Raises RetriableError naming bootstrap.servers; BadConfigError, soon, naming the setting of TLS or SASL that
        keeps this client out.
        """
        first_ms = min(timeout_ms, FIRST_TRY_MS)
        try:
            self._admin.list_topics(topic=None, timeout=first_ms / 1000)
        except KafkaException:
            self._raise_refusal()
            self._await_broker(max(0, timeout_ms - first_ms), timeout_ms)

    def _await_broker(self, left_ms: int, timeout_ms: int) -> None:
        try:
            self._admin.list_topics(topic=None, timeout=left_ms / 1000)
        except KafkaException as error:
            self._raise_refusal()
            raise RetriableError(
                f"no broker of bootstrap.servers={self.bootstrap_servers} answered in {timeout_ms} ms: "
                f"check the address, the listener and security.protocol ({connect_error(error, 'last error')})",
                code="CRT-1004",
            ) from error

    def _note(self, error: KafkaError) -> None:
        if error.code() == KafkaError._AUTHENTICATION:
            self._refusals.append(error.str())

    def _raise_refusal(self) -> None:
        """Say what keeps this client out, if anything is known to; librdkafka itself names its own settings."""
        self._admin.poll(0)  # hands ``_note`` what happened
        if self._refusals:
            raise BadConfigError({"sasl.jaas.config": [self._refusals[-1]]})
        if "SSL" in self._properties.get("security.protocol", "").upper():
            refusal = probe_tls(self._properties)
            if refusal is not None:
                raise BadConfigError({refusal.setting: [refusal.reason]})

    def cluster_id(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> str:
        """Return the cluster's id."""
        answer = self._admin.describe_cluster(request_timeout=timeout_ms / 1000)
        return str(self._result(answer, "describing the cluster", timeout_ms).cluster_id)

    def broker_count(self, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int:
        """Return how many brokers the cluster has now."""
        answer = self._admin.describe_cluster(request_timeout=timeout_ms / 1000)
        return len(self._result(answer, "describing the cluster", timeout_ms).nodes)

    def partition_count(self, topic: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> int | None:
        """Return how many partitions a topic has, None when there is no such topic. Never creates it."""
        described = self.describe_topic(topic, timeout_ms)
        return None if described is None else len(described.replicas)

    def describe_topic(self, topic: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> DescribedTopic | None:
        """Return what there is of a topic, None when there is no such topic. Never creates it."""
        answers = self._admin.describe_topics(TopicCollection([topic]), request_timeout=timeout_ms / 1000)
        try:
            found = answer_of(self._admin, answers[topic], timeout_ms / 1000)
        except KafkaException as error:
            if is_code(error, "UNKNOWN_TOPIC_OR_PART"):
                return None
            raise connect_error(error, f"describing topic {topic}") from error
        copies = tuple(len(one.replicas) for one in found.partitions)
        return DescribedTopic(str(found.topic_id), copies, tuple(len(one.isr) for one in found.partitions))

    def create_topic(self, spec: TopicSpec, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> bool:
        """Create a topic; return False when it existed."""
        new = NewTopic(spec.name, spec.partitions, spec.replication_factor, config=dict(spec.settings))
        answers = self._admin.create_topics([new], request_timeout=timeout_ms / 1000)
        try:
            answer_of(self._admin, answers[spec.name], timeout_ms / 1000)
        except KafkaException as error:
            if is_code(error, "TOPIC_ALREADY_EXISTS"):
                return False
            if is_code(error, "INVALID_REPLICATION_FACTOR"):
                raise BadConfigError(
                    {spec.name: [f"replication factor {spec.replication_factor}: the cluster has fewer brokers"]}
                ) from error
            raise connect_error(error, f"creating topic {spec.name}") from error
        return True

    def cleanup_policy(self, topic: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> str | None:
        """Return a topic's cleanup.policy, None when this client may not know."""
        settings = self.topic_settings(topic, timeout_ms)
        return None if settings is None else settings.get("cleanup.policy")

    def topic_settings(self, topic: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> dict[str, str] | None:
        """Return a topic's settings, the broker's defaults included; None when this client may not know."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        answers = self._admin.describe_configs([resource], request_timeout=timeout_ms / 1000)
        try:
            entries = answer_of(self._admin, answers[resource], timeout_ms / 1000)
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
            count = self.partition_count(spec.name, timeout_ms) or spec.partitions
        policy = self._policy_of_new(spec.name, timeout_ms)
        if policy not in (None, "compact"):
            raise BadConfigError(
                {
                    spec.name: [
                        f"cleanup.policy is {policy}, must be compact, else configurations, offsets or statuses "
                        f"get lost: set it with kafka-configs --alter --add-config cleanup.policy=compact"
                    ]
                }
            )
        return self._checked_count(spec, count, exact_partitions)

    def _policy_of_new(self, topic: str, timeout_ms: int) -> str | None:
        """Return ``cleanup_policy`` of a topic that another worker may have created this moment.

        Brokers learn of it one after another: the one that is asked may not know it yet.
        """
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            try:
                return self.cleanup_policy(topic, timeout_ms)
            except ConnectError as error:
                cause = error.__cause__
                unknown = isinstance(cause, KafkaException) and is_code(cause, "UNKNOWN_TOPIC_OR_PART")
                if not unknown or time.monotonic() > deadline:
                    raise
            time.sleep(RETRY_WAIT_S)

    def earliest_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        return self._offsets(partitions, OffsetSpec.earliest(), timeout_ms)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Return the log end of each partition, transaction markers and open transactions included."""
        return self._offsets(partitions, OffsetSpec.latest(), timeout_ms)

    def offsets_since(
        self, partitions: Iterable[TopicPartition], since_ms: int, timeout_ms: int = DEFAULT_TIMEOUT_MS
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record of each partition that is of that time or later, -1: there is none."""
        return self._offsets(partitions, OffsetSpec.for_timestamp(since_ms), timeout_ms)

    def delete_records(self, topic: str, before: Mapping[int, int], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Delete what lies before an offset of each partition. Raises ConnectError; some may be deleted then."""
        if not before:
            return
        asked = [_ClientPartition(topic, number, offset) for number, offset in before.items()]
        answers = self._admin.delete_records(asked, request_timeout=timeout_ms / 1000)
        for future in answers.values():
            self._result(future, f"deleting records of {topic}", timeout_ms)

    def delete_topics(self, topics: Iterable[str], timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        """Delete topics; what is gone or may not be deleted is left as it is, and named in the log."""
        answers = self._admin.delete_topics(list(topics), operation_timeout=timeout_ms / 1000)
        for name, future in answers.items():
            try:
                answer_of(self._admin, future, timeout_ms / 1000)
            except KafkaException as error:
                if not is_code(error, "UNKNOWN_TOPIC_OR_PART"):
                    _log.warning("topic %s was not deleted: %s", name, error)

    def group_is_active(self, group: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> bool:
        """Return whether a group, of whatever protocol type, has members now."""
        return bool(self.members_metadata(group, timeout_ms))

    def members_metadata(self, group: str, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> list[bytes]:
        """Return what each member of a group joined with; empty bytes while it rebalances."""
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                return self._members_metadata(group, left_s)
            except KafkaException as error:
                if time.monotonic() >= deadline or not is_code(error, *COORDINATOR_UNSETTLED):
                    raise connect_error(error, f"looking for members of group {group}") from error
            time.sleep(RETRY_WAIT_S)

    def _members_metadata(self, group: str, limit_s: float) -> list[bytes]:
        with warnings.catch_warnings():
            # The calls that came after this one know groups of consumers only, none of workers.
            warnings.simplefilter("ignore", DeprecationWarning)
            found = self._admin.list_groups(group, timeout=limit_s)
        return [member.metadata or b"" for one in found if one.id == group for member in one.members]

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        """Give the library's client to an adapter beside this one, and drop it afterwards."""
        try:
            yield self._admin
        finally:
            self.close()

    def close(self) -> None:
        """Drop the client; librdkafka closes it when nothing refers to it."""
        self._admin.poll(0)  # hands over what is left of the library's log

    def _checked_count(self, spec: TopicSpec, count: int, exact: int | None) -> int:
        if exact is not None and count != exact:
            raise BadConfigError({spec.name: [f"{count} partitions, must be {exact}: choose another topic"]})
        return count

    def _offsets(
        self, partitions: Iterable[TopicPartition], spec: OffsetSpec, timeout_ms: int
    ) -> dict[TopicPartition, int]:
        asked = {_ClientPartition(one.topic, one.partition): spec for one in partitions}
        if not asked:
            return {}
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            left_ms = max(1, int((deadline - time.monotonic()) * 1000))
            answers = self._admin.list_offsets(asked, request_timeout=left_ms / 1000)
            try:
                return {
                    TopicPartition(one.topic, one.partition): answer_of(self._admin, future, left_ms / 1000).offset
                    for one, future in answers.items()
                }
            except KafkaException as error:
                if time.monotonic() >= deadline or not is_code(error, *_LEADER_UNSETTLED):
                    raise connect_error(error, self._offsets_of(partitions)) from error
            self._learn_leaders({one.topic for one in asked}, deadline)

    def _offsets_of(self, partitions: Iterable[TopicPartition]) -> str:
        names = ", ".join(sorted({one.topic for one in partitions}))
        return f"reading the offsets of {names} (bootstrap.servers={self.bootstrap_servers})"

    def _learn_leaders(self, topics: Iterable[str], deadline: float) -> None:
        """Have the client forget that a topic just created has no leaders: it believes its cache for ever."""
        threading.Event().wait(RETRY_WAIT_S)
        left_s = max(0.1, deadline - time.monotonic())
        with contextlib.suppress(KafkaException):
            for future in self._admin.describe_topics(TopicCollection(list(topics)), request_timeout=left_s).values():
                answer_of(self._admin, future, left_s)

    def _result(self, future: Future[Any], doing: str, timeout_ms: int) -> Any:
        try:
            return answer_of(self._admin, future, timeout_ms / 1000)
        except KafkaException as error:
            raise connect_error(error, f"{doing} (bootstrap.servers={self.bootstrap_servers})") from error
        except TimeoutError as error:
            raise ConnectError(f"{doing}: no answer from the client") from error

"""A client's rights in a cluster, found out without using them (port ``Clusters``).

Rights are those that brokers report for a client (KIP-430); a topic that would be made is sent to be validated only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, NewTopic

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.kafka.admin_answers import answer_of
from spark_connect_rt.kafka.error_mapping import connect_error, is_code, kafka_error

# Checks of a configuration that reach out: hosts, credentials, topics, registries, offsets; one line each.


@dataclass(frozen=True, slots=True)
class TopicRights:
    """A topic as one client sees it; None: the cluster does not say."""

    partitions: int
    may_read: bool | None = None
    may_write: bool | None = None


@dataclass(frozen=True, slots=True)
class NewTopicPlan:
    """A topic that would be made; -1: the broker's default."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    settings: Mapping[str, str] = field(default_factory=dict)


class Clusters(Protocol):
    """Looks at Kafka clusters with any client's properties, resolved. Changes nothing; raises ConnectError."""

    def reach(self, properties: Mapping[str, str], limit_s: float) -> int:
        """Return how many brokers there are. Raises BadConfigError naming a setting of TLS or SASL, RetriableError."""

    def topics(self, properties: Mapping[str, str], limit_s: float) -> Mapping[str, int]:
        """Return the partitions of every topic that this client may see."""

    def rights(
        self, properties: Mapping[str, str], topics: Sequence[str], limit_s: float
    ) -> Mapping[str, TopicRights | None]:
        """Return what there is of each topic, None: there is none, or this client may not know."""

    def obstacle(self, properties: Mapping[str, str], plan: NewTopicPlan, limit_s: float) -> str:
        """Say why a topic could not be made; empty: it could. Nothing is made."""


class PermissionChecks:
    """Port Clusters; a client is made for each question."""

    def reach(self, properties: Mapping[str, str], limit_s: float) -> int:
        """Return the number of brokers. Raises ConnectError if none can be reached."""
        with closing(KafkaAdmin(properties)) as admin:
            admin.check_reachable(int(limit_s * 1000))
            return admin.broker_count(int(limit_s * 1000))

    def topics(self, properties: Mapping[str, str], limit_s: float) -> Mapping[str, int]:
        """Return the number of partitions of each visible topic. Raises ConnectError."""
        with closing(KafkaAdmin(properties)) as admin, admin.client() as client:
            admin.check_reachable(int(limit_s * 1000))  # says what is in the way
            try:
                found = client.list_topics(timeout=limit_s)
            except KafkaException as error:
                raise connect_error(error, "listing topics") from error
        return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.error is None}

    def rights(
        self, properties: Mapping[str, str], topics: Sequence[str], limit_s: float
    ) -> Mapping[str, TopicRights | None]:
        """Return the client's rights on each topic, None for a topic that it cannot see. Raises ConnectError."""
        if not topics:
            return {}
        found: dict[str, TopicRights | None] = {}
        with closing(KafkaAdmin(properties)) as admin, admin.client() as client:
            answers = client.describe_topics(
                TopicCollection(list(topics)), include_authorized_operations=True, request_timeout=limit_s
            )
            for topic, answer in answers.items():
                try:
                    description = answer_of(client, answer, limit_s)
                except KafkaException as error:
                    if not is_code(error, "UNKNOWN_TOPIC_OR_PART", "TOPIC_AUTHORIZATION_FAILED"):
                        raise connect_error(error, f"describing topic {topic}") from error
                    found[topic] = None
                    continue
                allowed = set(description.authorized_operations or ())
                every = AclOperation.ALL in allowed
                found[topic] = TopicRights(
                    len(description.partitions),
                    every or AclOperation.READ in allowed if allowed else None,
                    every or AclOperation.WRITE in allowed if allowed else None,
                )
        return found

    def obstacle(self, properties: Mapping[str, str], plan: NewTopicPlan, limit_s: float) -> str:
        """Return why the topic cannot be created, without creating it; empty: it can, or it exists.

        Raises RetriableError.
        """
        new = NewTopic(plan.name, plan.partitions, plan.replication_factor, config=dict(plan.settings))
        with closing(KafkaAdmin(properties)) as admin, admin.client() as client:
            answers = client.create_topics([new], validate_only=True, request_timeout=limit_s)
            try:
                answer_of(client, answers[plan.name], limit_s)
            except KafkaException as error:
                if is_code(error, "TOPIC_ALREADY_EXISTS"):
                    return ""
                kind = connect_error(error, "")
                if isinstance(kind, RetriableError):
                    raise kind from error
                return str(kafka_error(error).str())
        return ""

"""The topics of one cluster, their settings and ACLs, and its groups, as MirrorMaker reads and changes them.

Owns the client's calls and the names of its enums. ``connectors.mirror.topic_sync`` makes the decisions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from spark_connect_rt.connectors.mirror.topic_sync import TopicAcl, TopicSetting
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.admin_answers import answer_of, topic_ids
from spark_connect_rt.kafka.client_factory import make_admin
from spark_connect_rt.kafka.client_lifetime import close_admin
from spark_connect_rt.kafka.error_mapping import connect_error, is_code
from spark_connect_rt.kafka.lost_brokers import CallWatch, is_unanswered, warn_replaced

_ANY_TOPIC = AclBindingFilter(
    ResourceType.TOPIC, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
)
log = logging.getLogger(__name__)


class MirrorAdmin:
    """One admin client of one cluster. Methods block up to the limit and raise ConnectError. One thread."""

    def __init__(self, properties: Mapping[str, str], timeout_ms: int) -> None:
        """Take the client's Java properties and the limit of one call.

        Raises BadConfigError, as Java's client does: librdkafka's, without a server, only waits for each answer.
        """
        if not properties.get("bootstrap.servers", "").strip():
            missing = 'Missing required configuration "bootstrap.servers" which has no default value'
            raise BadConfigError({"bootstrap.servers": [f"{missing} (client {properties.get('client.id', '')})"]})
        self._properties = dict(properties)
        self._admin = make_admin(properties)
        self._watch = CallWatch()
        self._timeout_s = timeout_ms / 1000
        self._closed = False

    def cluster_id(self) -> str:
        """Return the id of the cluster. Raises ConnectError."""
        asked = self._admin.describe_cluster(request_timeout=self._timeout_s)
        return str(self._answer(asked, "describing the cluster").cluster_id)

    def topics(self) -> dict[str, int]:
        """Return every topic, name -> number of partitions."""
        begun_s = self._watch.now()
        try:
            found = self._admin.list_topics(timeout=self._timeout_s).topics
        except KafkaException as error:
            self._note(error, begun_s)
            raise connect_error(error, "listing topics") from error
        self._watch.succeeded()
        return {
            name: len(topic.partitions) for name, topic in found.items() if topic.error is None and topic.partitions
        }

    def topic_ids(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the id of each topic (KIP-516); one that does not exist, or has none, is left out."""
        begun_s = self._watch.now()
        try:
            return topic_ids(self._admin, topics, self._timeout_s)
        except ConnectError as error:
            if isinstance(error.__cause__, KafkaException):
                self._note(error.__cause__, begun_s)
            raise

    def settings(self, topics: Iterable[str]) -> dict[str, list[TopicSetting]]:
        """Return all settings of topics; only of those that exist and that the client may read."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
        if not resources:
            return {}
        asked = self._admin.describe_configs(resources, request_timeout=self._timeout_s)
        found = {
            resource.name: self._answer(future, f"describing topic {resource.name}", _GONE)
            for resource, future in asked.items()
        }
        return {
            name: [_setting(entry) for entry in entries.values()]
            for name, entries in found.items()
            if entries is not None
        }

    def create_topics(self, topics: Mapping[str, tuple[int, Mapping[str, str]]], replication_factor: int) -> None:
        """Create topics, name -> (partitions, settings); one that cannot be created is logged, as in Java."""
        new = [
            NewTopic(name, partitions, replication_factor, config=dict(settings))
            for name, (partitions, settings) in topics.items()
        ]
        if new:
            self._each(self._admin.create_topics(new, request_timeout=self._timeout_s), "creating topic", _EXISTS)

    def create_compacted(self, topic: str, replication_factor: int) -> None:
        """Create an internal topic of one partition unless it exists. Raises ConnectError."""
        new = NewTopic(topic, 1, replication_factor, config={"cleanup.policy": "compact"})
        made = self._admin.create_topics([new], request_timeout=self._timeout_s)
        self._answer(made[topic], f"creating topic {topic}", _EXISTS)

    def grow(self, topics: Mapping[str, int]) -> None:
        """Add partitions to topics; name -> how many in all."""
        grown = [NewPartitions(name, count) for name, count in topics.items()]
        if grown:
            made = self._admin.create_partitions(grown, request_timeout=self._timeout_s)
            self._each(made, "adding partitions to", ("INVALID_PARTITIONS",))

    def set_settings(self, topics: Mapping[str, Mapping[str, str | None]]) -> None:
        """Set settings of topics; None: the cluster's own default holds again."""
        changes = [
            ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=list(map(_change, settings.items())))
            for name, settings in topics.items()
            if settings
        ]
        if changes:
            done = self._admin.incremental_alter_configs(changes, request_timeout=self._timeout_s)
            self._each({resource.name: future for resource, future in done.items()}, "setting the configuration of")

    def topic_acls(self) -> list[TopicAcl] | None:
        """Return the ACLs of all topics; None: the cluster has no authorizer."""
        asked = self._admin.describe_acls(_ANY_TOPIC, request_timeout=self._timeout_s)
        found = self._answer(asked, "listing ACLs", ("SECURITY_DISABLED",))
        return None if found is None else list(map(_acl, found))

    def create_acls(self, acls: Iterable[TopicAcl]) -> None:
        """Create ACLs; those that exist stay."""
        bindings = list(map(_binding, acls))
        if bindings:
            made = self._admin.create_acls(bindings, request_timeout=self._timeout_s)
            self._each({binding.name: future for binding, future in made.items()}, "creating an ACL of")

    def groups(self) -> dict[str, str]:
        """Return all consumer groups, id -> state in capitals."""
        asked = self._admin.list_consumer_groups(request_timeout=self._timeout_s)
        return {group.group_id: group.state.name for group in self._answer(asked, "listing groups").valid}

    def close(self) -> None:
        """Close the client. No call may be in progress, and none may follow. May be called twice."""
        if not self._closed:
            self._closed = True
            close_admin(self._admin)

    def _answer(self, future: Future[Any], doing: str, fine: tuple[str, ...] = ()) -> Any:
        """Return the result of a call; None for an error that is expected. Raises ConnectError."""
        begun_s = self._watch.now()
        try:
            found = answer_of(self._admin, future, self._timeout_s)
            self._watch.succeeded()
            return found
        except KafkaException as error:
            self._note(error, begun_s)
            if fine and is_code(error, *fine):
                return None
            raise connect_error(error, doing) from error

    def _note(self, error: KafkaException, begun_s: float) -> None:
        """Take that a call failed. A client that has lost all its brokers is replaced."""
        if not is_unanswered(error):
            self._watch.succeeded()
        elif self._watch.is_lost(self._admin, begun_s):
            warn_replaced(f"MirrorMaker's admin client of {self._properties['bootstrap.servers']}")
            lost, self._admin = self._admin, make_admin(self._properties)
            close_admin(lost)

    def _each(self, futures: Mapping[str, Future[Any]], doing: str, fine: tuple[str, ...] = ()) -> None:
        for name, future in futures.items():
            try:
                self._answer(future, f"{doing} {name}", fine)
            except ConnectError as error:  # one topic must not keep the others back
                log.warning("%s", error)


_EXISTS = ("TOPIC_ALREADY_EXISTS",)
_GONE = ("UNKNOWN_TOPIC_OR_PART",)


def _setting(entry: Any) -> TopicSetting:
    return TopicSetting(
        entry.name,
        entry.value,
        is_default=entry.source == ConfigSource.DEFAULT_CONFIG.value,
        is_static=entry.source == ConfigSource.STATIC_BROKER_CONFIG.value,
        is_read_only=bool(entry.is_read_only),
        is_sensitive=bool(entry.is_sensitive),
    )


def _change(setting: tuple[str, str | None]) -> Any:
    name, value = setting
    if value is None:
        return ConfigEntry(name, None, incremental_operation=AlterConfigOpType.DELETE)
    return ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)


def _acl(binding: Any) -> TopicAcl:
    words = (
        binding.resource_pattern_type.name,
        binding.principal,
        binding.host,
        binding.operation.name,
        binding.permission_type.name,
    )
    return TopicAcl(binding.name, *words)


def _binding(acl: TopicAcl) -> Any:
    return AclBinding(
        ResourceType.TOPIC,
        acl.topic,
        ResourcePatternType[acl.pattern_type],
        acl.principal,
        acl.host,
        AclOperation[acl.operation],
        AclPermissionType[acl.permission],
    )

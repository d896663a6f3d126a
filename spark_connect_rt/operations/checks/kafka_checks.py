"""Checks of a connector's own Kafka clients: brokers, credentials, topics, dead letters, the group of a sink.

Decides the lines; the looks are behind ``kafka.permission_checks.Clusters``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from spark_connect_rt.api.outside_checks import Finding, Level
from spark_connect_rt.config.client_properties import (
    connector_admin_properties,
    dead_letter_admin_properties,
    sink_consumer_properties,
    source_producer_properties,
)
from spark_connect_rt.config.connector_config import DEAD_LETTERS, TOPIC_NAME
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.topic_creation import TopicCreation
from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.kafka.permission_checks import Clusters, NewTopicPlan, TopicRights
from spark_connect_rt.operations.checks.check_runner import PlannedCheck
from spark_connect_rt.operations.checks.model import CREDENTIALS, HOST, LETTERS, TOPIC
from spark_connect_rt.operations.preview.service import topics_of
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies

LIMIT_S = 5.0
_CONNECTION = ("bootstrap.servers", "security.protocol", "client.id", "client.dns.lookup")
_COPIES = "errors.deadletterqueue.topic.replication.factor"


def connection_of(properties: Mapping[str, str]) -> dict[str, str]:
    """Return what of a client's properties reaches a cluster and says who it is. Pure."""
    return {k: v for k, v in properties.items() if k in _CONNECTION or k.startswith(("ssl.", "sasl."))}


class KafkaChecks:
    """The checks of one configuration in Kafka."""

    def __init__(
        self,
        deps: HerderDependencies,
        clusters: Clusters,
        name: str,
        stored: StoredConfig,
        config: Mapping[str, str],
        *,
        sink: bool,
    ) -> None:
        """Take a configuration, as it is written and resolved."""
        self._stored = stored
        self._deps, self._clusters, self._sink = deps, clusters, sink
        self._name, self._config = name, config
        self._worker = deps.settings.worker
        self._role = "consumer" if sink else "producer"

    def planned(self) -> Iterator[PlannedCheck]:
        """Yield the checks that apply to this connector."""
        yield PlannedCheck(HOST, self._setting(self._role, "bootstrap.servers"), lambda: self._reach(self._role))
        if any(setting.startswith("admin.override.") for setting in self._config):
            yield PlannedCheck(HOST, self._setting("admin", "bootstrap.servers"), lambda: self._reach("admin"))
        yield PlannedCheck(TOPIC, self._topic_setting, self._sink_topics if self._sink else self._source_topic)
        if self._config.get(TOPIC_NAME, "").strip():
            yield PlannedCheck(LETTERS, TOPIC_NAME, self._letters)

    def _setting(self, role: str, name: str) -> str:
        own = f"{role}.override.{name}"
        return own if own in self._config else name

    @property
    def _topic_setting(self) -> str:
        if not self._sink:
            return "topic"
        return "topics" if self._config.get("topics") else "topics.regex"

    def _properties(self, role: str) -> dict[str, str]:
        parts = (self._worker, self._stored.written(), self._name, 0)
        made = {
            "producer": source_producer_properties,
            "consumer": sink_consumer_properties,
            "admin": connector_admin_properties,
            "letters": dead_letter_admin_properties,
        }[role](*parts)
        return connection_of(self._deps.resolve(made))

    def _reach(self, role: str) -> Sequence[Finding]:
        properties = self._properties(role)
        setting, servers = self._setting(role, "bootstrap.servers"), properties["bootstrap.servers"]
        try:
            brokers = self._clusters.reach(properties, LIMIT_S)
        except BadConfigError as error:
            return [
                Finding(CREDENTIALS, self._setting(role, name), Level.PROBLEM, "; ".join(why), f"correct {name}")
                for name, why in error.problems.items()
            ]
        except ConnectError as error:
            return [Finding(HOST, setting, Level.PROBLEM, str(error), f"correct {setting}, or the security settings")]
        reached = Finding(HOST, setting, Level.OK, f"the {role} reaches {servers}: {counted(brokers, 'broker')}")
        if "security.protocol" not in properties:
            return [reached]
        what = f"the brokers accept the {role} ({properties['security.protocol']})"
        return [reached, Finding(CREDENTIALS, self._setting(role, "security.protocol"), Level.OK, what)]

    def _sink_topics(self) -> Sequence[Finding]:
        properties = self._properties("consumer")
        wanted = topics_of(self._config, ())
        if self._topic_setting == "topics.regex":
            wanted = topics_of(self._config, self._clusters.topics(properties, LIMIT_S))
            if not wanted:
                return [Finding(TOPIC, "topics.regex", Level.WARNING, "no existing topic matches the pattern")]
        rights = self._clusters.rights(properties, wanted[:100], LIMIT_S)
        return [line for topic in wanted[:100] for line in read_lines(topic, rights.get(topic), self._topic_setting)]

    def _source_topic(self) -> Sequence[Finding]:
        topic = self._config.get("topic", "").strip()
        if not topic or "$" in topic:
            what = "its topics are known only while it runs. A preview shows them"
            return [Finding(TOPIC, "topic", Level.OK, what)]
        properties = self._properties("producer")
        rights = self._clusters.rights(properties, [topic], LIMIT_S).get(topic)
        if rights is not None:
            return write_lines(TOPIC, "topic", topic, rights)
        creation = TopicCreation.from_config(self._config)
        if creation is None or not self._worker.runtime.topic_creation_enable:
            what = f'topic "{topic}" does not exist. The first record creates it only if the brokers allow that'
            change = "create it, or set topic.creation.default.partitions and topic.creation.default.replication.factor"
            return [Finding(TOPIC, "topic", Level.WARNING, what, change)]
        group = creation.group_of(topic)
        plan = NewTopicPlan(topic, group.partitions, group.replication_factor, group.settings)
        obstacle = self._clusters.obstacle(self._properties("admin"), plan, LIMIT_S)
        prefix = f"topic.creation.{group.name}."
        return [_plan_line(TOPIC, "topic", topic, obstacle, f"correct {prefix}* or the rights of admin.override.*")]

    def _letters(self) -> Sequence[Finding]:
        topic = self._config[TOPIC_NAME].strip()
        properties = self._properties("letters")
        rights = self._clusters.rights(properties, [topic], LIMIT_S).get(topic)
        if rights is not None:
            return write_lines(LETTERS, TOPIC_NAME, topic, rights)
        copies: int = DEAD_LETTERS.parse(self._config)[_COPIES]
        obstacle = self._clusters.obstacle(properties, NewTopicPlan(topic, 1, copies), LIMIT_S)
        return [_plan_line(LETTERS, TOPIC_NAME, topic, obstacle, f"set {_COPIES} (now {copies}), or create the topic")]


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 broker``, ``3 brokers``. Pure."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _plan_line(check: str, setting: str, topic: str, obstacle: str, change: str) -> Finding:
    if obstacle:
        what = f'topic "{topic}" does not exist and cannot be created: {obstacle}'
        return Finding(check, setting, Level.PROBLEM, what, change)
    return Finding(check, setting, Level.OK, f'topic "{topic}" does not exist and can be created')


def read_lines(topic: str, rights: TopicRights | None, setting: str) -> list[Finding]:
    """Return the line of a topic that a sink reads. Pure."""
    if rights is None:
        what = f'topic "{topic}" does not exist, or the consumer may not see it. The sink waits for it'
        return [Finding(TOPIC, setting, Level.WARNING, what, f"create the topic, or correct {setting}")]
    if rights.may_read is False:
        change = "grant READ on it to the consumer's principal, or set other credentials in consumer.override.*"
        return [Finding(TOPIC, setting, Level.PROBLEM, f'the consumer may not read topic "{topic}"', change)]
    known = " and may be read" if rights.may_read else ""  # an old broker does not say
    what = f'topic "{topic}" has {counted(rights.partitions, "partition")}{known}'
    return [Finding(TOPIC, setting, Level.OK, what)]


def write_lines(check: str, setting: str, topic: str, rights: TopicRights) -> list[Finding]:
    """Return the line of a topic that is there and is to be written. Pure."""
    if rights.may_write is False:
        change = "grant WRITE on it to the producer's principal, or set other credentials in producer.override.*"
        return [Finding(check, setting, Level.PROBLEM, f'the producer may not write topic "{topic}"', change)]
    known = " and may be written" if rights.may_write else ""
    return [Finding(check, setting, Level.OK, f'topic "{topic}" has {counted(rights.partitions, "partition")}{known}')]

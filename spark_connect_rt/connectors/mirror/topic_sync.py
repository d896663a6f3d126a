"""Finds the topics, partitions, settings and ACLs that the target lacks (Java ``MirrorSourceConnector``).

Decisions only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from spark_connect_rt.connectors.mirror.filters import ConfigPropertyFilter, TopicSelection
from spark_connect_rt.connectors.mirror.policy import ReplicationPolicy


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """One setting of a topic as a broker reports it."""

    name: str
    value: str | None
    is_default: bool = False  # set neither for the topic nor for its cluster
    is_static: bool = False  # set in the broker's own file
    is_read_only: bool = False
    is_sensitive: bool = False


@dataclass(frozen=True, slots=True)
class TopicAcl:
    """One ACL of a topic. The names are Kafka's, in capitals."""

    topic: str
    pattern_type: str  # LITERAL, PREFIXED
    principal: str
    host: str
    operation: str  # READ, WRITE, ALL ...
    permission: str  # ALLOW, DENY


@dataclass(frozen=True, slots=True)
class MissingPartitions:
    """The topics and partitions to create at the target."""

    topics: dict[str, str]  # name at the source -> at the target
    grown: dict[str, int]  # name at the target -> partitions it must have


def missing_partitions(
    source: Mapping[str, int], target: Mapping[str, int], policy: ReplicationPolicy, source_alias: str
) -> MissingPartitions:
    """Compare topics, name -> number of partitions, of both clusters; topics never shrink."""
    remote = {topic: policy.format_remote_topic(source_alias, topic) for topic in source}
    return MissingPartitions(
        {topic: name for topic, name in remote.items() if name not in target},
        {name: source[topic] for topic, name in remote.items() if source[topic] > target.get(name, source[topic])},
    )


def settings_of_new(settings: Iterable[TopicSetting], wanted: ConfigPropertyFilter) -> dict[str, str]:
    """Return the settings that a remote topic is created with."""
    return {
        setting.name: setting.value
        for setting in settings
        if _copied(setting, wanted)
        and setting.value is not None
        and (not setting.is_default or wanted.should_replicate_source_default(setting.name))
    }


def settings_to_sync(settings: Iterable[TopicSetting], wanted: ConfigPropertyFilter) -> dict[str, str | None]:
    """Return the settings to write to an existing remote topic; None: the target's own default applies again."""
    return {
        setting.name: None
        if setting.is_default and not wanted.should_replicate_source_default(setting.name)
        else setting.value
        for setting in settings
        if _copied(setting, wanted)
    }


def _copied(setting: TopicSetting, wanted: ConfigPropertyFilter) -> bool:
    own = not (setting.is_read_only or setting.is_sensitive or setting.is_static)
    return own and wanted.should_replicate_config_property(setting.name)


def acls_to_sync(
    acls: Iterable[TopicAcl], selection: TopicSelection, policy: ReplicationPolicy, source_alias: str
) -> list[TopicAcl]:
    """Return the ACLs of remote topics: those to read, never those to write, as only mirrors should write there."""
    return [
        replace(
            acl,
            topic=policy.format_remote_topic(source_alias, acl.topic),
            operation="READ" if (acl.permission, acl.operation) == ("ALLOW", "ALL") else acl.operation,
        )
        for acl in acls
        if acl.pattern_type == "LITERAL"
        and (acl.permission, acl.operation) != ("ALLOW", "WRITE")
        and acl.topic in selection
    ]

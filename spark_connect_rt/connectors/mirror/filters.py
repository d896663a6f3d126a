"""Which topics, groups and topic settings are replicated (Java ``DefaultTopicFilter`` and its two neighbours).

A list of patterns is ONE pattern, its elements joined by ``|``, which has to match the whole name; an empty list
matches nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from re import Pattern
from typing import Any

from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.connectors.mirror.named_class import JAVA_PACKAGE, class_named
from spark_connect_rt.connectors.mirror.policy import ReplicationPolicy, is_cycle, is_own_copy
from spark_connect_rt.errors import BadConfigError

TOPICS, TOPICS_EXCLUDE = "topics", "topics.exclude"
GROUPS, GROUPS_EXCLUDE = "groups", "groups.exclude"
PROPERTIES_EXCLUDE = "config.properties.exclude"
USE_DEFAULTS_FROM = "use.defaults.from"
TOPIC_FILTER, GROUP_FILTER, PROPERTY_FILTER = "topic.filter.class", "group.filter.class", "config.property.filter.class"
DEFAULTS = {
    TOPICS: ".*",
    TOPICS_EXCLUDE: r"mm2.*\.internal, .*\.replica, __.*",
    GROUPS: ".*",
    GROUPS_EXCLUDE: "console-consumer-.*, connect-.*, __.*",
    PROPERTIES_EXCLUDE: r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
    r"min\.insync\.replicas",
}


def pattern_of(setting: str, patterns: Sequence[str]) -> Pattern[str] | None:
    """Return the one pattern of a list; None: the list is empty. Raises BadConfigError naming the setting."""
    if not patterns:
        return None
    try:
        return java_pattern("|".join(patterns))
    except ValueError as error:
        raise BadConfigError({setting: [str(error)]}) from error


class _Names:
    """Names that one list of patterns includes and another does not exclude."""

    def __init__(self, config: Mapping[str, str], include: str | None, exclude: str) -> None:
        self._all = include is None
        self._include = None if include is None else _pattern(config, include)
        self._exclude = _pattern(config, exclude)

    def __contains__(self, name: str) -> bool:
        included = self._all or (self._include is not None and self._include.fullmatch(name) is not None)
        return included and (self._exclude is None or self._exclude.fullmatch(name) is None)


def _pattern(config: Mapping[str, str], setting: str) -> Pattern[str] | None:
    return pattern_of(setting, parse_value(Type.LIST, config.get(setting, DEFAULTS[setting])))


class TopicFilter(ABC):
    """Selects the topics that a flow copies (Java ``TopicFilter``)."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the filter's settings from the connector's configuration."""

    @abstractmethod
    def should_replicate_topic(self, topic: str) -> bool:
        """Return whether a topic of the source is wanted."""


class GroupFilter(ABC):
    """Selects the consumer groups whose offsets a flow copies (Java ``GroupFilter``)."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the filter's settings from the connector's configuration."""

    @abstractmethod
    def should_replicate_group(self, group: str) -> bool:
        """Return whether the offsets of a group of the source are wanted."""


class ConfigPropertyFilter(ABC):
    """Selects the topic settings that a flow copies (Java ``ConfigPropertyFilter``)."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the filter's settings from the connector's configuration."""

    @abstractmethod
    def should_replicate_config_property(self, name: str) -> bool:
        """Return whether a setting of a topic is wanted at the target."""

    def should_replicate_source_default(self, name: str) -> bool:
        """Return whether to set a source's default value at the target. If not, the target has its own default."""
        return False


class DefaultTopicFilter(TopicFilter):
    """Selects the topics of ``topics`` without those of ``topics.exclude``."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the two lists. Raises BadConfigError."""
        self._names = _Names(config, TOPICS, TOPICS_EXCLUDE)

    def should_replicate_topic(self, topic: str) -> bool:
        """Return whether the topic is in ``topics`` and not in ``topics.exclude``."""
        return topic in self._names


class DefaultGroupFilter(GroupFilter):
    """Selects the groups of ``groups`` without those of ``groups.exclude``."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the two lists. Raises BadConfigError."""
        self._names = _Names(config, GROUPS, GROUPS_EXCLUDE)

    def should_replicate_group(self, group: str) -> bool:
        """Return whether the group is in ``groups`` and not in ``groups.exclude``."""
        return group in self._names


class DefaultConfigPropertyFilter(ConfigPropertyFilter):
    """Selects all settings without ``config.properties.exclude``; ``use.defaults.from`` decides about defaults."""

    def configure(self, config: Mapping[str, str]) -> None:
        """Take the list and the side of the defaults. Raises BadConfigError."""
        self._names = _Names(config, None, PROPERTIES_EXCLUDE)
        self._from_source = config.get(USE_DEFAULTS_FROM, "target").strip() == "source"

    def should_replicate_config_property(self, name: str) -> bool:
        """Return whether the setting is not excluded."""
        return name in self._names

    def should_replicate_source_default(self, name: str) -> bool:
        """Return whether ``use.defaults.from`` is ``source``."""
        return self._from_source


FILTERS = {
    TOPIC_FILTER: DefaultTopicFilter,
    GROUP_FILTER: DefaultGroupFilter,
    PROPERTY_FILTER: DefaultConfigPropertyFilter,
}


def java_name(setting: str) -> str:
    """Return Java's name of the default filter of a ``*.filter.class`` setting."""
    return f"{JAVA_PACKAGE}.{FILTERS[setting].__name__}"


def topic_filter(config: Mapping[str, str]) -> TopicFilter:
    """Return the topic filter that a configuration asks for. Raises BadConfigError."""
    made: TopicFilter = _filter(config, TOPIC_FILTER)
    return made


def group_filter(config: Mapping[str, str]) -> GroupFilter:
    """Return the group filter that a configuration asks for. Raises BadConfigError."""
    made: GroupFilter = _filter(config, GROUP_FILTER)
    return made


def property_filter(config: Mapping[str, str]) -> ConfigPropertyFilter:
    """Return the filter of topic settings that a configuration asks for. Raises BadConfigError."""
    made: ConfigPropertyFilter = _filter(config, PROPERTY_FILTER)
    return made


def _filter(config: Mapping[str, str], setting: str) -> Any:
    ours = java_name(setting)
    made = class_named(setting, config.get(setting) or ours, {ours: FILTERS[setting]})()
    made.configure(config)
    return made


class TopicSelection:
    """The topics of the source that a flow copies: the filter's and heartbeats, without internal topics and loops."""

    def __init__(
        self, wanted: TopicFilter, policy: ReplicationPolicy, source_alias: str, target_alias: str, heartbeats: bool
    ) -> None:
        """Take the parts. ``heartbeats``: these topics are copied whatever the filter returns."""
        self._wanted, self._policy = wanted, policy
        self._source_alias, self._target_alias, self._heartbeats = source_alias, target_alias, heartbeats

    def __contains__(self, topic: str) -> bool:
        """Return whether a topic is copied."""
        return self._is_wanted(topic) and not is_own_copy(self._policy, topic, self._source_alias)

    def own_copies(self, topics: Iterable[str]) -> list[str]:
        """Return the topics that are left out only because they carry the source's own alias, in order."""
        own = (topic for topic in topics if is_own_copy(self._policy, topic, self._source_alias))
        return sorted(topic for topic in own if self._is_wanted(topic))

    def _is_wanted(self, topic: str) -> bool:
        wanted = self._wanted.should_replicate_topic(topic) or (
            self._heartbeats and self._policy.is_heartbeats_topic(topic)
        )
        internal = self._policy.is_internal_topic(topic)
        return wanted and not internal and not is_cycle(self._policy, topic, self._target_alias)

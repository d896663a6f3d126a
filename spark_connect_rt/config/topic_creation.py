"""How a source connector has its topics made: groups of ``topic.creation.*`` (Java ``TopicCreationGroup``, KIP-158).

Owns: which group a topic belongs to and the settings of that group. Pure. ``config.connector_config`` checks the
settings when the connector is configured.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_connect_rt.config.config_def import Type, parse_value, prefixed
from spark_connect_rt.config.java_regex import java_pattern

PREFIX = "topic.creation."
DEFAULT_GROUP = "default"
_OWN = ("include", "exclude", "replication.factor", "partitions")


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Topics that are made alike; -1 partitions or copies: the broker's default."""

    name: str
    include: tuple[str, ...]
    exclude: tuple[str, ...]
    partitions: int
    replication_factor: int
    settings: Mapping[str, str] = field(default_factory=dict)  # Kafka's topic settings, passed on as they are

    def matches(self, topic: str) -> bool:
        """Return whether the topic is one of this group's: the whole name, included and not excluded."""
        return _any_matches(self.include, topic) and not _any_matches(self.exclude, topic)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """Every group of one connector, in the order they are tried."""

    groups: tuple[TopicGroup, ...]
    default: TopicGroup

    @classmethod
    def from_config(cls, connector: Mapping[str, str]) -> TopicCreation | None:
        """Return the groups of a connector, None when none of its settings is about new topics."""
        if not asks_for_topics(connector):
            return None
        default = _group(DEFAULT_GROUP, connector, None)
        names = dict.fromkeys(parse_value(Type.LIST, connector.get(f"{PREFIX}groups") or ""))
        # A group that a user called "default" is the default group, wherever it stands.
        others = tuple(_group(name, connector, default) for name in names if name != DEFAULT_GROUP)
        return cls(others, default)

    def group_of(self, topic: str) -> TopicGroup:
        """Return the first group that a topic matches, else the default group."""
        return next((group for group in self.groups if group.matches(topic)), self.default)


def asks_for_topics(connector: Mapping[str, str]) -> bool:
    """Return whether any setting of a connector is about new topics."""
    return any(name.startswith(PREFIX) for name in connector)


def _group(name: str, connector: Mapping[str, str], default: TopicGroup | None) -> TopicGroup:
    prefix = f"{PREFIX}{name}."
    said = prefixed(connector, prefix)
    patterns = {key: tuple(parse_value(Type.LIST, said.get(key) or "")) for key in ("include", "exclude")}
    return TopicGroup(
        name,
        patterns["include"] if default else (".*",),
        patterns["exclude"] if default else (),
        int(said.get("partitions") or (default.partitions if default else -1)),
        int(said.get("replication.factor") or (default.replication_factor if default else -1)),
        {key: value for key, value in said.items() if key not in _OWN},
    )


def _any_matches(patterns: tuple[str, ...], topic: str) -> bool:
    return any(re.fullmatch(java_pattern(pattern), topic) for pattern in patterns)

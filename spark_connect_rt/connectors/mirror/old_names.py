"""Names that settings of MirrorMaker files had before Kafka 4, or never had but are written often. Pure.

Java 4 ignores them: topics that a user has excluded are copied. Here such a file is refused.
Source: Java ``DefaultTopicFilter``, ``DefaultGroupFilter``, ``DefaultConfigPropertyFilter`` of Kafka 3 (KIP-629).
"""

from __future__ import annotations

from collections.abc import Iterable

from spark_connect_rt.connectors.mirror.filters import (
    GROUPS,
    GROUPS_EXCLUDE,
    PROPERTIES_EXCLUDE,
    TOPICS,
    TOPICS_EXCLUDE,
)

NEW_NAMES = {
    "topic.blacklist": TOPICS_EXCLUDE,
    "topics.blacklist": TOPICS_EXCLUDE,
    "topic.exclude": TOPICS_EXCLUDE,
    "topic.whitelist": TOPICS,
    "topics.whitelist": TOPICS,
    "topics.include": TOPICS,
    "group.blacklist": GROUPS_EXCLUDE,
    "groups.blacklist": GROUPS_EXCLUDE,
    "group.exclude": GROUPS_EXCLUDE,
    "groups.whitelist": GROUPS,
    "groups.include": GROUPS,
    "config.properties.blacklist": PROPERTIES_EXCLUDE,
    "sync.topics.configs.enabled": "sync.topic.configs.enabled",
    "sync.topics.configs.interval.seconds": "sync.topic.configs.interval.seconds",
    "sync.topics.acls.enabled": "sync.topic.acls.enabled",
    "sync.topics.acls.interval.seconds": "sync.topic.acls.interval.seconds",
    "sync.groups.offsets.enabled": "sync.group.offsets.enabled",
    "refresh.topic.interval.seconds": "refresh.topics.interval.seconds",
    "refresh.group.interval.seconds": "refresh.groups.interval.seconds",
}


def old_name_problems(names: Iterable[str]) -> dict[str, list[str]]:
    """Return what is wrong with the names of a file's settings, those below a flow (``A->B.``) included."""
    found: dict[str, list[str]] = {}
    for name in names:
        flow, arrow, rest = name.partition("->")
        target, _, setting = rest.partition(".") if arrow else ("", "", name)
        new = NEW_NAMES.get(setting)
        if new is not None:
            prefix = f"{flow}->{target}." if arrow else ""
            found[name] = [
                f"this setting has no effect, because its name is {prefix}{new} since Kafka 4. Rename it or remove it"
            ]
    return found

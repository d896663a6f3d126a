"""What only source connectors have: topic creation, exactly-once, an offset topic (Java ``SourceConnectorConfig``)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from spark_connect_rt.config.config_def import LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type, parse_value
from spark_connect_rt.config.validators import AtLeast, AtLeastOr, java_regex, non_empty, one_of, unique

_TOPICS, _ONCE, _OFFSETS = "Topic Creation", "Exactly Once Support", "offsets.topic"

OF_SOURCES = ConfigDef(
    [
        ConfigKey(
            "topic.creation.groups",
            Type.LIST,
            "",
            LOW,
            "Groups of topics with the same creation settings. Configure each with topic.creation.<group>.",
            unique,
            _TOPICS,
            1,
            "LONG",
            "Topic Creation Groups",
        ),
        ConfigKey(
            "exactly.once.support",
            Type.STRING,
            "requested",
            MEDIUM,
            "required: reject the connector if it cannot guarantee exactly-once.",
            one_of("REQUIRED", "REQUESTED", ignore_case=True),
            _ONCE,
            2,
            "SHORT",
            "Exactly once support",
        ),
        ConfigKey(
            "transaction.boundary",
            Type.STRING,
            "poll",
            MEDIUM,
            "When exactly-once transactions are committed. poll: after each poll. interval: periodically. "
            "connector: when the connector says so.",
            one_of("INTERVAL", "POLL", "CONNECTOR", ignore_case=True),
            _ONCE,
            3,
            "SHORT",
            "Transaction Boundary",
        ),
        ConfigKey(
            "transaction.boundary.interval.ms",
            Type.LONG,
            None,
            LOW,
            "Length of a transaction with boundary interval, ms. Not set: offset.flush.interval.ms.",
            AtLeast(0),
            _ONCE,
            4,
            "SHORT",
            "Transaction boundary interval",
        ),
        ConfigKey(
            "offsets.storage.topic",
            Type.STRING,
            None,
            LOW,
            "Separate offset topic of this connector. Not set: the worker's.",
            non_empty,
            _OFFSETS,
            1,
            "LONG",
            "Offsets topic",
        ),
    ]
)

_COUNT = AtLeastOr(1, special=-1)
_NEW_TOPICS = "topic.creation."
_COUNTS = {"replication.factor": Type.SHORT, "partitions": Type.INT}


def source_problems(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what is wrong between a source's settings: setting -> complaints.

    Groups of new topics: ``default`` says copies and partitions, every other one may say which topics it has.
    """
    groups = parse_value(Type.LIST, config.get(f"{_NEW_TOPICS}groups") or "")
    if len(set(groups)) < len(groups):
        return {}  # the list says it itself; what its groups lack is not asked, as in Java
    if not any(name.startswith(_NEW_TOPICS) and name != f"{_NEW_TOPICS}groups" for name in config) and not groups:
        return {}
    keys = [key for group in dict.fromkeys([*groups, "default"]) for key in _group_keys(group)]
    return {name: found for name, found in _complaints(keys, config) if found}


def _group_keys(group: str) -> list[ConfigKey]:
    prefix, default = f"{_NEW_TOPICS}{group}.", group == "default"
    counts = [
        ConfigKey(prefix + name, kind, REQUIRED if default else None, LOW, "", _COUNT) for name, kind in _COUNTS.items()
    ]
    if default:
        return counts
    return [
        *(ConfigKey(f"{prefix}{name}", Type.LIST, "", LOW, "", java_regex) for name in ("include", "exclude")),
        *counts,
    ]


def _complaints(keys: Iterable[ConfigKey], config: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    for key in keys:
        yield key.name, key.parse(config)[1]

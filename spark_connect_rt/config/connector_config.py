"""The settings that every connector has, and which of them exclude each other (Java ``ConnectorConfig``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type, parse_value
from spark_connect_rt.config.connectrt_config import CONNECTOR, OF_SINKS_ONLY
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.management_config import HEALTH
from spark_connect_rt.config.validators import (
    AtLeast,
    AtLeastOr,
    java_regex,
    no_control_characters,
    non_empty,
    one_of,
    unique,
)
from spark_connect_rt.config.worker_config import PLUGIN_VERSION
from spark_connect_rt.errors import BadConfigError

# How a connector treats errant records: ``errors.*``. Source: KIP-298; Java ``ConnectorConfig``.


_ERRORS = "Error Handling"

ERRORS = ConfigDef(
    [
        ConfigKey(
            "errors.retry.timeout",
            Type.LONG,
            0,
            MEDIUM,
            "How long a failed operation on a record is retried, ms. 0: no retry. -1: no limit.",
            AtLeast(-1),
            _ERRORS,
            1,
            "MEDIUM",
            "Retry Timeout for Errors",
        ),
        ConfigKey(
            "errors.retry.delay.max.ms",
            Type.LONG,
            60_000,
            MEDIUM,
            "Longest wait between two attempts, ms.",
            AtLeast(1),
            _ERRORS,
            2,
            "MEDIUM",
            "Maximum Delay Between Retries for Errors",
        ),
        ConfigKey(
            "errors.tolerance",
            Type.STRING,
            "none",
            MEDIUM,
            "none: the first errant record fails the task. all: errant records are skipped and counted.",
            one_of("none", "all"),
            _ERRORS,
            3,
            "SHORT",
            "Error Tolerance",
        ),
        ConfigKey(
            "errors.log.enable",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Log every failed operation.",
            group=_ERRORS,
            order=4,
            width="SHORT",
            display_name="Log Errors",
        ),
        ConfigKey(
            "errors.log.include.messages",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Also log the failed record. It may contain data that must not be in logs.",
            group=_ERRORS,
            order=5,
            width="SHORT",
            display_name="Log Error Details",
        ),
    ]
)


# Settings of sink connectors only: their topics, their dead letter queue (Java ``SinkConnectorConfig``).


_SINK_COMMON, _SINK_ERRORS = "Common", "Error Handling"
_GROUP_OVERRIDE = "consumer.override.group.id"

OF_SINKS = ConfigDef(
    [
        ConfigKey(
            "topics",
            Type.LIST,
            "",
            HIGH,
            "Topics to consume, separated by commas.",
            group=_SINK_COMMON,
            order=4,
            width="LONG",
            display_name="Topics",
        ),
        ConfigKey(
            "topics.regex",
            Type.STRING,
            "",
            HIGH,
            "Regular expression that matches whole topic names to consume.",
            java_regex,
            _SINK_COMMON,
            4,
            "LONG",
            "Topics regex",
        ),
        ConfigKey(
            "errors.deadletterqueue.topic.name",
            Type.STRING,
            "",
            MEDIUM,
            "Topic for errant records, created with one partition if it does not exist. Empty: errant records are "
            "only counted. Source connectors can have one too (only here, not in Java).",
            group=_SINK_ERRORS,
            order=6,
            width="MEDIUM",
            display_name="Dead Letter Queue Topic Name",
        ),
        ConfigKey(
            "errors.deadletterqueue.topic.replication.factor",
            Type.SHORT,
            3,
            MEDIUM,
            "Replication factor of the dead letter queue when it is created. -1: the broker's default.",
            AtLeastOr(1, special=-1),
            _SINK_ERRORS,
            7,
            "MEDIUM",
            "Dead Letter Queue Topic Replication Factor",
        ),
        ConfigKey(
            "errors.deadletterqueue.context.headers.enable",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Add headers with the origin and the error to errant records.",
            group=_SINK_ERRORS,
            order=8,
            width="MEDIUM",
            display_name="Enable Error Context Headers",
        ),
    ]
)


def topics_that_are_read(config: Mapping[str, Any]) -> Callable[[str], bool]:
    """Return whether a sink with these settings reads a topic, as a function of its name.

    Raises BadConfigError: neither or both of ``topics`` and ``topics.regex`` are set, or the pattern is invalid.
    """
    topics = frozenset(topic for topic in parse_value(Type.LIST, config.get("topics") or "") if topic)
    text = str(config.get("topics.regex") or "").strip()
    problems = sink_problems({name: config.get(name) for name in ("topics", "topics.regex")})
    if not topics and text and (why := java_regex(text)):
        problems = {"topics.regex": [why]}
    if problems:
        raise BadConfigError(problems)
    if topics:
        return topics.__contains__
    pattern = java_pattern(text)
    return lambda topic: pattern.fullmatch(topic) is not None


def sink_problems(config: Mapping[str, Any], worker_group: str | None = None) -> dict[str, list[str]]:
    """Return the problems between a sink's settings: setting -> complaints.

    Args:
        worker_group: the worker's ``group.id``, which must differ from the sink's consumer group.
    """
    # Java's words throughout: clients of the REST API search for them.
    topics: Sequence[str] = [topic for topic in parse_value(Type.LIST, config.get("topics") or "") if topic]
    pattern = str(config.get("topics.regex") or "").strip()
    queue = str(config.get("errors.deadletterqueue.topic.name") or "").strip()
    problems: dict[str, list[str]] = {}
    if bool(topics) == bool(pattern):
        both = "topics and topics.regex are mutually exclusive options, but both are set."
        for name in ("topics", "topics.regex"):
            problems[name] = [both if topics else "Must configure one of topics or topics.regex"]
    if queue in topics:
        listed = f"('topics=[{', '.join(dict.fromkeys(topics))}]')"
        problems.setdefault("topics", []).append(
            f"The DLQ topic '{queue}' may not be included in the list of topics {listed} consumed by the connector"
        )
    elif queue and pattern and not java_regex(pattern) and java_pattern(pattern).fullmatch(queue):
        problems.setdefault("topics.regex", []).append(
            f"The DLQ topic '{queue}' may not be matched by the regex for the topics ('topics.regex={pattern}') "
            "consumed by the connector"
        )
    for name, conflict in _group_problem(config, worker_group):
        problems.setdefault(name, []).append(conflict)
    return problems


def _group_problem(config: Mapping[str, Any], worker_group: str | None) -> list[tuple[str, str]]:
    """Return (setting, complaint) when the sink's consumer group is the worker group."""
    conflict = f"conflicts with Connect worker group {worker_group}"
    group = config.get(_GROUP_OVERRIDE)
    if group is not None:
        return [(_GROUP_OVERRIDE, f"Consumer group {group} {conflict}")] if group == worker_group else []
    name = config.get("name")
    if worker_group is None or f"connect-{name}" != worker_group:
        return []
    return [("name", f"Consumer group for sink connector named {name} {conflict}")]


# The dead letter queue: declared with the settings of sinks, as in Java; here sources have one too.
#
# Of sources ``validate`` lists these settings only where something is wrong with them: its answer stays Java's.


PREFIX = "errors.deadletterqueue."
TOPIC_NAME = f"{PREFIX}topic.name"
DEAD_LETTERS = ConfigDef([key for key in OF_SINKS if key.name.startswith(PREFIX)])


def dead_letter_problems(config: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the problems of a source's dead letter queue: setting -> complaints."""
    return {
        config_value.name: list(config_value.errors)
        for config_value in DEAD_LETTERS.validate(config)
        if config_value.errors
    }


# Settings of source connectors only: topic creation, exactly-once, an offset topic (Java ``SourceConnectorConfig``).


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
    """Return the problems between a source's settings: setting -> complaints.

    Groups of new topics: ``default`` sets copies and partitions, every other one may set which topics it has.
    """
    groups = parse_value(Type.LIST, config.get(f"{_NEW_TOPICS}groups") or "")
    if len(set(groups)) < len(groups):
        return {}  # The list's own check complains; as in Java, the settings of its groups are not checked then
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


_COMMON, _TRANSFORMS, _PREDICATES = "Common", "Transforms", "Predicates"

_CONNECTOR = ConfigDef(
    [
        ConfigKey(
            "name",
            Type.STRING,
            REQUIRED,
            HIGH,
            "Unique name of the connector.",
            no_control_characters,
            _COMMON,
            1,
            "MEDIUM",
            "Connector name",
        ),
        ConfigKey(
            "connector.class",
            Type.STRING,
            REQUIRED,
            HIGH,
            "Class of the connector: Java's full name, its alias, or package.module:Class.",
            group=_COMMON,
            order=2,
            width="LONG",
            display_name="Connector class",
        ),
        ConfigKey(
            "connector.plugin.version",
            Type.STRING,
            None,
            MEDIUM,
            PLUGIN_VERSION,
            group=_COMMON,
            order=3,
            width="MEDIUM",
            display_name="Connector version",
        ),
        ConfigKey(
            "tasks.max",
            Type.INT,
            1,
            HIGH,
            "Most tasks that the connector may have.",
            AtLeast(1),
            _COMMON,
            4,
            "SHORT",
            "Tasks max",
        ),
        ConfigKey(
            "tasks.max.enforce",
            Type.BOOLEAN,
            True,
            LOW,
            "true: fail a connector that creates more tasks than tasks.max. false: only log a warning.",
            group=_COMMON,
            order=5,
            width="SHORT",
            display_name="Enforce tasks max",
        ),
    ]
)


def _converter_keys(kind: str, holds: str, order: int) -> list[ConfigKey]:
    return [
        ConfigKey(
            f"{kind}.converter",
            Type.CLASS,
            None,
            LOW,
            f"Converter of {holds}. Not set: the worker's.",
            group=_COMMON,
            order=order,
            width="SHORT",
            display_name=f"{kind.capitalize()} converter class",
        ),
        ConfigKey(
            f"{kind}.converter.plugin.version",
            Type.STRING,
            None,
            LOW,
            PLUGIN_VERSION,
            group=_COMMON,
            order=order + 1,
            width="SHORT",
            display_name=f"{kind.capitalize()} converter version",
        ),
    ]


_CONVERTERS = ConfigDef(
    [
        *_converter_keys("key", "keys", 6),
        *_converter_keys("value", "values", 8),
        *_converter_keys("header", "headers", 10),
    ]
)
_CHAIN = ConfigDef(
    [
        ConfigKey(
            "transforms",
            Type.LIST,
            "",
            LOW,
            "Aliases of the transformations, in order. Configure each with transforms.<alias>.",
            unique,
            _TRANSFORMS,
            12,
            "LONG",
            "Transforms",
        ),
        ConfigKey(
            "predicates",
            Type.LIST,
            "",
            LOW,
            "Aliases of the predicates that transformations can use. Configure each with predicates.<alias>.",
            unique,
            _PREDICATES,
            13,
            "LONG",
            "Predicates",
        ),
        ConfigKey(
            "config.action.reload",
            Type.STRING,
            "restart",
            LOW,
            "What to do when a config provider's value changes.",
            one_of("none", "restart"),
            _COMMON,
            14,
            "MEDIUM",
            "Reload Action",
        ),
    ]
)

COMMON = _CONNECTOR + _CONVERTERS + _CHAIN + ERRORS
SOURCE = COMMON + OF_SOURCES + CONNECTOR + HEALTH
SINK = COMMON + OF_SINKS + CONNECTOR + OF_SINKS_ONLY + HEALTH

PASSED_ON = (
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "transforms.",
    "predicates.",
    "topic.creation.",
    "producer.override.",
    "consumer.override.",
    "admin.override.",
    "spark.",
)


NULL_VALUE = "Null value can not be supplied as the configuration value."  # Java's sentence


def unknown_class(setting: str, name: str) -> str:
    """Return Java's sentence about a class that is not found."""
    return f"Invalid value {name} for configuration {setting}: Class {name} could not be found."


def wrong_class(name: str, word: str) -> str:
    """Return Java's sentence about a class of another kind; ``word``: Converter, Transformation ..."""
    return f"Class class {name} does not implement the {word} interface"


def connector_problems(config: Mapping[str, Any], *, sink: bool, worker_group: str) -> dict[str, list[str]]:
    """Return the problems that involve several settings of a connector: setting -> complaints.

    Args:
        config: the connector's settings, references resolved.
        sink: whether its class is a sink's.
        worker_group: the worker's ``group.id``; empty: it is in none.
    """
    if sink:
        return sink_problems(config, worker_group or None)
    return {**source_problems(config), **dead_letter_problems(config)}

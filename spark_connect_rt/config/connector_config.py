"""Settings that every connector has, by kind (Java ``ConnectorConfig`` and its source and sink forms)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type, parse_value
from spark_connect_rt.config.validators import (
    AtLeast,
    AtLeastOr,
    java_regex,
    no_control_characters,
    one_of,
    unique,
)

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_COMMON, _TRANSFORMS, _PREDICATES, _ERRORS = "Common", "Transforms", "Predicates", "Error Handling"
_TOPICS, _ONCE, _OFFSETS = "Topic Creation", "Exactly Once Support", "offsets.topic"

ERRORS = ConfigDef(
    [
        ConfigKey(
            "errors.retry.timeout",
            Type.LONG,
            0,
            MEDIUM,
            "How long a failed operation on a record is tried again, ms; 0: not at all, -1: for ever.",
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
            "Longest wait between two tries, ms.",
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
            one_of("none", "all", ignore_case=True),
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
            "Log each failed operation.",
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
            "Log the record that failed too; it may hold what should not be in logs.",
            group=_ERRORS,
            order=5,
            width="SHORT",
            display_name="Log Error Details",
        ),
    ]
)


def _class_key(name: str, order: int, display_name: str, doc: str) -> ConfigKey:
    return ConfigKey(
        name, Type.CLASS, None, LOW, doc, group=_COMMON, order=order, width="SHORT", display_name=display_name
    )


COMMON = (
    ConfigDef(
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
                "tasks.max",
                Type.INT,
                1,
                HIGH,
                "Most tasks the connector may have.",
                AtLeast(1),
                _COMMON,
                3,
                "SHORT",
                "Tasks max",
            ),
            ConfigKey(
                "tasks.max.enforce",
                Type.BOOLEAN,
                True,
                LOW,
                "Fail a connector that makes more tasks than tasks.max; false: only warn.",
                group=_COMMON,
                order=4,
                width="SHORT",
                display_name="Enforce tasks max",
            ),
            _class_key("key.converter", 5, "Key converter class", "Converter of keys; not set: the worker's."),
            _class_key("value.converter", 6, "Value converter class", "Converter of values; not set: the worker's."),
            _class_key("header.converter", 7, "Header converter class", "Converter of headers; not set: the worker's."),
            ConfigKey(
                "transforms",
                Type.LIST,
                "",
                LOW,
                "Aliases of the transformations, in order; each is set up under transforms.<alias>.",
                unique,
                _TRANSFORMS,
                8,
                "LONG",
                "Transforms",
            ),
            ConfigKey(
                "predicates",
                Type.LIST,
                "",
                LOW,
                "Aliases of the predicates that transformations may name; set up under predicates.<alias>.",
                unique,
                _PREDICATES,
                9,
                "LONG",
                "Predicates",
            ),
            ConfigKey(
                "config.action.reload",
                Type.STRING,
                "restart",
                LOW,
                "What to do when a config provider's value changes.",
                one_of("restart", "none", ignore_case=True),
                _COMMON,
                10,
                "MEDIUM",
                "Reload Action",
            ),
        ]
    )
    + ERRORS
)

SOURCE = COMMON + ConfigDef(
    [
        ConfigKey(
            "topic.creation.groups",
            Type.LIST,
            "",
            LOW,
            "Groups of topics that are created alike; set up under topic.creation.<group>.",
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
            "required: refuse to start where the connector cannot promise exactly-once.",
            one_of("requested", "required", ignore_case=True),
            _ONCE,
            1,
            "SHORT",
            "Exactly once support",
        ),
        ConfigKey(
            "transaction.boundary",
            Type.STRING,
            "poll",
            MEDIUM,
            "When exactly-once transactions end: after each poll, at an interval, or as the connector says.",
            one_of("poll", "interval", "connector", ignore_case=True),
            _ONCE,
            2,
            "SHORT",
            "Transaction Boundary",
        ),
        ConfigKey(
            "transaction.boundary.interval.ms",
            Type.LONG,
            None,
            LOW,
            "Length of a transaction with boundary interval, ms; not set: offset.flush.interval.ms.",
            AtLeast(0),
            _ONCE,
            3,
            "SHORT",
            "Transaction boundary interval",
        ),
        ConfigKey(
            "offsets.storage.topic",
            Type.STRING,
            None,
            LOW,
            "Offset topic of this connector alone; not set: the worker's.",
            group=_OFFSETS,
            order=1,
            width="LONG",
            display_name="Offsets topic",
        ),
    ]
)

SINK = COMMON + ConfigDef(
    [
        ConfigKey(
            "topics",
            Type.LIST,
            "",
            HIGH,
            "Topics to consume, separated by commas.",
            group=_COMMON,
            order=4,
            width="LONG",
            display_name="Topics",
        ),
        ConfigKey(
            "topics.regex",
            Type.STRING,
            "",
            HIGH,
            "Pattern of whole topic names to consume.",
            java_regex,
            _COMMON,
            4,
            "LONG",
            "Topics regex",
        ),
        ConfigKey(
            "errors.deadletterqueue.topic.name",
            Type.STRING,
            "",
            MEDIUM,
            "Topic for errant records; empty: they are only counted.",
            group=_ERRORS,
            order=6,
            width="MEDIUM",
            display_name="Dead Letter Queue Topic Name",
        ),
        ConfigKey(
            "errors.deadletterqueue.topic.replication.factor",
            Type.SHORT,
            3,
            MEDIUM,
            "Copies of the dead letter queue when it is created; -1: the broker's default.",
            AtLeastOr(1, special=-1),
            _ERRORS,
            7,
            "MEDIUM",
            "Dead Letter Queue Topic Replication Factor",
        ),
        ConfigKey(
            "errors.deadletterqueue.context.headers.enable",
            Type.BOOLEAN,
            False,
            MEDIUM,
            "Add headers that say where and why to errant records.",
            group=_ERRORS,
            order=8,
            width="MEDIUM",
            display_name="Enable Error Context Headers",
        ),
    ]
)

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
    "connectrt.",
)


def sink_problems(config: Mapping[str, Any], worker_group: str | None = None) -> dict[str, list[str]]:
    """Return what is wrong between a sink's settings: setting -> complaints.

    Args:
        worker_group: the worker's ``group.id``, which the sink's consumer group must not be.
    """
    topics: Sequence[str] = parse_value(Type.LIST, config.get("topics") or "")
    pattern = str(config.get("topics.regex") or "").strip()
    queue = str(config.get("errors.deadletterqueue.topic.name") or "").strip()
    problems: dict[str, list[str]] = {}
    if bool(topics) == bool(pattern):
        # Java's words: clients of the REST API look for them.
        both = "topics and topics.regex are mutually exclusive options, but both are set."
        for name in ("topics", "topics.regex"):
            problems[name] = [both if topics else "Must configure one of topics or topics.regex"]
    if queue and (queue in topics or (pattern and not java_regex(pattern) and re.fullmatch(pattern, queue))):
        place = "topics" if queue in topics else "topics.regex"
        problems.setdefault(place, []).append(
            f"the dead letter queue {queue} must not be consumed by its own connector"
        )
    group = str(config.get("consumer.override.group.id") or f"connect-{config.get('name')}")
    if worker_group is not None and group == worker_group:
        problems.setdefault("name", []).append(f"the sink's consumer group {group} is the group.id of the workers")
    return problems

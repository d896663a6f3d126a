"""What only sink connectors have: their topics, their dead letter queue (Java ``SinkConnectorConfig``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.config.config_def import ConfigDef, ConfigKey, Importance, Type, parse_value
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.validators import AtLeastOr, java_regex

HIGH, MEDIUM = Importance.HIGH, Importance.MEDIUM
_COMMON, _ERRORS = "Common", "Error Handling"

OF_SINKS = ConfigDef(
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
    if queue and (queue in topics or (pattern and not java_regex(pattern) and java_pattern(pattern).fullmatch(queue))):
        place = "topics" if queue in topics else "topics.regex"
        problems.setdefault(place, []).append(
            f"the dead letter queue {queue} must not be consumed by its own connector"
        )
    group = str(config.get("consumer.override.group.id") or f"connect-{config.get('name')}")
    if worker_group is not None and group == worker_group:
        problems.setdefault("name", []).append(f"the sink's consumer group {group} is the group.id of the workers")
    return problems

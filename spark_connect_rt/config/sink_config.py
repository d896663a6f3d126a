"""What only sink connectors have: their topics, their dead letter queue (Java ``SinkConnectorConfig``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.config.config_def import HIGH, MEDIUM, ConfigDef, ConfigKey, Type, parse_value
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.validators import AtLeastOr, java_regex

_COMMON, _ERRORS = "Common", "Error Handling"
_GROUP_OVERRIDE = "consumer.override.group.id"

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
            "Regular expression that matches whole topic names to consume.",
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
            "Topic for errant records, created with one partition if it does not exist. Empty: errant records are "
            "only counted. Source connectors can have one too (only here, not in Java).",
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
            "Replication factor of the dead letter queue when it is created. -1: the broker's default.",
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
            "Add headers with the origin and the error to errant records.",
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
    # Java's words throughout: clients of the REST API look for them.
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

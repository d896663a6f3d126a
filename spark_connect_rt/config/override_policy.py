"""Which Kafka client settings a connector may override (Java ``ConnectorClientConfigOverridePolicy``, KIP-458)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_connect_rt.config.config_def import prefixed

_JAVA = "org.apache.kafka.connect.connector.policy."
_SUFFIX = "ConnectorClientConfigOverridePolicy"
CLIENT_PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")
_ALLOWED: dict[str, frozenset[str] | None] = {  # None: every setting
    "All": None,
    "None": frozenset(),
    "Principal": frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"}),
}


def policy_name(text: str) -> str | None:
    """Return All, None or Principal for a policy's alias or Java class name; None when it is no known policy."""
    alias = text.strip().removeprefix(_JAVA).removesuffix(_SUFFIX)
    return alias if alias in _ALLOWED else None


def is_plugin(text: str) -> bool:
    """Tell whether a policy is a plug-in's class (api.override_policy), which the worker finds at its start."""
    return policy_name(text) is None and bool(set(".:") & set(text.strip().removeprefix(_JAVA)))


def known_policy(value: Any) -> str | None:
    """Complain about a policy that nothing here enforces: its limits must not be lost in silence."""
    if value is None or policy_name(str(value)) is not None or is_plugin(str(value)):
        return None
    return f"No such override policy. Use one of {', '.join(_ALLOWED)}, or the class of a plug-in"


def override_problems(
    config: Mapping[str, Any], policy: str, prefixes: Sequence[str] = CLIENT_PREFIXES
) -> dict[str, list[str]]:
    """Return a complaint for every ``*.override.*`` setting below ``prefixes`` that a built-in ``policy`` forbids."""
    if is_plugin(policy):
        return {}  # runtime.herder.validation asks it
    name = policy_name(policy) or "None"
    allowed = _ALLOWED[name]
    if allowed is None:
        return {}
    # Java's words: clients of the REST API look for them.
    complaint = "The '{}' policy does not allow '{}' to be overridden in the connector configuration."
    return {
        f"{prefix}{setting}": [complaint.format(name, setting)]
        for prefix in prefixes
        for setting in prefixed(config, prefix)
        if setting not in allowed
    }


def used_prefixes(config: Mapping[str, Any], *, sink: bool) -> tuple[str, ...]:
    """Return the prefixes of the clients that a connector has, in Java's order of validation.

    A source has an admin client for new topics and its dead letter queue; a sink always, for with it its group's
    offsets are read and altered (Java's validation looks at it only with a dead letter queue). A sink has a producer
    for its dead letter queue.
    """
    queue = bool(str(config.get("errors.deadletterqueue.topic.name") or "").strip())
    new_topics = any(name.startswith("topic.creation.") for name in config)
    used = {
        "producer.override.": not sink or queue,
        "consumer.override.": sink,
        "admin.override.": sink or new_topics or queue,
    }
    return tuple(prefix for prefix, there in used.items() if there)

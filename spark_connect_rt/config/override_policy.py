"""Which Kafka client settings a connector may override (Java ``ConnectorClientConfigOverridePolicy``, KIP-458)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.errors import BadConfigError

_JAVA = "org.apache.kafka.connect.connector.policy."
_SUFFIX = "ConnectorClientConfigOverridePolicy"
CLIENT_PREFIXES = ("producer.override.", "consumer.override.", "admin.override.")
_ALLOWED: dict[str, frozenset[str] | None] = {  # None: every setting
    "All": None,
    "None": frozenset(),
    "Principal": frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"}),
}


def policy_name(text: str) -> str | None:
    """Return All, None or Principal for a policy's alias or Java class name. None when the policy is unknown."""
    alias = text.strip().removeprefix(_JAVA).removesuffix(_SUFFIX)
    return alias if alias in _ALLOWED else None


def is_plugin(text: str) -> bool:
    """Return whether a policy is a plug-in's class (api.override_policy), which the worker finds at its start."""
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
    # Java's words: clients of the REST API search for them.
    complaint = "The '{}' policy does not allow '{}' to be overridden in the connector configuration."
    return {
        f"{prefix}{setting}": [complaint.format(name, setting)]
        for prefix in prefixes
        for setting in prefixed(config, prefix)
        if setting not in allowed
    }


def used_prefixes(config: Mapping[str, Any], *, sink: bool) -> tuple[str, ...]:
    """Return the prefixes of the clients that a connector has, in Java's order of validation.

    A source has an admin client for new topics and its dead letter queue. A sink always has an admin client, which
    reads and alters the offsets of its group. Java's validation considers a sink's only if it has a dead letter queue.
    A sink has a producer for its dead letter queue.
    """
    queue = bool(str(config.get("errors.deadletterqueue.topic.name") or "").strip())
    new_topics = any(name.startswith("topic.creation.") for name in config)
    used = {
        "producer.override.": not sink or queue,
        "consumer.override.": sink,
        "admin.override.": sink or new_topics or queue,
    }
    return tuple(prefix for prefix, there in used.items() if there)


# Where clients that a connector configures may fetch OAUTHBEARER tokens: only where the worker's file allows it. Pure.
#
# A connector chooses brokers and token endpoint. Without this check it could send its own broker a file of the worker's
# machine, or the answer of an internal address. Kafka's fix for that is the allow-lists of CVE-2025-27817, empty by
# default.


ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
ALLOWED_URLS, ALLOWED_FILES = "connectrt.oauth.allowed.urls", "connectrt.oauth.allowed.files"


def endpoints_in(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that name a token endpoint, whatever their prefix."""
    return {name: url for name, url in config.items() if url and f".{name}".endswith(f".{ENDPOINT}")}


def refuse_foreign_endpoints(config: Mapping[str, str], worker: Mapping[str, str]) -> None:
    """Reject endpoints that the worker neither uses nor allows. The references of both are resolved.

    Raises BadConfigError naming each setting, without its value: that may be a secret.
    """
    urls = {*endpoints_in(worker).values(), *_listed(worker, ALLOWED_URLS)}
    files = _listed(worker, ALLOWED_FILES)
    problems = {
        name: [
            f"this URL is not allowed. Add it to {ALLOWED_URLS} in the worker's file, or add the file of a "
            f"file: URL to {ALLOWED_FILES}"
        ]
        for name, url in endpoints_in(config).items()
        if url not in urls and not (urlsplit(url).scheme == "file" and urlsplit(url).path in files)
    }
    if problems:
        raise BadConfigError(problems)


def _listed(worker: Mapping[str, str], setting: str) -> set[str]:
    return {part.strip() for part in (worker.get(setting) or "").split(",") if part.strip()}

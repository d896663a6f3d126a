"""A Java consumer's properties as FetchConsumer reads them, and which it honours.

Owns: the closed list of what is honoured; with anything else set, a reader gets the librdkafka consumer. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.base.backoff import Backoff
from spark_connect_rt.config.bootstrap_servers import plain_servers
from spark_connect_rt.kafka.client_config import SECURITY_USED, ClientRole, client_config
from spark_connect_rt.kafka.group_security import connection_arguments

_DEFAULTS = {  # Java's, but for those that say otherwise
    "auto.offset.reset": "latest",
    "check.crcs": "true",
    "client.id": "",
    "connections.max.idle.ms": "540000",
    "fetch.max.bytes": str(16 * 1024 * 1024),  # Java 50 MiB; an answer of this size and the next one are kept
    "fetch.max.wait.ms": "500",
    "fetch.min.bytes": "1",
    "isolation.level": "read_uncommitted",
    "max.partition.fetch.bytes": str(4 * 1024 * 1024),  # Java 1 MiB, at which a request an answer shows
    "metadata.max.age.ms": "300000",
    "reconnect.backoff.max.ms": "1000",
    "reconnect.backoff.ms": "50",
    "request.timeout.ms": "30000",
    "retry.backoff.max.ms": "1000",
    "retry.backoff.ms": "100",
    "socket.connection.setup.timeout.ms": "10000",
}
_OF_GROUPS = {  # without effect for a reader whose partitions are assigned to it
    "default.api.timeout.ms",
    "enable.auto.commit",
    "exclude.internal.topics",
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "key.deserializer",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "session.timeout.ms",
    "value.deserializer",
}
_VALUES = {  # of these settings others are not honoured
    "allow.auto.create.topics": {"false"},
    "auto.offset.reset": {"earliest", "latest", "none"},
    "isolation.level": {"read_committed", "read_uncommitted"},
    "sasl.mechanism": {"plain", "scram-sha-256", "scram-sha-512", "oauthbearer"},  # GSSAPI is librdkafka's matter
}
_HONOURED = {"bootstrap.servers", *_DEFAULTS, *_OF_GROUPS, *_VALUES, *SECURITY_USED}


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """The settings of a FetchConsumer. All times ms."""

    servers: str
    client_id: str
    idle_limit_ms: int | None
    setup_limit_ms: int
    request_limit_ms: int
    retry_ms: tuple[int, int]  # first wait, longest wait
    reconnect_ms: tuple[int, int]
    metadata_age_ms: int
    reset: str  # earliest, latest or none
    committed_only: bool
    check_crcs: bool
    wait_ms: int
    least_bytes: int
    most_bytes: int
    partition_bytes: int
    security: Mapping[str, Any] = field(default_factory=dict)


def not_honoured(properties: Mapping[str, str]) -> list[str]:
    """Return the properties, by name, that a FetchConsumer would ignore, or cannot obey."""
    if str(properties.get("security.protocol", "")).upper().startswith("SASL"):
        properties = {"sasl.mechanism": "GSSAPI", **properties}  # Java's default
    return sorted(
        name
        for name, text in properties.items()
        if name not in _HONOURED or (name in _VALUES and str(text).strip().lower() not in _VALUES[name])
    )


def fetch_settings(properties: Mapping[str, str]) -> FetchSettings:
    """Return the settings. Raises BadConfigError, as for the librdkafka consumer."""
    client_config(properties, ClientRole.CONSUMER)  # reports every bad value at once
    said = {**_DEFAULTS, **{name: str(text).strip() for name, text in properties.items() if text is not None}}

    def number(name: str) -> int:
        return int(said[name])

    return FetchSettings(
        servers=plain_servers(said["bootstrap.servers"]),
        client_id=said["client.id"] or "connect",
        idle_limit_ms=idle_ms if (idle_ms := number("connections.max.idle.ms")) >= 0 else None,
        setup_limit_ms=number("socket.connection.setup.timeout.ms"),
        request_limit_ms=max(number("request.timeout.ms"), 2 * number("fetch.max.wait.ms")),
        retry_ms=(number("retry.backoff.ms"), number("retry.backoff.max.ms")),
        reconnect_ms=(number("reconnect.backoff.ms"), number("reconnect.backoff.max.ms")),
        metadata_age_ms=number("metadata.max.age.ms"),
        reset=said["auto.offset.reset"].lower(),
        committed_only=said["isolation.level"].lower() == "read_committed",
        check_crcs=said["check.crcs"].lower() != "false",
        wait_ms=number("fetch.max.wait.ms"),
        least_bytes=max(1, number("fetch.min.bytes")),
        most_bytes=number("fetch.max.bytes"),
        partition_bytes=number("max.partition.fetch.bytes"),
        security=connection_arguments(properties),
    )


def backoff_s(limits_ms: tuple[int, int], failures: int, chance: float) -> float:
    """Return how long to wait after so many failures in a row, s; ``chance`` as of ``Backoff.wait``."""
    first, longest = limits_ms
    return Backoff(first, max(first, longest)).wait(failures, chance) / 1000 if failures else 0.0

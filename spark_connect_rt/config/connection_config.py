"""Connections to the brokers: times, buffers, protocol. ``ssl.*`` and ``sasl.*`` go to the clients as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import LOW, MEDIUM, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, one_of

CLIENTS = ConfigDef(
    [
        ConfigKey(
            "security.protocol",
            Type.STRING,
            "PLAINTEXT",
            MEDIUM,
            "Protocol for connections to the brokers.",
            one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True),
        ),
        ConfigKey("metadata.max.age.ms", Type.LONG, 300_000, LOW, "Age at which metadata is refreshed, ms."),
        ConfigKey("retry.backoff.ms", Type.LONG, 100, LOW, "First wait before a request is retried, ms."),
        ConfigKey("retry.backoff.max.ms", Type.LONG, 1_000, LOW, "Longest wait before a request is retried, ms."),
        ConfigKey("request.timeout.ms", Type.INT, 40_000, MEDIUM, "Longest wait for a response, ms.", AtLeast(0)),
        ConfigKey(
            "connections.max.idle.ms", Type.LONG, 540_000, MEDIUM, "Idle connections are closed after this time, ms."
        ),
        ConfigKey("reconnect.backoff.ms", Type.LONG, 50, LOW, "First wait before a reconnect, ms.", AtLeast(0)),
        ConfigKey(
            "reconnect.backoff.max.ms", Type.LONG, 1_000, LOW, "Longest wait before a reconnect, ms.", AtLeast(0)
        ),
        ConfigKey(
            "socket.connection.setup.timeout.ms", Type.LONG, 10_000, LOW, "First timeout for opening a connection, ms."
        ),
        ConfigKey(
            "socket.connection.setup.timeout.max.ms",
            Type.LONG,
            30_000,
            LOW,
            "Longest timeout for opening a connection, ms.",
        ),
        ConfigKey(
            "send.buffer.bytes",
            Type.INT,
            131_072,
            MEDIUM,
            "TCP send buffer, bytes. -1: the operating system's default.",
            AtLeast(-1),
        ),
        ConfigKey(
            "receive.buffer.bytes",
            Type.INT,
            32_768,
            MEDIUM,
            "TCP receive buffer, bytes. -1: the operating system's default.",
            AtLeast(-1),
        ),
        ConfigKey(
            "metadata.recovery.strategy",
            Type.STRING,
            "rebootstrap",
            LOW,
            "What a client does when none of the known brokers answers.",
            one_of("none", "rebootstrap", ignore_case=True),
        ),
        ConfigKey(
            "metadata.recovery.rebootstrap.trigger.ms",
            Type.LONG,
            300_000,
            LOW,
            "Time without metadata after which a client uses bootstrap.servers again, ms.",
            AtLeast(0),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class ConnectionSettings(SettingsGroup):
    """The times that our own connections keep; the others are the client libraries'."""

    definition: ClassVar[ConfigDef] = CLIENTS
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int

"""Settings of a distributed worker, typed (Java ``DistributedConfig``). ``ssl.*`` and ``sasl.*`` go to the clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast, AtLeastOr, non_empty, one_of
from spark_connect_rt.config.worker_config import PASSED_ON, WORKER, unknown_setting_warnings
from spark_connect_rt.errors import BadConfigError

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
_TOPIC_KINDS = {"config": "connector configurations", "offset": "source offsets", "status": "statuses"}
_COUNT = AtLeastOr(1, special=-1)
MAC_ALGORITHMS = ("HmacSHA256", "HmacSHA1", "HmacSHA384", "HmacSHA512", "HmacSHA224", "HmacMD5")

GROUP = ConfigDef(
    [
        ConfigKey("group.id", Type.STRING, REQUIRED, HIGH, "Name of the worker group; one per cluster.", non_empty),
        ConfigKey(
            "session.timeout.ms", Type.INT, 10_000, HIGH, "Silence after which the coordinator drops a member, ms."
        ),
        ConfigKey("rebalance.timeout.ms", Type.INT, 60_000, HIGH, "Longest time for a member to rejoin, ms."),
        ConfigKey(
            "heartbeat.interval.ms",
            Type.INT,
            3_000,
            HIGH,
            "Time between heartbeats, ms; at most a third of the session.",
        ),
        ConfigKey(
            "exactly.once.source.support",
            Type.STRING,
            "disabled",
            HIGH,
            "Exactly-once for source connectors: disabled, preparing (first rolling upgrade), enabled (second).",
            one_of("disabled", "preparing", "enabled", ignore_case=True),
        ),
        ConfigKey(
            "connect.protocol",
            Type.STRING,
            "sessioned",
            LOW,
            "Group protocol: eager, compatible (incremental) or sessioned (incremental, signed requests).",
            one_of("eager", "compatible", "sessioned", ignore_case=True),
        ),
        ConfigKey(
            "scheduled.rebalance.max.delay.ms",
            Type.INT,
            300_000,
            LOW,
            "Longest wait for a vanished worker to come back before its work moves, ms.",
            AtLeast(0),
        ),
        ConfigKey(
            "worker.sync.timeout.ms", Type.INT, 3_000, MEDIUM, "Longest wait to catch up with the config topic, ms."
        ),
        ConfigKey(
            "worker.unsync.backoff.ms",
            Type.INT,
            300_000,
            MEDIUM,
            "Pause outside the group after catching up failed, ms.",
        ),
        ConfigKey("client.id", Type.STRING, "", LOW, "Prefix of the clients' ids in the brokers' logs."),
    ]
)
SESSION_KEYS = ConfigDef(
    [
        ConfigKey(
            "inter.worker.key.generation.algorithm",
            Type.STRING,
            "HmacSHA256",
            LOW,
            "How session keys are made.",
            one_of(*MAC_ALGORITHMS, ignore_case=True),
        ),
        ConfigKey("inter.worker.key.size", Type.INT, None, LOW, "Bits of a session key; not set: the algorithm's own."),
        ConfigKey(
            "inter.worker.key.ttl.ms",
            Type.INT,
            3_600_000,
            LOW,
            "Age at which the leader replaces the session key, ms.",
            AtLeast(0),
        ),
        ConfigKey(
            "inter.worker.signature.algorithm",
            Type.STRING,
            "HmacSHA256",
            LOW,
            "How this worker signs internal requests; one of inter.worker.verification.algorithms.",
            one_of(*MAC_ALGORITHMS, ignore_case=True),
        ),
        ConfigKey(
            "inter.worker.verification.algorithms",
            Type.LIST,
            "HmacSHA256",
            LOW,
            "Signatures this worker accepts.",
            one_of(*MAC_ALGORITHMS, ignore_case=True),
        ),
    ]
)


def _topic_keys(kind: str, holds: str) -> list[ConfigKey]:
    name = ConfigKey(f"{kind}.storage.topic", Type.STRING, REQUIRED, HIGH, f"Compacted topic of {holds}.", non_empty)
    copies = ConfigKey(
        f"{kind}.storage.replication.factor",
        Type.SHORT,
        3,
        LOW,
        f"Copies of the topic of {holds} when it is created; -1: the broker's default.",
        _COUNT,
    )
    return [name, copies]


STORAGE = ConfigDef(
    [
        *(key for kind, holds in _TOPIC_KINDS.items() for key in _topic_keys(kind, holds)),
        ConfigKey(
            "offset.storage.partitions",
            Type.INT,
            25,
            LOW,
            "Partitions of the offset topic when it is created; -1: the broker's default.",
            _COUNT,
        ),
        ConfigKey(
            "status.storage.partitions",
            Type.INT,
            5,
            LOW,
            "Partitions of the status topic when it is created; -1: the broker's default.",
            _COUNT,
        ),
    ]
)
CLIENTS = ConfigDef(
    [
        ConfigKey(
            "security.protocol",
            Type.STRING,
            "PLAINTEXT",
            MEDIUM,
            "How to talk to the brokers.",
            one_of("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL", ignore_case=True),
        ),
        ConfigKey("metadata.max.age.ms", Type.LONG, 300_000, LOW, "Age at which metadata is asked for again, ms."),
        ConfigKey("retry.backoff.ms", Type.LONG, 100, LOW, "First wait before a request is repeated, ms."),
        ConfigKey("retry.backoff.max.ms", Type.LONG, 1_000, LOW, "Longest wait before a request is repeated, ms."),
        ConfigKey("request.timeout.ms", Type.INT, 40_000, MEDIUM, "Longest wait for an answer, ms.", AtLeast(0)),
        ConfigKey("connections.max.idle.ms", Type.LONG, 540_000, LOW, "Idle connections are closed after this, ms."),
        ConfigKey("reconnect.backoff.ms", Type.LONG, 50, LOW, "First wait before connecting again, ms.", AtLeast(0)),
        ConfigKey(
            "reconnect.backoff.max.ms", Type.LONG, 1_000, LOW, "Longest wait before connecting again, ms.", AtLeast(0)
        ),
        ConfigKey(
            "socket.connection.setup.timeout.ms", Type.LONG, 10_000, LOW, "First limit for making a connection, ms."
        ),
        ConfigKey(
            "socket.connection.setup.timeout.max.ms", Type.LONG, 30_000, LOW, "Last limit for making a connection, ms."
        ),
        ConfigKey("send.buffer.bytes", Type.INT, 131_072, MEDIUM, "TCP send buffer, bytes; -1: the OS's.", AtLeast(-1)),
        ConfigKey(
            "receive.buffer.bytes", Type.INT, 32_768, MEDIUM, "TCP receive buffer, bytes; -1: the OS's.", AtLeast(-1)
        ),
        ConfigKey(
            "metadata.recovery.strategy",
            Type.STRING,
            "none",
            LOW,
            "What a client does when no known broker answers.",
            one_of("none", "rebootstrap", ignore_case=True),
        ),
        ConfigKey(
            "metadata.recovery.rebootstrap.trigger.ms",
            Type.LONG,
            300_000,
            LOW,
            "Time without metadata after which a client starts from bootstrap.servers again, ms.",
            AtLeast(0),
        ),
    ]
)

DISTRIBUTED = GROUP + STORAGE + SESSION_KEYS + CLIENTS + WORKER

_PASSED_ON = (*PASSED_ON, *(f"{kind}.storage." for kind in _TOPIC_KINDS))


@dataclass(frozen=True, slots=True)
class DistributedConfig:
    """A distributed worker's settings; attributes are Kafka's names with ``_`` for the dots."""

    bootstrap_servers: Sequence[str]
    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    heartbeat_interval_ms: int
    exactly_once_source_support: str
    connect_protocol: str
    scheduled_rebalance_max_delay_ms: int
    worker_sync_timeout_ms: int
    worker_unsync_backoff_ms: int
    client_id: str
    config_storage_topic: str
    config_storage_replication_factor: int
    offset_storage_topic: str
    offset_storage_replication_factor: int
    offset_storage_partitions: int
    status_storage_topic: str
    status_storage_replication_factor: int
    status_storage_partitions: int
    inter_worker_key_generation_algorithm: str
    inter_worker_key_size: int | None
    inter_worker_key_ttl_ms: int
    inter_worker_signature_algorithm: str
    inter_worker_verification_algorithms: Sequence[str]
    security_protocol: str
    request_timeout_ms: int
    retry_backoff_ms: int
    metadata_max_age_ms: int
    key_converter: str
    value_converter: str
    header_converter: str
    task_shutdown_graceful_timeout_ms: int
    offset_flush_interval_ms: int
    offset_flush_timeout_ms: int
    plugin_path: Sequence[str] | None
    config_providers: Sequence[str]
    connector_client_config_override_policy: str
    topic_creation_enable: bool
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool
    listeners: Sequence[str]
    rest_advertised_host_name: str | None
    rest_advertised_port: int | None
    rest_advertised_listener: str | None
    access_control_allow_origin: str
    access_control_allow_methods: str
    admin_listeners: Sequence[str] | None
    rest_extension_classes: Sequence[str]
    response_http_headers_config: str
    raw: Mapping[str, str] = field(repr=False)  # everything as it was given; repr would show secrets
    warnings: Sequence[str] = ()

    def topic_settings(self, kind: str) -> dict[str, str]:
        """Return what ``config.storage.*`` (or offset, status) says beyond topic, copies and partitions.

        Topic configurations for its creation; ``cleanup.policy`` is not the user's to choose.
        """
        prefix, own = f"{kind}.storage.", {"topic", "replication.factor", "partitions", "cleanup.policy"}
        given = {name[len(prefix) :]: value for name, value in self.raw.items() if name.startswith(prefix)}
        return {name: value for name, value in given.items() if name not in own}


def parse_distributed(raw: Mapping[str, str]) -> DistributedConfig:
    """Return the typed settings. Raises BadConfigError with every problem of every setting."""
    problems: dict[str, list[str]] = {}
    values: dict[str, Any] = {}
    for key in DISTRIBUTED:
        values[key.name], complaints = key.parse(raw)
        if complaints:
            problems[key.name] = complaints
    for name, complaint in _problems_between(values):
        if name not in problems:
            problems[name] = [complaint]
    if problems:
        raise BadConfigError(problems)
    wanted = {one.name for one in fields(DistributedConfig)} - {"raw", "warnings"}
    typed = {name.replace(".", "_"): value for name, value in values.items()}
    return DistributedConfig(
        **{name: typed[name] for name in wanted},
        raw=dict(raw),
        warnings=tuple(unknown_setting_warnings(DISTRIBUTED, raw, _PASSED_ON)),
    )


def _problems_between(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (setting, complaint) for settings that are wrong together."""
    found = []
    signature = values["inter.worker.signature.algorithm"]
    accepted = values["inter.worker.verification.algorithms"]
    if accepted is not None and not accepted:
        found.append(("inter.worker.verification.algorithms", "at least one algorithm must be accepted"))
    elif signature and accepted and signature.lower() not in {name.lower() for name in accepted}:
        found.append(
            ("inter.worker.signature.algorithm", f"{signature} is not among inter.worker.verification.algorithms")
        )
    session, heartbeat = values["session.timeout.ms"], values["heartbeat.interval.ms"]
    if session is not None and heartbeat is not None and heartbeat >= session:
        found.append(
            ("heartbeat.interval.ms", f"must be less than session.timeout.ms ({session} ms), not {heartbeat} ms")
        )
    topics = [(f"{kind}.storage.topic", values[f"{kind}.storage.topic"]) for kind in _TOPIC_KINDS]
    for index, (name, topic) in enumerate(topics):
        clash = next((other for other, same in topics[:index] if same == topic and topic), None)
        if clash:
            found.append((name, f"must not be the topic of {clash}"))
    return found

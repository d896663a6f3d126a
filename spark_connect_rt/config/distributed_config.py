"""Settings of a distributed worker, typed (Java ``DistributedConfig``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from spark_connect_rt.config.connection_config import CLIENTS
from spark_connect_rt.config.group_config import GROUP, SESSION_KEYS
from spark_connect_rt.config.health_config import HEALTH
from spark_connect_rt.config.listeners import listener_problems
from spark_connect_rt.config.own_settings import ENGINE, QUICKSTART
from spark_connect_rt.config.storage_config import STORAGE, TOPIC_KINDS
from spark_connect_rt.config.worker_config import PASSED_ON, WORKER, unknown_setting_warnings
from spark_connect_rt.errors import BadConfigError

DISTRIBUTED = GROUP + STORAGE + SESSION_KEYS + CLIENTS + WORKER + ENGINE + HEALTH + QUICKSTART

_PASSED_ON = (*PASSED_ON, *(f"{kind}.storage." for kind in TOPIC_KINDS))


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
        problems.setdefault(name, []).append(complaint)
    if problems:
        raise BadConfigError(problems)
    wanted = {one.name for one in fields(DistributedConfig)} - {"raw", "warnings"}
    typed = {name.replace(".", "_"): value for name, value in values.items()}
    return DistributedConfig(
        **{name: typed[name] for name in wanted},
        raw=dict(raw),
        warnings=tuple(unknown_settings(raw)),
    )


def unknown_settings(raw: Mapping[str, str]) -> list[str]:
    """Return one sentence for each setting that nothing reads: probably a misspelling."""
    return unknown_setting_warnings(DISTRIBUTED, raw, _PASSED_ON)


def _problems_between(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (setting, complaint) for settings that are wrong together."""
    found = listener_problems("listeners", values["listeners"] or ["http://:8083"])  # empty: complained about already
    found += listener_problems("admin.listeners", values["admin.listeners"] or ["http://:8083"])
    signature = values["inter.worker.signature.algorithm"]
    accepted = values["inter.worker.verification.algorithms"]
    if accepted is not None and not accepted:
        found.append(("inter.worker.verification.algorithms", "at least one algorithm must be accepted"))
    elif signature and accepted and signature.lower() not in {name.lower() for name in accepted}:
        found.append(
            ("inter.worker.signature.algorithm", f"{signature} is not among inter.worker.verification.algorithms")
        )
    found += _timing_problems(values)
    topics = [(f"{kind}.storage.topic", values[f"{kind}.storage.topic"]) for kind in TOPIC_KINDS]
    for index, (name, topic) in enumerate(topics):
        clash = next((other for other, same in topics[:index] if same == topic and topic), None)
        if clash:
            found.append((name, f"must not be the topic of {clash}"))
    return found


def _timing_problems(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return what is wrong between the times of the group and of the executors."""
    session, heartbeat = values["session.timeout.ms"], values["heartbeat.interval.ms"]
    if session is None or heartbeat is None:
        return []  # complained about already
    if heartbeat >= session:
        return [("heartbeat.interval.ms", f"must be less than session.timeout.ms ({session} ms), not {heartbeat} ms")]
    silence, most = values["connectrt.channel.timeout.ms"], session - heartbeat
    if silence is None or silence < most:
        return []
    why = (
        f"must be less than session.timeout.ms less heartbeat.interval.ms ({most} ms), not {silence} ms: executors of "
        "a worker that hangs would still work when the group gives its tasks to others"
    )
    return [("connectrt.channel.timeout.ms", why)]

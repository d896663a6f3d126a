"""Membership in the worker group and signed requests inside it (Java ``DistributedConfig``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of

MAC_ALGORITHMS = ("HmacSHA256", "HmacSHA1", "HmacSHA384", "HmacSHA512", "HmacSHA224", "HmacMD5")

GROUP = ConfigDef(
    [
        ConfigKey(
            "group.id", Type.STRING, REQUIRED, HIGH, "Name of the worker group. Unique in a Kafka cluster.", non_empty
        ),
        ConfigKey(
            "session.timeout.ms",
            Type.INT,
            10_000,
            HIGH,
            "Time without a heartbeat after which the coordinator removes a member, ms.",
        ),
        ConfigKey("rebalance.timeout.ms", Type.INT, 60_000, HIGH, "Longest time for a member to rejoin the group, ms."),
        ConfigKey(
            "heartbeat.interval.ms",
            Type.INT,
            3_000,
            HIGH,
            "Time between heartbeats, ms. At most a third of the session timeout.",
        ),
        ConfigKey(
            "exactly.once.source.support",
            Type.STRING,
            "disabled",
            HIGH,
            "Exactly-once for source connectors. disabled: off. preparing: for the first rolling upgrade. "
            "enabled: for the second.",
            one_of("disabled", "preparing", "enabled", ignore_case=True),
        ),
        ConfigKey(
            "connect.protocol",
            Type.STRING,
            "sessioned",
            LOW,
            "Group protocol. eager: stop everything first. compatible: incremental. sessioned: incremental, with "
            "signed requests.",
            one_of("eager", "compatible", "sessioned", ignore_case=True),
        ),
        ConfigKey(
            "scheduled.rebalance.max.delay.ms",
            Type.INT,
            300_000,
            LOW,
            "How long a departed worker's tasks wait for it to come back before they move, ms.",
            AtLeast(0),
        ),
        ConfigKey(
            "worker.sync.timeout.ms", Type.INT, 3_000, MEDIUM, "Longest time to catch up with the config topic, ms."
        ),
        ConfigKey(
            "worker.unsync.backoff.ms",
            Type.INT,
            300_000,
            MEDIUM,
            "Time outside the group after a failure to catch up with the config topic, ms.",
        ),
        ConfigKey("client.id", Type.STRING, "", LOW, "Prefix of the client ids in the brokers' logs."),
    ]
)
SESSION_KEYS = ConfigDef(
    [
        ConfigKey(
            "inter.worker.key.generation.algorithm",
            Type.STRING,
            "HmacSHA256",
            LOW,
            "Algorithm that generates session keys.",
            one_of(*MAC_ALGORITHMS, ignore_case=True),
        ),
        ConfigKey(
            "inter.worker.key.size", Type.INT, None, LOW, "Bits of a session key. Not set: the algorithm's default."
        ),
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
            "Algorithm with which this worker signs internal requests. One of inter.worker.verification.algorithms.",
            one_of(*MAC_ALGORITHMS, ignore_case=True),
        ),
        ConfigKey(
            "inter.worker.verification.algorithms",
            Type.LIST,
            "HmacSHA256",
            LOW,
            "Signature algorithms that this worker accepts.",
            one_of(*MAC_ALGORITHMS, ignore_case=True),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class GroupSettings(SettingsGroup):
    """Membership of the group; standalone: a group of one, without a name."""

    definition: ClassVar[ConfigDef] = GROUP
    group_id: str
    client_id: str
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    connect_protocol: str
    exactly_once_source_support: str
    scheduled_rebalance_max_delay_ms: int
    worker_sync_timeout_ms: int
    worker_unsync_backoff_ms: int

    @property
    def exactly_once(self) -> bool:
        """Return whether every source task writes records and offsets in one transaction."""
        return self.exactly_once_source_support.lower() == "enabled"

    @property
    def fences_leader(self) -> bool:
        """Return whether the leader writes the config topic in transactions: from the first rolling upgrade on."""
        return self.exactly_once_source_support.lower() != "disabled"


@dataclass(frozen=True, slots=True)
class SessionKeySettings(SettingsGroup):
    """Session keys; ``key_size`` in bits, None: the algorithm's own."""

    definition: ClassVar[ConfigDef] = SESSION_KEYS
    inter_worker_key_generation_algorithm: str
    inter_worker_key_size: int | None
    inter_worker_key_ttl_ms: int
    inter_worker_signature_algorithm: str
    inter_worker_verification_algorithms: tuple[str, ...]

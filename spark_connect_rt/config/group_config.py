"""Membership in the worker group and signed requests inside it (Java ``DistributedConfig``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from spark_connect_rt.config.config_def import HIGH, LOW, MEDIUM, REQUIRED, ConfigDef, ConfigKey, Type, prefixed
from spark_connect_rt.config.settings_group import SettingsGroup
from spark_connect_rt.config.validators import AtLeast, AtLeastOr, non_empty, one_of

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


# The three internal topics: their names and how they are created (Java ``DistributedConfig``).


TOPIC_KINDS = {"config": "connector configurations", "offset": "source offsets", "status": "statuses"}
_COUNT = AtLeastOr(1, special=-1)


def _topic_keys(kind: str, holds: str) -> list[ConfigKey]:
    name = ConfigKey(f"{kind}.storage.topic", Type.STRING, REQUIRED, HIGH, f"Compacted topic of {holds}.", non_empty)
    copies = ConfigKey(
        f"{kind}.storage.replication.factor",
        Type.SHORT,
        3,
        LOW,
        f"Replication factor of the topic of {holds} when it is created. -1: the broker's default.",
        _COUNT,
    )
    return [name, copies]


STORAGE = ConfigDef(
    [
        *(key for kind, holds in TOPIC_KINDS.items() for key in _topic_keys(kind, holds)),
        ConfigKey(
            "offset.storage.partitions",
            Type.INT,
            25,
            LOW,
            "Partitions of the offset topic when it is created. -1: the broker's default.",
            _COUNT,
        ),
        ConfigKey(
            "status.storage.partitions",
            Type.INT,
            5,
            LOW,
            "Partitions of the status topic when it is created. -1: the broker's default.",
            _COUNT,
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """One internal topic and how it is created; -1 partitions or copies: the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    settings: Mapping[str, str]  # topic configurations; cleanup.policy is not the user's to choose


def storage_topics(values: Mapping[str, Any], resolved: Mapping[str, str]) -> dict[str, StorageTopic]:
    """Return the topics by TOPIC_KINDS, of typed values and of the texts (``config.storage.segment.bytes``)."""
    own = {"topic", "replication.factor", "partitions", "cleanup.policy"}
    return {
        kind: StorageTopic(
            values[f"{kind}.storage.topic"],
            values.get(f"{kind}.storage.partitions", 1),  # the config topic has one: its order is that of everything
            values[f"{kind}.storage.replication.factor"],
            {name: text for name, text in prefixed(resolved, f"{kind}.storage.").items() if name not in own},
        )
        for kind in TOPIC_KINDS
    }


# How the leader places work in a group that has only our workers. Not in Java: its workers ignore these settings.


GROUP_RECORD_BYTES = "connectrt.group.record.max.bytes"
BY_LOAD = "connectrt.placement.by.load"

PLACEMENT = ConfigDef(
    [
        ConfigKey(
            GROUP_RECORD_BYTES,
            Type.INT,
            1_048_588,
            LOW,
            "Largest group record that the brokers accept, in bytes: their message.max.bytes, or "
            "max.message.bytes of __consumer_offsets. In a group without Java workers, the leader assigns in one "
            "round only what fits. The rest follows in the next rounds. Set the same value on every worker.",
            AtLeast(4_096),
        ),
        ConfigKey(
            BY_LOAD,
            Type.STRING,
            "own",
            LOW,
            "When the leader swaps tasks between workers because one has much more load than the others. "
            "own: only in a group without Java workers. always: also with Java workers. never: not at all.",
            one_of("own", "always", "never", ignore_case=True),
        ),
    ]
)


@dataclass(frozen=True, slots=True)
class PlacementSettings(SettingsGroup):
    """How the leader places work."""

    definition: ClassVar[ConfigDef] = PLACEMENT
    connectrt_group_record_max_bytes: int
    connectrt_placement_by_load: str

    def by_load(self, own_group: bool) -> bool:
        """Return whether tasks change places by load. ``own_group``: the group has only our workers."""
        wanted = self.connectrt_placement_by_load.lower()
        return wanted == "always" or (wanted == "own" and own_group)

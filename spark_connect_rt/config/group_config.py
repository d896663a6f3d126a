"""Membership in the worker group and signed requests inside it (Java ``DistributedConfig``)."""

from __future__ import annotations

from spark_connect_rt.config.config_def import REQUIRED, ConfigDef, ConfigKey, Importance, Type
from spark_connect_rt.config.validators import AtLeast, non_empty, one_of

HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW
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

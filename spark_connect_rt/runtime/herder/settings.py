"""The settings the herder itself works with, taken once from the worker's configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from spark_connect_rt.config.config_def import java_trim
from spark_connect_rt.protocol.subprotocol import ConnectProtocol

_OWN_KEY_BITS = {"hmacmd5": 512, "hmacsha1": 512, "hmacsha224": 224, "hmacsha384": 384, "hmacsha512": 512}
"""Java's key generators' own sizes where they are not 256."""


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """Kafka's settings under their own defaults; names end in their unit."""

    worker_id: str  # advertised host:port
    worker_url: str  # advertised URL with trailing slash
    protocol: ConnectProtocol = ConnectProtocol.SESSIONED
    scheduled_rebalance_max_delay_ms: int = 300_000
    lost_work_delay_ms: int = 0  # in a group of our own workers
    rebalance_timeout_ms: int = 60_000
    worker_sync_timeout_ms: int = 3_000
    worker_unsync_backoff_ms: int = 300_000
    task_shutdown_graceful_timeout_ms: int = 5_000
    key_ttl_ms: int = 3_600_000
    key_size_bytes: int = 32
    key_algorithm: str = "HmacSHA256"
    signature_algorithm: str = "HmacSHA256"
    verification_algorithms: tuple[str, ...] = ("HmacSHA256",)
    topic_tracking: bool = True
    topic_tracking_reset: bool = True
    request_limit_ms: int = 90_000
    raw: Mapping[str, str] = field(default_factory=dict)  # the worker's whole configuration

    @staticmethod
    def of(worker_id: str, worker_url: str, raw: Mapping[str, str]) -> HerderSettings:
        """Read the raw worker configuration, checked before by config.distributed_config.

        A properties file keeps the blanks behind a value, and the check does not count them.
        """
        trimmed = {key: java_trim(value) for key, value in raw.items()}

        def ms(key: str, default: int) -> int:
            return int(trimmed.get(key, default))

        generation = trimmed.get("inter.worker.key.generation.algorithm", "HmacSHA256")
        key_bits = int(trimmed.get("inter.worker.key.size") or _OWN_KEY_BITS.get(generation.lower(), 256))
        algorithms = trimmed.get("inter.worker.verification.algorithms", "HmacSHA256")
        return HerderSettings(
            worker_id=worker_id,
            worker_url=worker_url,
            protocol=ConnectProtocol.of_setting(trimmed.get("connect.protocol", "sessioned")),
            scheduled_rebalance_max_delay_ms=ms("scheduled.rebalance.max.delay.ms", 300_000),
            lost_work_delay_ms=ms(
                # The user's own word for it, else the user's word for Java's, else at once.
                "connectrt.lost.work.delay.ms",
                ms("scheduled.rebalance.max.delay.ms", 0),
            ),
            rebalance_timeout_ms=ms("rebalance.timeout.ms", 60_000),
            worker_sync_timeout_ms=ms("worker.sync.timeout.ms", 3_000),
            worker_unsync_backoff_ms=ms("worker.unsync.backoff.ms", 300_000),
            task_shutdown_graceful_timeout_ms=ms("task.shutdown.graceful.timeout.ms", 5_000),
            key_ttl_ms=ms("inter.worker.key.ttl.ms", 3_600_000),
            key_size_bytes=key_bits // 8,
            key_algorithm=generation,
            signature_algorithm=trimmed.get("inter.worker.signature.algorithm", "HmacSHA256"),
            verification_algorithms=tuple(name.strip() for name in algorithms.split(",")),
            topic_tracking=trimmed.get("topic.tracking.enable", "true").lower() != "false",
            topic_tracking_reset=trimmed.get("topic.tracking.allow.reset", "true").lower() != "false",
            raw=dict(raw),
        )

"""The settings the herder itself works with, taken once from the worker's configuration."""

from __future__ import annotations

from dataclasses import dataclass, field

from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.group.subprotocol import ConnectProtocol

_OWN_KEY_BITS = {"hmacmd5": 512, "hmacsha1": 512, "hmacsha224": 224, "hmacsha384": 384, "hmacsha512": 512}
"""Java's key generators' own sizes where they are not 256."""


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """Names end in their unit."""

    worker_id: str  # advertised host:port
    worker_url: str  # advertised URL with trailing slash
    protocol: ConnectProtocol
    scheduled_rebalance_max_delay_ms: int
    lost_work_delay_ms: int  # in a group of our own workers
    rebalance_timeout_ms: int
    worker_sync_timeout_ms: int
    worker_unsync_backoff_ms: int
    task_shutdown_graceful_timeout_ms: int
    key_ttl_ms: int
    key_size_bytes: int
    key_algorithm: str
    signature_algorithm: str
    verification_algorithms: tuple[str, ...]
    topic_tracking: bool
    topic_tracking_reset: bool
    worker: WorkerConfig = field(repr=False)
    request_limit_ms: int = 90_000

    @staticmethod
    def of(worker_id: str, worker_url: str, worker: WorkerConfig) -> HerderSettings:
        """Return the settings of a worker that others reach under this address."""
        group, keys, runtime = worker.group, worker.session_keys, worker.runtime
        generation = keys.inter_worker_key_generation_algorithm
        key_bits = keys.inter_worker_key_size or _OWN_KEY_BITS.get(generation.lower(), 256)
        return HerderSettings(
            worker_id=worker_id,
            worker_url=worker_url,
            protocol=ConnectProtocol.of_setting(group.connect_protocol),
            scheduled_rebalance_max_delay_ms=group.scheduled_rebalance_max_delay_ms,
            lost_work_delay_ms=worker.lost_work_delay_ms,
            rebalance_timeout_ms=group.rebalance_timeout_ms,
            worker_sync_timeout_ms=group.worker_sync_timeout_ms,
            worker_unsync_backoff_ms=group.worker_unsync_backoff_ms,
            task_shutdown_graceful_timeout_ms=runtime.task_shutdown_graceful_timeout_ms,
            key_ttl_ms=keys.inter_worker_key_ttl_ms,
            key_size_bytes=key_bits // 8,
            key_algorithm=generation,
            signature_algorithm=keys.inter_worker_signature_algorithm,
            verification_algorithms=keys.inter_worker_verification_algorithms,
            topic_tracking=runtime.topic_tracking_enable,
            topic_tracking_reset=runtime.topic_tracking_allow_reset,
            worker=worker,
        )

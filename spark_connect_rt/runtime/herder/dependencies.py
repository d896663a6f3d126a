"""Everything the herder needs from outside, as ports; ``app`` (or testing.in_process_cluster) fills it in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spark_connect_rt.api.config_provider import ConfigData, Resolve
from spark_connect_rt.api.override_policy import ConnectorClientConfigOverridePolicy
from spark_connect_rt.base.concurrency import MACHINE_THREADS, Clock, Threads
from spark_connect_rt.base.loggers import Loggers
from spark_connect_rt.base.supervision import Supervisor
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.task_runner import TaskRunner
from spark_connect_rt.group.member import GroupMember
from spark_connect_rt.group.peers import PeerClient
from spark_connect_rt.group.subprotocol import ConnectProtocol
from spark_connect_rt.kafka.interfaces import GroupOffsets, SinkGroupFactory, TableMemory, Transactions
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.runtime.group_events import RecordEvent, no_event
from spark_connect_rt.runtime.worker.source_offset_stores import OpenStore, SourceOffsetStores
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.offset_changes import OffsetNotes
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_store import StatusStore

# The settings the herder itself works with, taken once from the worker's configuration.


_OWN_KEY_BITS = {"hmacmd5": 512, "hmacsha1": 512, "hmacsha224": 224, "hmacsha384": 384, "hmacsha512": 512}
"""Java's key generators' own sizes where they are not 256."""


@dataclass(frozen=True, slots=True)
class HerderSettings:
    """Names end in their unit."""

    worker_id: str  # advertised host:port
    worker_url: str  # advertised URL with trailing slash
    protocol: ConnectProtocol
    scheduled_rebalance_max_delay_ms: int
    lost_work_delay_ms: int  # in a group without Java workers
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


def resolve_nothing(config: Mapping[str, str]) -> ConfigData:
    """Take references as they stand (no config providers)."""
    return ConfigData(config)


@dataclass(frozen=True, slots=True)
class HerderDependencies:
    """Ports, stores and a little chance."""

    settings: HerderSettings
    clock: Clock
    member: GroupMember
    config_store: ConfigStore
    status_store: StatusStore
    offset_store: OffsetStore
    runner: TaskRunner
    sink_groups: SinkGroupFactory
    plugins: PluginCatalog
    peers: PeerClient
    group_offsets: GroupOffsets
    new_key: Callable[[int], bytes]  # size in bytes -> random bytes (os.urandom)
    resolve: Resolve = resolve_nothing
    kafka_cluster_id: Callable[[], str] = lambda: ""
    source_config: ConfigDef | None = None  # settings common to all source connectors
    sink_config: ConfigDef | None = None  # settings common to all sink connectors
    override_policy: ConnectorClientConfigOverridePolicy | None = None  # a plug-in's; None: a built-in one
    table_memory: TableMemory | None = None  # None: tables that Spark writes remember nothing
    loggers: Loggers | None = None  # None: levels are neither shown nor set
    threads: Threads = MACHINE_THREADS
    supervisor: Supervisor = field(default_factory=Supervisor)  # notified of parts that ended by an error
    transactions: Transactions | None = None  # None: no exactly-once sources
    offset_notes: OffsetNotes = field(default_factory=OffsetNotes)  # of changes of offsets that are carried out here
    open_offsets: OpenStore | None = None  # None: connectors have no separate offset topics
    record_event: RecordEvent = no_event  # for the group's event log


def source_offset_stores(deps: HerderDependencies) -> SourceOffsetStores:
    """Return the source offsets of every connector of the group; their topics are opened when they are needed."""

    def config_of(connector: str) -> StoredConfig | None:
        return deps.config_store.snapshot().connector_config(connector)

    return SourceOffsetStores(
        deps.offset_store, deps.settings.worker, deps.open_offsets, config_of, deps.resolve, deps.threads
    )

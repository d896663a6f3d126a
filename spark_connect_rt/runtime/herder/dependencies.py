"""Everything the herder needs from outside, as ports; ``app`` (or testing.in_process_cluster) fills it in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spark_connect_rt.api.config_provider import ConfigData, Resolve
from spark_connect_rt.api.override_policy import ConnectorClientConfigOverridePolicy
from spark_connect_rt.base.clock import Clock
from spark_connect_rt.base.concurrency import MACHINE_THREADS, Threads
from spark_connect_rt.base.loggers import Loggers
from spark_connect_rt.base.supervision import Supervisor
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.engine.task_runner import TaskRunner
from spark_connect_rt.group.member import GroupMember
from spark_connect_rt.group.peers import PeerClient
from spark_connect_rt.kafka.interfaces import SinkGroupFactory
from spark_connect_rt.kafka.ports_group_offsets import GroupOffsets, TableMemory
from spark_connect_rt.kafka.transactions import Transactions
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.runtime.group_events import RecordEvent, no_event
from spark_connect_rt.runtime.herder.settings import HerderSettings
from spark_connect_rt.runtime.worker.source_offset_stores import OpenStore, SourceOffsetStores
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.offset_notes import OffsetNotes
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_store import StatusStore


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
    open_offsets: OpenStore | None = None  # None: connectors have no offset topics of their own
    record_event: RecordEvent = no_event  # for the group's own story


def source_offset_stores(deps: HerderDependencies) -> SourceOffsetStores:
    """Return the source offsets of every connector of the group; their topics are opened when they are needed."""

    def config_of(connector: str) -> StoredConfig | None:
        return deps.config_store.snapshot().connector_config(connector)

    return SourceOffsetStores(
        deps.offset_store, deps.settings.worker, deps.open_offsets, config_of, deps.resolve, deps.threads
    )

"""Ports meet adapters: everything one distributed worker is made of."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spark_connect_rt.api.config_provider import ConfigData, Resolve
from spark_connect_rt.api.override_policy import ConnectorClientConfigOverridePolicy
from spark_connect_rt.app.logging_setup import PythonLoggers
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.base.supervision import Report, Supervisor, report_nowhere
from spark_connect_rt.config.client_properties import (
    connector_admin_properties,
    leader_producer_properties,
    log_client_properties,
    own_offset_properties,
    shared_client_properties,
)
from spark_connect_rt.config.connector_config import SINK, SOURCE
from spark_connect_rt.config.override_policy import endpoints_in, is_plugin, refuse_foreign_endpoints
from spark_connect_rt.config.programs import allowed_programs, names_programs, refuse_programs
from spark_connect_rt.config.worker_config import Advertised
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.executor_clients import clients_factory
from spark_connect_rt.engine.formats.table_writer import SparkTables
from spark_connect_rt.engine.process_plugins import java_asked, plugin_folders, plugins_of, providers_of
from spark_connect_rt.engine.startup.java_home import find_java
from spark_connect_rt.engine.task_runner import TaskRunner
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.group.member import GroupMember
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.kafka.interfaces import SinkGroup
from spark_connect_rt.kafka.internal_topics import internal_topics
from spark_connect_rt.kafka.logs.compacted_log import KafkaCompactedLog
from spark_connect_rt.kafka.logs.log_load import LatestLoad
from spark_connect_rt.kafka.membership.group_member import KafkaGroupMember
from spark_connect_rt.kafka.membership.group_settings import member_settings
from spark_connect_rt.kafka.writing.fenced_writer import KafkaFencedWriter, KafkaTransactions
from spark_connect_rt.operations.events.memory import EventMemory
from spark_connect_rt.plugins.locations import find_locations
from spark_connect_rt.plugins.registry import Plugins
from spark_connect_rt.rest.peers import HttpPeerClient
from spark_connect_rt.rest.tls import client_tls
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies, HerderSettings
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.log_snapshot import LogCache
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_store import StatusStore


@dataclass(slots=True)
class ClusterId:
    """The Kafka cluster's id, known once a broker answered."""

    value: str = ""


def internal_log(
    config: WorkerConfig,
    admin: KafkaAdmin,
    topic: TopicSpec,
    clients: str,
    timing: Timing,
    report: Report = report_nowhere,
) -> KafkaCompactedLog:
    """Return the log of one internal topic; ``clients`` (configs, offsets, statuses) ends the client ids."""
    exact = 1 if clients == "configs" else None  # its order is the order of everything
    # I7: an offset that was sent while the work was certainly ours arrives, or never does, before it is another's.
    limit_ms = timing.session_ms - timing.lease_ms if clients == "offsets" else None
    # Only offsets mean nothing together: a later one of a key is all there is to know of it.
    load = LatestLoad(snapshot_cache(config)) if clients == "offsets" else None
    properties = log_client_properties(config, clients, limit_ms)
    return KafkaCompactedLog(topic, admin, properties, exact_partitions=exact, load=load, report=report)


def snapshot_cache(config: WorkerConfig) -> LogCache | None:
    """Return where snapshots of internal topics are kept; None: nowhere."""
    directory = config.engine.connectrt_snapshot_directory
    return LogCache(Path(directory), SystemClock().now_ms) if directory else None


def leader_writer(config: WorkerConfig) -> KafkaFencedWriter | None:
    """Return how this worker writes the config topic when it leads; None: as all workers do, unfenced (as Java)."""
    if not config.group.fences_leader:
        return None
    return KafkaFencedWriter(config.storage["config"].name, leader_producer_properties(config), partition=0)


def sink_group(properties: Mapping[str, str]) -> SinkGroup:
    """Return one sink task's membership in its consumer group."""
    from spark_connect_rt.kafka.sink_group import KafkaSinkGroup

    return KafkaSinkGroup(properties)


def guarded(resolve: Resolve, config: WorkerConfig) -> Resolve:
    """Return a resolver of what connectors configure: it refuses what the worker's file does not allow.

    That is token endpoints and programs. Every client of a connector's in the driver is made from what comes out of
    here, and every connector is checked and started with it, however the setting was written.
    """

    def resolved(settings: Mapping[str, str]) -> ConfigData:
        values = resolve(settings)
        if endpoints_in(values):
            refuse_foreign_endpoints(values, resolve(config.raw))
        if names_programs(values):
            refuse_programs(values, allowed_programs(resolve(config.raw)))
        return values

    return resolved


@dataclass(frozen=True, slots=True)
class WorkerState:
    """The differences between a worker of a group and one without: membership, and where state is kept."""

    member: GroupMember
    config_store: ConfigStore
    status_store: StatusStore
    offset_store: OffsetStore


def worker_dependencies(
    config: WorkerConfig,
    address: Advertised,
    runner: TaskRunner,
    cluster: ClusterId,
    supervisor: Supervisor,
    state: WorkerState,
) -> HerderDependencies:
    """Return the needs of any worker's herder. The caller adds those that only a member of a group has."""
    supervisor.watch(java_trouble(config))
    clock, plugins, resolve = SystemClock(), plugins_of(config.raw), providers_of(config.raw).resolve
    return HerderDependencies(
        settings=HerderSettings.of(address.worker_id, address.url, config),
        clock=clock,
        member=state.member,
        config_store=state.config_store,
        status_store=state.status_store,
        offset_store=state.offset_store,
        runner=runner,
        sink_groups=sink_group,
        plugins=plugins,
        peers=HttpPeerClient(lambda: client_tls(resolve(config.raw))),
        new_key=os.urandom,
        resolve=guarded(resolve, config),
        group_offsets=KafkaGroupOffsets(),
        table_memory=SparkTables(runner),
        kafka_cluster_id=lambda: cluster.value,
        loggers=PythonLoggers(),
        source_config=SOURCE,
        sink_config=SINK,
        override_policy=override_policy(config, plugins),
        supervisor=supervisor,
        record_event=EventMemory(clock, address.worker_id),
    )


def herder_dependencies(
    config: WorkerConfig,
    address: Advertised,
    admin: KafkaAdmin,
    runner: TaskRunner,
    cluster: ClusterId,
    supervisor: Supervisor | None = None,
) -> HerderDependencies:
    """Return everything the herder of one worker of a group needs."""
    supervisor, clock = supervisor or Supervisor(), SystemClock()
    named = replace(config.group, client_id=config.group.client_id or f"connect-{address.worker_id}")
    member = KafkaGroupMember(member_settings(named, config.connection, shared_client_properties(config)))
    timing = member.settings.timing
    topics, failed = internal_topics(config), supervisor.failed
    logs = {kind: internal_log(config, admin, topic, kind, timing, failed) for kind, topic in topics.items()}
    state = WorkerState(
        member,
        ConfigStore(logs["configs"], clock, leader_writer(config)),
        StatusStore(logs["statuses"], clock),
        OffsetStore(logs["offsets"], may_write=member.in_contact),
    )
    return replace(
        worker_dependencies(config, address, runner, cluster, supervisor, state),
        transactions=KafkaTransactions(),
        open_offsets=lambda topic, connector: own_offset_store(config, member, topic, connector),
    )


def java_trouble(config: WorkerConfig) -> Callable[[], str]:
    """Return what says what is wrong with the JVM of Java connectors."""
    asked = java_asked(config.raw)

    def trouble() -> str:
        java = asked()
        return java.host.trouble() if java is not None else ""

    return trouble


def java_jars(folders: Sequence[str]) -> Sequence[Path]:
    """Return the jars that host Java plug-ins, for executors on other machines; none: the folders hold no such."""
    if not any(location.java for location in find_locations([folder for folder in folders if Path(folder).exists()])):
        return ()
    from spark_connect_rt.engine.java_host.jar import program_jars

    return program_jars(find_java())


def own_offset_store(
    config: WorkerConfig, member: KafkaGroupMember, topic: str, connector: Mapping[str, str]
) -> OffsetStore:
    """Return a connector's own offset topic as a store, in the connector's own cluster (``offsets.storage.topic``)."""
    name, timing = connector["name"], member.settings.timing
    own = replace(config, raw=config.resolved)  # these clients are the worker's, who resolved the connector's settings
    admin = KafkaAdmin(connector_admin_properties(own, connector, name, 0))
    clients = own_offset_properties(own, connector, name, timing.session_ms - timing.lease_ms)
    spec = replace(internal_topics(config)["offsets"], name=topic)
    log = KafkaCompactedLog(spec, admin, clients, load=LatestLoad(snapshot_cache(config)))
    return OffsetStore(log, may_write=member.in_contact)


def override_policy(config: WorkerConfig, plugins: Plugins) -> ConnectorClientConfigOverridePolicy | None:
    """Return the plug-in behind ``connector.client.config.override.policy``; None: it is a built-in one.

    Raises BadConfigError: there is no such plug-in, or it does not take the worker's configuration.
    """
    name = config.runtime.connector_client_config_override_policy
    if not is_plugin(name):
        return None
    try:
        policy: ConnectorClientConfigOverridePolicy = plugins.class_of(name)()
        policy.configure(config.raw)
    except NotFoundError as error:
        raise BadConfigError({"connector.client.config.override.policy": [str(error)]}) from error
    return policy


def spark_runner(
    config: WorkerConfig, session: Callable[[], Any] | None = None, report: Report = report_nowhere
) -> TaskRunner:
    """Return the real execution engine; its SparkSession is being built when this returns.

    ``session`` returns one that others use, too; it stays theirs.
    """
    from spark_connect_rt.engine.formats.spark_sink import SparkSinkRunner
    from spark_connect_rt.engine.formats.spark_source import SparkSourceRunner
    from spark_connect_rt.engine.spark_runner import SparkTaskRunner

    folders = plugin_folders(config.raw)
    shipped = folders if config.plugins.connectrt_plugins_ship else ()
    clients = clients_factory(folders)
    return SparkTaskRunner(
        config,
        clients,
        session_factory=session,
        spark_sinks=SparkSinkRunner(clients),
        spark_sources=SparkSourceRunner(clients),
        report=report,
        shipped=shipped,
        java_jars=lambda: java_jars(shipped),
    )

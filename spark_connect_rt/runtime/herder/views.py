"""Answers to reads, made from immutable snapshots on the caller's thread; never waits for the tick."""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.client_properties import GROUP_OVERRIDE, connector_admin_properties, sink_group_id
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.engine.task_runner import TaskKind
from spark_connect_rt.errors import ConnectError, ForbiddenError, NotFoundError, RetriableError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.health import RestartPlan
from spark_connect_rt.runtime.values import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStateInfo,
    InstanceState,
    PluginInfo,
    ProgressNote,
    RestartNote,
    TaskInfo,
    TaskState,
    note_of,
)
from spark_connect_rt.runtime.worker.launches import kind_of, plugin_of
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.offset_changes import OffsetPair
from spark_connect_rt.topics.offset_records import OffsetMap
from spark_connect_rt.topics.status_records import ConnectorStatus, State

Instance = TypeVar("Instance", bound=InstanceState)


class ConnectorViews:
    """Reads of connectors, from the stores alone. Any thread."""

    def __init__(self, deps: HerderDependencies, offsets: SourceOffsetStores) -> None:
        self._deps = deps
        self._offsets = offsets
        self._types: dict[str, str] = {}

    def list_connectors(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        return list(self._deps.config_store.snapshot().connectors())

    def connector_info(self, name: str) -> ConnectorInfo:
        """Return type, raw configuration and task ids. Raises NotFoundError."""
        tasks = self._deps.config_store.snapshot().tasks(name)
        return ConnectorInfo(name, self.connector_config(name).written(), tasks, self.connector_type(name))

    def connector_config(self, name: str) -> StoredConfig:
        """Return the configuration as it is stored. Raises NotFoundError."""
        config = self._deps.config_store.snapshot().connector_config(name)
        if config is None:
            raise NotFoundError(f"Connector {name} not found")
        return config

    def config_version(self, name: str) -> int | None:
        """Return the position of the connector's record in the config topic; every worker's is the same."""
        return self._deps.config_store.snapshot().configured_at.get(name)

    def target_state(self, name: str) -> TargetState | None:
        """Return what is wanted of a connector; None: no connector."""
        snapshot = self._deps.config_store.snapshot()
        return snapshot.target_state(name) if snapshot.contains(name) else None

    def offsets_as_read(self, name: str) -> list[OffsetPair]:
        """Return where the connector is, of a source as far as its topic was read: cheaper than ``offsets``.

        Blocks for sinks (asks Kafka). Raises NotFoundError, RetriableError.
        """
        if self.connector_type(name) == "sink":
            return [(offset.partition, offset.offset) for offset in self.offsets(name)]
        self.connector_config(name)
        return list(self._offsets.connector_offsets(name))

    def connector_mark(self, name: str) -> object:
        """Everything that status and info are made of. Raises NotFoundError."""
        snapshot, store = self._deps.config_store.snapshot(), self._deps.status_store
        config = self.connector_config(name)
        consistent = name not in snapshot.inconsistent
        target = snapshot.target_state(name)
        return (config, target, snapshot.task_count(name), consistent, store.connector(name), store.tasks(name))

    def states_mark(self) -> object:
        """Everything that marks are made of: each change raises the offset or the version."""
        return (self._deps.config_store.snapshot().offset, self._deps.status_store.version)

    def status_times(self, name: str) -> Mapping[int | None, int]:
        """Return task number (None: the connector itself) -> when its status was written, ms since 1970; 0: unknown."""
        store = self._deps.status_store
        connector = store.connector(name)
        times: dict[int | None, int] = {number: status.at_ms for number, status in store.tasks(name).items()}
        return times if connector is None else {None: connector.at_ms, **times}

    def connector_status(self, name: str) -> ConnectorStateInfo:
        """A configured connector always has one: UNASSIGNED until a worker reports. Raises NotFoundError."""
        snapshot, store = self._deps.config_store.snapshot(), self._deps.status_store
        if not snapshot.contains(name):
            raise NotFoundError(f"No status found for connector {name}")
        reported = store.tasks(name)
        numbers = [task.task for task in snapshot.tasks(name)]
        if snapshot.target_state(name) is TargetState.STOPPED:
            numbers += _draining(reported, set(numbers))
        tasks = tuple(_task_state(number, reported.get(number)) for number in numbers)
        connector = InstanceState(*_reported(store.connector(name)))
        return ConnectorStateInfo(name, connector, tasks, self.connector_type(name))

    def planned_status(self, plan: RestartPlan) -> ConnectorStateInfo:
        """Return the status with RESTARTING where the plan restarts."""
        status = self.connector_status(plan.request.connector)
        connector = _restarting(status.connector) if plan.restart_connector else status.connector
        tasks = tuple(_restarting(task) if task.id in plan.tasks else task for task in status.tasks)
        return ConnectorStateInfo(status.name, connector, tasks, status.type)

    def task_status(self, task: ConnectorTaskId) -> TaskState:
        """Return the last report of a task, UNASSIGNED without one. Raises NotFoundError."""
        if task not in self._deps.config_store.snapshot().tasks(task.connector):
            raise NotFoundError(f"No status found for task {task}")
        return _task_state(task.task, self._deps.status_store.task(task))

    def task_infos(self, name: str) -> list[TaskInfo]:
        """Return the tasks with their raw configurations, by number. Raises NotFoundError."""
        snapshot = self._deps.config_store.snapshot()
        self.connector_config(name)
        return [TaskInfo(task, (snapshot.task_config(task) or NO_SETTINGS).written()) for task in snapshot.tasks(name)]

    def topics(self, name: str) -> tuple[str, ...]:
        """Return the topics the connector used, sorted. Raises ForbiddenError: tracking is off."""
        if not self._deps.settings.topic_tracking:
            raise ForbiddenError("Topic tracking is disabled.")
        return self._deps.status_store.topics(name)

    def plugins(self, connectors_only: bool) -> list[PluginInfo]:
        """Return them in the catalogue's order."""
        return [
            PluginInfo(facts.java_class, facts.type, facts.version)
            for facts in self._deps.plugins.list(connectors_only)
        ]

    def offsets(self, name: str) -> list[ConnectorOffset]:
        """Where the connector is. Blocks for sinks (asks Kafka). Raises NotFoundError, RetriableError."""
        config = self.connector_config(name)
        if self.connector_type(name) != "sink":
            return [ConnectorOffset(partition, offset) for partition, offset in self._source_offsets(name)]
        admin = connector_admin_properties(self._deps.settings.worker, config.written(), name, 0)
        group = sink_group_id(config.only([GROUP_OVERRIDE]).resolved(self._deps.resolve), name)
        committed = self._deps.group_offsets.committed(self._deps.resolve(admin), group)
        return [
            ConnectorOffset({"kafka_partition": p.partition, "kafka_topic": p.topic}, {"kafka_offset": offset})
            for p, offset in sorted(committed.items())
        ]

    def _source_offsets(self, name: str) -> list[tuple[OffsetMap | None, OffsetMap]]:
        """Read to the end: another worker may have answered that it altered them.

        If Kafka is unreachable, return the known offsets.
        """
        with contextlib.suppress(RetriableError):
            self._offsets.read(name, [], self._deps.settings.worker_sync_timeout_ms)
        return self._offsets.connector_offsets(name)

    def connector_type(self, name: str) -> str:
        """Return source, sink, or unknown (no such connector, or its class is not here)."""
        config = self._deps.config_store.snapshot().connector_config(name) or NO_SETTINGS
        try:
            class_name = plugin_of(config, self._deps.resolve)
        except ConnectError:  # the reference in its class cannot be looked up
            return "unknown"
        if class_name not in self._types:
            self._types[class_name] = self._type_of_class(class_name)
        return self._types[class_name]

    def _type_of_class(self, class_name: str) -> str:
        try:
            found = self._deps.plugins.find(class_name)
            if found.is_java and found.type in ("source", "sink"):
                return found.type  # no JVM is started to say that
            kind = kind_of(self._deps.plugins.class_of(class_name))
        except (ConnectError, ImportError, TypeError):
            return "unknown"
        return "source" if kind is TaskKind.SOURCE else "sink"


def _draining(reported: Mapping[int, ConnectorStatus], configured: Container[int]) -> list[int]:
    """Return tasks that are no longer configured and have not ended. Their records may not be committed yet."""
    alive = (State.RUNNING, State.PAUSED)
    return sorted(number for number, status in reported.items() if number not in configured and status.state in alive)


def _task_state(number: int, status: ConnectorStatus | None) -> TaskState:
    return TaskState(number, *_reported(status))


def _reported(status: ConnectorStatus | None) -> tuple[Any, ...]:
    """Return the fields of InstanceState in their order."""
    if status is None:
        return State.UNASSIGNED.value, ""
    shown = status.state.value, status.worker_id, status.version, status.trace
    if not (notes := status.notes):
        return shown
    return *shown, note_of(RestartNote, notes.get("restart")), note_of(ProgressNote, notes.get("progress"))


def _restarting(instance: Instance) -> Instance:
    return replace(instance, state=State.RESTARTING.value, trace=None, restart=None, progress=None)

"""The snapshot of the config topic (Java ``ClusterConfigState``): immutable, read by any thread.

Configurations are stored ones: their ``${provider:...}`` references are resolved where a value is read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, cast

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import config_records as records
from spark_connect_rt.topics.config_records import PendingChange, RecordKey, RecordKind, SessionKey, TargetState


@dataclass(frozen=True, slots=True)
class ClusterConfigState:
    """Everything configured, as of ``offset`` (the last readable record's offset + 1; -1 before any)."""

    offset: int = -1
    session_key: SessionKey | None = None
    connector_configs: Mapping[str, StoredConfig] = field(default_factory=dict)
    configured_at: Mapping[str, int] = field(default_factory=dict)  # offsets of the records of connector_configs
    target_states: Mapping[str, TargetState] = field(default_factory=dict)
    task_counts: Mapping[str, int] = field(default_factory=dict)
    task_configs: Mapping[ConnectorTaskId, StoredConfig] = field(default_factory=dict)
    applied_configs: Mapping[str, StoredConfig] = field(default_factory=dict)
    task_count_records: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)  # of task configs, for equality only
    inconsistent: frozenset[str] = frozenset()
    overtaken: frozenset[str] = frozenset()  # connectors of which something was written after their commit record
    pending_fencing: frozenset[str] = frozenset()
    pending: Mapping[str, PendingChange] = field(default_factory=dict)  # by connector
    last_changes: tuple[tuple[int, str], ...] = field(default=(), compare=False)  # offset of a record, its connector
    changes_from: int = field(default=0, compare=False)  # last_changes has all from this offset on

    def changed_since(self, offset: int) -> frozenset[str] | None:
        """Return the connectors of which something was written since the snapshot of that offset; None: not known."""
        if not self.changes_from <= offset <= self.offset:
            return None
        return frozenset(name for at, name in self.last_changes if at >= offset)

    def connectors(self) -> tuple[str, ...]:
        """Return the names of all connectors, sorted."""
        return tuple(sorted(self.connector_configs))

    def contains(self, name: str) -> bool:
        """Return whether the connector is configured."""
        return name in self.connector_configs

    def connector_config(self, name: str) -> StoredConfig | None:
        """Return the configuration as it is stored, None for an unknown connector."""
        return self.connector_configs.get(name)

    def target_state(self, name: str) -> TargetState | None:
        """Return the target state, None for an unknown connector."""
        return self.target_states.get(name)

    def task_count(self, name: str) -> int:
        """Return the committed number of tasks, also of an inconsistent set; 0 when none was committed."""
        return self.task_counts.get(name, 0)

    def tasks(self, name: str) -> tuple[ConnectorTaskId, ...]:
        """Return the task ids 0..count-1; none while the connector is inconsistent."""
        if name in self.inconsistent:
            return ()
        return tuple(map(ConnectorTaskId, repeat(name), range(self.task_count(name))))

    def task_config(self, task: ConnectorTaskId) -> StoredConfig | None:
        """Return the configuration of a task as it is stored, None when there is none."""
        return self.task_configs.get(task)

    def connector_task_configs(self, name: str) -> list[StoredConfig]:
        """Return the configurations of ``tasks(name)`` as they are stored, by number."""
        return [self.task_configs.get(task, NO_SETTINGS) for task in self.tasks(name)]

    def applied_config(self, name: str) -> StoredConfig | None:
        """Return the connector configuration its committed tasks were generated from, None if unknown."""
        return self.applied_configs.get(name)

    def task_count_record(self, name: str) -> int | None:
        """Return how many tasks' producers the next fencing must fence, None without a record."""
        return self.task_count_records.get(name)

    def task_config_generation(self, name: str) -> int | None:
        """Return a token that changes with every committed task set; None before the first."""
        return self.generations.get(name)


EMPTY = ClusterConfigState()


# Folds the config topic, record by record, into snapshots and events (Java ``KafkaConfigBackingStore``).
#
# Owns: the meaning of a record. ``ConfigFold`` is the accumulator; it holds no lock (its store does), knows no topic.
# Invariants, as in Java: a task configuration has no effect before its commit record. The offset is that of the last
# READABLE record + 1, so that all workers compute the same one.
#
# A commit record is overtaken if one of its records was written again later. A worker that reads the topic after
# compaction finds only the later record, after the commit. It takes the task set for a deleted connector's or for an
# incomplete one. So two workers may know different tasks at the same offset. The worker that runs the connector writes
# its task set again (publishing).


@dataclass(frozen=True, slots=True)
class ConnectorConfigUpdated:
    """A connector was created or its configuration written again; ``changed``: names of settings that differ."""

    name: str
    at: int = field(default=-1, compare=False)  # offset of the record, as of the events below
    created: bool = field(default=False, compare=False)
    changed: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class ConnectorConfigRemoved:
    """A connector and its configuration were deleted."""

    name: str
    at: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class TaskConfigsUpdated:
    """A commit record was read; ``tasks`` are those with written configurations (none: count only)."""

    name: str
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChanged:
    """A configured connector is wanted in another state."""

    name: str
    at: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class SessionKeyUpdated:
    """The leader distributed a session key."""

    key: SessionKey


@dataclass(frozen=True, slots=True)
class RestartRequested:
    """A restart by the API (KIP-745); means nothing when it is replayed at start."""

    name: str
    include_tasks: bool
    only_failed: bool
    at: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class LoggerLevelUpdated:
    """A cluster-wide logger level (KIP-976); means nothing when it is replayed at start."""

    namespace: str
    level: str
    at: int = field(default=-1, compare=False)


ConfigEvent = (
    ConnectorConfigUpdated
    | ConnectorConfigRemoved
    | TaskConfigsUpdated
    | TargetStateChanged
    | SessionKeyUpdated
    | RestartRequested
    | LoggerLevelUpdated
)
ConfigEvents = tuple[ConfigEvent, ...]


LAST_CHANGES = 512  # the number of changes that a snapshot lists: frequent readers need not scan all connectors


class ConfigFold:
    """The state so far. Not thread-safe."""

    def __init__(self) -> None:
        self._last_changes: deque[tuple[int, str]] = deque()
        self._changes_from = 0
        self._offset = -1
        self._session_key: SessionKey | None = None
        self._connectors: dict[str, StoredConfig] = {}
        self._configured_at: dict[str, int] = {}
        self._targets: dict[str, TargetState] = {}
        self._counts: dict[str, int] = {}
        self._tasks: dict[ConnectorTaskId, StoredConfig] = {}
        self._deferred: dict[str, dict[int, StoredConfig]] = {}
        self._applied: dict[str, StoredConfig] = {}
        self._count_records: dict[str, int] = {}
        self._generations: dict[str, int] = {}
        self._inconsistent: set[str] = set()
        self._overtaken: set[str] = set()
        self._pending_fencing: set[str] = set()
        self._levels: dict[str, str] = {}
        self._pending: dict[str, PendingChange] = {}

    def target_state(self, name: str) -> TargetState | None:
        """Return the present target state of a connector."""
        return self._targets.get(name)

    def seen_by_users(self, key: RecordKey) -> Mapping[str, str] | None:
        """Return the users' configuration under a key: a connector's settings, or one entry, ``state`` or ``level``."""
        name = key.name
        if key.kind is RecordKind.CONNECTOR:
            return self._connectors[name].written() if name in self._connectors else None
        if key.kind is RecordKind.LOGGER:
            return {"level": self._levels[name]} if name in self._levels else None
        if key.kind is not RecordKind.TARGET_STATE:
            return None
        return {"state": self._targets[name].value} if name in self._connectors and name in self._targets else None

    def apply(self, offset: int, key: bytes | None, value: bytes | None) -> ConfigEvents:
        """Fold one record and return the events for a started worker.

        Raises DataError with the reason for a record that is ignored; only ``snapshot().offset`` may have moved.
        """
        decoded = records.decode_value(value)  # unreadable: raises before the offset moves
        self._offset = offset + 1
        record = records.decode_key(key)
        if record is None:
            raise DataError(f"config topic key {key!r} is of a kind that this version does not support")
        fold: Callable[[RecordKey, Any], ConfigEvents] = getattr(self, _FOLDS[record.kind])
        if decoded is None and record.kind not in _DELETABLE:
            raise DataError(f"{record.kind.name} record {key!r} has no value")
        self._note_change(offset, record.name)
        return fold(record, decoded)

    def snapshot(self) -> ClusterConfigState:
        """Return an immutable copy of the state so far."""
        return ClusterConfigState(
            offset=self._offset,
            session_key=self._session_key,
            connector_configs=dict(self._connectors),
            configured_at=dict(self._configured_at),
            target_states=dict(self._targets),
            task_counts=dict(self._counts),
            task_configs=dict(self._tasks),
            applied_configs=dict(self._applied),
            task_count_records=dict(self._count_records),
            generations=dict(self._generations),
            inconsistent=frozenset(self._inconsistent),
            overtaken=frozenset(self._overtaken),
            pending_fencing=frozenset(self._pending_fencing),
            pending=dict(self._pending),
            last_changes=tuple(self._last_changes),
            changes_from=self._changes_from,
        )

    def _note_change(self, offset: int, name: str) -> None:
        self._last_changes.append((offset, name))
        if len(self._last_changes) > LAST_CHANGES:
            self._changes_from = self._last_changes.popleft()[0] + 1

    def _target_state(self, record: RecordKey, value: Any) -> ConfigEvents:
        name = record.name
        known = name in self._connectors
        if value is None:
            # The connector's own tombstone notifies the worker; a connector that stays is started again.
            self._targets.pop(name, None)
            if known:
                self._targets[name] = TargetState.STARTED
            return ()
        text = records.decode_target_state(value)
        try:
            state = TargetState(text)
        except ValueError as error:
            raise DataError(f"target state {text!r} of connector {name} is unknown") from error
        changed = self._targets.get(name) is not state
        self._targets[name] = state
        return (TargetStateChanged(name, self._offset - 1),) if changed and known else ()

    def _connector(self, record: RecordKey, value: Any) -> ConfigEvents:
        name = record.name
        if value is None:
            # The task-count record stays: a connector of the same name must still fence the old producers.
            self._forget_tasks(name)
            self._connectors.pop(name, None)
            self._configured_at.pop(name, None)
            return (ConnectorConfigRemoved(name, self._offset - 1),)
        before = self._connectors.get(name)
        now = self._connectors[name] = StoredConfig(cast(Mapping[str, str], records.decode_properties(value)))
        self._configured_at[name] = self._offset - 1
        self._overtake(name)
        self._targets.setdefault(name, TargetState.STARTED)
        return (ConnectorConfigUpdated(name, self._offset - 1, before is None, _differing(before or NO_SETTINGS, now)),)

    def _task(self, record: RecordKey, value: Any) -> ConfigEvents:
        config = StoredConfig(cast(Mapping[str, str], records.decode_properties(value)))
        task = record.task_id
        self._deferred.setdefault(task.connector, {})[task.task] = config
        self._overtake(task.connector)
        return ()

    def _commit(self, record: RecordKey, value: Any) -> ConfigEvents:
        name = record.name
        if name not in self._connectors:
            # Deleted before (compaction may have dropped the tombstone): old tasks must not come back.
            self._forget_tasks(name)
            return ()
        count = records.decode_commit(value)
        deferred = self._deferred.get(name)
        written: tuple[ConnectorTaskId, ...] = ()
        if all(number in (deferred or {}) for number in range(count)):
            if deferred is not None:
                written = tuple(ConnectorTaskId(name, number) for number in sorted(deferred))
                self._tasks.update({task: deferred[task.task] for task in written})
                self._generations[name] = self._generations.get(name, -1) + 1
            self._inconsistent.discard(name)
            self._applied[name] = self._connectors[name]
        else:
            self._inconsistent.add(name)
        if deferred is not None:
            deferred.clear()
        self._counts[name] = count
        self._overtaken.discard(name)
        self._pending_fencing.add(name)
        return (TaskConfigsUpdated(name, written),)

    def _task_count(self, record: RecordKey, value: Any) -> ConfigEvents:
        self._count_records[record.name] = records.decode_task_count(value)
        self._pending_fencing.discard(record.name)
        return ()

    def _session(self, record: RecordKey, value: Any) -> ConfigEvents:
        self._session_key = records.decode_session_key(value)
        return (SessionKeyUpdated(self._session_key),)

    def _restart(self, record: RecordKey, value: Any) -> ConfigEvents:
        request = records.decode_restart_request(value)
        return (RestartRequested(record.name, request.include_tasks, request.only_failed, self._offset - 1),)

    def _logger(self, record: RecordKey, value: Any) -> ConfigEvents:
        level = self._levels[record.name] = records.decode_logger_level(value)
        return (LoggerLevelUpdated(record.name, level, self._offset - 1),)

    def _pending_change(self, record: RecordKey, value: Any) -> ConfigEvents:
        if value is None:
            self._pending.pop(record.name, None)
        else:
            self._pending[record.name] = records.decode_pending(value)
        return ()

    def _overtake(self, name: str) -> None:
        if name in self._counts:
            self._overtaken.add(name)

    def _forget_tasks(self, name: str) -> None:
        for task in [task for task in self._tasks if task.connector == name]:  # also above a shrunk count
            del self._tasks[task]
        self._counts.pop(name, None)
        self._deferred.pop(name, None)
        self._applied.pop(name, None)
        self._overtaken.discard(name)


def _differing(before: StoredConfig, now: StoredConfig) -> tuple[str, ...]:
    old, new = before.written(), now.written()
    return tuple(sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name)))


_FOLDS = {
    RecordKind.TARGET_STATE: "_target_state",
    RecordKind.CONNECTOR: "_connector",
    RecordKind.TASK: "_task",
    RecordKind.COMMIT: "_commit",
    RecordKind.RESTART: "_restart",
    RecordKind.TASK_COUNT: "_task_count",
    RecordKind.SESSION_KEY: "_session",
    RecordKind.LOGGER: "_logger",
    RecordKind.PENDING: "_pending_change",
}
_DELETABLE = (RecordKind.CONNECTOR, RecordKind.TARGET_STATE, RecordKind.PENDING)


# The change for users in one record of the config topic: a configuration, a target state, a logger's level.


CONFIG, STATE, LOGGER = "config", "state", "logger"


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One change as it is in the topic, secrets included.

    Attributes:
        kind: config, state, logger.
        name: of the connector, or of the logger.
        before: None: there was nothing, or compaction removed it.
        after: None: it was deleted. Of a state or a level: one entry, ``state`` or ``level``.
        position: the record's offset.
        state: target state that belongs to a configuration; the previous one, where it was deleted.
        is_live: made while the worker ran, not read at its start.
    """

    kind: str
    name: str
    before: Mapping[str, str] | None
    after: Mapping[str, str] | None
    position: int
    at_ms: int
    state: str | None
    is_live: bool

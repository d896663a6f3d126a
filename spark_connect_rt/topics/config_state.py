"""The snapshot of the config topic (Java ``ClusterConfigState``): immutable, read by any thread.

Configurations are stored ones: their ``${provider:...}`` references are resolved where a value is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import repeat

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.topics.config_records import PendingChange, SessionKey
from spark_connect_rt.topics.target_state import TargetState


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
        """Return what the user wants, None for an unknown connector."""
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
        """Return how many tasks' producers the next fencing must shut out, None without a record."""
        return self.task_count_records.get(name)

    def task_config_generation(self, name: str) -> int | None:
        """Return a token that changes with every committed task set; None before the first."""
        return self.generations.get(name)


EMPTY = ClusterConfigState()

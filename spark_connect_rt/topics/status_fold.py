"""Folds the status topic into what REST shows (Java ``KafkaStatusBackingStore``).

Owns: what a status record means. Holds no lock (its store does).
"""

from __future__ import annotations

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import DataError
from spark_connect_rt.topics import status_records as records
from spark_connect_rt.topics.connector_status import ConnectorStatus, State
from spark_connect_rt.topics.status_records import (
    ConnectorStatusKey,
    StatusFields,
    TaskStatusKey,
    TopicStatus,
    TopicStatusKey,
)


def to_fields(status: ConnectorStatus) -> StatusFields:
    """Return what is written of a status."""
    return StatusFields(
        status.state.value, status.trace, status.worker_id, status.generation, status.version, status.notes
    )


def from_fields(fields: StatusFields, at_ms: int = 0) -> ConnectorStatus:
    """Return the status; ``at_ms``: when it was written. Raises DataError for a state this version does not know."""
    try:
        state = State(fields.state)
    except ValueError as error:
        raise DataError(f"state {fields.state!r} is unknown") from error
    return ConnectorStatus(
        state, fields.worker_id, fields.generation, fields.trace, fields.version, fields.notes, at_ms
    )


class StatusFold:
    """The last status of every connector, task and used topic. Not thread-safe."""

    def __init__(self) -> None:
        self.connectors: dict[str, ConnectorStatus] = {}
        self._tasks: dict[str, dict[int, ConnectorStatus]] = {}
        self._topics: dict[str, dict[str, TopicStatus]] = {}

    def apply(self, key: bytes | None, value: bytes | None, at_ms: int = 0) -> None:
        """Fold one record, written at ``at_ms`` (ms since 1970; 0: unknown).

        Raises DataError for a record that is ignored, saying why.
        """
        match records.decode_key(key):
            case ConnectorStatusKey(connector):
                self._apply_connector(connector, value, at_ms)
            case TaskStatusKey(task):
                self._apply_task(task, value, at_ms)
            case TopicStatusKey(connector, topic):
                self._apply_topic(connector, topic, value)
            case None:
                raise DataError(f"status topic key {key!r} is of a kind that this version does not support")

    def task(self, task: ConnectorTaskId) -> ConnectorStatus | None:
        """Return the last status of a task."""
        return self._tasks.get(task.connector, {}).get(task.task)

    def tasks(self, connector: str) -> dict[int, ConnectorStatus]:
        """Return task number -> status, by number."""
        return dict(sorted(self._tasks.get(connector, {}).items()))

    def with_tasks(self) -> set[str]:
        """Return the names of all connectors whose tasks have a status."""
        return {name for name, tasks in self._tasks.items() if tasks}

    def topics(self, connector: str) -> tuple[str, ...]:
        """Return the topics the connector used, sorted."""
        return tuple(sorted(self._topics.get(connector, {})))

    def uses(self, connector: str, topic: str) -> bool:
        """Tell whether the connector used the topic."""
        return topic in self._topics.get(connector, {})

    def known(self) -> set[str]:
        """Return the names of all connectors that have a status or whose tasks have one."""
        return self.connectors.keys() | self.with_tasks()

    def _apply_connector(self, connector: str, value: bytes | None, at_ms: int) -> None:
        if value is None:
            self.connectors.pop(connector, None)
            return
        self.connectors[connector] = from_fields(records.decode_status(value), at_ms)

    def _apply_task(self, task: ConnectorTaskId, value: bytes | None, at_ms: int) -> None:
        if value is None:
            tasks = self._tasks.get(task.connector, {})
            tasks.pop(task.task, None)
            if not tasks:
                self._tasks.pop(task.connector, None)
            return
        status = from_fields(records.decode_status(value), at_ms)
        if not _is_late_goodbye(self.task(task), status):
            self._tasks.setdefault(task.connector, {})[task.task] = status

    def _apply_topic(self, connector: str, topic: str, value: bytes | None) -> None:
        if value is None:
            topics = self._topics.get(connector, {})
            topics.pop(topic, None)
            if not topics:
                self._topics.pop(connector, None)
            return
        status = records.decode_topic_status(value)
        self._topics.setdefault(connector, {})[topic] = status


def _is_late_goodbye(previous: ConnectorStatus | None, status: ConnectorStatus) -> bool:
    """Return whether an UNASSIGNED comes after another worker's RUNNING of the same or a later generation."""
    return (
        status.state is State.UNASSIGNED
        and previous is not None
        and previous.state is State.RUNNING
        and previous.worker_id != status.worker_id
        and previous.generation >= status.generation
    )

"""The status topic as a store: the last report of every connector and task (Java ``KafkaStatusBackingStore``).

Owns: safe puts, and repeating writes that Kafka rejected temporarily unless a newer one was put since. Writes return at
once. Reads see them when they come back from the topic, on this worker as on any other.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

from spark_connect_rt.base.concurrency import MACHINE_THREADS, Clock, Threads, Timer
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import ConnectError, DataError, RetriableError
from spark_connect_rt.topics import status_records as records
from spark_connect_rt.topics.compacted_log import CompactedLog, LogRecord
from spark_connect_rt.topics.status_records import (
    ConnectorStatus,
    ConnectorStatusKey,
    State,
    StatusFields,
    StatusKey,
    TaskStatusKey,
    TopicStatus,
    TopicStatusKey,
    may_replace,
)

# Folds the status topic into the states that REST shows (Java ``KafkaStatusBackingStore``).
#
# Owns: the meaning of a status record. Holds no lock (its store does).


def to_fields(status: ConnectorStatus) -> StatusFields:
    """Return the fields of a status record."""
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

        Raises DataError with the reason for a record that is ignored.
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
        """Return whether the connector used the topic."""
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
    """Return whether an UNASSIGNED follows another worker's RUNNING of the same or a later generation."""
    return (
        status.state is State.UNASSIGNED
        and previous is not None
        and previous.state is State.RUNNING
        and previous.worker_id != status.worker_id
        and previous.generation >= status.generation
    )


RETRY_BACKOFF_MS = 1_000  # before writes that Kafka rejected are repeated

_log = logging.getLogger(__name__)


class StatusStore:
    """Any thread may read and write; nothing here waits but ``start`` and ``flush``."""

    def __init__(
        self,
        log: CompactedLog,
        clock: Clock | None = None,
        retry_backoff_ms: int = RETRY_BACKOFF_MS,
        threads: Threads = MACHINE_THREADS,
    ) -> None:
        self._log = log
        self._clock = clock
        self._lock = threading.Lock()
        self._fold = StatusFold()
        self._sequence = 0
        self._version = 0
        self._newest: dict[bytes, int] = {}  # key -> sequence of the last put that is not yet durable
        self._retries: dict[bytes, tuple[bytes | None, int]] = {}  # key -> (value, sequence)
        self._retry_backoff_ms = retry_backoff_ms
        self._threads = threads
        self._timer: Timer | None = None
        self._stopped = False

    @property
    def version(self) -> int:
        """Return a number that grows with everything that is read."""
        return self._version

    def start(self) -> None:
        """Read to the end of the topic. Raises as ``CompactedLog.start``."""
        self._log.start(self._on_records)

    def stop(self) -> None:
        """Flush as far as possible and close the log; statuses read so far stay readable."""
        with self._lock:
            self._stopped = True
            if self._timer is not None:
                self._timer.cancel()
        self._log.stop()

    def flush(self, timeout_ms: int) -> None:
        """Wait until everything put is durable and read back. Raises RetriableError, TimedOutError."""
        self._log.read_to_end(timeout_ms)

    def put_connector(self, name: str, status: ConnectorStatus, safe: bool = False) -> None:
        """Report a connector. ``safe``: unless another worker reported in a later generation."""
        self._put(ConnectorStatusKey(name), status, safe)

    def put_task(self, task: ConnectorTaskId, status: ConnectorStatus, safe: bool = False) -> None:
        """Report a task. ``safe``: unless another worker reported in a later generation."""
        self._put(TaskStatusKey(task), status, safe)

    def put_topic(self, connector: str, topic: str, task: int) -> None:
        """Remember that a connector used a topic; written once while it is known, or on its way."""
        key = TopicStatusKey(connector, topic)
        with self._lock:
            if self._fold.uses(connector, topic) or records.encode_key(key) in self._newest:
                return
        now_ms = self._clock.now_ms() if self._clock else 0
        self._send(key, records.encode_topic_status(TopicStatus(topic, connector, task, now_ms)))

    def reset_topics(self, connector: str) -> None:
        """Forget the topics a connector used."""
        for topic in self.topics(connector):
            self._send(TopicStatusKey(connector, topic), None)

    def remove_connector(self, name: str) -> None:
        """Forget a connector's status (its tasks are removed one by one)."""
        self._send(ConnectorStatusKey(name), None)

    def remove_task(self, task: ConnectorTaskId) -> None:
        """Remove a task's status from the topic."""
        self._send(TaskStatusKey(task), None)

    def connector(self, name: str) -> ConnectorStatus | None:
        """Return the last status of a connector."""
        with self._lock:
            return self._fold.connectors.get(name)

    def task(self, task: ConnectorTaskId) -> ConnectorStatus | None:
        """Return the last status of a task."""
        with self._lock:
            return self._fold.task(task)

    def tasks(self, name: str) -> dict[int, ConnectorStatus]:
        """Return task number -> last status, by number."""
        with self._lock:
            return self._fold.tasks(name)

    def topics(self, connector: str) -> tuple[str, ...]:
        """Return the topics a connector used, sorted."""
        with self._lock:
            return self._fold.topics(connector)

    def connectors(self) -> set[str]:
        """Return the names of all connectors with a status, their own or that of a task."""
        with self._lock:
            return self._fold.known()

    def with_tasks(self) -> set[str]:
        """Return the names of all connectors whose tasks have a status."""
        with self._lock:
            return self._fold.with_tasks()

    def _put(self, key: ConnectorStatusKey | TaskStatusKey, status: ConnectorStatus, safe: bool) -> None:
        if status.state is State.DESTROYED:
            self._send(key, None)
            return
        if safe and not may_replace(self._previous(key), status):
            _log.info("%s generation=%d kept: a newer worker reported", key, status.generation)
            return
        self._send(key, records.encode_status(to_fields(status)))

    def _previous(self, key: ConnectorStatusKey | TaskStatusKey) -> ConnectorStatus | None:
        return self.task(key.task) if isinstance(key, TaskStatusKey) else self.connector(key.connector)

    def _send(self, key: StatusKey, value: bytes | None) -> None:
        encoded = records.encode_key(key)
        with self._lock:
            self._sequence += 1
            sequence = self._newest[encoded] = self._sequence
        self._append(encoded, value, sequence)

    def _append(self, key: bytes, value: bytes | None, sequence: int) -> None:
        try:
            self._log.append([(key, value)], lambda error: self._on_appended(key, value, sequence, error))
        except ConnectError as error:  # the log is stopped
            self._on_appended(key, value, sequence, error)

    def _on_appended(self, key: bytes, value: bytes | None, sequence: int, error: Exception | None) -> None:
        with self._lock:
            if self._newest.get(key) != sequence:
                return  # superseded meanwhile: only the later write counts
            if isinstance(error, RetriableError) and not self._stopped:
                self._retries[key] = (value, sequence)
                self._schedule_retries()
                return
            del self._newest[key]
        if error is not None:
            _log.error("status %s cannot be written: %s", key.decode("utf-8", errors="replace"), error)

    def _schedule_retries(self) -> None:
        if self._timer is None:
            self._timer = self._threads.later(self._retry_backoff_ms, self._retry)

    def _retry(self) -> None:
        with self._lock:
            self._timer = None
            retries, self._retries = self._retries, {}
            wanted = {key: it for key, it in retries.items() if self._newest.get(key) == it[1]}
        for key, (value, sequence) in wanted.items():
            self._append(key, value, sequence)

    def _on_records(self, batch: Sequence[LogRecord]) -> None:
        with self._lock:
            self._version += 1
            for record in batch:
                try:
                    self._fold.apply(record.key, record.value, record.timestamp_ms)
                except Exception as error:  # noqa: BLE001 - an unexpected error must not end the reader of every worker
                    _log.error(
                        "status topic partition=%d offset=%d ignored: %s",
                        record.partition,
                        record.offset,
                        error,
                    )

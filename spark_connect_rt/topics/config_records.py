"""Keys and values of the config topic: bytes <-> frozen values (Java ``KafkaConfigBackingStore``).

Owns: the key prefixes, the JSON forms and their field order. topics/config_state.py interprets the records.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.json_text import decode_json, encode_json
from spark_connect_rt.errors import DataError

Properties = Mapping[str, str | None]

_INT32 = re.compile(r"[+]?\d{1,10}")


class RecordKind(Enum):
    """The kind of a config record, by its key. The values are the key prefixes."""

    TARGET_STATE = "target-state-"
    CONNECTOR = "connector-"
    TASK = "task-"
    COMMIT = "commit-"
    RESTART = "restart-connector-"
    TASK_COUNT = "tasks-fencing-"
    SESSION_KEY = "session-key"
    LOGGER = "logger-cluster-"
    PENDING = "connectrt-pending-"  # ours: Java skips it, as any key that it does not know


@dataclass(frozen=True, slots=True)
class RecordKey:
    """A decoded key: ``name`` is the connector's (or the logger's); ``task`` only for TASK."""

    kind: RecordKind
    name: str
    task: int | None = None

    @property
    def task_id(self) -> ConnectorTaskId:
        """Return the task of a TASK key."""
        if self.task is None:
            raise ValueError(f"{self.kind.name} names no task")
        return ConnectorTaskId(self.name, self.task)


@dataclass(frozen=True, slots=True)
class SessionKey:
    """The leader's HMAC key for internal requests (KIP-507); never shown."""

    key: bytes
    algorithm: str
    creation_timestamp_ms: int

    def __repr__(self) -> str:
        return f"SessionKey({self.algorithm}, {self.creation_timestamp_ms})"


@dataclass(frozen=True, slots=True)
class PendingChange:
    """A change of two writes that is in progress (ours); its connector is the key's.

    Attributes:
        worker_url: of the worker that makes it; ``run``: of its process.
        begun_ms: since 1970.
        target_state: the state that the user wants afterwards, for a connector that is stopped meanwhile.
        config: of a connector that is being created; None: the connector exists.
        before: (partition, offset) to put back if it does not.
    """

    worker_url: str
    run: str
    begun_ms: int
    target_state: str | None = None
    config: Mapping[str, str] | None = None
    before: tuple[tuple[Mapping[str, Any] | None, Mapping[str, Any] | None], ...] = ()


@dataclass(frozen=True, slots=True)
class RestartRecord:
    """The request in a ``restart-connector-`` record (KIP-745)."""

    include_tasks: bool
    only_failed: bool


def connector_key(name: str) -> bytes:
    """Return the key of a connector's configuration."""
    return f"connector-{name}".encode()


def task_key(task: ConnectorTaskId) -> bytes:
    """Return the key of a task's configuration."""
    return f"task-{task.connector}-{task.task}".encode()


def commit_key(name: str) -> bytes:
    """Return the key of the record that makes task configurations visible together."""
    return f"commit-{name}".encode()


def target_state_key(name: str) -> bytes:
    """Return the key of a connector's target state."""
    return f"target-state-{name}".encode()


def task_count_key(name: str) -> bytes:
    """Return the key of a connector's task-count record."""
    return f"tasks-fencing-{name}".encode()


def session_key_key() -> bytes:
    """Return the key of the session key."""
    return b"session-key"


def restart_key(name: str) -> bytes:
    """Return the key of a restart request."""
    return f"restart-connector-{name}".encode()


def logger_key(namespace: str) -> bytes:
    """Return the key of a cluster-wide logger level."""
    return f"logger-cluster-{namespace}".encode()


def pending_key(name: str) -> bytes:
    """Return the key of a pending change of a connector."""
    return f"connectrt-pending-{name}".encode()


def decode_key(key: bytes | None) -> RecordKey | None:
    """Return the meaning of a key; None for a kind this version does not know (it is skipped).

    Raises DataError for a task key without a task number.
    """
    text = (key or b"").decode("utf-8", errors="replace")
    if text == RecordKind.SESSION_KEY.value:
        return RecordKey(RecordKind.SESSION_KEY, "")
    for kind in RecordKind:  # the order of the members is Java's order of tests; no prefix hides another
        if kind is not RecordKind.SESSION_KEY and text.startswith(kind.value):
            rest = text[len(kind.value) :]
            return _task_record_key(text) if kind is RecordKind.TASK else RecordKey(kind, rest)
    return None


def _task_record_key(text: str) -> RecordKey:
    parts = text.split("-")
    if len(parts) < 3 or not _INT32.fullmatch(parts[-1]):
        raise DataError(f"config topic key {text!r} names no task number")
    return RecordKey(RecordKind.TASK, "-".join(parts[1:-1]), int(parts[-1]))


def encode_properties(properties: Properties) -> bytes:
    """Return the value of a connector or task record."""
    return encode_json({"properties": dict(properties)})


def encode_commit(task_count: int) -> bytes:
    """Return the value of a commit record."""
    return encode_json({"tasks": task_count})


def encode_target_state(state: str) -> bytes:
    """Return the value of a target-state record; workers before 3.5 read STOPPED as PAUSED."""
    return encode_json({"state": "PAUSED" if state == "STOPPED" else state, "state.v2": state})


def encode_task_count(task_count: int) -> bytes:
    """Return the value of a task-count record."""
    return encode_json({"task-count": task_count})


def encode_session_key(key: SessionKey) -> bytes:
    """Return the value of a session key record."""
    text = base64.b64encode(key.key).decode("ascii")
    return encode_json({"key": text, "algorithm": key.algorithm, "creation-timestamp": key.creation_timestamp_ms})


def encode_restart_request(include_tasks: bool, only_failed: bool) -> bytes:
    """Return the value of a restart request."""
    return encode_json({"include-tasks": include_tasks, "only-failed": only_failed})


def encode_logger_level(level: str) -> bytes:
    """Return the value of a logger level record; the level is written as the user typed it."""
    return encode_json({"level": level})


def encode_pending(change: PendingChange) -> bytes:
    """Return the record value of a pending change."""
    return encode_json(
        {
            "worker-url": change.worker_url,
            "run": change.run,
            "begun-timestamp": change.begun_ms,
            "target-state": change.target_state,
            "properties": None if change.config is None else dict(change.config),
            "before": [[partition, offset] for partition, offset in change.before],
        }
    )


def decode_value(value: bytes | None) -> Any:
    """Return the JSON value, None for a tombstone (or JSON null, as Java). Raises DataError: unreadable."""
    return None if value is None else decode_json(value)


def decode_properties(value: Any) -> dict[str, str | None]:
    """Return a connector's or task's configuration. Raises DataError."""
    properties = _field(value, "properties")
    if not isinstance(properties, dict):
        raise DataError("'properties' is not a map")
    for key, item in properties.items():
        if item is not None and not isinstance(item, str):
            raise DataError(f"property {key!r} is not a string")
    return properties


def decode_commit(value: Any) -> int:
    """Return the number of tasks of a commit record. Raises DataError."""
    return _whole_number(_field(value, "tasks"), "tasks")


def decode_task_count(value: Any) -> int:
    """Return the number of tasks of a task-count record. Raises DataError."""
    return _whole_number(_field(value, "task-count"), "task-count")


def decode_target_state(value: Any) -> str:
    """Return the state's raw name: ``state.v2`` where it is a string, else ``state``. Raises DataError."""
    newest = value.get("state.v2") if isinstance(value, dict) else None
    state = newest if isinstance(newest, str) else _field(value, "state")
    if not isinstance(state, str):
        raise DataError("'state' is not a string")
    return state


def decode_session_key(value: Any) -> SessionKey:
    """Return the session key. Raises DataError."""
    key, algorithm = _field(value, "key"), _field(value, "algorithm")
    if not isinstance(key, str) or not isinstance(algorithm, str):
        raise DataError("'key' or 'algorithm' is not a string")
    created_ms = _whole_number(_field(value, "creation-timestamp"), "creation-timestamp")
    try:
        return SessionKey(base64.b64decode(key, validate=True), algorithm, created_ms)
    except ValueError as error:
        raise DataError("'key' is not base64") from error


def decode_restart_request(value: Any) -> RestartRecord:
    """Return the request; a missing or wrong flag counts as False. Raises DataError if it is not a map."""
    if not isinstance(value, dict):
        raise DataError("a restart request is not a map")
    return RestartRecord(value.get("include-tasks") is True, value.get("only-failed") is True)


def decode_logger_level(value: Any) -> str:
    """Return the level's raw text. Raises DataError."""
    level = _field(value, "level")
    if not isinstance(level, str):
        raise DataError("'level' is not a string")
    return level


def decode_pending(value: Any) -> PendingChange:
    """Return a pending change. Raises DataError: the value is invalid."""
    begun_ms = _whole_number(_field(value, "begun-timestamp"), "begun-timestamp")
    config = None if value.get("properties") is None else decode_properties(value)
    before = value.get("before") or []
    if not isinstance(before, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in before):
        raise DataError("'before' is not a list of pairs")
    target = value.get("target-state")
    pairs = tuple((partition, offset) for partition, offset in before)
    return PendingChange(
        str(_field(value, "worker-url")),
        str(_field(value, "run")),
        begun_ms,
        None if target is None else str(target),
        None if config is None else {name: text for name, text in config.items() if text is not None},
        pairs,
    )


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        raise DataError(f"expected a map with {name!r}, got {type(value).__name__}")
    if value.get(name) is None:
        raise DataError(f"{name!r} is missing")
    return value[name]


def _whole_number(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DataError(f"{name!r} is not a whole number")
    return value


# The state that the user wants of a connector (Java ``TargetState``).


class TargetState(Enum):
    """STARTED, PAUSED (tasks kept, idle) or STOPPED (no tasks, KIP-875)."""

    STARTED = "STARTED"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"

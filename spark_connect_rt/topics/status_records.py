"""Keys and values of the status topic: bytes <-> values (Java ``KafkaStatusBackingStore``).

Owns: key prefixes, JSON forms and field order. Status values arrive and leave as plain fields, because the
state names live above this layer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.json_text import decode_json, encode_json, tellable
from spark_connect_rt.errors import DataError

_CONNECTOR, _TASK, _TOPIC, _TOPIC_END = "status-connector-", "status-task-", "status-topic-", ":connector-"
_NOTES = ("restart", "progress")
_INT32 = re.compile(r"[+]?\d{1,10}")


@dataclass(frozen=True, slots=True)
class ConnectorStatusKey:
    """Key of a connector's status."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskStatusKey:
    """Key of a task's status."""

    task: ConnectorTaskId


@dataclass(frozen=True, slots=True)
class TopicStatusKey:
    """Key of the fact that a connector used a topic (KIP-558)."""

    connector: str
    topic: str


StatusKey = ConnectorStatusKey | TaskStatusKey | TopicStatusKey


@dataclass(frozen=True, slots=True)
class StatusFields:
    """The JSON fields of a status record, in Java's order; ``notes`` are ours and follow them: Java ignores these."""

    state: str
    trace: str | None
    worker_id: str
    generation: int
    version: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)  # restart, progress -> a JSON object


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """Which task of a connector was seen to use a topic first, and when (ms since the epoch)."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


def encode_key(key: StatusKey) -> bytes:
    """Return the record key of a status as bytes."""
    match key:
        case ConnectorStatusKey(connector):
            return f"{_CONNECTOR}{connector}".encode()
        case TaskStatusKey(task):
            return f"{_TASK}{task.connector}-{task.task}".encode()
        case TopicStatusKey(connector, topic):
            return f"{_TOPIC}{topic}{_TOPIC_END}{connector}".encode()


def decode_key(key: bytes | None) -> StatusKey | None:
    """Return the meaning of a key, None for an unknown kind. Raises DataError for a broken known one."""
    text = (key or b"").decode("utf-8", errors="replace")
    if text.startswith(_CONNECTOR):
        return ConnectorStatusKey(text[len(_CONNECTOR) :])
    if text.startswith(_TASK):
        return TaskStatusKey(_task_id(text))
    if text.startswith(_TOPIC):
        # A topic name holds no colon, so the first one ends it; a connector name may hold anything.
        topic, mark, connector = text[len(_TOPIC) :].partition(_TOPIC_END)
        if not mark or not topic or not connector or ":" in topic:
            raise DataError(f"status topic key {text!r} names no topic and connector")
        return TopicStatusKey(connector, topic)
    return None


def encode_status(status: StatusFields) -> bytes:
    """Return the value of a connector or task status: ``trace`` null when absent, ``version`` last (4.1)."""
    return encode_json(
        {
            "state": status.state,
            "trace": None if status.trace is None else tellable(status.trace),
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
            **status.notes,
        }
    )


def decode_status(value: bytes) -> StatusFields:
    """Return the fields. Raises DataError."""
    fields = decode_json(value)
    if not isinstance(fields, dict):
        raise DataError(f"a status is not a map but {type(fields).__name__}")
    state, worker_id, generation = (fields.get(name) for name in ("state", "worker_id", "generation"))
    trace, version = fields.get("trace"), fields.get("version")
    if not isinstance(state, str) or not isinstance(worker_id, str):
        raise DataError("a status needs the strings 'state' and 'worker_id'")
    if isinstance(generation, bool) or not isinstance(generation, int):
        raise DataError("a status needs the whole number 'generation'")
    return StatusFields(
        state,
        trace if isinstance(trace, str) else None,
        worker_id,
        _narrowed(generation),
        version if isinstance(version, str) else None,
        {name: fields[name] for name in _NOTES if isinstance(fields.get(name), dict)},
    )


def encode_topic_status(status: TopicStatus) -> bytes:
    """Return the value of a topic status."""
    fields = {
        "name": status.topic,
        "connector": status.connector,
        "task": status.task,
        "discoverTimestamp": status.discovered_ms,
    }
    return encode_json({"topic": fields})


def decode_topic_status(value: bytes) -> TopicStatus:
    """Return the topic status. Raises DataError."""
    outer = decode_json(value)
    fields = outer.get("topic") if isinstance(outer, dict) else None
    if not isinstance(fields, dict):
        raise DataError("a topic status needs the map 'topic'")
    try:
        return TopicStatus(
            str(fields["name"]),
            str(fields["connector"]),
            int(fields["task"]),
            int(fields["discoverTimestamp"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DataError(f"a topic status lacks or garbles {error}") from error


def _task_id(text: str) -> ConnectorTaskId:
    parts = text.split("-")
    if len(parts) < 4 or not _INT32.fullmatch(parts[-1]):
        raise DataError(f"status topic key {text!r} names no task number")
    return ConnectorTaskId("-".join(parts[2:-1]), int(parts[-1]))


def _narrowed(number: int) -> int:
    """Return the number as Java's ``(int) long`` leaves it."""
    return (number + 2**31) % 2**32 - 2**31


# States of connectors and tasks, and the rule that rejects late writers (``ConnectorStatus``).


class State(Enum):
    """State of a connector or task; DESTROYED is never written as a value, it is the tombstone."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    STOPPED = "STOPPED"
    FAILED = "FAILED"
    RESTARTING = "RESTARTING"
    DESTROYED = "DESTROYED"


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """One status of a connector or task: the reporting worker, its generation, and a trace if FAILED."""

    state: State
    worker_id: str
    generation: int
    trace: str | None = None
    version: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)  # ours: restart, progress -> the note that the status shows
    at_ms: int = field(default=0, compare=False)  # when it was written, by its record; 0: unknown


def may_replace(previous: ConnectorStatus | None, new: ConnectorStatus) -> bool:
    """Return whether a safe put may write: never over a status that another worker wrote in a later generation."""
    return previous is None or previous.worker_id == new.worker_id or previous.generation <= new.generation

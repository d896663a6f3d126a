"""Answers of a herder: frozen values, shown as JSON with the fields in this order (Java ``rest.entities``).

Owns: the names and order of fields of the REST API's answers. Docstrings and descriptions are those of its OpenAPI
description.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.json_text import JsonShape, described, left_out, one_of, renamed
from spark_connect_rt.topics.status_records import State

STATES = tuple(state.value for state in State if state is not State.DESTROYED)
CONNECTOR_TYPES = ("source", "sink", "unknown")


@dataclass(frozen=True, slots=True)
class ConnectorInfo(JsonShape):
    """The configuration of a connector and its tasks; references to config providers as they were written."""

    name: str
    config: Mapping[str, str]
    tasks: tuple[ConnectorTaskId, ...]
    type: str = field(metadata=one_of(CONNECTOR_TYPES))
    offsets_status: str | None = field(
        default=None, metadata=left_out("Only of a connector that was created with initial_offsets (KIP-995).")
    )


@dataclass(frozen=True, slots=True)
class RestartNote(JsonShape):
    """The next step of the restart policy for a FAILED connector or task (only here, not in Java)."""

    attempts: int = field(default=0, metadata=described("Restarts within the window, including the next one."))
    next_attempt_ms: int | None = field(default=None, metadata=left_out("Time of the next restart, ms since 1970."))
    stopped: str | None = field(default=None, metadata=left_out("Why it is not restarted automatically."))


@dataclass(frozen=True, slots=True)
class ProgressNote(JsonShape):
    """Why a RUNNING task counts as motionless though there is work (only here, not in Java)."""

    since_ms: int = field(default=0, metadata=described("Milliseconds since 1970."))
    reason: str = ""


N = TypeVar("N", RestartNote, ProgressNote)


def note_of(kind: type[N], found: Any) -> N | None:
    """Return a note as statuses carry it, None if there is none. Fields that this version does not know are omitted."""
    if not isinstance(found, Mapping):
        return None
    return kind(**{member.name: found[member.name] for member in fields(kind) if member.name in found})


@dataclass(frozen=True)
class InstanceState(JsonShape):
    """The last reported state of a connector or task."""

    state: str = field(metadata=one_of(STATES))
    worker_id: str = field(
        metadata=described("host:port of the worker that reported it. Empty: no worker has reported it yet.")
    )
    version: str | None = field(default=None, metadata=left_out("Version of the running plug-in, if it is known."))
    trace: str | None = field(default=None, metadata=left_out("Why it is FAILED."))
    restart: RestartNote | None = field(default=None, metadata=left_out("Only if it is FAILED."))
    progress: ProgressNote | None = field(default=None, metadata=left_out("Only of a task that moves nothing."))


@dataclass(frozen=True)
class _TaskNumber(JsonShape):
    id: int


@dataclass(frozen=True)
class TaskState(InstanceState, _TaskNumber):
    """The last reported state of a task."""


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo(JsonShape):
    """The states of a connector and its tasks, tasks by number. Also the answer to a restart plan (RESTARTING)."""

    name: str
    connector: InstanceState
    tasks: tuple[TaskState, ...]
    type: str = field(metadata=one_of(CONNECTOR_TYPES))


@dataclass(frozen=True, slots=True)
class TaskInfo(JsonShape):
    """A task and its raw configuration."""

    id: ConnectorTaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ConfigWritten:
    """Answer to a written configuration: was the connector new, and what is configured now."""

    created: bool
    info: ConnectorInfo


@dataclass(frozen=True, slots=True)
class ConnectorOffset(JsonShape):
    """A source partition and its offset (of a sink: kafka_topic, kafka_partition -> kafka_offset)."""

    partition: Mapping[str, Any] | None
    offset: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class PluginInfo(JsonShape):
    """A plug-in by its class; ``type``: sink, source, converter ..."""

    class_name: str = field(metadata=renamed("class", "Java's name, if there is one."))
    type: str
    version: str | None = field(default=None, metadata=left_out("Version of the plug-in, if it has one."))


@dataclass(frozen=True, slots=True)
class Health:
    """``status`` is healthy, starting or unhealthy; ``detail`` says what the tick does or waits for.

    ``live`` False: only a new process can help. ``serves``: requests can be served though it is unhealthy.
    """

    status: str
    detail: str = ""
    live: bool = True
    serves: bool = False
    note: str = ""  # trouble that leaves the worker as healthy as it is


@dataclass(frozen=True, slots=True)
class InternalKey:
    """The key that verifies internal requests; ``required`` only under protocol ``sessioned`` (KIP-507)."""

    required: bool
    key: bytes | None  # None: not read from the config topic yet
    algorithm: str = "HmacSHA256"  # of the key
    accepted_algorithms: tuple[str, ...] = ("HmacSHA256",)


@dataclass(frozen=True, slots=True)
class HerderEvent(JsonShape):
    """One event of the herder's log: its action or wait, and since when; repeats are counted."""

    at_ms: int = field(metadata=described("Milliseconds since 1970."))
    step: str
    reason: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class TableProgress(JsonShape):
    """Progress with one table that a sink writes (the metrics ``table-sink-metrics``), since its tasks started."""

    table: str
    commits: int = 0
    rows: int = field(default=0, metadata=described("Rows in new data files."))
    deleted_rows: int = field(default=0, metadata=described("Rows of older files that were deleted or replaced."))
    bytes: int = field(default=0, metadata=described("Bytes of new data files."))
    files: int = 0
    waiting_rows: int = field(default=0, metadata=described("Rows that wait for a commit."))
    lost_races: int = field(default=0, metadata=described("Commits that another writer was faster than."))
    fenced_partitions: int = field(
        default=0, metadata=described("Partitions whose rows were dropped, because another task had written them.")
    )
    commit_ms: float | None = field(default=None, metadata=described("Mean duration of a commit; null: none so far."))
    lag_s: float | None = field(
        default=None, metadata=described("Age of the newest record when it was committed, s; null: unknown.")
    )


@dataclass(frozen=True, slots=True)
class TaskProgress(JsonShape):
    """Counters of one task of this worker since it started here."""

    task: ConnectorTaskId
    state: str
    kind: str = field(metadata=described("source, sink or spark-sink."))
    records: int = 0
    data_bytes: int = 0
    skipped: int = 0
    records_per_s: float = field(default=0.0, metadata=described("Over the last five seconds."))
    lag: int | None = field(
        default=None, metadata=described("Records that a sink has not processed yet; null: unknown.")
    )
    topics: tuple[str, ...] = ()
    stalled: ProgressNote | None = field(
        default=None, metadata=described("Why it moves nothing; null: it moves, or there is nothing to do.")
    )
    errors: int = field(default=0, metadata=described("Failed attempts at records, or skipped records."))
    executor: str | None = field(
        default=None, metadata=described("machine:pid of its process; null: it runs in no process.")
    )
    cpu_seconds: float | None = field(
        default=None, metadata=described("CPU of its calls (poll, put, sending); null: unknown.")
    )
    tables: tuple[TableProgress, ...] = field(default=(), metadata=described("Tables that it writes, by name."))


@dataclass(frozen=True, slots=True)
class WorkerStanding:
    """The place of this worker in its group, as of the last tick."""

    worker_id: str
    worker_url: str
    is_leader: bool
    leader_url: str | None
    generation: int
    protocol: str  # default, compatible or sessioned; empty before the first join
    group_id: str = ""
    own_group: bool = False  # every member is a worker of this product
    member_urls: tuple[str, ...] = ()  # of every member; only the leader knows them


class TaskPace(NamedTuple):
    """A task's pace, asked of every task every few seconds; cheaper than its progress."""

    task: ConnectorTaskId
    records: int
    records_per_s: float
    lag: int | None
    errors: int


@dataclass(frozen=True, slots=True)
class WorkerProgress(JsonShape):
    """The present state of this worker."""

    worker_id: str
    worker_url: str
    is_leader: bool
    leader_url: str | None
    generation: int
    protocol: str = field(
        metadata=described("default, compatible or sessioned. Empty before the worker has joined once.")
    )
    connectors: Mapping[str, str] = field(
        default_factory=dict, metadata=described("Connectors that run here, with their state.")
    )
    tasks: tuple[TaskProgress, ...] = ()

"""Shapes of answers, as types of plain JSON: a newer worker's further fields stay in, an older one's are missing.

Owns names only. Times are ms since 1970; None: not known.
"""

from __future__ import annotations

from typing import Any, TypedDict


class RootJson(TypedDict):
    """``GET /``."""

    version: str
    commit: str
    kafka_cluster_id: str


class TaskIdJson(TypedDict):
    """One task of a connector."""

    connector: str
    task: int


class _ConnectorInfo(TypedDict):
    name: str
    config: dict[str, str]
    tasks: list[TaskIdJson]
    type: str


class ConnectorInfoJson(_ConnectorInfo, total=False):
    """``GET /connectors/NAME``; ``offsets_status`` only where a connector was created with offsets (KIP-995)."""

    offsets_status: str


class StateJson(TypedDict, total=False):
    """Of a connector or a task; ``id`` only of a task, ``restart`` and ``progress`` only of our workers."""

    id: int
    state: str
    worker_id: str
    trace: str
    restart: dict[str, Any]
    progress: dict[str, Any]


class ConnectorStatusJson(TypedDict):
    """``GET /connectors/NAME/status``."""

    name: str
    connector: StateJson
    tasks: list[StateJson]
    type: str


class TaskInfoJson(TypedDict):
    """One of ``GET /connectors/NAME/tasks``."""

    id: TaskIdJson
    config: dict[str, str]


class OffsetJson(TypedDict):
    """One of ``GET /connectors/NAME/offsets``."""

    partition: dict[str, Any] | None
    offset: dict[str, Any] | None


PluginJson = TypedDict("PluginJson", {"class": str, "type": str, "version": str | None})
"""One of ``GET /connector-plugins``."""


class LoggerLevelJson(TypedDict):
    """One of ``GET /admin/loggers``."""

    level: str
    last_modified: int | None


class _Row(TypedDict, total=False):
    name: str
    type: str
    state: str
    aggregate: str  # of the connector and its tasks together
    worker_id: str
    records_per_second: float | None
    lag: int | None
    errors: int | None
    last_error: str | None
    last_error_at_ms: int | None
    restart: dict[str, Any] | None
    stalled: str | None
    abnormal: bool
    why: str


class RowJson(_Row, total=False):
    """One connector of the overview; ``tasks``: state -> how many. The class is ``row["class"]``."""

    tasks: dict[str, int]


class OverviewJson(TypedDict, total=False):
    """``GET /admin/overview``."""

    connectors: list[RowJson]
    total: int
    matching: int
    counts: dict[str, int]
    records_per_second: float | None
    unanswered: list[dict[str, str]]
    at_ms: int


class TaskJson(TypedDict, total=False):
    """One task of a connector's page."""

    id: int
    state: str
    worker_id: str
    executor: str | None
    trace: str | None
    records: int | None
    records_per_second: float | None
    lag: int | None
    errors: int | None
    cpu_seconds: float | None
    restart: dict[str, Any] | None
    stalled: str | None


class ConnectorPageJson(_Row, total=False):
    """``GET /admin/connectors/NAME``."""

    config: dict[str, str]
    topics: list[str]
    tasks: list[TaskJson]
    course: list[dict[str, Any]]


class WorkerJson(TypedDict, total=False):
    """One of ``GET /admin/group``; ``runtime``: spark-connect-rt or java."""

    worker_id: str
    url: str
    leader: bool
    this: bool
    runtime: str
    version: str | None
    reachable: bool
    health: str | None
    connectors: list[str]
    tasks: list[str]
    records_per_second: float | None
    memory_bytes: int | None
    started_ms: int | None
    open_files: int | None
    open_files_max: int | None


class GroupJson(TypedDict, total=False):
    """``GET /admin/group``."""

    group_id: str
    kafka_cluster_id: str
    protocol: str
    leader: str | None
    generation: int
    workers: list[WorkerJson]


class EventJson(TypedDict, total=False):
    """One of ``GET /admin/events``."""

    id: str
    at_ms: int
    kind: str
    worker_id: str
    connector: str | None
    task: int | None
    summary: str
    details: dict[str, Any]
    who: str | None


class EventListJson(TypedDict, total=False):
    """``GET /admin/events``, newest first; ``unanswered``: workers whose last events may be missing."""

    events: list[EventJson]
    unanswered: list[dict[str, str]]


class LogLineJson(TypedDict, total=False):
    """One line of a task's log; ``where``: driver or executor."""

    at_ms: int
    level: str
    logger: str
    task: int | None
    where: str
    worker_id: str
    host: str
    message: str


class LogListJson(TypedDict, total=False):
    """``GET /admin/connectors/NAME/logs``, oldest first; ``unanswered``: workers whose lines may be missing."""

    lines: list[LogLineJson]
    unanswered: list[dict[str, str]]


class ChangeJson(TypedDict, total=False):
    """One of ``GET /admin/history``."""

    number: int
    at_ms: int
    connector: str
    kind: str
    action: str
    who: str
    worker_id: str
    before: Any
    after: Any
    note: str


class SettingChangeJson(TypedDict):
    """One setting that differs; None: it is not there on that side."""

    setting: str
    before: str | None
    after: str | None


class _Letter(TypedDict, total=False):
    topic: str
    partition: int
    offset: int
    at_ms: int
    origin: dict[str, Any]
    stage: str
    exception: str
    message: str
    stacktrace: str
    connector_name: str
    task: int | None
    key: dict[str, Any] | None
    value: dict[str, Any] | None
    headers: list[dict[str, Any]]
    replayed: dict[str, Any] | None


class LetterJson(_Letter, total=False):
    """One dead letter; the class that failed is ``letter["class"]``."""


class LetterPageJson(TypedDict, total=False):
    """``GET /admin/dead-letters``."""

    topic: str
    connector: str | None
    letters: list[LetterJson]
    next: str | None


class ReplayJson(TypedDict, total=False):
    """A replay; ``state``: running, done, stopped, failed. A dry run has ``sample`` instead."""

    id: str
    state: str
    matched: int
    done: int
    failed: int
    rate: float | None
    error: str | None
    sample: list[dict[str, Any]]


class PreviewJson(TypedDict, total=False):
    """``POST /admin/preview``."""

    records: list[dict[str, Any]]
    ended: str
    error: str | None
    seconds: float


class CheckLineJson(TypedDict, total=False):
    """One line of a check; ``level``: ok, warning, problem."""

    check: str
    setting: str | None
    ok: bool
    level: str
    what: str
    change: str | None
    where: str

"""Types of the REST client's answers: plain JSON objects. Made by ``python -m tools.client_shapes``.

An answer of a newer worker keeps its additional fields, and one of an older worker lacks some. Times are ms since 1970.
None means that the value is not known.
"""

from __future__ import annotations

from typing import Any, TypedDict


class RootJson(TypedDict):
    """The JSON answer of ``GET /``."""

    version: str
    commit: str
    kafka_cluster_id: str


class TaskIdJson(TypedDict):
    """The name of a connector and the number of a task."""

    connector: str
    task: int


class _ConnectorInfo(TypedDict):
    name: str
    config: dict[str, str]
    tasks: list[TaskIdJson]
    type: str


class ConnectorInfoJson(_ConnectorInfo, total=False):
    """``GET /connectors/NAME``. Only a connector that was created with offsets has ``offsets_status`` (KIP-995)."""

    offsets_status: str


class StateJson(TypedDict, total=False):
    """State of a connector or task. Only tasks have ``id``, only our workers ``restart`` and ``progress``."""

    id: int
    state: str
    worker_id: str
    trace: str
    restart: dict[str, Any]
    progress: dict[str, Any]


class ConnectorStatusJson(TypedDict):
    """The JSON answer of ``GET /connectors/NAME/status``."""

    name: str
    connector: StateJson
    tasks: list[StateJson]
    type: str


class TaskInfoJson(TypedDict):
    """A JSON element of ``GET /connectors/NAME/tasks``."""

    id: TaskIdJson
    config: dict[str, str]


class OffsetJson(TypedDict):
    """A JSON element of ``GET /connectors/NAME/offsets``."""

    partition: dict[str, Any] | None
    offset: dict[str, Any] | None


PluginJson = TypedDict("PluginJson", {"class": str, "type": str, "version": str | None})
"""A JSON element of ``GET /connector-plugins``."""


class LoggerLevelJson(TypedDict):
    """A JSON element of ``GET /admin/loggers``."""

    level: str
    last_modified: int | None


class RowJson(TypedDict, total=False):
    """A connector of the overview. ``tasks`` counts tasks by state, and ``row["class"]`` is the class."""

    name: str
    type: str
    state: str
    aggregate: str
    worker_id: str
    tasks: dict[str, int]
    records_per_second: float | None
    lag: int | None
    errors: int | None
    last_error: str | None
    last_error_at_ms: int | None
    restart: dict[str, Any] | None
    stalled: str | None
    abnormal: bool
    why: str


class OverviewJson(TypedDict, total=False):
    """The JSON answer of ``GET /admin/overview``."""

    connectors: list[RowJson]
    total: int
    matching: int
    counts: dict[str, int]
    records_per_second: float | None
    unanswered: list[dict[str, str]]
    at_ms: int


class TaskJson(TypedDict, total=False):
    """A task, as on the page of its connector."""

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


class ConnectorPageJson(TypedDict, total=False):
    """The JSON answer of ``GET /admin/connectors/NAME``."""

    name: str
    type: str
    state: str
    aggregate: str
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
    config: dict[str, str]
    topics: list[str]
    tasks: list[TaskJson]
    tables: list[dict[str, Any]]
    course: list[dict[str, Any]]


class WorkerJson(TypedDict, total=False):
    """A JSON element of ``GET /admin/group``. ``runtime`` is spark-connect-rt or java."""

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
    """The JSON answer of ``GET /admin/group``."""

    group_id: str
    kafka_cluster_id: str
    protocol: str
    leader: str | None
    generation: int
    workers: list[WorkerJson]


class EventJson(TypedDict, total=False):
    """A JSON element of ``GET /admin/events``."""

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
    """``GET /admin/events``, newest first. Last events of the workers in ``unanswered`` may be missing."""

    events: list[EventJson]
    unanswered: list[dict[str, str]]


class LogLineJson(TypedDict, total=False):
    """A line of a task's log. ``where`` is driver or executor."""

    at_ms: int
    level: str
    logger: str
    task: int | None
    where: str
    worker_id: str
    host: str
    message: str


class LogListJson(TypedDict, total=False):
    """``GET /admin/connectors/NAME/logs``, oldest first. Lines of workers in ``unanswered`` may be missing."""

    lines: list[LogLineJson]
    unanswered: list[dict[str, str]]


class ChangeJson(TypedDict, total=False):
    """A JSON element of ``GET /admin/history``."""

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
    """A setting that differs. None: this side does not have it."""

    setting: str
    before: str | None
    after: str | None


class LetterJson(TypedDict, total=False):
    """A dead letter. ``letter["class"]`` is the class that failed."""

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


class LetterPageJson(TypedDict, total=False):
    """The JSON answer of ``GET /admin/dead-letters``."""

    topic: str
    connector: str | None
    letters: list[LetterJson]
    next: str | None


class ReplayJson(TypedDict, total=False):
    """A replay that is running, done, stopped or failed. A dry run has ``sample`` instead."""

    id: str
    state: str
    matched: int
    done: int
    failed: int
    rate: float | None
    error: str | None
    sample: list[dict[str, Any]]


class PreviewJson(TypedDict, total=False):
    """The JSON answer of ``POST /admin/preview``."""

    records: list[dict[str, Any]]
    ended: str
    error: str | None
    seconds: float


class CheckLineJson(TypedDict, total=False):
    """A finding of a check. ``level`` is ok, warning or problem."""

    check: str
    setting: str | None
    ok: bool
    level: str
    what: str
    change: str | None
    where: str

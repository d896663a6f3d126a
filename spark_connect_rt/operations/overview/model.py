"""The overview of the whole group: the shapes of its answers, and the port that gives them.

Owns names and order of fields. null is what is not known: a worker did not answer, or what runs there counts no such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from spark_connect_rt.base.json_text import JsonShape, described, one_of, renamed
from spark_connect_rt.operations.overview.selection import OverviewQuery
from spark_connect_rt.rest.peers import JAVA, OURS, UNKNOWN, Unanswered
from spark_connect_rt.runtime.values import CONNECTOR_TYPES, STATES, RestartNote, TableProgress
from spark_connect_rt.topics.aggregate_state import AGGREGATES

_NOW = "Milliseconds since 1970."
_AGGREGATE = one_of(
    AGGREGATES, "Aggregate state of the connector and its tasks. The field state is Java's: the connector's own."
)


@dataclass(frozen=True, slots=True)
class ConnectorRow(JsonShape):
    """One connector of the overview, its tasks added up."""

    name: str
    type: str = field(metadata=one_of(CONNECTOR_TYPES))
    class_name: str = field(metadata=renamed("class", "As in its configuration."))
    state: str = field(metadata=one_of(STATES))
    aggregate: str = field(metadata=_AGGREGATE)
    worker_id: str = field(metadata=described("Worker of the connector. Its tasks may run elsewhere."))
    tasks: Mapping[str, int] = field(metadata=described("State -> number of tasks in it."))
    records_per_second: float | None = field(
        default=None, metadata=described("Of all tasks, over the last five seconds.")
    )
    lag: int | None = field(
        default=None, metadata=described("Records that a sink has not processed yet; null: a source, or unknown.")
    )
    errors: int | None = field(default=None, metadata=described("Failed attempts at records, or skipped records."))
    last_error: str | None = field(
        default=None, metadata=described("Last error in one line. It is kept after the failure is over.")
    )
    last_error_at_ms: int | None = field(default=None, metadata=described(_NOW))
    restart: RestartNote | None = field(
        default=None, metadata=described("Version of the FAILED connector or task, as in its status.")
    )
    stalled: str | None = field(default=None, metadata=described("Why a task moves nothing although there is work."))
    abnormal: bool = field(default=False, metadata=described("Whether the connector needs attention."))
    why: str = field(default="", metadata=described("Why it is abnormal, in one line."))


@dataclass(frozen=True, slots=True)
class OverviewPage(JsonShape):
    """A page of the overview."""

    connectors: Sequence[ConnectorRow]
    total: int
    matching: int = field(metadata=described("Number of connectors that match the filters."))
    counts: Mapping[str, int] = field(
        metadata=described("Aggregate state -> number of connectors in it, and the number of abnormal ones.")
    )
    records_per_second: float
    unanswered: Sequence[Unanswered] = field(metadata=described("Workers whose rates, lags and errors are missing."))
    at_ms: int = field(metadata=described(_NOW))


@dataclass(frozen=True, slots=True)
class TaskRow(JsonShape):
    """One task of a connector."""

    id: int
    state: str = field(metadata=one_of(STATES))
    worker_id: str
    executor: str | None = field(default=None, metadata=described("machine:pid of the process that runs it."))
    trace: str | None = None
    records: int | None = field(default=None, metadata=described("Since the start of its run."))
    records_per_second: float | None = None
    lag: int | None = None
    errors: int | None = None
    cpu_seconds: float | None = field(default=None, metadata=described("Of its calls on the executor."))
    restart: RestartNote | None = None
    stalled: str | None = None


@dataclass(frozen=True, slots=True)
class CoursePoint(JsonShape):
    """The figures of all tasks together at a time; ``errors`` are those since the point before."""

    at_ms: int = field(metadata=described(_NOW))
    records_per_second: float
    lag: int | None
    errors: int


@dataclass(frozen=True, slots=True)
class ConnectorDetail(JsonShape):
    """One connector with its tasks, figures and events."""

    name: str
    type: str = field(metadata=one_of(CONNECTOR_TYPES))
    class_name: str = field(metadata=renamed("class", "As in its configuration."))
    state: str = field(metadata=one_of(STATES))
    aggregate: str = field(metadata=_AGGREGATE)
    worker_id: str
    records_per_second: float | None
    lag: int | None
    errors: int | None
    last_error: str | None
    last_error_at_ms: int | None
    restart: RestartNote | None
    stalled: str | None
    abnormal: bool
    why: str
    trace: str | None = field(metadata=described("Error of the connector itself, if it is FAILED."))
    version: str | None = field(metadata=described("Version of the plug-in, if it is known."))
    config: Mapping[str, str] = field(metadata=described("Secrets are [hidden]. References are shown as they are."))
    topics: Sequence[str]
    tasks: Sequence[TaskRow]
    tables: Sequence[TableProgress] = field(
        metadata=described("Tables that a table sink writes, all tasks together. Empty for other connectors.")
    )
    course: Sequence[CoursePoint] = field(metadata=described("The last hour, one point per ten seconds."))
    unanswered: Sequence[Unanswered]
    at_ms: int = field(metadata=described(_NOW))


@dataclass(frozen=True, slots=True)
class GroupWorkerRow(JsonShape):
    """One worker of the group."""

    worker_id: str
    url: str
    leader: bool
    this: bool = field(metadata=described("Whether this is the worker that answers."))
    runtime: str = field(metadata=one_of((OURS, JAVA, UNKNOWN)))
    version: str | None
    reachable: bool
    why: str = field(metadata=described("Why it is not reachable, or reports no more about itself."))
    health: str | None = field(metadata=described("healthy, starting or unhealthy, and the message."))
    connectors: Sequence[str]
    tasks: Sequence[str] = field(metadata=described("name-0. Of a worker that does not answer: from the statuses."))
    records_per_second: float | None
    memory_bytes: int | None = field(metadata=described("Of the worker's Python process."))
    started_ms: int | None = field(metadata=described(_NOW))
    open_files: int | None = field(
        default=None, metadata=described("Open file descriptors of the worker's Python process.")
    )
    open_files_max: int | None = field(default=None, metadata=described("Limit of open file descriptors (ulimit -n)."))


@dataclass(frozen=True, slots=True)
class GroupInfo(JsonShape):
    """The group and its workers."""

    group_id: str
    kafka_cluster_id: str
    protocol: str
    leader: str | None = field(metadata=described("Worker id of the leader; null: a rebalance is in progress."))
    generation: int
    workers: Sequence[GroupWorkerRow]
    at_ms: int = field(metadata=described(_NOW))


@dataclass(frozen=True, slots=True)
class OverviewChange:
    """The difference to an earlier answer: ``body`` is JSON, the same bytes for all clients that had that answer."""

    at_ms: int
    body: bytes | None  # None: nothing


class Overview(Protocol):
    """Answers for the whole group. Any thread; each method's docstring names its time limit if it blocks."""

    def page(self, wanted: OverviewQuery) -> OverviewPage:
        """Return a page. Blocks for at most the limit of a read between workers."""

    def connector(self, name: str) -> ConnectorDetail:
        """Return one connector. Blocks as ``page``. Raises NotFoundError."""

    def group(self) -> GroupInfo:
        """Return the workers. Blocks as ``page``."""

    def changes(self, since_ms: int) -> OverviewChange:
        """Return what changed after the poll of that time; 0: nothing, but the time of the last poll. Does not block.

        As long as clients ask now and then, the worker looks every two seconds, once for all of them.
        """

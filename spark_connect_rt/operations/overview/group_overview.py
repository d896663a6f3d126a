"""The overview of the whole group: states from the topics, joined with rates and lags from every worker's memory.

It reads in the order in which things happen. ``StatusCache`` keeps the state of each connector and makes it again only
after a change. ``GroupRows`` asks all workers for their shares, at most once a second however many pages are open, and
joins states and shares to rows. ``GroupOverview`` makes the answers: a page of rows, a connector with all details, the
workers. A page never waits for a worker that does not answer if an earlier answer can be shown.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as LateError
from dataclasses import asdict, dataclass

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.json_text import decode_json, encode_quick_json
from spark_connect_rt.base.traces import last_line
from spark_connect_rt.errors import ConnectError, ForbiddenError, NotFoundError
from spark_connect_rt.group.peers import PeerClient
from spark_connect_rt.operations.overview.model import (
    ConnectorDetail,
    ConnectorRow,
    CoursePoint,
    GroupInfo,
    GroupWorkerRow,
    OverviewChange,
    OverviewPage,
    TaskRow,
)
from spark_connect_rt.operations.overview.selection import (
    InstanceFacts,
    OverviewQuery,
    any_loud,
    counted,
    selected,
    why_abnormal,
)
from spark_connect_rt.operations.overview.worker_shares import (
    CONNECTOR,
    SHARES,
    WORKER,
    WorkerReport,
    counters_of,
    course_of,
    shares_of,
    tables_of,
)
from spark_connect_rt.rest.peers import (
    ASK_LIMIT_MS,
    JAVA,
    GroupReads,
    GroupWorker,
    Unanswered,
    WorkerAnswer,
    unanswered,
)
from spark_connect_rt.runtime.herder.herder_api import HerderViews
from spark_connect_rt.runtime.values import ConnectorStateInfo, InstanceState, RestartNote, TaskState
from spark_connect_rt.topics.aggregate_state import aggregate_state

FRESH_MS = 1_000  # the workers' answers are used again for so long
USABLE_MS = 10_000  # older answers are shown at once, while the next ones are collected
PATIENCE_S = 0.1  # for the next answers, if earlier ones can be shown
LOOK_EACH_S = 2.0  # while a client follows a stream
FOLLOWED_MS = 5_000  # a client that has not asked for so long follows no longer
GONE_MS = 30_000  # a worker that left is reported after that: its work moves within moments
REMOVED_MOST = 10_000
VERSION_AGAIN_S = 60.0
Hide = Callable[[Mapping[str, str]], Mapping[str, str]]
"""Takes a connector's configuration and returns it with its secrets hidden."""

log = logging.getLogger(__name__)


# ---- The states, from the topics ----


@dataclass(frozen=True, slots=True, eq=False)
class LastError:
    """The last error of a connector, which outlives the state that it led to. ``at_ms`` 0: unknown."""

    line: str
    at_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class KnownState:
    """A connector by its statuses and its configuration."""

    mark: object
    name: str
    type: str
    class_name: str
    state: str
    worker_id: str
    tasks: Mapping[str, int]
    instances: tuple[InstanceFacts, ...]  # the connector, then its tasks
    workers: frozenset[str]  # that its statuses name
    restart: RestartNote | None
    stalled: str | None
    last_error: LastError | None
    loud: bool  # time alone may change its row


class StatusCache:
    """The state of every connector. Its caller holds a lock."""

    def __init__(self, views: HerderViews) -> None:
        self._views = views
        self._mark: object = None
        self._known: dict[str, KnownState] = {}

    def refreshed(self, now_ms: int) -> Mapping[str, KnownState]:
        """Return the state of every connector. States, and the whole mapping, stay the same objects until a change."""
        mark = self._views.states_mark()  # first: a change in the meantime is noticed the next time
        if mark == self._mark:
            return self._known
        found: dict[str, KnownState] = {}
        for name in self._views.list_connectors():
            try:
                found[name] = self._one(name, self._known.get(name), now_ms)
            except NotFoundError:
                continue  # deleted since the list was taken
        self._known, self._mark = found, mark
        return found

    def _one(self, name: str, before: KnownState | None, now_ms: int) -> KnownState:
        mark = self._views.connector_mark(name)
        if before is not None and before.mark == mark:
            return before
        status = self._views.connector_status(name)
        instances = self._facts(status, before, now_ms)
        notes = [instance.restart for instance in (status.connector, *status.tasks) if instance.restart is not None]
        return KnownState(
            mark,
            name,
            status.type,
            self._views.connector_config(name).written().get("connector.class", ""),
            status.connector.state,
            status.connector.worker_id,
            dict(sorted(Counter(task.state for task in status.tasks).items())),
            instances,
            frozenset(instance.worker_id for instance in instances if instance.worker_id),
            next((note for note in notes if note.stopped), notes[0] if notes else None),
            next((f"task {instance.task}: {instance.stalled}" for instance in instances if instance.stalled), None),
            _last_error(instances, before),
            any_loud(instances),
        )

    def _facts(self, status: ConnectorStateInfo, before: KnownState | None, now_ms: int) -> tuple[InstanceFacts, ...]:
        connector, tasks = status.connector, status.tasks
        loud = any(_is_loud(instance) for instance in (connector, *tasks))
        times = self._views.status_times(status.name) if loud else {}
        earlier = {instance.task: instance for instance in before.instances} if before else {}

        def facts(task: int | None, instance_state: InstanceState) -> InstanceFacts:
            known, written_ms = earlier.get(task), times.get(task) or 0
            same = known is not None and known.state == instance_state.state
            seen_ms = known.since_ms if known is not None and same and known.since_ms else now_ms
            return InstanceFacts(
                task,
                instance_state.state,
                instance_state.worker_id,
                last_line(instance_state.trace),
                _since_ms(instance_state.state, written_ms, seen_ms),
                instance_state.restart.next_attempt_ms if instance_state.restart else None,
                (instance_state.restart.stopped or "") if instance_state.restart else "",
                instance_state.progress.reason if instance_state.progress else "",
            )

        return (facts(None, connector), *(facts(task.id, task) for task in tasks))


def _since_ms(state: str, written_ms: int, seen_ms: int) -> int:
    """Return since when an instance is in its state (ms since 1970), or 0 for a state that needs no attention.

    A failure counts from its last status, because the instance may have restarted and failed again. In other states a
    status that repeats the state does not count.
    """
    if state == "FAILED":
        return written_ms or seen_ms
    return min(written_ms or seen_ms, seen_ms) if state in ("UNASSIGNED", "RESTARTING") else 0


def _is_loud(instance: InstanceState) -> bool:
    return instance.state in ("FAILED", "UNASSIGNED", "RESTARTING")


def _last_error(instances: tuple[InstanceFacts, ...], before: KnownState | None) -> LastError | None:
    """Return the error of the instance that FAILED last, or the error that was known before."""
    failed = [
        instance
        for instance in instances
        if instance.error and (instance.state == "FAILED" or instance.cannot_make_tasks)
    ]
    if not failed:
        return before.last_error if before else None
    newest = max(failed, key=lambda instance: instance.since_ms)
    words = newest.error if newest.task is None else f"task {newest.task}: {newest.error}"
    return LastError(words, newest.since_ms)


# ---- The rows: states joined with the workers' shares ----


@dataclass(frozen=True, slots=True)
class Gathered:
    """The last answers of the workers."""

    at_ms: int = 0  # monotonic
    shares: Mapping[str, WorkerReport] | None = None
    unanswered: tuple[Unanswered, ...] = ()
    members: frozenset[str] = frozenset()


class GroupRows:
    """The row of every connector. Any thread may call it."""

    def __init__(self, views: HerderViews, reads: GroupReads, clock: Clock) -> None:
        """``reads`` asks the other workers of the group."""
        self._views = views
        self._reads = reads
        self._clock = clock
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="overview")
        self._lock = threading.Lock()
        self._under_way: Future[None] | None = None
        self._gathered = Gathered()
        self._states = StatusCache(views)
        self._gone: dict[str, int] = {}  # worker in statuses that is not a member -> since when, ms since 1970
        self._made: dict[str, tuple[KnownState, WorkerReport | None]] = {}  # the parts of each row
        self._members: frozenset[str] = frozenset()
        self._rows: dict[str, ConnectorRow] = {}
        self._changed_at: dict[str, int] = {}
        self._removed: deque[tuple[int, str]] = deque(maxlen=REMOVED_MOST)
        self._at_ms = 0  # of the last change of rows, since 1970; always grows
        self._looked_at: tuple[object, object] = (None, None)
        self._bodies: dict[int, bytes] = {}  # time that a client knows -> the changes since, as JSON
        self._asked_ms = 0
        self._stopped = threading.Event()
        self._watching: threading.Thread | None = None

    def stop(self) -> None:
        """End the threads that ask workers and follow changes."""
        self._stopped.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def page(self, wanted: OverviewQuery) -> OverviewPage:
        """Return the rows that a query selects, for ``operations.overview.model.Overview.page``."""
        rows = self.looked()
        gathered = self._gathered
        found, matching = selected(rows.values(), wanted)
        return OverviewPage(
            found,
            len(rows),
            matching,
            counted(rows.values()),
            round(sum(row.records_per_second or 0.0 for row in rows.values()), 1),
            gathered.unanswered,
            self._at_ms,
        )

    def looked(self) -> Mapping[str, ConnectorRow]:
        """Return the rows as of now. It blocks for the workers' answers only if no earlier ones can be shown."""
        self._gather()
        with self._lock:
            return self._look()

    def reported_by(self, worker_id: str) -> tuple[list[str], list[str]]:
        """Return the connectors and the tasks (name-0) that run on a worker by their statuses."""
        with self._lock:
            states = self._states.refreshed(self._clock.now_ms())
        mine = [
            (state.name, instance.task)
            for state in states.values()
            if worker_id in state.workers
            for instance in state.instances
            if instance.worker_id == worker_id and instance.state != "UNASSIGNED"
        ]
        return [name for name, task in mine if task is None], [
            f"{name}-{task}" for name, task in mine if task is not None
        ]

    def look_beside(self) -> None:
        """Refresh the states without asking workers, so that a page knows errors from before it was opened."""
        with self._lock:
            self._states.refreshed(self._clock.now_ms())

    def _gather(self) -> None:
        age_ms = self._clock.monotonic_ms() - self._gathered.at_ms
        if self._gathered.shares is not None and age_ms < FRESH_MS:
            return
        with self._lock:
            if self._under_way is None or self._under_way.done():
                try:
                    self._under_way = self._pool.submit(self._ask)
                except RuntimeError:  # stopped
                    return
            under_way = self._under_way
        usable = self._gathered.shares is not None and age_ms < USABLE_MS
        try:
            under_way.result(PATIENCE_S if usable else 2.5 * ASK_LIMIT_MS / 1000)
        except LateError:
            pass
        except Exception:
            log.exception("the group's rates and lags cannot be collected")

    def _ask(self) -> None:
        answers = self._reads.ask(SHARES)
        members = frozenset(answer.worker.worker_id for answer in answers)
        self._gathered = Gathered(self._clock.monotonic_ms(), shares_of(answers), unanswered(answers), members)

    def _look(self) -> Mapping[str, ConnectorRow]:
        """Make the rows whose parts changed. The caller holds the lock."""
        now_ms = self._clock.now_ms()
        states, gathered = self._states.refreshed(now_ms), self._gathered
        same = self._looked_at[0] is states and self._looked_at[1] is gathered
        if same and not any(known.loud for known in states.values()):
            return self._rows
        members = self._with_those_just_gone(states, gathered, now_ms)
        same_members, self._members = members == self._members, members
        rows: dict[str, ConnectorRow] = {}
        changed = []
        for name, state in states.items():
            share, before = _share_of(state, gathered), self._rows.get(name)
            if before is not None and same_members and not state.loud and self._made[name] == (state, share):
                rows[name] = before
                continue
            row = _row(state, share, members, now_ms)
            if before is None or before != row:
                changed.append(name)
            rows[name] = row
            self._made[name] = (state, share)
        removed = self._rows.keys() - rows.keys()
        if changed or removed:
            self._at_ms = max(now_ms, self._at_ms + 1)
            self._changed_at.update(dict.fromkeys(changed, self._at_ms))
            self._removed.extend((self._at_ms, name) for name in sorted(removed))
            self._bodies = {}
            for name in removed:
                del self._changed_at[name], self._made[name]
        self._rows, self._looked_at = rows, (states, gathered)
        return rows

    def _with_those_just_gone(
        self, states: Mapping[str, KnownState], gathered: Gathered, now_ms: int
    ) -> frozenset[str]:
        """Return the group's workers and those that left it a moment ago, because their work is about to move."""
        if not gathered.members:
            return frozenset()
        named = frozenset[str]().union(*(state.workers for state in states.values())) - gathered.members
        self._gone = {worker: self._gone.get(worker, now_ms) for worker in named}
        return gathered.members | {worker for worker, since_ms in self._gone.items() if now_ms - since_ms < GONE_MS}

    def _followed(self) -> None:
        """Refresh the rows every two seconds until no client has asked for some seconds. The caller holds the lock."""
        self._asked_ms = self._clock.monotonic_ms()
        if self._watching is None and not self._stopped.is_set():
            self._watching = threading.Thread(target=self._watch, name="overview-stream", daemon=True)
            self._watching.start()

    def _watch(self) -> None:
        while True:
            with self._lock:
                idle_ms = self._clock.monotonic_ms() - self._asked_ms
                if idle_ms > FOLLOWED_MS or self._stopped.is_set():
                    self._watching = None
                    return
            try:
                self.looked()
            except Exception:
                log.exception("the overview cannot be built, retrying")
            self._stopped.wait(LOOK_EACH_S)

    def changes(self, since_ms: int) -> OverviewChange:
        """Return the rows that changed since a time, for ``operations.overview.model.Overview.changes``."""
        with self._lock:
            self._followed()
            if since_ms <= 0 or since_ms >= self._at_ms:
                return OverviewChange(self._at_ms, None)
            body = self._bodies.get(since_ms)
            if body is None:
                body = self._bodies[since_ms] = self._body(since_ms)
            return OverviewChange(self._at_ms, body)

    def _body(self, since_ms: int) -> bytes:
        changed = [self._rows[name] for name, at_ms in self._changed_at.items() if at_ms > since_ms]
        removed = {name for at_ms, name in self._removed if at_ms > since_ms} - self._rows.keys()
        rows = self._rows.values()
        return encode_quick_json(
            {
                "changed": [row_json(row) for row in changed],
                "removed": sorted(removed),
                "counts": counted(rows),
                "records_per_second": round(sum(row.records_per_second or 0.0 for row in rows), 1),
                "unanswered": [
                    {"worker_id": worker.worker_id, "why": worker.why} for worker in self._gathered.unanswered
                ],
                "at_ms": self._at_ms,
            }
        )


def row_json(row: ConnectorRow) -> dict[str, object]:
    """Return a row as a JSON object. It is faster than the REST API's serializer: a stream sends a thousand at once."""
    return {
        "name": row.name,
        "type": row.type,
        "class": row.class_name,
        "state": row.state,
        "aggregate": row.aggregate,
        "worker_id": row.worker_id,
        "tasks": row.tasks,
        "records_per_second": row.records_per_second,
        "lag": row.lag,
        "errors": row.errors,
        "last_error": row.last_error,
        "last_error_at_ms": row.last_error_at_ms,
        "restart": _restart_json(row.restart) if row.restart else None,
        "stalled": row.stalled,
        "abnormal": row.abnormal,
        "why": row.why,
    }


def _restart_json(note: RestartNote) -> dict[str, object]:
    return {name: value for name, value in asdict(note).items() if value or name == "attempts"}


def _share_of(state: KnownState, gathered: Gathered) -> WorkerReport | None:
    """Return the share of a connector, or None if it may run on a worker that did not answer."""
    share = (gathered.shares or {}).get(state.name)
    if share is None and gathered.shares is not None:
        missing = {worker.worker_id for worker in gathered.unanswered}
        return None if state.workers & missing else WorkerReport(0.0, None, 0, False)
    return share


def _row(state: KnownState, share: WorkerReport | None, members: frozenset[str], now_ms: int) -> ConnectorRow:
    lag, grows = (share.lag, share.lag_grows) if share else (None, False)
    why = ""
    if state.loud or grows or (members and not state.workers <= members):  # most rows need no reason
        why = why_abnormal(state.instances, now_ms, members=members, lag=lag, lag_grows=grows)
    error = state.last_error
    return ConnectorRow(
        state.name,
        state.type,
        state.class_name,
        state.state,
        aggregate_state(
            state.state, state.tasks, has_error=any(instance.cannot_make_tasks for instance in state.instances)
        ),
        state.worker_id,
        state.tasks,
        share.records_per_second if share else None,
        lag,
        share.errors if share else None,
        error.line if error else None,
        (error.at_ms or None) if error else None,
        state.restart,
        state.stalled,
        bool(why),
        why,
    )


# ---- The answers ----


class GroupOverview:
    """The overview that a worker serves: implements ``operations.overview.model.Overview``."""

    def __init__(
        self,
        views: HerderViews,
        reads: GroupReads,
        rows: GroupRows,
        clock: Clock,
        hide: Hide,
        peers: PeerClient | None = None,
    ) -> None:
        """``peers`` None: Java workers are not asked for their versions."""
        self._views = views
        self._reads = reads
        self._rows = rows
        self._clock = clock
        self._hide = hide
        self._peers = peers
        self._versions: dict[str, tuple[float, str | None]] = {}  # of Java workers, and when to ask again

    def page(self, wanted: OverviewQuery) -> OverviewPage:
        """Return the rows that a query selects, with counts of all rows."""
        return self._rows.page(wanted)

    def changes(self, since_ms: int) -> OverviewChange:
        """Return the rows that changed since ``since_ms`` (ms since 1970), and the removed connectors."""
        return self._rows.changes(since_ms)

    def connector(self, name: str) -> ConnectorDetail:
        """Return a connector with its configuration, tasks and timeline. Raises NotFoundError."""
        status = self._views.connector_status(name)  # NotFoundError
        config = self._hide(self._views.connector_config(name).written())
        answers = self._reads.ask(CONNECTOR, {"name": name})
        counters, row = counters_of(answers), self._rows.looked().get(name)
        named = {instance.worker_id for instance in (status.connector, *status.tasks)}
        return ConnectorDetail(
            name=name,
            type=status.type,
            class_name=config.get("connector.class", ""),
            state=status.connector.state,
            aggregate=aggregate_state(
                status.connector.state,
                Counter(task.state for task in status.tasks),
                has_error=bool(status.connector.trace),
            ),
            worker_id=status.connector.worker_id,
            records_per_second=row.records_per_second if row else None,
            lag=row.lag if row else None,
            errors=row.errors if row else None,
            last_error=row.last_error if row else None,
            last_error_at_ms=row.last_error_at_ms if row else None,
            restart=row.restart if row else status.connector.restart,
            stalled=row.stalled if row else None,
            abnormal=row.abnormal if row else False,
            why=row.why if row else "",
            trace=status.connector.trace,
            version=status.connector.version,
            config=config,
            topics=self._topics(name),
            tasks=[_task(task, counters.get(task.id, {})) for task in status.tasks],
            tables=tables_of(answers),
            course=[CoursePoint(*point) for point in course_of(answers)],
            unanswered=[worker for worker in unanswered(answers) if worker.worker_id in named],
            at_ms=self._clock.now_ms(),
        )

    def _topics(self, name: str) -> tuple[str, ...]:
        try:
            return self._views.topics(name)
        except ForbiddenError:  # tracking is off
            return ()

    def group(self) -> GroupInfo:
        """Return the group and its workers, each with the work that it reports."""
        standing = self._views.standing()
        answers = self._reads.ask(WORKER)
        return GroupInfo(
            group_id=standing.group_id,
            kafka_cluster_id=self._views.kafka_cluster_id(),
            protocol=standing.protocol,
            leader=next((answer.worker.worker_id for answer in answers if answer.worker.leader), None),
            generation=standing.generation,
            workers=[self._worker(answer) for answer in answers],
            at_ms=self._clock.now_ms(),
        )

    def _worker(self, answer: WorkerAnswer) -> GroupWorkerRow:
        worker, said = answer.worker, answer.answer if not answer.why and isinstance(answer.answer, Mapping) else None
        version, reachable = (said.get("version"), True) if said else (None, answer.runtime != "unknown")
        if answer.runtime == JAVA:
            version = self._java_version(worker)
            reachable = version is not None
        connectors, tasks = (said["connectors"], said["tasks"]) if said else self._by_statuses(worker.worker_id)
        return GroupWorkerRow(
            worker.worker_id,
            worker.url,
            worker.leader,
            worker.this,
            answer.runtime,
            version,
            reachable,
            answer.why,
            said.get("health") if said else None,
            connectors,
            tasks,
            said.get("records_per_second") if said else None,
            said.get("memory_bytes") if said else None,
            said.get("started_ms") if said else None,
            said.get("open_files") if said else None,
            said.get("open_files_max") if said else None,
        )

    def _by_statuses(self, worker_id: str) -> tuple[list[str], list[str]]:
        """Return the connectors and tasks of a worker that does not answer, by their statuses."""
        return self._rows.reported_by(worker_id)

    def _java_version(self, worker: GroupWorker) -> str | None:
        again_s, version = self._versions.get(worker.worker_id, (0.0, None))
        if self._peers is None or time.monotonic() < again_s:
            return version
        try:
            answer = self._peers.request("GET", worker.url, timeout_ms=ASK_LIMIT_MS)
            version = str(decode_json(answer.body)["version"]) if answer.status == 200 else None
        except (ConnectError, LookupError, TypeError):
            version = None
        self._versions[worker.worker_id] = (time.monotonic() + (VERSION_AGAIN_S if version else 5.0), version)
        return version


def _task(task: TaskState, counted: Mapping[str, object]) -> TaskRow:
    return TaskRow(
        id=task.id,
        state=task.state,
        worker_id=task.worker_id,
        trace=task.trace,
        restart=task.restart,
        stalled=task.progress.reason if task.progress else None,
        **dict(counted),  # type: ignore[arg-type]
    )

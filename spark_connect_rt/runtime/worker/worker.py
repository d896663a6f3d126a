"""The hands: connectors and tasks of this worker (Java ``Worker``). Carries out, decides nothing.

Called by the herder's tick thread only, but for ``open``'s callbacks, which come from the engine's threads.
Failures of one connector or task become its FAILED status and touch nothing else.
"""

from __future__ import annotations

import itertools
import logging
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from spark_connect_rt.api.config_provider import Resolve
from spark_connect_rt.base.concurrency import MACHINE_THREADS, Clock, ElasticPool, Threads
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.engine.task_runner import TaskEvent, TaskKind, TaskLaunch, TaskRunner
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.group.work_plan import Life, RunningWork
from spark_connect_rt.kafka.interfaces import SinkGroupFactory
from spark_connect_rt.plugins.interfaces import PluginCatalog
from spark_connect_rt.runtime.group_events import RecordEvent, no_event
from spark_connect_rt.runtime.metric_names import MetricValue, measured
from spark_connect_rt.runtime.values import TaskProgress
from spark_connect_rt.runtime.worker.events import LifeChanged, Notify
from spark_connect_rt.runtime.worker.java_launches import facts_of
from spark_connect_rt.runtime.worker.launches import (
    ConnectorFacts,
    TaskSpec,
    make_launch,
    new_connector,
    plugin_settings,
    sink_settings,
    task_class_namer,
)
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores
from spark_connect_rt.runtime.worker.status_reports import StatusReports
from spark_connect_rt.runtime.worker.task_measures import metrics_window_ms
from spark_connect_rt.runtime.worker.task_starts import Known, TaskStarts
from spark_connect_rt.runtime.worker.worker_connector import (
    NO_NOTES,
    ConfigReloads,
    ConnectorPlan,
    ReportStatus,
    WorkerConnector,
)
from spark_connect_rt.runtime.worker.worker_sink_task import SinkTaskMembership
from spark_connect_rt.runtime.worker.worker_task import (
    Movement,
    Offsets,
    OnWritten,
    TaskServices,
    WorkerTask,
    patience_ms,
)
from spark_connect_rt.topics.offset_records import encode_value
from spark_connect_rt.topics.status_records import State
from spark_connect_rt.topics.status_store import StatusStore

# How many starts of connectors or tasks this worker tried, and how they went (Java ``WorkerMetricsGroup``).


_ENDED_BEFORE = (None, State.UNASSIGNED, State.RESTARTING, State.DESTROYED)


class StartCounts:
    """Of one kind: connector or task. The first state that is reported of a start says how it went."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._attempts = self._good = self._bad = 0

    def of_one(self, report: ReportStatus) -> ReportStatus:
        """Count an attempt; return the reporter that counts how it went."""
        self._attempts += 1
        known = False

        def report_and_count(
            state: State | None,
            trace: str | None = None,
            version: str | None = None,
            notes: Mapping[str, Any] = NO_NOTES,
        ) -> None:
            nonlocal known
            if not known:
                known = True
                self._good += state is not State.FAILED and state not in _ENDED_BEFORE
                self._bad += state is State.FAILED
            report(state, trace, version, notes)

        return report_and_count

    def metrics(self) -> Iterator[MetricValue]:
        """Yield attempts, successes and failures, and the shares of both, as metrics."""
        over = max(1, self._good + self._bad)
        for name, value in (
            ("attempts-total", self._attempts),
            ("success-total", self._good),
            ("failure-total", self._bad),
            ("success-percentage", round(self._good / over, 4)),
            ("failure-percentage", round(self._bad / over, 4)),
        ):
            yield measured("connect-worker-metrics", f"{self._kind}-startup-{name}", value)


# How everything of one worker stands, as values: looked at several times a tick, and of thousands one has changed.


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FailedWork:
    """A connector or task of this worker that FAILED and is over."""

    key: Any  # of the run that failed
    trace: str
    moved: bool = True  # whether the run committed an offset; connectors have none: True


@dataclass(frozen=True, slots=True)
class WorkSnapshot:
    """How everything of this worker stands."""

    connectors: Mapping[str, RunningWork]
    tasks: Mapping[ConnectorTaskId, RunningWork]
    stopping_connectors: tuple[str, ...]
    stopping_tasks: tuple[ConnectorTaskId, ...]

    def changed(
        self, connectors: Mapping[str, RunningWork | None], tasks: Mapping[ConnectorTaskId, RunningWork | None]
    ) -> WorkSnapshot:
        """Return the snapshot with these changes (None: gone). A mapping without a change stays the same object."""
        now_connectors, now_tasks = _patched(self.connectors, connectors), _patched(self.tasks, tasks)
        if now_connectors is self.connectors and now_tasks is self.tasks:
            return self
        return WorkSnapshot(
            now_connectors,
            now_tasks,
            _stopping(self.stopping_connectors, connectors),
            _stopping(self.stopping_tasks, tasks),
        )


NOTHING_HERE = WorkSnapshot({}, {}, (), ())


def _patched(before: Mapping[T, RunningWork], instead: Mapping[T, RunningWork | None]) -> Mapping[T, RunningWork]:
    others = {item: actual for item, actual in instead.items() if before.get(item) is not actual}
    if not others:
        return before
    now = {**before, **{item: actual for item, actual in others.items() if actual is not None}}
    for item, actual in others.items():
        if actual is None:
            del now[item]
    return now


def _stopping(before: tuple[T, ...], instead: Mapping[T, RunningWork | None]) -> tuple[T, ...]:
    kept = [item for item in before if item not in instead]
    return (*kept, *(item for item, actual in instead.items() if actual is not None and actual.life is Life.STOPPING))


log = logging.getLogger(__name__)

CONNECTOR_STOP_LIMIT_MS = 5_000
Item = str | ConnectorTaskId


@dataclass(frozen=True, slots=True)
class WorkerDependencies:
    """Everything a worker needs from outside."""

    worker_id: str
    worker: WorkerConfig
    clock: Clock
    plugins: PluginCatalog
    runner: TaskRunner
    sink_groups: SinkGroupFactory
    offsets: SourceOffsetStores
    status_store: StatusStore
    resolve: Resolve
    topic_tracking: bool = True
    task_stop_limit_ms: int = 5_000  # task.shutdown.graceful.timeout.ms
    threads: Threads = MACHINE_THREADS
    check: Callable[[ConnectorTaskId], None] = lambda _: None  # raises: the task must not start here any more
    holds_lease: Callable[[], bool] = lambda: True  # whether contact to the group is fresh
    record_event: RecordEvent = no_event


class Worker:
    """The connectors and tasks that run on this worker, and what is asked of them."""

    def __init__(self, dependencies: WorkerDependencies, notify: Notify) -> None:
        self._deps = dependencies
        self._notify = notify
        self._runs = itertools.count(1)
        self._brief = ElasticPool(dependencies.threads)
        self._reloads = ConfigReloads(dependencies.resolve, notify, dependencies.threads)
        self._connectors: dict[str, WorkerConnector] = {}
        self._tasks: dict[ConnectorTaskId, WorkerTask] = {}
        self._task_starts = TaskStarts(self._ask_connector, self._brief, self._task_starts_changed)
        self._connector_counts, self._task_counts = StartCounts("connector"), StartCounts("task")
        self._metrics_window_ms = metrics_window_ms(dependencies.worker.runtime)
        self._tables = threading.Lock()
        self._standing = NOTHING_HERE
        self._unlooked: dict[Item, None] = {}  # items that may have changed since the last snapshot
        self._failed: tuple[WorkSnapshot, Mapping[Item, FailedWork]] = (NOTHING_HERE, {})
        its = dependencies
        self._reports = StatusReports(its.worker_id, its.status_store, its.clock, its.topic_tracking, its.record_event)

    def open(self) -> None:
        """Open the engine, which reports events of tasks and keeps executors alive while the lease holds."""
        self._deps.runner.live_while(self._deps.holds_lease)
        self._deps.runner.open(self._on_task_event, self._read_offsets)

    def close(self, timeout_ms: int) -> None:
        """Close the engine, which ends all runs. Blocks."""
        self._deps.runner.close(timeout_ms)

    def set_generation(self, generation: int) -> None:
        """Statuses are reported, and runs are launched, under this generation from now on."""
        self._reports.generation = generation

    def connectors(self) -> Mapping[str, RunningWork]:
        """Return how every connector of this worker stands; the same mapping until one changes."""
        return self._now().connectors

    def tasks(self) -> Mapping[ConnectorTaskId, RunningWork]:
        """Return how every task of this worker stands; the same mapping until one changes."""
        return self._now().tasks

    def _now(self) -> WorkSnapshot:
        # Looked at several times a tick, and of thousands one has changed.
        with self._tables:
            if self._unlooked:
                unlooked, self._unlooked = self._unlooked, {}
                connectors = {name: self._connector_now(name) for name in unlooked if isinstance(name, str)}
                tasks = {task: self._task_now(task) for task in unlooked if isinstance(task, ConnectorTaskId)}
                self._standing = self._standing.changed(connectors, tasks)
            return self._standing

    def _connector_now(self, name: str) -> RunningWork | None:
        connector = self._connectors.get(name)
        return None if connector is None else connector.actual()

    def _task_now(self, task: ConnectorTaskId) -> RunningWork | None:
        run = self._tasks.get(task)
        return self._task_starts.actual_of(task) if run is None else run.actual()

    def _standing_changed(self, item: Item) -> None:
        with self._tables:
            self._unlooked[item] = None

    def failed(self) -> Mapping[Item, FailedWork]:
        """Return what FAILED here and is over; the same mapping until something changes."""
        now = self._now()
        if self._failed[0] is now:
            return self._failed[1]
        failed: dict[Item, FailedWork] = {}
        for name, actual in now.connectors.items():
            if actual.life is Life.FAILED:
                failed[name] = FailedWork(actual.key, self._connectors[name].trace)
        for task, actual in now.tasks.items():
            if actual.life is Life.FAILED:
                run = self._tasks.get(task)
                trace, moved = (run.trace, run.moved) if run else (self._task_starts.trace_of(task) or "", False)
                failed[task] = FailedWork(actual.key, trace, moved)
        self._failed = (now, failed)
        return failed

    def note(self, item: Item, notes: Mapping[str, Any]) -> None:
        """Add ``notes`` to the status of a connector or task of this worker; its next status has none."""
        if isinstance(item, ConnectorTaskId) and (trace := self._task_starts.trace_of(item)) is not None:
            self._reports.of_task(item)(State.FAILED, trace=trace, notes=notes)
            return
        with self._tables:
            found = self._connectors.get(item) if isinstance(item, str) else self._tasks.get(item)
        if found is not None:
            found.note(notes)

    def stopping(self) -> list[str]:
        """Return what was asked to stop and has not ended yet, by name."""
        now = self._now()
        return [str(item) for item in (*now.stopping_connectors, *now.stopping_tasks)]

    def unfinished(self) -> ConnectorsAndTasks:
        """Return what was asked to stop and has not ended yet."""
        now = self._now()
        return ConnectorsAndTasks(now.stopping_connectors, now.stopping_tasks)

    def connector_state(self, name: str) -> State | None:
        """Return a connector's state on this worker, None when it is not here."""
        connector = self._connectors.get(name)
        return connector.state if connector else None

    def start_connector(self, plan: ConnectorPlan) -> None:
        """Start a new incarnation (the previous one has ended)."""
        connector = WorkerConnector(
            plan,
            new_connector=lambda: new_connector(self._deps.plugins, plugin_settings(plan.config, self._deps.resolve)),
            name_task_class=task_class_namer(self._deps.plugins, plan.config, self._deps.resolve),
            resolve=self._deps.resolve,
            reloads=self._reloads,
            report=self._connector_counts.of_one(self._reports.of_connector(plan.name)),
            notify=self._notify,
            standing_changed=partial(self._standing_changed, plan.name),
            threads=self._brief,
            read_offsets=partial(self._deps.offsets.read, plan.name),
            record_event=self._deps.record_event,
        )
        with self._tables:
            self._connectors[plan.name] = connector
            self._unlooked[plan.name] = None
        connector.start()

    def switch_connector(self, name: str, paused: bool) -> None:
        """Pause a connector of this worker, or resume it."""
        self._connectors[name].switch(paused)

    def stop_connector(self, name: str, status_after: State | None) -> None:
        """Stop; see ``abandon_overdue`` for one that does not come back."""
        stop_by_ms = self._deps.clock.monotonic_ms() + CONNECTOR_STOP_LIMIT_MS
        self._connectors[name].stop(status_after, stop_by_ms)

    def forget_connector(self, name: str) -> None:
        """Drop one that has ended."""
        self._reloads.forget(name)
        with self._tables:
            del self._connectors[name]
            self._unlooked[name] = None

    def generate_task_configs(self, name: str) -> None:
        """Have a connector of this worker split its work; the answer comes as an event."""
        if name in self._connectors:
            self._connectors[name].generate_task_configs()

    def abandon_overdue(self) -> int | None:
        """Give up connectors that should have stopped by now; return when to look again, monotonic ms."""
        now_ms = self._deps.clock.monotonic_ms()
        ending = [self._connectors[name] for name in self._now().stopping_connectors]
        due = [(connector.stop_by_ms, connector) for connector in ending if connector.stop_by_ms is not None]
        waiting = [stop_by_ms for stop_by_ms, _ in due if stop_by_ms > now_ms]
        for stop_by_ms, connector in due:
            if stop_by_ms <= now_ms:
                connector.stop_by_ms = None
                connector.abandon()
        return min(waiting, default=None)

    def start_task(self, spec: TaskSpec, key: Any) -> None:
        """Have a new run started (the previous one has ended): ``begin_tasks`` starts it, once its class is known."""
        with self._tables:
            self._tasks.pop(spec.task, None)
        self._task_starts.add(spec, key)

    def begin_tasks(self) -> None:
        """Start the runs of tasks whose connectors have said what they are."""
        for known in self._task_starts.take_known():
            self._begin_task(known)

    def _begin_task(self, known: Known) -> None:
        spec, key, generation = known.spec, known.key, self._reports.generation
        if known.facts is None:
            self._task_broken(spec, key, known.trace)
            return
        try:
            launch = make_launch(spec, known.facts, self._deps.worker, next(self._runs), generation)
            task = self._new_task(launch, key, known.facts)
        except Exception:  # noqa: BLE001 - the connector's configuration: the task's failure
            self._task_broken(spec, key, traceback.format_exc())
            return
        with self._tables:
            self._tasks[spec.task] = task
            self._unlooked[spec.task] = None
        log.info("task=%s gen=%d run=%d starts", spec.task, generation, launch.run)
        task.start()
        self._reloads.watch_task(spec.task, key, spec.connector_config, spec.task_config)

    def switch_task(self, task: ConnectorTaskId, paused: bool) -> None:
        """Pause a task of this worker, or resume it, also while it starts."""
        if not self._task_starts.switch(task, paused):
            self._tasks[task].switch(paused)

    def stop_tasks(self, tasks: Mapping[ConnectorTaskId, State | None]) -> None:
        """Drain and end them together within the one graceful limit; values are the statuses afterwards."""
        for task, status_after in tasks.items():
            if self._task_starts.stop(task):
                self._reports.of_task(task)(status_after)
            else:
                self._tasks[task].stop(self._deps.task_stop_limit_ms, status_after)

    def forget_task(self, task: ConnectorTaskId) -> None:
        """Drop one that has ended."""
        self._reloads.forget(task)
        self._task_starts.forget(task)
        with self._tables:
            self._tasks.pop(task, None)
            self._unlooked[task] = None

    def fence_all(self) -> None:
        """Contact to the group is lost: end every run of now at once and believe none any more (I2, I7)."""
        self._deps.offsets.give_up()
        self._task_starts.stop_all()
        for task in self._tasks.values():
            task.fence()

    def report_restarting(self, task: ConnectorTaskId | None, connector: str) -> None:
        """Write status RESTARTING of a task, or of the connector for None (KIP-745)."""
        self._reports.restarting(connector, task)

    def connector_states(self) -> dict[str, str]:
        """Return the states of this worker's connectors, for the console. Any thread."""
        with self._tables:
            return {name: connector.state.name for name, connector in self._connectors.items()}

    def movements(self) -> dict[ConnectorTaskId, Movement]:
        """Return how each RUNNING task moves."""
        found = {task.id: task.movement() for task in self.every_task()}
        return {task: movement for task, movement in found.items() if movement is not None}

    def metrics(self) -> list[MetricValue]:
        """Return Connect's metrics of this worker, its connectors and its tasks. Any thread."""
        with self._tables:
            tasks, connectors = list(self._tasks.values()), list(self._connectors.values())
        counts = [("connector-count", len(connectors)), ("task-count", len(tasks))]
        return [
            *(measured("connect-worker-metrics", name, count) for name, count in counts),
            *self._connector_counts.metrics(),
            *self._task_counts.metrics(),
            *(metric for connector in connectors for metric in connector.metrics()),
            *(metric for task in tasks for metric in task.metrics()),
        ]

    def task_progress(self) -> tuple[TaskProgress, ...]:
        """Return the counters of this worker's tasks, by task. Any thread."""
        return tuple(task.progress() for task in sorted(self.every_task(), key=lambda task: task.id))

    def every_task(self) -> list[WorkerTask]:
        """Return the runs of this worker. Any thread."""
        with self._tables:
            return list(self._tasks.values())

    def _new_task(self, launch: TaskLaunch, key: Any, facts: ConnectorFacts) -> WorkerTask:
        deps = self._deps
        services = TaskServices(
            clock=deps.clock,
            runner=deps.runner,
            report=self._task_counts.of_one(self._reports.of_task(launch.task, facts.version)),
            put_offsets=self._put_copy if launch.offsets_topic else partial(deps.offsets.put, until_durable=True),
            put_topic=self._reports.topic_used,
            changed=lambda what: self._notify(LifeChanged(what)),
            standing_changed=partial(self._standing_changed, launch.task),
            record_event=deps.record_event,
            metrics_window_ms=self._metrics_window_ms,
            stop_limit_ms=deps.task_stop_limit_ms,
            patience_ms=patience_ms(facts.settings) if launch.kind is TaskKind.SPARK_SINK else 0,
        )
        task = WorkerTask(launch, key, services)
        if launch.kind is not TaskKind.SOURCE:
            settings = sink_settings(launch, deps.resolve)
            task.membership = membership = SinkTaskMembership(
                launch.task,
                settings,
                deps.sink_groups,
                deps.runner,
                deps.clock,
                task.membership_left,
                task.fail,
                deps.threads,
            )
            membership.on_commit = task.offsets_committed
        return task

    def _ask_connector(self, config: StoredConfig) -> ConnectorFacts:
        return facts_of(config, self._deps.worker, self._deps.plugins, self._deps.resolve)

    def _task_starts_changed(self, task: ConnectorTaskId | None, what: str) -> None:
        if task is not None:
            self._standing_changed(task)
        if what:
            self._notify(LifeChanged(what))

    def _task_broken(self, spec: TaskSpec, key: Any, trace: str) -> None:
        log.error("task=%s FAILED before it started: %s", spec.task, trace.strip().splitlines()[-1])
        self._task_starts.failed(spec, key, trace)
        self._task_counts.of_one(self._reports.of_task(spec.task))(State.FAILED, trace=trace)

    def _on_task_event(self, event: TaskEvent) -> None:
        with self._tables:
            task = self._tasks.get(event.task)
        if task is None:
            log.warning("task=%s run=%d report rejected: not on this worker", event.task, event.run)
            return
        task.on_event(event)

    def _read_offsets(
        self, task: ConnectorTaskId, partitions: Sequence[Mapping[str, Any]]
    ) -> list[Mapping[str, Any] | None]:
        self._deps.check(task)
        found = list(self._deps.offsets.read(task.connector, partitions))
        for offset in found:
            encode_value(offset)  # an offset that no message can carry fails this task and must not reach the channel
        return found

    def _put_copy(self, connector: str, offsets: Offsets, on_written: OnWritten, is_wanted: Callable[[], bool]) -> None:
        """T2: the transaction of the records has committed these offsets; only copies are left to be made."""
        self._deps.offsets.put_copy(connector, offsets, on_written)
        self._deps.offsets.delete_leftovers(connector, offsets)  # a transaction's producer knows of none

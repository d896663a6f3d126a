"""One run of one task on this worker: its life, its status, its counters, its offsets (Java ``WorkerTask``).

The engine runs the task; this object believes its reports only while the run is the current one. The tick starts,
switches and stops it; the engine's threads report into ``on_event``. One lock: after ``fence`` returns, no report
of this run can reach the offset store any more (I2).
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.base.traces import error_of
from spark_connect_rt.config.spark_connectors import TableFlushSettings
from spark_connect_rt.engine.task_runner import (
    BatchDurable,
    PartitionsReleased,
    Pause,
    Resume,
    Start,
    Stop,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskKind,
    TaskLaunch,
    TaskMeasured,
    TaskPaused,
    TaskRunner,
    TaskRunning,
    TaskWaiting,
)
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group.work_plan import Life, RunningWork
from spark_connect_rt.runtime.group_events import RecordEvent, no_event
from spark_connect_rt.runtime.metric_names import MetricValue
from spark_connect_rt.runtime.values import ProgressNote, TaskPace, TaskProgress, note_of
from spark_connect_rt.runtime.worker.table_progress import table_progress
from spark_connect_rt.runtime.worker.task_measures import WINDOW_MS, StateTimes, TaskMeasures
from spark_connect_rt.runtime.worker.task_metrics import TaskCounters, TaskFacts, task_metrics
from spark_connect_rt.runtime.worker.worker_connector import ReportStatus
from spark_connect_rt.topics.status_records import State


@dataclass(frozen=True, slots=True)
class Movement:
    """How one task moves that runs or should run, as the herder needs it to find stalls. Times are monotonic ms."""

    moved_at_ms: int  # it began to run, or something moved
    behind_since_ms: int | None = None  # sinks: since when records are known to wait; None: none do
    calls: Sequence[tuple[str, int]] = ()  # calls that have not returned, and since when
    patience_ms: int = 0  # it holds records back so long on purpose
    unhosted_since_ms: int | None = None  # no executor hosts it, and that takes long
    unhosted_why: str = ""  # why no process can be opened for it, as far as that is known
    unhosted_late: bool = True  # for so long that the worker is not healthy
    away: Sequence[tuple[str, int]] = ()  # clusters of which no broker answers, in words, and since when


def patience_ms(table_config: Mapping[str, str]) -> int:
    """Return how long, in ms, a task that Spark writes as a table may collect records before it writes them."""
    return TableFlushSettings.of({}).overridden(table_config).flush_interval_ms


# The consumer-group side of a sink task as the task sees it; worker_sink_task has the real one.


class SinkMembership(Protocol):
    """The consumer-group side of a sink task (worker_sink_task.SinkTaskMembership)."""

    @property
    def lag(self) -> int | None:
        """Records between what is durable and the log ends; None: unknown."""

    @property
    def partition_count(self) -> int:
        """How many partitions it holds."""

    @property
    def behind(self) -> bool:
        """Whether there are records that the engine has not read."""

    def read_to(self, positions: Mapping[TopicPartition, int]) -> None:
        """The engine will read these offsets next."""

    def join(self) -> None:
        """Join the consumer group; called once for a run."""

    def durable(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These next offsets may be committed."""

    def released(self, partitions: frozenset[TopicPartition]) -> None:
        """The engine let go of these partitions."""

    @property
    def committed(self) -> bool:
        """Whether the group holds every offset that was durable."""

    def leave(self, commit: bool) -> None:
        """Leave, after a last commit if ``commit``; ``on_left`` is called when it is done."""


log = logging.getLogger(__name__)

Offsets = list[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
OnWritten = Callable[[Exception | None], None]
PutOffsets = Callable[[str, Offsets, OnWritten, Callable[[], bool]], None]
PutTopic = Callable[[ConnectorTaskId, str], None]


@dataclass(frozen=True, slots=True)
class TaskServices:
    """The services of its worker that a task uses."""

    clock: Clock
    runner: TaskRunner
    report: ReportStatus
    put_offsets: PutOffsets
    put_topic: PutTopic
    changed: Callable[[str], None]  # something happened that the tick should look at
    standing_changed: Callable[[], None]  # ``actual`` is another one
    record_event: RecordEvent = no_event
    metrics_window_ms: int = WINDOW_MS
    stop_limit_ms: int = 5_000  # task.shutdown.graceful.timeout.ms
    patience_ms: int = 0  # how long it may hold records back on purpose


class WorkerTask:
    """One run; a restart makes a new object."""

    def __init__(self, launch: TaskLaunch, key: object, services: TaskServices) -> None:
        self.launch = launch
        self.membership: SinkMembership | None = None
        self.topics: set[str] = set()
        self._services = services
        self._lock = threading.RLock()
        self._actual = RunningWork(key, launch.paused, Life.ALIVE)
        self._state = State.UNASSIGNED
        self._fenced = False
        self._left = False
        self._run_ended = False
        self._on_committed: Callable[[], None] | None = None
        self._moved = False
        self._offsets_under_way = 0
        self._trace: str | None = None
        self._status_after_stop: State | None = State.UNASSIGNED
        self._counters = TaskCounters(services.clock.monotonic_ms())
        self._measures = TaskMeasures(services.clock.monotonic_ms(), services.metrics_window_ms)
        self._state_times = StateTimes(self._state.value, services.clock.monotonic_ms())
        self._behind_since_ms: int | None = None
        self._unhosted_since_ms: int | None = None
        self._unhosted_why, self._unhosted_late = "", True
        self._notes: Mapping[str, Any] = {}

    @property
    def id(self) -> ConnectorTaskId:
        """Return the connector's name and the task's number."""
        return self.launch.task

    @property
    def state(self) -> State:
        """Return the state that was reported last."""
        return self._state

    @property
    def trace(self) -> str:
        """Return why the task FAILED, as its status shows it."""
        return self._trace or ""

    @property
    def moved(self) -> bool:
        """Whether an offset of this run became durable."""
        return self._moved

    def note(self, notes: Mapping[str, Any]) -> None:
        """Say the status once more, with ``notes``: while it runs, or after it FAILED; else nothing."""
        with self._lock:
            if not self._fenced and self._life in (Life.ALIVE, Life.FAILED):
                self._notes = notes
                self._services.report(self._state, trace=self._trace, notes=notes)

    @property
    def notes(self) -> Mapping[str, Any]:
        """The notes of the last status, which Java does not have."""
        return self._notes

    def metrics(self) -> list[MetricValue]:
        """Return Connect's metrics of this task."""
        now_ms = self._services.clock.monotonic_ms()
        lag = self.membership.lag if self.membership else None
        held = self.membership.partition_count if self.membership else 0
        with self._lock:
            running, paused = (self._state_times.share(phase.value, now_ms) for phase in (State.RUNNING, State.PAUSED))
            kind, state, stalled = self.launch.kind, self._state.value, "progress" in self._notes
            facts = TaskFacts(self.id, kind, state, self._counters, self._measures, running, paused, stalled, lag, held)
            return list(task_metrics(facts, now_ms))

    def offsets_committed(self, took_ms: int, good: bool) -> None:
        """The consumer group took offsets of this task, or did not."""
        with self._lock:
            self._measures.committed(self._services.clock.monotonic_ms(), took_ms, good=good)

    def _become(self, state: State) -> None:
        self._state = state
        self._state_times.enter(state.value, self._services.clock.monotonic_ms())

    def movement(self) -> Movement | None:
        """Return what is known of how it moves; None: it is neither RUNNING nor known to wait for an executor."""
        now_ms = self._services.clock.monotonic_ms()
        membership = self.membership  # asked before the lock: it has its own
        behind = membership is not None and membership.behind
        with self._lock:
            if self._life is Life.ALIVE and self._unhosted_since_ms is not None:
                return Movement(
                    self._measures.moved_at_ms,
                    unhosted_since_ms=self._unhosted_since_ms,
                    unhosted_why=self._unhosted_why,
                    unhosted_late=self._unhosted_late,
                )
            if self._state is not State.RUNNING or self._life is not Life.ALIVE:
                return None
            if not behind and self._measures.waiting() <= 0:
                self._behind_since_ms = None
            elif self._behind_since_ms is None:
                self._behind_since_ms = now_ms
            seen, behind_ms = self._measures, self._behind_since_ms
            return Movement(seen.moved_at_ms, behind_ms, seen.calls(), self._services.patience_ms, away=seen.away())

    def actual(self) -> RunningWork:
        """Return how it stands, for the work plan."""
        return self._actual

    def _stands(self, **changed: object) -> None:
        self._actual = replace(self._actual, **changed)  # type: ignore[arg-type]
        self._services.standing_changed()

    @property
    def _life(self) -> Life:
        return self._actual.life

    def progress(self) -> TaskProgress:
        """Return what it moved, for the console."""
        lag = self.membership.lag if self.membership else None  # asked before the lock: it has its own
        with self._lock:
            return TaskProgress(
                task=self.id,
                state=self.state.name,
                kind=self.launch.kind.value,
                **self._counters.shown(self._services.clock.monotonic_ms()),
                lag=lag,
                topics=tuple(sorted(self.topics)),
                stalled=note_of(ProgressNote, self.notes.get("progress")),
                **self._measures.shown(self._counters.skipped),
                tables=table_progress(self._measures),
            )

    def pace(self, now_ms: int) -> TaskPace:
        """Return the few numbers that are asked for every second or two, of every task."""
        lag = self.membership.lag if self.membership else None
        with self._lock:
            counters = self._counters
            errors = self._measures.errors(counters.skipped)
            return TaskPace(self.id, counters.records, counters.records_per_s(now_ms), lag, errors)

    def start(self) -> None:
        """Hand the run to the engine; one that does not take it has failed the task."""
        try:
            self._services.runner.do(Start(self.launch))
        except Exception:  # noqa: BLE001 - the engine's error becomes the task's status and must not end the tick
            self.on_event(TaskFailed(self.id, self.launch.run, traceback.format_exc()))
            self.on_event(TaskEnded(self.id, self.launch.run, drained=False))

    def switch(self, paused: bool) -> None:
        """Pause the task, or resume it; without effect on one that ends."""
        with self._lock:
            if self._life is not Life.ALIVE:
                return
            self._stands(mode=paused)
        self._services.runner.do(Pause(self.id) if paused else Resume(self.id))

    def stop(self, timeout_ms: int, status_after: State | None) -> None:
        """Drain and end. ``status_after`` None removes the status (the task is configured no more)."""
        with self._lock:
            if self._life is not Life.ALIVE:
                return
            self._stands(life=Life.STOPPING)
            self._status_after_stop = status_after
        self._services.runner.do(Stop(self.id, timeout_ms))

    def fence(self) -> None:
        """Believe nothing of this run from now on, and end it at once: soon another worker may run the task."""
        with self._lock:
            self._fenced = True
            if self._life not in (Life.ALIVE, Life.STOPPING):
                return
            self._stands(life=Life.STOPPING)
        # I7: its further writes cannot be committed, so there is no reason to drain.
        self._services.runner.do(Stop(self.id, 0))

    def fail(self, trace: str) -> None:
        """Fail the task from this side (its consumer group membership broke): the engine is asked to end it.

        In order, as any stop: a limit of 0 is for fences, it takes the neighbours in the slot down with the task.
        """
        self.on_event(TaskFailed(self.id, self.launch.run, trace))
        self._services.runner.do(Stop(self.id, self._services.stop_limit_ms))

    def on_event(self, event: TaskEvent) -> None:
        """Take one report of the engine."""
        if event.run != self.launch.run:
            # I2: a report of an older run is a zombie's, whatever it says.
            log.warning("task=%s run=%d report of run %d rejected", self.id, self.launch.run, event.run)
            return
        handler = _HANDLERS[type(event)]
        with self._lock:
            handler(self, event)

    def _on_running(self, event: TaskRunning) -> None:
        if self._membership_wanted():
            assert self.membership is not None
            self.membership.join()
        self._enter(State.RUNNING)

    def _on_paused(self, event: TaskPaused) -> None:
        self._enter(State.PAUSED)

    def _enter(self, state: State) -> None:
        if self._life is not Life.ALIVE or self._fenced or self._trace is not None:
            return
        if self._state is not state:
            log.info("task=%s gen=%d %s -> %s", self.id, self.launch.generation, self._state.name, state.name)
        self._become(state)
        self._notes = {}
        self._measures.moved_at_ms = self._services.clock.monotonic_ms()
        self._measures.forget_calls()
        self._services.report(state)
        self._services.changed(f"task {self.id} is {state.name}")

    def _on_durable(self, event: BatchDurable) -> None:
        if self._fenced or event.generation != self.launch.generation or self._life is Life.STOPPED:
            log.warning("task=%s run=%d gen=%d durable batch rejected", self.id, event.run, event.generation)
            return
        now_ms = self._services.clock.monotonic_ms()
        self._counters.add(now_ms, event.records, event.data_bytes, event.skipped)
        self._measures.moved_at_ms = now_ms
        self._moved = self._moved or bool(event.source_offsets or event.sink_offsets)
        # I3: offsets are written after the batch is durable; a crash between them repeats, never loses.
        if event.source_offsets:
            self._put_offsets(list(event.source_offsets))
        if event.sink_offsets and self.membership is not None:
            self.membership.durable(dict(event.sink_offsets))
        self._note_topics(event.topics)

    def _note_topics(self, topics: tuple[str, ...]) -> None:
        self.topics.update(topics)
        for topic in topics:  # each time: a user may have the store forget them (KIP-558)
            self._services.put_topic(self.id, topic)

    def _put_offsets(self, offsets: Offsets) -> None:
        self._offsets_under_way += 1
        began_ms = self._services.clock.monotonic_ms()

        def written(error: Exception | None) -> None:
            self._offsets_written(error, self._services.clock.monotonic_ms() - began_ms)

        try:
            self._services.put_offsets(self.id.connector, offsets, written, self._may_commit)
        except ConnectError:
            self._offsets_under_way -= 1
            self.fail(traceback.format_exc())

    def _may_commit(self) -> bool:
        # I7: an append that failed is not tried again once the task is over.
        return not self._fenced and self._life in (Life.ALIVE, Life.STOPPING)

    def _offsets_written(self, error: Exception | None, took_ms: int) -> None:
        if error is not None:
            log.error("task=%s source offsets cannot be written: %s", self.id, error)
        with self._lock:
            self._offsets_under_way -= 1
            self._measures.committed(self._services.clock.monotonic_ms(), took_ms, good=error is None)
            self._finish_if_over()

    def _on_measured(self, event: TaskMeasured) -> None:
        self._measures.take(event, self._services.clock.monotonic_ms())
        if self._may_commit():
            self._note_topics(event.topics)
        for summary, details in event.events:
            self._services.record_event(
                "report", summary, connector=self.id.connector, task=self.id.task, details=details
            )
        if event.positions and self.membership is not None:
            self.membership.read_to(dict(event.positions))

    def _on_waiting(self, event: TaskWaiting) -> None:
        self._unhosted_since_ms = self._services.clock.monotonic_ms() - event.waited_ms if event.waited_ms else None
        self._unhosted_why, self._unhosted_late = event.why, event.is_late

    def _on_released(self, event: PartitionsReleased) -> None:
        if self.membership is not None:
            self.membership.released(event.partitions)

    def _on_failed(self, event: TaskFailed) -> None:
        if self._trace is not None or self._life is Life.STOPPED:
            return
        self._trace = event.trace
        error = error_of(event.trace).splitlines()[0]
        log.error("task=%s gen=%d %s -> FAILED: %s", self.id, self.launch.generation, self._state.name, error)
        if not self._fenced:
            self._become(State.FAILED)
            self._services.report(State.FAILED, trace=event.trace)
        self._services.changed(f"task {self.id} FAILED")

    def _on_ended(self, event: TaskEnded) -> None:
        self._run_ended = True
        self._on_committed = event.on_committed
        if self._life is Life.ALIVE and self._trace is None:
            self._on_failed(
                TaskFailed(self.id, event.run, f"The engine ended task {self.id}, although no client stopped it.")
            )
        if self.membership is not None and not self._left:
            self.membership.leave(commit=not self._fenced)
        self._finish_if_over()

    def membership_left(self) -> None:
        """The task is out of its consumer group, the last offsets are committed if they may be. Any thread."""
        if self._on_committed is not None and self.membership is not None and self.membership.committed:
            try:
                self._on_committed()
            except Exception:
                log.exception("task=%s: an action after its last commit failed, ignored", self.id)
        with self._lock:
            self._left = True
            self._finish_if_over()

    def _finish_if_over(self) -> None:
        # I5: a run is over when its last offsets are durable too, else the next owner would read them too early.
        in_group = self.membership is not None and not self._left
        over = self._run_ended and not in_group and self._offsets_under_way == 0
        if over and self._life in (Life.ALIVE, Life.STOPPING):
            self._finish()

    def _finish(self) -> None:
        asked = self._life is Life.STOPPING
        self._stands(life=Life.STOPPED if asked else Life.FAILED)
        # A task that failed while it was being stopped keeps its FAILED status and trace (Java: same).
        if asked and not self._fenced and (self._trace is None or self._status_after_stop is not State.UNASSIGNED):
            self._become(self._status_after_stop or State.DESTROYED)
            self._services.report(self._status_after_stop)
        log.info("task=%s gen=%d run=%d ended", self.id, self.launch.generation, self.launch.run)
        self._services.changed(f"task {self.id} ended")

    def _membership_wanted(self) -> bool:
        is_sink = self.launch.kind is not TaskKind.SOURCE
        return is_sink and self.membership is not None and not self._fenced and self._life is Life.ALIVE


_HANDLERS: dict[type, Callable[[WorkerTask, Any], None]] = {
    TaskRunning: WorkerTask._on_running,
    TaskPaused: WorkerTask._on_paused,
    BatchDurable: WorkerTask._on_durable,
    PartitionsReleased: WorkerTask._on_released,
    TaskMeasured: WorkerTask._on_measured,
    TaskWaiting: WorkerTask._on_waiting,
    TaskFailed: WorkerTask._on_failed,
    TaskEnded: WorkerTask._on_ended,
}

"""The herder's loop: one thread, the ordered steps, start and stop.

It owns the order of the steps and the life of everything the worker runs. Each step decides in its own module.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from spark_connect_rt.base.concurrency import RunningThread
from spark_connect_rt.base.supervision import PartFailure, SupervisedPart
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.event_log import EventLog
from spark_connect_rt.runtime.herder.group_state import GroupState, GroupView
from spark_connect_rt.runtime.herder.health import RestartFailed, StallCheck
from spark_connect_rt.runtime.herder.herder_requests import (
    FenceZombies,
    SetGroupLoggerLevel,
    SetTargetState,
    TickRequest,
)
from spark_connect_rt.runtime.herder.request_queue import ConfigTopicCalls, RequestQueue, ServeRequests, TopicCalls
from spark_connect_rt.runtime.herder.requests.connector_requests import ConnectorRequests
from spark_connect_rt.runtime.herder.requests.create_connector import (
    TOGETHER,
    CreateConnectors,
    PendingChanges,
)
from spark_connect_rt.runtime.herder.requests.offset_requests import OffsetRequests
from spark_connect_rt.runtime.herder.requests.zombie_fencing import ZombieFencing
from spark_connect_rt.runtime.herder.steps.adopting import AdoptAssignment
from spark_connect_rt.runtime.herder.steps.event_inbox import EventInbox
from spark_connect_rt.runtime.herder.steps.leading import LeaderDuties
from spark_connect_rt.runtime.herder.steps.membership import STOP_MARGIN_MS, Membership
from spark_connect_rt.runtime.herder.steps.metrics import HerderMetrics
from spark_connect_rt.runtime.herder.steps.publishing import Forwarding, PublishTaskConfigs
from spark_connect_rt.runtime.herder.steps.rebalance_events import RebalanceRecorder
from spark_connect_rt.runtime.herder.steps.reconciling import Reconciling
from spark_connect_rt.runtime.herder.steps.task_preparation import TaskPreparation
from spark_connect_rt.runtime.herder.tick import Step, blocking_limit_ms, tick
from spark_connect_rt.runtime.herder.views import ConnectorViews
from spark_connect_rt.runtime.values import Health
from spark_connect_rt.runtime.worker.prepared_runner import PreparedRunner
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores
from spark_connect_rt.runtime.worker.worker import Worker, WorkerDependencies
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.config_state import ConfigEvent

# Starting and stopping the three stores. All start at once: each waits for its own topic.


log = logging.getLogger(__name__)

FLUSH_LIMIT_MS = 5_000


def start_stores(deps: HerderDependencies, on_event: Callable[[ConfigEvent], None]) -> None:
    """Read all three topics to their ends. Raises the first failure."""
    failures: list[Exception] = []

    def guarded(start: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            try:
                start()
            except Exception as error:  # noqa: BLE001 - top of a thread; raised again by the caller
                failures.append(error)

        return run

    threads = [
        deps.threads.start("start-status-store", guarded(deps.status_store.start)),
        deps.threads.start("start-offset-store", guarded(deps.offset_store.start)),
    ]
    guarded(lambda: deps.config_store.start(on_event))()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def stop_stores(deps: HerderDependencies, were_started: bool) -> None:
    """Flush offsets and statuses (if all stores came up, else there are none), then close the topics."""
    if were_started:
        stop_each(
            ("flush offsets", lambda: deps.offset_store.flush(FLUSH_LIMIT_MS)),
            ("flush statuses", lambda: deps.status_store.flush(FLUSH_LIMIT_MS)),
        )
    stop_each(
        ("stop the offset store", deps.offset_store.stop),
        ("stop the status store", deps.status_store.stop),
        ("stop the config store", deps.config_store.stop),
    )


def stop_each(*calls: tuple[str, Callable[[], None]]) -> None:
    """Run every call whatever the others raise: the end of a worker is best effort."""
    for what, call in calls:
        try:
            call()
        except ConnectError as error:
            log.warning("could not %s: %s", what, error)
        except Exception:
            log.exception("could not %s", what)


T = TypeVar("T")

UNHEALTHY_AFTER_MS = 10_000
AWAY_MS = 1_000  # without contact to the coordinator
PAUSE_AFTER_ERROR_S = 1.0
LOST_LIMIT_S = 7.0  # for the engine's end after a failure; without pings executors have ended by then (E5)


class HerderLoop:
    """Ticks until it is stopped."""

    def __init__(self, dependencies: HerderDependencies, views: ConnectorViews, offsets: SourceOffsetStores) -> None:
        deps = self._deps = dependencies
        wakeup, report = deps.member.wakeup, deps.supervisor.failed
        self.started: Future[None] = Future()  # set once the stores are read; its error says why not
        self.stopped = deps.threads.event()
        self.events = events = EventLog(deps.clock, deps.settings.worker_id)
        self._state = state = GroupState(deps.settings.protocol)
        self._offsets = offsets
        preparing = TaskPreparation(deps, state, offsets, self.add_fencing)
        self.worker = worker = Worker(
            _worker_dependencies(deps, offsets, preparing), lambda event: self._inbox.put(event)
        )
        self._requests = RequestQueue(deps.clock, wakeup, deps.settings.request_limit_ms)
        self._forwarding = Forwarding(deps.peers, deps.settings.signature_algorithm, wakeup, deps.threads, report)
        self._calls = calls = TopicCalls(deps.threads, wakeup, events, report)
        story = RebalanceRecorder(deps, state)
        self._membership = Membership(deps, state, worker, events, story, calls)
        self._adopting = AdoptAssignment(deps, state, worker, calls, self._membership.rejoin, story)
        self._reconciling = Reconciling(deps, state, worker)
        self._restarting = RestartFailed(deps, state, worker)
        self._watching = StallCheck(deps, worker)
        self.metrics = HerderMetrics(deps, state, worker)
        self._publishing = PublishTaskConfigs(deps, state, worker, self._forwarding, calls)
        self._inbox = EventInbox(deps, state, worker, self._publishing, wakeup)
        self._leading = LeaderDuties(deps, state, calls)
        self._pending = PendingChanges(deps, state, calls, wakeup)
        topic = ConfigTopicCalls(deps, state, calls)
        self.creates = CreateConnectors(
            deps,
            state,
            views,
            calls,
            topic,
            self.add,
            lambda config, before: self._pending.begun(config=config, before=before),
        )
        fencing = ZombieFencing(deps, state, calls, self.add)
        self.actions = ConnectorRequests(
            deps,
            state,
            views,
            self._publishing,
            self._reconciling,
            topic,
            fencing,
            OffsetRequests(deps, state, calls, self.add, offsets, self.add_fencing),
            self.creates,
            self._pending.begun,
        )
        serving = ServeRequests(deps, state, self._requests, calls, events.stage_summary, TOGETHER, self.creates.batch)
        self._steps: tuple[tuple[str, Step], ...] = (
            ("read group events", self._membership.read_events),
            ("collect answers", calls.collect),
            ("apply events", self._inbox.apply),
            ("reconcile work", self._reconciling.reconcile),
            ("restart what failed", self._restarting.restart),
            ("catch up on config", self._adopting.catch_up),
            ("keep membership", self._membership.join),
            ("claim write privileges", self._leading.claim),
            ("adopt assignment", self._adopting.adopt),
            ("lead", self._leading.lead),
            ("end interrupted changes", self._pending.end),
            ("note rebalances", self.metrics.note),
            ("watch progress", self._watching.watch),
            ("serve requests", serving.serve),
            ("publish task configs", self._publishing.publish),
        )
        self._thread: RunningThread | None = None
        self._stop_asked = deps.threads.event()
        # The time of the last good tick, of the last membership, and of the last contact with the coordinator.
        self._last_tick_ms = self._member_ms = self._contact_ms = deps.clock.monotonic_ms()
        self._stop_by_ms = 0
        self._joined = False
        deps.supervisor.on_failure(self._lost)

    @property
    def view(self) -> GroupView:
        """The group as of the last tick. Any thread."""
        return self._state.view

    def start(self) -> None:
        """Start the thread and return at once. ``started`` reports the outcome."""
        self._thread = self._deps.threads.start(f"herder-{self._deps.settings.worker_id}", self._run)

    def stop(self, timeout_s: float) -> bool:
        """Stop work, commit, leave the group, close the stores; return whether all of it ended in time."""
        limit_ms = self._deps.settings.task_shutdown_graceful_timeout_ms + STOP_MARGIN_MS
        self._stop_by_ms = self._deps.clock.monotonic_ms() + limit_ms
        self._requests.close()
        self._stop_asked.set()
        self._deps.member.wakeup()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def add(self, what: str, action: Callable[[], T | Future[T]], needs_group: bool = True) -> Future[T]:
        """Queue a request for the tick thread. Any thread."""
        return self._requests.add(what, action, needs_group=needs_group)

    def submit(self, request: TickRequest) -> Future[Any]:
        """Queue a request of the herder's port. Any thread."""
        return self.add(type(request).__name__, lambda: self.actions.serve(request), not _any_worker_serves(request))

    def add_fencing(self, name: str) -> Future[None]:
        """Queue a fencing round of a connector. Any thread."""
        return self.submit(FenceZombies(name))

    def health(self) -> Health:
        """Return whether the thread came up and keeps ticking. Any thread."""
        detail = self.events.stage_summary()
        if (failure := self._deps.supervisor.failure) is not None:
            return Health("unhealthy", f"The worker ends. {failure}", live=False)
        if self.started.done() and self.started.exception() is not None:
            return Health("unhealthy", str(self.started.exception()), live=False)
        if self._stop_asked.is_set():
            return Health("unhealthy", "The worker is shutting down.")
        if not self.view.once_stable:
            return Health("starting", detail)
        late_ms = self._deps.clock.monotonic_ms() - self._last_tick_ms
        if late_ms > UNHEALTHY_AFTER_MS:
            return Health("unhealthy", f"No tick has completed successfully for {late_ms} ms. {detail}", live=False)
        if out := self._out_of_group():
            return Health("unhealthy", f"{out}. {detail}".rstrip())
        if waiting := self._watching.unhosted(self._deps.clock.monotonic_ms()):
            return Health("unhealthy", waiting, serves=True)
        return Health("healthy", detail, note=self._deps.supervisor.troubles())

    def _out_of_group(self) -> str:
        """Return for how long it is out of its group, and why, in words; empty: it is in, or joins."""
        now_ms, member = self._deps.clock.monotonic_ms(), self._deps.member
        out_ms, trouble = now_ms - self._member_ms, member.trouble()
        if out_ms > self._deps.settings.rebalance_timeout_ms:  # no rebalance takes longer
            return f"Out of the group for {out_ms // 1000} s: {trouble or 'no reason is known'}"
        away_ms = now_ms - self._contact_ms
        if trouble and away_ms > AWAY_MS and not member.in_contact():  # its work is ended by now
            return f"Out of the group for {away_ms // 1000} s: {trouble}"
        return ""

    def _run(self) -> None:
        try:
            self._start_parts()
        except Exception as error:  # noqa: BLE001 - top of the thread: ``started`` carries it
            self._stop_asked.set()
            self.started.set_exception(error)
            self._stop_parts()
            return
        self.started.set_result(None)
        try:
            while not self._finished():
                self._tick_guarded()
        except BaseException as error:  # noqa: BLE001 - top of the thread: it still leaves the group
            self._deps.supervisor.failed(SupervisedPart.HERDER, error)
        self._stop_parts()

    def _lost(self, failure: PartFailure) -> None:
        """End without a drain: a part of the worker is gone."""
        self.events.record("supervisor", str(failure))
        self._deps.record_event("worker", f"the worker ends: {failure}")
        self._requests.close()
        self._stop_asked.set()
        self._deps.member.wakeup()

    def _start_parts(self) -> None:
        with self.events.stage("initializing and reading to the end of internal topics"):
            start_stores(self._deps, self._inbox.put)
            self.worker.open()
            self._deps.member.start()
            self._joined = True

    def _tick_guarded(self) -> None:
        now_ms = self._deps.clock.monotonic_ms()
        if self._stop_asked.is_set():
            self._state.stopping = True
            self._state.give_up_work()
        try:
            verdict = tick(now_ms, self._steps, self.events.record)
            self._last_tick_ms = now_ms
            self._member_ms = now_ms if self._deps.member.member_id() else self._member_ms
            self._contact_ms = now_ms if self._deps.member.in_contact() else self._contact_ms
            if not self._finished():
                self._membership.wait(blocking_limit_ms(self._deps.clock.monotonic_ms(), verdict.wake_at_ms))
            return
        except RetriableError as error:
            self._last_tick_ms = now_ms
            self.events.record("tick", f"interrupted: {error}")
        except Exception as error:
            log.exception("worker=%s tick failed", self._deps.settings.worker_id)
            self.events.record("tick", f"failed: {type(error).__name__}: {error}")
        stopping = self._stop_asked.is_set()  # then it would not wait at all
        (self._deps.threads.event() if stopping else self._stop_asked).wait(PAUSE_AFTER_ERROR_S)

    def _finished(self) -> bool:
        if self._deps.supervisor.failure is not None:
            return True
        if not self._state.stopping:
            return False
        overdue = self._deps.clock.monotonic_ms() >= self._stop_by_ms
        return overdue or self._reconciling.nothing_runs()

    def _stop_parts(self) -> None:
        with self.events.stage("shutting down"):
            self._requests.close()
            self._calls.close()
            self._state.member_id = ""
            self._state.publish()
            if self._joined:
                self._end_work()
            self._forwarding.close()
            stop_each(
                ("flush connectors' own offsets", lambda: self._offsets.flush(FLUSH_LIMIT_MS)),
                ("stop connectors' own offset topics", self._offsets.stop),
            )
            stop_stores(self._deps, were_started=self._joined)
        self.stopped.set()

    def _end_work(self) -> None:
        limit_ms = self._deps.settings.task_shutdown_graceful_timeout_ms
        leave = ("leave the group", self._deps.member.stop)
        close = ("stop the engine", lambda: self.worker.close(limit_ms))
        if self._deps.supervisor.failure is not None:
            close = ("stop the engine", self._end_engine)
            stop_each(("end all work", self.worker.fence_all), close, leave)
        elif self._reconciling.nothing_runs():
            stop_each(leave, close)
        else:  # I1: work that outlived its time is ended before the group may give it to another worker.
            stop_each(close, leave)

    def _end_engine(self) -> None:
        """Wait for the engine's end, but not for what may be dead itself (the JVM, a thread)."""
        ending = self._deps.threads.start(
            "end-engine", lambda: stop_each(("stop the engine", lambda: self.worker.close(0)))
        )
        ending.join(LOST_LIMIT_S)


def _any_worker_serves(request: TickRequest) -> bool:
    """Return whether a request waits for no rebalance: it only writes to the config topic."""
    match request:
        case SetGroupLoggerLevel():
            return True
        case SetTargetState(_, target):
            return target is not TargetState.STOPPED
        case _:
            return False


def _worker_dependencies(
    deps: HerderDependencies, offsets: SourceOffsetStores, preparing: TaskPreparation
) -> WorkerDependencies:
    settings = deps.settings
    return WorkerDependencies(
        worker_id=settings.worker_id,
        worker=settings.worker,
        clock=deps.clock,
        plugins=deps.plugins,
        runner=PreparedRunner(deps.runner, preparing.needed, preparing.prepare, deps.threads),
        sink_groups=deps.sink_groups,
        offsets=offsets,
        check=preparing.check,
        status_store=deps.status_store,
        resolve=deps.resolve,
        topic_tracking=settings.topic_tracking,
        threads=deps.threads,
        holds_lease=lambda: deps.supervisor.failure is None and deps.member.holds_lease(),
        task_stop_limit_ms=settings.task_shutdown_graceful_timeout_ms,
        record_event=deps.record_event,
    )

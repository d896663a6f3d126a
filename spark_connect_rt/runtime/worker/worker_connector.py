"""One connector instance on this worker: start, pause, stop, task configurations (Java ``WorkerConnector``).

The connector's code runs on its own thread, one call after another; the tick only queues commands and reads
``life``. One object is one incarnation: a restart makes a new one, and an abandoned one (blocked beyond its time)
reports nothing more.
"""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol

from spark_connect_rt.api.config_provider import ConfigData, Resolve
from spark_connect_rt.api.connector import Connector, ConnectorContext, SinkConnector
from spark_connect_rt.base.concurrency import SerialExecutor, Threads, Timer
from spark_connect_rt.base.hidden_values import remember, without_secrets
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.loggers import working_for
from spark_connect_rt.config.secrets import references, secrets_in
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.group.work_plan import Life, RunningWork
from spark_connect_rt.runtime.group_events import RecordEvent, no_event
from spark_connect_rt.runtime.metric_names import MetricValue
from spark_connect_rt.runtime.task_configs import (
    checked_configs,
    checked_count,
    completed_task_config,
    enforces,
    raw_task_config,
)
from spark_connect_rt.runtime.worker.events import (
    LifeChanged,
    Notify,
    ReconfigurationRequested,
    ReloadDue,
    TaskConfigsFailed,
    TaskConfigsGenerated,
)
from spark_connect_rt.runtime.worker.launches import secret_settings, version_of
from spark_connect_rt.runtime.worker.plugin_metrics import ConnectorMetrics, own_values
from spark_connect_rt.topics.status_records import State

# Values from config providers may have a time to live. When it ends, the connectors and tasks that use them restart.
#
# Java ``WorkerConfigTransformer``, which restarts the connector alone; a task's own secrets are as old, so here each
# connector and each task is restarted, by the worker that runs it.


log = logging.getLogger(__name__)


class ConfigReloads:
    """Says when a run is due to be restarted."""

    def __init__(self, resolve: Resolve, notify: Notify, threads: Threads) -> None:
        self._resolve = resolve
        self._notify = notify
        self._threads = threads
        self._lock = threading.Lock()
        self._timers: dict[str | ConnectorTaskId, Timer] = {}

    def watch(self, item: str | ConnectorTaskId, key: object, resolved: ConfigData) -> None:
        """Take what a run was made from, the connector's settings among them. Any thread.

        What an earlier run of it was made from counts no more.
        """
        self.forget(item)
        if resolved.ttl_ms is None or resolved.get("config.action.reload", "restart").strip().lower() != "restart":
            return
        log.info("%s restarts in %d ms, when a value of a config provider expires", item, resolved.ttl_ms)
        timer = self._threads.later(resolved.ttl_ms, lambda: self._notify(ReloadDue(item, key)))
        with self._lock:
            self._timers[item] = timer

    def forget(self, item: str | ConnectorTaskId) -> None:
        """Nothing of it runs any more. Any thread."""
        with self._lock:
            timer = self._timers.pop(item, None)
        if timer is not None:
            timer.cancel()

    def watch_task(self, task: ConnectorTaskId, key: object, config: StoredConfig, own: StoredConfig) -> None:
        """Ask how long a task's settings may be used: it is the executor that resolves them for the task itself."""
        both = {**config.written(), **own.written()}
        if any(references(value) for value in both.values()):
            self._threads.start(f"config-ttl-{task}", lambda: self._ask(task, key, both))

    def _ask(self, task: ConnectorTaskId, key: object, config: Mapping[str, str]) -> None:
        try:
            resolved = self._resolve(config)
        except BaseException as error:  # noqa: BLE001 - the provider's code; the task itself fails by it, and says so
            log.warning(
                "task=%s is not restarted, although a value of a config provider expired: %s",
                task,
                type(error).__name__,
            )
            return
        self.watch(task, key, resolved)


Partitions = Sequence[Mapping[str, Any]]
Offsets = Sequence[Mapping[str, Any] | None]
NO_NOTES: Mapping[str, Any] = MappingProxyType({})


class ReportStatus(Protocol):
    """Writes one incarnation's status to the status topic."""

    def __call__(
        self,
        state: State | None,
        trace: str | None = None,
        version: str | None = None,
        notes: Mapping[str, Any] = NO_NOTES,
    ) -> None:
        """Put a status; ``state`` None removes it."""


@dataclass(frozen=True, slots=True)
class ConnectorPlan:
    """The input from which one incarnation of a connector is made."""

    name: str
    config: StoredConfig
    key: object
    paused: bool
    stopped: bool


class WorkerConnector:
    """One incarnation. Methods are the tick's, but for what the connector's own thread runs."""

    def __init__(
        self,
        plan: ConnectorPlan,
        new_connector: Callable[[], Connector],
        name_task_class: Callable[[Connector], str],
        resolve: Resolve,
        reloads: ConfigReloads,
        report: ReportStatus,
        notify: Notify,
        standing_changed: Callable[[], None],
        threads: Threads,
        read_offsets: Callable[[Partitions], Offsets] = lambda partitions: [None] * len(partitions),
        record_event: RecordEvent = no_event,
    ) -> None:
        self.plan = plan
        self.read_offsets = read_offsets
        self.record_event = record_event
        self._new_connector = new_connector
        self._name_task_class = name_task_class
        self._version: str | None = None
        self._resolve = resolve
        self._reloads = reloads
        self._report = report
        self._notify = notify
        self._lock = threading.Lock()
        self._reporting = threading.Lock()  # a report is made, or the incarnation abandoned: one of them comes first
        self._thread = SerialExecutor(f"connector-thread-{plan.name}", threads, linger_s=0.0)
        self._standing_changed = standing_changed
        self._actual = RunningWork(plan.key, plan.paused, Life.ALIVE)
        self._state = State.UNASSIGNED
        self._abandoned = False
        self._instance: Connector | None = None
        self._measures: Mapping[str, float] = {}
        self._resolved = ConfigData()
        self._running = False
        self._trace = ""  # of a FAILED one
        self._troubled = False  # the status shows why task configurations could not be generated
        self._status_after_stop: State | None = State.UNASSIGNED
        self.stop_by_ms: int | None = None

    def actual(self) -> RunningWork:
        """Return how it stands, for the work plan."""
        return self._actual

    def _stands(self, **changed: object) -> None:
        self._actual = replace(self._actual, **changed)  # type: ignore[arg-type]
        self._standing_changed()

    @property
    def _life(self) -> Life:
        return self._actual.life

    @property
    def _paused(self) -> bool:
        return bool(self._actual.mode)

    @property
    def state(self) -> State:
        """Return the state that was reported last."""
        return self._state

    @property
    def trace(self) -> str:
        """Return why the connector FAILED, as its status shows it."""
        return self._trace

    def metrics(self) -> Iterator[MetricValue]:
        """Yield the metrics that the connector keeps itself (KIP-877). Any thread."""
        if self._life is Life.ALIVE:
            yield from own_values(self._measures, {"connector": self.plan.name})

    def note(self, notes: Mapping[str, Any]) -> None:
        """Say the status of one that FAILED once more, with ``notes``."""
        if self._life is Life.FAILED:
            self._say(State.FAILED, trace=self._trace, notes=notes)

    def start(self) -> None:
        """Start it (paused or stopped: only say so)."""
        self._thread.submit(self._guarded(self._enter_mode))

    def switch(self, paused: bool) -> None:
        """Pause the connector, or resume it."""
        with self._lock:
            self._stands(mode=paused)
        self._thread.submit(self._guarded(self._enter_mode))

    def stop(self, status_after: State | None, stop_by_ms: int) -> None:
        """Stop it; at ``stop_by_ms`` the worker abandons it. ``status_after`` None removes the status."""
        with self._lock:
            if self._life in (Life.STOPPED, Life.FAILED):
                return
            self._stands(life=Life.STOPPING)
            self._status_after_stop = status_after
            self.stop_by_ms = stop_by_ms
        self._thread.submit(self._stop_instance)
        self._thread.close()

    def abandon(self) -> None:
        """Give up a connector that does not come back from its own code; nothing it does counts any more."""
        with self._lock:
            if self._life is not Life.STOPPING:
                return
        log.warning("connector=%s did not stop in time and is abandoned", self.plan.name)
        self._ended(self._status_after_stop, abandoned=True)

    def generate_task_configs(self) -> None:
        """Have the connector split its work; TaskConfigsGenerated or TaskConfigsFailed follows if it runs."""
        self._thread.submit(self._guarded(self._generate))

    # The methods below run on the connector's thread.

    def _guarded(self, call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            if self._abandoned or self._life is not Life.ALIVE:
                return
            working_for(self.plan.name)
            try:
                call()
            except BaseException:  # noqa: BLE001 - the connector's code, SystemExit too: its failure is its status
                self._fail(traceback.format_exc())

        return run

    def _say(
        self, state: State | None, trace: str | None = None, notes: Mapping[str, Any] = NO_NOTES, *, last: bool = False
    ) -> None:
        """Report a status of this incarnation; one that was abandoned has a successor, and reports nothing more."""
        with self._reporting:
            if not self._abandoned:
                self._abandoned = last
                self._report(state, trace=trace, version=self._version, notes=notes)

    def _enter_mode(self) -> None:
        if self._instance is None:
            self._instance = self._new_connector()
            self._version = version_of(self._instance)
            self._instance.context = _Context(self)
            remember(secrets_in([self.plan.config.written()], secret_settings(self._instance)))
        idle = self.plan.stopped or self._paused
        if idle and self._running:
            self._running = False
            self._instance.stop()
            self._measures = {}
            self._instance.context = _Context(self)  # it measures from zero again
        elif not idle and not self._running:
            self._running = True
            self._resolved = self.plan.config.resolved(self._resolve)
            self._instance.start(self._resolved)
            if not self._abandoned:
                self._reloads.watch(self.plan.name, self.plan.key, self._resolved)
        if self._abandoned:
            return
        stopped_or_paused = State.STOPPED if self.plan.stopped else State.PAUSED
        self._state = stopped_or_paused if idle else State.RUNNING
        self._say(self._state)
        self._notify(LifeChanged(f"connector {self.plan.name} is {self._state.name}"))
        if not idle:
            self._notify(ReconfigurationRequested(self.plan.name))

    def _generate(self) -> None:
        instance = self._instance
        if not self._running or instance is None:
            return
        name, stored = self.plan.name, self.plan.config
        try:
            tasks_max = int(self._resolved.get("tasks.max") or "1")
            generated = checked_configs(name, instance.task_configs(tasks_max))
            task_class = self._name_task_class(instance)
        except BaseException:  # noqa: BLE001 - the connector's code, SystemExit too: it is asked again
            self._cannot_generate()
            return
        warning = checked_count(
            name, generated, tasks_max, enforces(self._resolved)
        )  # raises: too many fail the connector
        if self._troubled:
            self._troubled = False
            self._say(self._state)
        if warning:
            log.warning("%s", warning)
        sink = isinstance(instance, SinkConnector)
        configs = tuple(
            completed_task_config(raw_task_config(config, stored, self._resolved), task_class, stored, sink)
            for config in generated
        )
        if not self._abandoned:
            self._notify(TaskConfigsGenerated(name, stored, configs))

    def _cannot_generate(self) -> None:
        name, trace = self.plan.name, without_secrets(traceback.format_exc())
        log.warning("connector=%s task configurations could not be generated: %s", name, trace)
        # It runs and is asked again; without the trace in its status users would not know why it has no tasks.
        self._troubled = True
        self._say(self._state, trace=trace)
        if not self._abandoned:
            self._notify(TaskConfigsFailed(name, trace.strip().splitlines()[-1]))

    def _fail(self, trace: str) -> None:
        with self._lock:
            if self._abandoned or self._life is not Life.ALIVE:
                return
            trace = without_secrets(trace)
            self._state, self._trace = State.FAILED, trace
        self._stop_quietly()
        log.error("connector=%s FAILED: %s", self.plan.name, trace.strip().splitlines()[-1])
        self._say(State.FAILED, trace=trace)
        with self._lock:
            if self._life is Life.ALIVE:
                self._stands(life=Life.FAILED)
        self._thread.close()
        self._notify(LifeChanged(f"connector {self.plan.name} FAILED"))

    def _stop_instance(self) -> None:
        self._stop_quietly()
        if not self._abandoned:
            self._ended(self._status_after_stop)

    def _stop_quietly(self) -> None:
        if not self._running or self._instance is None:
            return
        self._running = False
        try:
            self._instance.stop()
        except BaseException:
            log.warning("connector=%s raised while stopping", self.plan.name, exc_info=True)

    def _ended(self, status: State | None, *, abandoned: bool = False) -> None:
        self._say(status, last=abandoned)
        with self._lock:
            self._stands(life=Life.STOPPED)
            self._state = status or State.DESTROYED
        self._notify(LifeChanged(f"connector {self.plan.name} ended"))

    def reconfiguration_requested(self) -> None:
        """The connector asked for new task configurations. Any thread."""
        if not self._abandoned and self._life is Life.ALIVE:
            self._notify(ReconfigurationRequested(self.plan.name))

    def measured(self, values: Mapping[str, float]) -> None:
        """Its own metrics have these values now, by name (``plugin_metric_keys``). One thread at a time."""
        self._measures = {**self._measures, **values}

    def failure_raised(self, error: Exception) -> None:
        """The connector reported its own failure. Any thread."""
        known = (
            error
            if isinstance(error, BaseException)
            else TypeError(f"raise_error was called with {error!r}, which is not an exception")
        )
        trace = "".join(traceback.format_exception(known))
        self._thread.submit(lambda: self._fail(trace))


class _Context(ConnectorContext):
    """The context that a running connector gets (Java ``ConnectorContext``)."""

    def __init__(self, host: WorkerConnector) -> None:
        self._host = host
        self.metrics = ConnectorMetrics(host.measured)

    def request_task_reconfiguration(self) -> None:
        """Ask the worker to generate the tasks' configurations again."""
        self._host.reconfiguration_requested()

    def raise_error(self, error: Exception) -> None:
        """Fail the connector with this error."""
        self._host.failure_raised(error)

    def record_event(self, summary: str, **details: str | int) -> None:
        """Show one sentence in the events of the group, under the connector's name."""
        self._host.record_event("report", summary, connector=self._host.plan.name, details=details)

    def measured(self, values: Mapping[str, float]) -> None:
        """See WorkerConnector; the Java host calls it, for Java ``ConnectorContext.pluginMetrics``."""
        self._host.measured(values)

    def stored_offsets(self, partitions: Partitions) -> Offsets:
        """Return the offset of each source partition (Java ``SourceConnectorContext.offsetStorageReader``). Blocks."""
        return self._host.read_offsets(partitions)

"""Health of the connectors and tasks of this worker: restarts of what failed, and tasks that make no progress.

It reads in the order in which things happen. A connector or task FAILED: the policy of its configuration decides
whether it restarts and when, and the step restarts it (``errors.restart.*``, not in Java). A user asks for a restart:
the plan says which instances restart (KIP-745). A task is RUNNING and nothing moves: its status says since when and why
(``task.progress.timeout.ms``, not in Java).

Every decision is a pure function. The steps collect facts, call the functions and act. ``steps.reconciling`` starts the
new run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.base.backoff import Backoff, chance_of
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.traces import error_kind, error_of
from spark_connect_rt.config.management_config import HEALTH, HealthSettings
from spark_connect_rt.config.secrets import references
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.runtime.worker.worker import FailedWork, Item, Worker
from spark_connect_rt.runtime.worker.worker_task import Movement
from spark_connect_rt.topics.status_records import ConnectorStatus, State

log = logging.getLogger(__name__)

_NAMES = tuple(key.name for key in HEALTH)


# ---- A connector or task FAILED ----


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of one connector or task."""

    at_ms: int  # monotonic
    error: str  # see ``error_of``
    moved: bool = True  # an offset was committed since the failure before; always so for connectors


@dataclass(frozen=True, slots=True)
class RestartVerdict:
    """The answer to the newest failure: a restart at ``at_ms`` (monotonic), or no further restart and the reason."""

    attempt: int  # restarts within the window, with this one
    at_ms: int | None
    stopped: str = ""


@dataclass(slots=True)
class _Failing:
    """The failures of one connector or task while it stays on this worker, and the verdict on the newest."""

    configured: tuple[object, ...]  # the key without its count of restarts
    restarts: int  # the count of the run that failed last, or that was started after it
    failures: list[Failure] = field(default_factory=list)
    verdict: RestartVerdict | None = None  # None: it was started again


class RestartFailed:
    """The step ``restart what failed``: restarts FAILED connectors and tasks of this worker as their policy says.

    It keeps the failures so far. A restart by hand, a new configuration or a move to another worker clears them.
    """

    def __init__(self, deps: HerderDependencies, state: GroupState, worker: Worker) -> None:
        self._deps = deps
        self._state = state
        self._worker = worker
        self._held: ConnectorsAndTasks | None = None
        self._here: set[Item] = set()
        self._failing: dict[Item, _Failing] = {}

    def restart(self, now_ms: int) -> Verdict:
        """Decide about each new failure and restart the items that are due. The verdict wakes the tick for the next."""
        held = self._state.held
        if self._state.stopping or held is None:
            self._held = None
            self._failing.clear()
            return NOTHING
        failed_now = self._worker.failed()
        if not failed_now and not self._failing:
            return NOTHING
        if held is not self._held:  # an item that moves away and returns begins from zero
            self._held, self._here = held, {*held.connectors, *held.tasks}
            self._failing = {item: failing for item, failing in self._failing.items() if item in self._here}
        reasons: list[str] = []
        wake_at_ms: list[int] = []
        for item, failed in failed_now.items():
            if item not in self._here or self._on_its_way(item, failed):
                continue
            known = self._history(item, failed)
            if known.verdict is None:
                reasons.append(self._decide(item, known, failed, now_ms))
            due_ms = known.verdict.at_ms if known.verdict is not None else None
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                reasons.append(self._start(item, known))
                due_ms = now_ms  # reconciling comes before this step: tick again at once
            wake_at_ms.append(due_ms)
        return Verdict("; ".join(filter(None, reasons)), min(wake_at_ms, default=None))

    def _on_its_way(self, item: Item, failed: FailedWork) -> bool:
        """Return whether the item was restarted already, and reconciling waits for a rebalance before it starts."""
        known = self._failing.get(item)
        return known is not None and known.verdict is None and failed.key[-1] < known.restarts

    def _history(self, item: Item, failed: FailedWork) -> _Failing:
        """Return the failures before this one. The history is empty if a user restarted or configured the item."""
        *configured, restarts = failed.key
        known = self._failing.get(item)
        if known is None or known.restarts != restarts or known.configured != tuple(configured):
            known = self._failing[item] = _Failing(tuple(configured), restarts)
        return known

    def _decide(self, item: Item, known: _Failing, failed: FailedWork, now_ms: int) -> str:
        settings = self._settings(item)
        if settings.errors_restart_policy == "none":
            known.verdict = RestartVerdict(0, None)
            return ""
        # The first failure has no earlier one to share its offset with, whatever was committed before.
        moved = failed.moved or not known.failures
        known.failures.append(Failure(now_ms, error_of(failed.trace), moved))
        known.failures = known.failures[-(settings.errors_restart_max + settings.errors_restart_poison + 1) :]
        verdict = known.verdict = decide_restart(settings, known.failures, chance_of(item, now_ms))
        self._worker.note(item, {"restart": self._note(verdict, now_ms)})
        if verdict.at_ms is None:
            log.error("%s stays FAILED: %s", item, verdict.stopped)
            self._record(item, f"{item} stays FAILED, restart it by hand: {verdict.stopped}", verdict.attempt)
            return f"{item} stays FAILED, restart it by hand: {verdict.stopped}"
        return f"{item} FAILED and restarts in {verdict.at_ms - now_ms} ms (attempt {verdict.attempt})"

    def _note(self, verdict: RestartVerdict, now_ms: int) -> Mapping[str, Any]:
        if verdict.at_ms is None:
            return {"attempts": verdict.attempt, "stopped": verdict.stopped}
        return {"attempts": verdict.attempt, "next_attempt_ms": self._deps.clock.now_ms() + verdict.at_ms - now_ms}

    def _start(self, item: Item, known: _Failing) -> str:
        attempt = known.verdict.attempt if known.verdict else 0
        self._state.restarts = self._state.restarts.plus(item)
        known.restarts += 1
        known.verdict = None
        sentence = f"{item} is restarted (attempt {attempt})"
        self._record(item, sentence, attempt)
        return sentence

    def _record(self, item: Item, sentence: str, attempt: int) -> None:
        name, task = (item, None) if isinstance(item, str) else (item.connector, item.task)
        details = {"why": "policy", "attempt": attempt}
        self._deps.record_event("restart", sentence, connector=name, task=task, details=details)

    def _settings(self, item: Item) -> HealthSettings:
        name = item if isinstance(item, str) else item.connector
        config = self._deps.config_store.snapshot().connector_config(name) or NO_SETTINGS
        return health_of(self._deps, config)


def health_of(deps: HerderDependencies, connector_config: StoredConfig) -> HealthSettings:
    """Return the worker's settings, overridden by the connector's, with references to config providers resolved.

    A setting whose reference cannot be resolved now counts as absent, because a failure to read a policy must not fail
    a connector that runs.
    """
    return deps.settings.worker.health.overridden(_looked_up(deps, connector_config))


def _looked_up(deps: HerderDependencies, config: StoredConfig) -> Mapping[str, str]:
    given = config.only(_NAMES)
    try:
        return given.resolved(deps.resolve)
    except BaseException as error:  # noqa: BLE001 - a provider is a plug-in, and its message may hold a secret
        log.warning(
            "a reference in %s cannot be resolved and is ignored: %s",
            sorted(given.written()),
            type(error).__name__,
        )
        return {name: text for name, text in given.written().items() if not references(text)}


NOT_THE_RECORDS_FAULT = frozenset(
    {
        "RetriableError",
        "TimedOutError",
        "UnreachableError",
        "ExternalError",
        "OSError",
        "TimeoutError",
        "ConnectionError",
        "ConnectionRefusedError",
        "ConnectionResetError",
        "ConnectionAbortedError",
        "BrokenPipeError",
        "gaierror",
        "OperationalError",  # PEP 249: of the database's operation, not of what was written
        "InterfaceError",
        "httpx.ConnectError",
        "ReadTimeout",
        "ConnectTimeout",
    }
)
"""Names of errors, whole or their last part, of an unreachable target: they never mark a record as poison."""


def decide_restart(settings: HealthSettings, failures: Sequence[Failure], chance: float) -> RestartVerdict:
    """Return whether and when the item restarts after the newest of its ``failures``.

    A restart is refused in two cases: the same error came back ``errors.restart.poison`` times without a committed
    offset in between, or the restarts within the window are used up. Otherwise the delay doubles with each failure
    within the window (``Backoff.wait``).

    Args:
        settings: ``errors.restart.*`` of the connector.
        failures: oldest first. Each but the last was followed by a restart.
        chance: 0 to 1. Spreads the restarts of items that failed at the same instant.
    """
    newest = failures[-1]
    recent = [failure for failure in failures if newest.at_ms - failure.at_ms < settings.errors_restart_window_ms]
    attempt = len(recent)
    same = _in_a_row(failures)
    if settings.errors_restart_poison and same >= settings.errors_restart_poison and _may_be_a_record(newest.error):
        first_line = newest.error.splitlines()[0]
        return RestartVerdict(
            attempt - 1,
            None,
            f"failed {same} times with the same error and no committed offset in between: {first_line}",
        )
    if attempt > settings.errors_restart_max:
        why = f"{settings.errors_restart_max} restarts within {settings.errors_restart_window_ms} ms did not help"
        return RestartVerdict(attempt - 1, None, why)
    delays = Backoff(settings.errors_restart_delay_ms, settings.errors_restart_delay_max_ms)
    return RestartVerdict(attempt, newest.at_ms + int(delays.wait(attempt, chance)))


def _in_a_row(failures: Sequence[Failure]) -> int:
    """Return how many failures, counted back from the newest, have the same error at the same offsets."""
    count = 0
    for failure in reversed(failures):
        if failure.error != failures[-1].error:
            break
        count += 1
        if failure.moved:  # the failures before it were at other offsets
            break
    return count


def _may_be_a_record(error: str) -> bool:
    name = error_kind(error)
    return not {name, name.rpartition(".")[2]} & NOT_THE_RECORDS_FAULT


# ---- A user asks for a restart (KIP-745; Java ``RestartPlan``, ``RestartRequest``) ----


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A user's request for a restart: of the connector alone, or with its tasks."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def impact(self) -> tuple[bool, bool]:
        """The rank of the request: all before failed-only, then with tasks before without (KIP-745)."""
        return (not self.only_failed, self.include_tasks)


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """The instances that a request restarts: the connector or not, and tasks by number."""

    request: RestartRequest
    restart_connector: bool
    tasks: tuple[int, ...]

    def empty(self) -> bool:
        """Return whether there is nothing to restart."""
        return not (self.restart_connector or self.tasks)


def plan_restart(
    request: RestartRequest, connector: ConnectorStatus | None, tasks: Mapping[int, ConnectorStatus]
) -> RestartPlan | None:
    """Return the plan that the statuses lead to, or None if the connector has no status."""
    if connector is None:
        return None

    def chosen(status: ConnectorStatus) -> bool:
        return not request.only_failed or status.state is State.FAILED

    numbers = [n for n, status in sorted(tasks.items()) if request.include_tasks and chosen(status)]
    return RestartPlan(request, chosen(connector), tuple(numbers))


class RestartByPlan:
    """Restarts the instances on this worker that a record of the config topic asks for. On the tick thread."""

    def __init__(self, deps: HerderDependencies, state: GroupState, worker: Worker) -> None:
        self._store = deps.status_store
        self._state = state
        self._worker = worker

    def restart(self, request: RestartRequest) -> str:
        """Report RESTARTING for each planned instance of this worker, mark it, and return a sentence about it."""
        name, held = request.connector, self._state.held
        plan = plan_restart(request, self._store.connector(name), self._store.tasks(name))
        if plan is None or plan.empty() or held is None:
            return f"restart of {name}: nothing to restart"
        mine: list[Item] = []
        if plan.restart_connector and name in held.connectors:
            self._worker.report_restarting(None, name)
            mine.append(name)
        for task in (ConnectorTaskId(name, number) for number in plan.tasks):
            if task in held.tasks:
                self._worker.report_restarting(task, name)
                mine.append(task)
        self._state.restarts = self._state.restarts.plus(*mine)
        return f"restart of {name}: {len(mine)} of its instances are here"


def most_impactful(requests: Iterable[RestartRequest]) -> dict[str, RestartRequest]:
    """Return connector -> the request that restarts the most of it."""
    kept: dict[str, RestartRequest] = {}
    for request in requests:
        known = kept.get(request.connector)
        if known is None or request.impact > known.impact:
            kept[request.connector] = request
    return kept


# ---- A task is RUNNING, and nothing moves ----


LOOK_EACH_MS = 1_000
AWAY_MS = 20_000  # brokers that do not answer for so long are named: in the status within half a minute


@dataclass(frozen=True, slots=True)
class Stall:
    """Why a task makes no progress, and since when (monotonic ms)."""

    since_ms: int
    reason: str
    unhosted: bool = False


class StallCheck:
    """The step ``watch progress``: reports tasks that make no progress although they have work.

    It changes no state: whether a slow target is stopped is the user's decision. It keeps the last report of each task,
    so that each change is one status and one line of the event log.
    """

    def __init__(self, deps: HerderDependencies, worker: Worker) -> None:
        self._deps = deps
        self._worker = worker
        self._look_at_ms = 0
        self._stalled: dict[ConnectorTaskId, Stall] = {}
        self._timeouts: dict[str, tuple[StoredConfig | None, int]] = {}  # connector -> its config, the limit in it

    def watch(self, now_ms: int) -> Verdict:
        """Check every running task, at most once a second."""
        if now_ms < self._look_at_ms:
            return Verdict()
        self._look_at_ms = now_ms + LOOK_EACH_MS
        found: dict[ConnectorTaskId, Stall] = {}
        for task, movement in self._worker.movements().items():
            stall = stall_of(movement, now_ms, self._timeout_ms(task.connector))
            if stall is not None:
                found[task] = stall
        reasons = [self._report(task, found.get(task), now_ms) for task in sorted(found.keys() | self._stalled.keys())]
        self._stalled = found
        return Verdict("; ".join(filter(None, reasons)))

    def unhosted(self, now_ms: int) -> str:
        """Return a sentence about tasks that wait for executors, or an empty text. Any thread may call it."""
        return unhosted_text({str(task): stall for task, stall in self._stalled.items()}, now_ms)

    def _report(self, task: ConnectorTaskId, stall: Stall | None, now_ms: int) -> str:
        before = self._stalled.get(task)
        if before == stall or (before and stall and before.reason == stall.reason):
            return ""
        if stall is None:
            self._worker.note(task, {})
            sentence = f"task {task} moves again, or is not running any more"
            self._deps.record_event("state", sentence, connector=task.connector, task=task.task)
            return sentence
        since_ms = self._deps.clock.now_ms() - (now_ms - stall.since_ms)
        self._worker.note(task, {"progress": {"since_ms": since_ms, "reason": stall.reason}})
        log.warning("task=%s moves nothing: %s", task, stall.reason)
        sentence = f"task {task} moves nothing though there is work: {stall.reason}"
        details = {"stalled": stall.reason, "since_ms": since_ms}
        self._deps.record_event("state", sentence, connector=task.connector, task=task.task, details=details)
        return sentence

    def _timeout_ms(self, connector: str) -> int:
        config = self._deps.config_store.snapshot().connector_config(connector)
        known = self._timeouts.get(connector)
        if known is None or known[0] is not config:
            settings = health_of(self._deps, config or NO_SETTINGS)
            known = self._timeouts[connector] = (config, settings.task_progress_timeout_ms)
        return known[1]


def stall_of(movement: Movement, now_ms: int, timeout_ms: int) -> Stall | None:
    """Return why a task has made no progress for ``timeout_ms``, or None if it moves or has nothing to do.

    A ``timeout_ms`` of 0 turns the check off. A task that waits for an executor is always reported.
    """
    if movement.unhosted_since_ms is not None:
        why = f", because {movement.unhosted_why}" if movement.unhosted_why else ""
        return Stall(movement.unhosted_since_ms, f"it waits for an executor{why}", unhosted=movement.unhosted_late)
    if not timeout_ms:
        return None
    away = [(since_ms, what) for what, since_ms in movement.away if now_ms - since_ms >= AWAY_MS]
    if away:
        return Stall(*min(away))
    overdue = [(since_ms, call) for call, since_ms in movement.calls if now_ms - since_ms >= timeout_ms]
    if overdue:
        since_ms, call = min(overdue)
        return Stall(since_ms, f"{call}() has not returned")
    if movement.behind_since_ms is None:
        return None
    since_ms = max(movement.moved_at_ms, movement.behind_since_ms)
    if now_ms - since_ms < timeout_ms + movement.patience_ms:
        return None
    return Stall(since_ms, "records wait, but none of them was taken")


def unhosted_text(stalls: Mapping[str, Stall], now_ms: int) -> str:
    """Return how many tasks wait for executors and which one waits longest, or an empty text if there are none.

    Args:
        stalls: task -> its stall.
        now_ms: monotonic.
    """
    waiting = {task: stall.since_ms for task, stall in stalls.items() if stall.unhosted}
    if not waiting:
        return ""
    longest = min(waiting, key=lambda task: (waiting[task], task))
    return (
        f"Tasks that wait for an executor: {len(waiting)}; {longest} for {(now_ms - waiting[longest]) // 1000} s. "
        "Is the cluster full, or its master unreachable?"
    )

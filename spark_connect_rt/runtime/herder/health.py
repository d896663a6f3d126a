"""Whether and when a FAILED connector or task is started again by itself (``errors.restart.*``). Pure; not in Java.

Owns: back-off, budget, and telling a record that no attempt can pass from a target that is away. A failure is a fact,
the verdict follows from the failures so far and the policy; who keeps them and acts is runtime.herder.steps.health.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.base.backoff import Backoff, chance_of
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.management_config import HEALTH, HealthSettings
from spark_connect_rt.config.secrets import references
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.runtime.worker.status_reports import ERROR_LINE, error_of
from spark_connect_rt.runtime.worker.worker import FailedWork, Item, Worker
from spark_connect_rt.runtime.worker.worker_task import Movement
from spark_connect_rt.topics.status_records import ConnectorStatus, State

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
"""Errors, by name or the last part of it, that come from a target which is away: they never make a record poison."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure of one connector or task."""

    at_ms: int  # monotonic
    error: str  # see ``error_of``
    moved: bool = True  # an offset was committed since the failure before; always so for connectors


@dataclass(frozen=True, slots=True)
class RestartVerdict:
    """What is done about the newest failure: a restart at ``at_ms``, or none any more and why."""

    attempt: int  # restarts within the window, with this one
    at_ms: int | None
    stopped: str = ""


def decide_restart(settings: HealthSettings, failures: Sequence[Failure], chance: float) -> RestartVerdict:
    """Decide about the newest of ``failures``: oldest first, each but the last was followed by a restart.

    ``chance`` from 0 to 1 spreads the restarts of what failed at one instant (``Backoff.wait``).
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
    """Return how many failures, counted back from the newest, are the same at the same offsets."""
    count = 0
    for failure in reversed(failures):
        if failure.error != failures[-1].error:
            break
        count += 1
        if failure.moved:  # what was before it was elsewhere
            break
    return count


def _may_be_a_record(error: str) -> bool:
    found = ERROR_LINE.match(error)
    name = found["kind"] if found else ""
    return not {name, name.rpartition(".")[2]} & NOT_THE_RECORDS_FAULT


# Which instances one restart request touches (KIP-745; Java ``RestartPlan``, ``RestartRequest``).


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """What the user asked for."""

    connector: str
    include_tasks: bool = False
    only_failed: bool = False

    @property
    def impact(self) -> tuple[bool, bool]:
        """Order of requests: tasks or not weighs less than failed-only or all (the KIP's order)."""
        return (not self.only_failed, self.include_tasks)


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What is to be restarted: the connector or not, and tasks by number."""

    request: RestartRequest
    restart_connector: bool
    tasks: tuple[int, ...]

    def empty(self) -> bool:
        """Return whether there is nothing to restart."""
        return not (self.restart_connector or self.tasks)


def plan_restart(
    request: RestartRequest, connector: ConnectorStatus | None, tasks: Mapping[int, ConnectorStatus]
) -> RestartPlan | None:
    """Plan from the status topic's facts; None when the connector has no status at all."""
    if connector is None:
        return None

    def chosen(status: ConnectorStatus) -> bool:
        return not request.only_failed or status.state is State.FAILED

    numbers = [n for n, status in sorted(tasks.items()) if request.include_tasks and chosen(status)]
    return RestartPlan(request, chosen(connector), tuple(numbers))


def most_impactful(requests: Iterable[RestartRequest]) -> dict[str, RestartRequest]:
    """Keep one pending request a connector: the one that restarts the most."""
    kept: dict[str, RestartRequest] = {}
    for request in requests:
        known = kept.get(request.connector)
        if known is None or request.impact > known.impact:
            kept[request.connector] = request
    return kept


# Whether a RUNNING task moves while there is work (``task.progress.timeout.ms``). Pure; not in Java.
#
# Owns what counts as motionless. It is said, and nothing is done about it: who may stop a slow target is the user.


AWAY_MS = 20_000  # brokers that do not answer for so long are named: in the status within half a minute


@dataclass(frozen=True, slots=True)
class Stall:
    """Why a task is motionless, and since when, monotonic ms."""

    since_ms: int
    reason: str
    unhosted: bool = False


def unhosted_text(stalls: Mapping[str, Stall], now_ms: int) -> str:
    """Return what is to be said of tasks that wait for executors; empty: none does.

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


def stall_of(movement: Movement, now_ms: int, timeout_ms: int) -> Stall | None:
    """Return what holds a task up for ``timeout_ms`` and more; None: it moves, or has nothing to do. 0: never asked.

    That no executor hosts it is known without asking.
    """
    if movement.unhosted_since_ms is not None:
        return Stall(movement.unhosted_since_ms, "it waits for an executor", unhosted=True)
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


# How failed and motionless work is treated: the settings, references to config providers looked up (not in Java).


log = logging.getLogger(__name__)
_NAMES = tuple(key.name for key in HEALTH)


def health_of(deps: HerderDependencies, connector_config: StoredConfig) -> HealthSettings:
    """Return the worker's settings with a connector's own, the references in these looked up.

    What cannot be looked up now counts as not given: nothing fails by it that did not fail before.
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


@dataclass(slots=True)
class _Failing:
    """What is known of one connector or task that failed."""

    configured: tuple[object, ...]  # the key without its count of restarts
    restarts: int  # the count of the run that failed last, or that was started after it
    failures: list[Failure] = field(default_factory=list)
    verdict: RestartVerdict | None = None  # None: it was started again


class RestartFailed:
    """The step ``restart what failed``."""

    def __init__(self, deps: HerderDependencies, state: GroupState, worker: Worker) -> None:
        self._deps = deps
        self._state = state
        self._worker = worker
        self._held: ConnectorsAndTasks | None = None
        self._here: set[Item] = set()
        self._failing: dict[Item, _Failing] = {}

    def restart(self, now_ms: int) -> Verdict:
        """Look at what failed; start again what is due."""
        held = self._state.held
        if self._state.stopping or held is None:
            self._held = None
            self._failing.clear()
            return NOTHING
        failed_now = self._worker.failed()
        if not failed_now and not self._failing:
            return NOTHING
        if held is not self._held:  # what moved away begins from zero when it comes back
            self._held, self._here = held, {*held.connectors, *held.tasks}
            self._failing = {item: failing for item, failing in self._failing.items() if item in self._here}
        reasons: list[str] = []
        wake_at_ms: list[int] = []
        for item, failed in failed_now.items():
            if item not in self._here or self._on_its_way(item, failed):
                continue
            known = self._known(item, failed)
            if known.verdict is None:
                reasons.append(self._take(item, known, failed, now_ms))
            due_ms = known.verdict.at_ms if known.verdict is not None else None
            if due_ms is None:
                continue
            if due_ms <= now_ms:
                reasons.append(self._start(item, known))
                due_ms = now_ms  # reconciling comes before this step: tick again at once
            wake_at_ms.append(due_ms)
        return Verdict("; ".join(filter(None, reasons)), min(wake_at_ms, default=None))

    def _on_its_way(self, item: Item, failed: FailedWork) -> bool:
        """Return whether it was started again, and reconciling waits with it (a rebalance is due)."""
        known = self._failing.get(item)
        return known is not None and known.verdict is None and failed.key[-1] < known.restarts

    def _known(self, item: Item, failed: FailedWork) -> _Failing:
        """Return the history that this failure goes on with, a new one where another request restarted it."""
        *configured, restarts = failed.key
        known = self._failing.get(item)
        if known is None or known.restarts != restarts or known.configured != tuple(configured):
            known = self._failing[item] = _Failing(tuple(configured), restarts)
        return known

    def _take(self, item: Item, known: _Failing, failed: FailedWork, now_ms: int) -> str:
        settings = self._settings(item)
        if settings.errors_restart_policy == "none":
            known.verdict = RestartVerdict(0, None)
            return ""
        # The first failure is at an offset of its own, whatever was committed before.
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


# The step that says which tasks of this worker move nothing though there is work, or wait to be hosted (not in Java).
#
# Owns what was said last, so that each change is one status, one line of the event log. What counts as motionless is
# runtime.health_rules's; no state is ever changed by it.


LOOK_EACH_MS = 1_000


class StallCheck:
    """The step ``watch progress``: reports tasks that move nothing though there is work."""

    def __init__(self, deps: HerderDependencies, worker: Worker) -> None:
        self._deps = deps
        self._worker = worker
        self._look_at_ms = 0
        self._stalled: dict[ConnectorTaskId, Stall] = {}
        self._timeouts: dict[str, tuple[StoredConfig | None, int]] = {}  # connector -> its config, the limit in it

    def watch(self, now_ms: int) -> Verdict:
        """Look at every running task, once a second."""
        if now_ms < self._look_at_ms:
            return Verdict()
        self._look_at_ms = now_ms + LOOK_EACH_MS
        found: dict[ConnectorTaskId, Stall] = {}
        for task, movement in self._worker.movements().items():
            stall = stall_of(movement, now_ms, self._timeout_ms(task.connector))
            if stall is not None:
                found[task] = stall
        reasons = [self._say(task, found.get(task), now_ms) for task in sorted(found.keys() | self._stalled.keys())]
        self._stalled = found
        return Verdict("; ".join(filter(None, reasons)))

    def unhosted(self, now_ms: int) -> str:
        """Return what is to be said of tasks that wait for executors; empty: none does. Any thread."""
        return unhosted_text({str(task): stall for task, stall in self._stalled.items()}, now_ms)

    def _say(self, task: ConnectorTaskId, stall: Stall | None, now_ms: int) -> str:
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

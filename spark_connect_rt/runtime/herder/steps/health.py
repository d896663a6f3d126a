"""The step that starts FAILED connectors and tasks of this worker again, as their policy says (not in Java).

Owns the failures so far, per connector and task, while it stays here: a restart by hand, a new configuration or a move
to another worker begins from zero. When and whether is runtime.health_rules's; the start itself is reconciling's.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.base.chances import chance_of
from spark_connect_rt.config.health_config import HealthSettings
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.group.assignments import ConnectorsAndTasks
from spark_connect_rt.runtime.health_rules import Failure, RestartVerdict, decide_restart, error_of
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.steps.runtime_herder_steps_health import health_of
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.runtime.worker.standing import FailedWork
from spark_connect_rt.runtime.worker.worker import Item, Worker

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Failing:
    """What is known of one connector or task that failed."""

    configured: tuple[object, ...]  # the key without its count of restarts
    restarts: int  # the count of the run that failed last, or that was started after it
    failures: list[Failure] = field(default_factory=list)
    verdict: RestartVerdict | None = None  # None: it was started again


class Restarting:
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

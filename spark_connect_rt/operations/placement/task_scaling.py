"""The leader's look at sinks that have ``tasks.max.auto``, and the change of ``tasks.max`` that follows from it.

Owns the rule, its thread and its memory. A change goes the way of a user's: the leader writes the connector's
configuration, its worker makes task configurations, a rebalance gives them out.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as LateError
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from spark_connect_rt.api.config_provider import Resolve
from spark_connect_rt.base.concurrency import Clock
from spark_connect_rt.base.supervision import Repeated
from spark_connect_rt.config.connectrt_config import TASKS_AUTO, TaskRange
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.operations.overview.worker_shares import SHARES, WorkerReport, shares_of
from spark_connect_rt.rest.peers import GroupReads, unanswered
from spark_connect_rt.runtime.group_events import RecordEvent
from spark_connect_rt.runtime.herder.herder_api import HerderViews
from spark_connect_rt.runtime.herder.herder_requests import PatchConfig, Request

# How many tasks a sink should have: within ``tasks.max.auto=min..max`` the number follows lag and idle time. Pure.
#
# Owns the decision and its hysteresis. More tasks are requested when waiting records take too long at the present
# pace, for a while. Fewer are requested when nothing has waited for long, and the remaining ones can carry the pace.
# Each change restarts the connector's tasks, so it is followed by a pause. After a removal that proved wrong, the next
# one waits longer.


__all__ = ["Look", "ScaleMemory", "ScaleRules", "TaskRange", "Wish", "decide"]


@dataclass(frozen=True, slots=True)
class ScaleRules:
    """The limits that decide about more or fewer tasks. Times in ms."""

    behind_ms: int = 60_000  # the lag would take this long: the connector is behind
    up_after_ms: int = 60_000  # behind for so long: more tasks
    calm_ms: int = 5_000  # the lag would take no longer: nothing waits
    down_after_ms: int = 600_000  # nothing waits for so long: perhaps fewer tasks
    pause_ms: int = 180_000  # after a change, until the next
    regret_ms: int = 1_800_000  # behind so soon after a change downwards: it was wrong
    patience_most: int = 8  # times down_after_ms
    share: float = 0.7  # of what a busy task bears, that one should bear after a change downwards


@dataclass(frozen=True, slots=True)
class Look:
    """Known facts about a connector at one time; ``lag`` in records, None while a part of it is not known."""

    at_ms: int  # monotonic
    tasks: int
    lag: int | None
    records_per_s: float


@dataclass(frozen=True, slots=True)
class ScaleMemory:
    """The memory of one connector between checks; a new leader begins with an empty one."""

    behind_since_ms: int | None = None
    calm_since_ms: int | None = None
    changed_at_ms: int | None = None
    lowered_at_ms: int | None = None
    patience: int = 1
    busy_task_records_per_s: float | None = None  # of one task that had enough to do
    began_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """How many tasks there should be, and why in words; the number of now: nothing to do."""

    tasks: int
    why: str = ""


def decide(
    memory: ScaleMemory, look: Look, bounds: TaskRange, rules: ScaleRules = ScaleRules()
) -> tuple[ScaleMemory, Wish]:
    """Return the memory for the next round, and the number of tasks that is wished for."""
    if memory.began_at_ms is None:
        memory = replace(memory, began_at_ms=look.at_ms)
    if look.tasks != bounds.clamped(look.tasks):
        tasks = bounds.clamped(look.tasks)
        return _changed(memory, look, tasks), Wish(tasks, f"{TASKS_AUTO} is {bounds.least}..{bounds.most}")
    if look.lag is None:
        return replace(memory, behind_since_ms=None, calm_since_ms=None), Wish(look.tasks)
    memory = _learnt(memory, look, rules)
    since_ms = memory.changed_at_ms
    if since_ms is not None and look.at_ms - since_ms < rules.pause_ms:
        return memory, Wish(look.tasks)
    if memory.behind_since_ms is not None and look.at_ms - memory.behind_since_ms >= rules.up_after_ms:
        return _more(memory, look, bounds, rules)
    calm_ms = 0 if memory.calm_since_ms is None else look.at_ms - memory.calm_since_ms
    if calm_ms >= rules.down_after_ms * memory.patience:
        return _fewer(memory, look, bounds, rules)
    return memory, Wish(look.tasks)


def _learnt(memory: ScaleMemory, look: Look, rules: ScaleRules) -> ScaleMemory:
    """Return the memory with since when it is behind or calm, and what a busy task bears."""
    assert look.lag is not None
    takes_ms = look.lag * 1000 / max(look.records_per_s, 1.0)
    behind, calm = takes_ms > rules.behind_ms, takes_ms <= rules.calm_ms
    bears = memory.busy_task_records_per_s
    restarted = memory.changed_at_ms is not None and look.at_ms - memory.changed_at_ms < rules.pause_ms
    if behind and look.records_per_s > 0 and not restarted:
        now = look.records_per_s / max(1, look.tasks)
        bears = now if bears is None else bears * 0.7 + now * 0.3
    return replace(
        memory,
        behind_since_ms=(look.at_ms if memory.behind_since_ms is None else memory.behind_since_ms) if behind else None,
        calm_since_ms=(look.at_ms if memory.calm_since_ms is None else memory.calm_since_ms) if calm else None,
        busy_task_records_per_s=bears,
    )


def _more(memory: ScaleMemory, look: Look, bounds: TaskRange, rules: ScaleRules) -> tuple[ScaleMemory, Wish]:
    tasks = bounds.clamped(max(look.tasks + 1, ceil(look.tasks * 1.5)))
    if tasks == look.tasks:
        return memory, Wish(look.tasks)
    lowered_ms = memory.lowered_at_ms
    if lowered_ms is not None and look.at_ms - lowered_ms < rules.regret_ms:
        memory = replace(memory, patience=min(memory.patience * 2, rules.patience_most), lowered_at_ms=None)
    why = f"{look.lag} records wait, and {look.tasks} tasks process {look.records_per_s:.0f}/s"
    return _changed(memory, look, tasks), Wish(tasks, why)


def _fewer(memory: ScaleMemory, look: Look, bounds: TaskRange, rules: ScaleRules) -> tuple[ScaleMemory, Wish]:
    bears = memory.busy_task_records_per_s
    # Where no task was ever seen busy, one fewer at a time shows what they bear.
    needed = look.tasks - 1 if bears is None else ceil(look.records_per_s / (bears * rules.share))
    tasks = bounds.clamped(max(needed, look.tasks // 2, 1))
    if tasks >= look.tasks:
        return memory, Wish(look.tasks)
    lowered = replace(_changed(memory, look, tasks), lowered_at_ms=look.at_ms)
    return lowered, Wish(tasks, f"no record has waited for a while, and {look.records_per_s:.0f}/s need no more tasks")


def _changed(memory: ScaleMemory, look: Look, tasks: int) -> ScaleMemory:
    return replace(memory, changed_at_ms=look.at_ms, behind_since_ms=None, calm_since_ms=None)


LOOK_EACH_S = 10.0
RATES_KEPT = 3  # their mean is the pace: one of five seconds alone may be that of a batch
WRITE_LIMIT_S = 60.0
RULES = ScaleRules()
log = logging.getLogger(__name__)

Submit = Callable[[Request[Any]], Future[Any]]


class TaskScaling:
    """A service of every worker; only the leader's does something."""

    def __init__(
        self,
        views: HerderViews,
        reads: GroupReads,
        submit: Submit,
        clock: Clock,
        record_event: RecordEvent,
        resolve: Resolve,
        rules: ScaleRules | None = None,
    ) -> None:
        self._views = views
        self._reads = reads
        self._resolve = resolve
        self._submit = submit
        self._clock = clock
        self._record_event = record_event
        self._rules = rules or RULES
        self.look_each_s = LOOK_EACH_S
        self._memories: dict[str, ScaleMemory] = {}
        self._rates: dict[str, deque[float]] = {}
        self.rounds = Repeated(
            "task-scaling", self.look, lambda: self.look_each_s, "tasks.max does not follow the load any more"
        )

    def look(self) -> None:
        """Look at every connector that has the setting, once; on a worker that does not lead: forget."""
        ranges = self._ranges() if self._views.is_leader() else {}
        for name in [connector for connector in self._memories if connector not in ranges]:
            del self._memories[name]
            self._rates.pop(name, None)
        if not ranges:
            return
        answers = self._reads.ask(SHARES)
        shares, complete = shares_of(answers), not unanswered(answers)
        for name, (bounds, tasks) in ranges.items():
            try:
                self._look_at(name, bounds, tasks, shares.get(name) if complete else None)
            except (ConnectError, LateError) as error:
                log.warning("connector=%s tasks.max cannot be changed: %s", name, error)

    def _ranges(self) -> dict[str, tuple[TaskRange, int]]:
        """Return connectors that have the setting: name -> its bounds and tasks.max. Unreadable ones are missing."""
        found = {}
        for name in self._views.list_connectors():
            try:
                config = self._views.connector_config(name).only((TASKS_AUTO, "tasks.max")).resolved(self._resolve)
                if config.get(TASKS_AUTO):
                    found[name] = (TaskRange.of(config[TASKS_AUTO]), int(config.get("tasks.max", "1")))
            except (
                ConnectError,
                ValueError,
            ):  # deleted just now, nothing answers its reference, or from before it was checked
                continue
        return found

    def _look_at(self, name: str, bounds: TaskRange, tasks: int, share: WorkerReport | None) -> None:
        status = self._views.connector_status(name)
        if status.type != "sink":
            return
        runs = bool(status.tasks) and all(task.state == "RUNNING" for task in status.tasks)
        rates = self._rates.setdefault(name, deque(maxlen=RATES_KEPT))
        rates.append(share.records_per_second if share else 0.0)
        lag = share.lag if share and runs else None
        look = Look(self._clock.monotonic_ms(), tasks, lag, sum(rates) / len(rates))
        memory, wish = decide(self._memories.get(name, ScaleMemory()), look, bounds, self._rules)
        self._memories[name] = memory
        if wish.tasks == tasks:
            return
        patch: Mapping[str, str | None] = {"tasks.max": str(wish.tasks)}
        self._submit(PatchConfig(name, patch)).result(WRITE_LIMIT_S)
        said = f"tasks.max {tasks} becomes {wish.tasks}: {wish.why}"
        log.info("connector=%s %s", name, said)
        self._record_event("config", said, connector=name)

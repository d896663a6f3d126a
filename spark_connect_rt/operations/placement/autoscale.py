"""How many tasks a sink should have: within ``tasks.max.auto=min..max`` the number follows lag and idle time. Pure.

Owns the decision and its hysteresis. More tasks are asked for when what waits takes too long at the present pace, for
a while; fewer when nothing has waited for long and those that would remain bear the pace as they did when they were
busy. Each change restarts the connector's tasks, so one is followed by a pause, and one downwards that proved wrong by
a longer patience.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from spark_connect_rt.config.task_range import TASKS_AUTO, TaskRange

__all__ = ["Look", "ScaleMemory", "ScaleRules", "TaskRange", "Wish", "decide"]


@dataclass(frozen=True, slots=True)
class ScaleRules:
    """Times in ms."""

    behind_ms: int = 60_000  # what waits would take this long: the connector is behind
    up_after_ms: int = 60_000  # behind for so long: more tasks
    calm_ms: int = 5_000  # what waits would take no longer: nothing waits
    down_after_ms: int = 600_000  # nothing waits for so long: perhaps fewer tasks
    pause_ms: int = 180_000  # after a change, until the next
    regret_ms: int = 1_800_000  # behind so soon after a change downwards: it was wrong
    patience_most: int = 8  # times down_after_ms
    share: float = 0.7  # of what a busy task bears, that one should bear after a change downwards


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of a connector at one time; ``lag`` in records, None while a part of it is not known."""

    at_ms: int  # monotonic
    tasks: int
    lag: int | None
    records_per_s: float


@dataclass(frozen=True, slots=True)
class ScaleMemory:
    """What is remembered between looks; a new leader begins with an empty one."""

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
    """Return the memory for the next look, and the number of tasks that is wished for."""
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

"""Wanted work and actual work -> what to start, stop and switch. Level-triggered: run it as often as you like.

Owns the rule that a task's next run starts only when nothing of its last run is alive (I1), and that a changed
configuration is a stop and a start. Knows no threads and no engine. Replaces the imperative diffs of Java
``DistributedHerder.startWork/processTaskConfigUpdates``.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Generic, TypeVar

Id = TypeVar("Id", bound=Hashable)


class Life(Enum):
    """Where an instance (connector or task) on this worker stands."""

    ALIVE = "alive"  # asked to start, not asked to stop
    STOPPING = "stopping"  # asked to stop, something may still run
    STOPPED = "stopped"  # nothing runs; it was asked to stop
    FAILED = "failed"  # nothing runs; it fell over and stays down until restarted


@dataclass(frozen=True, slots=True)
class TargetWork:
    """How an instance ought to run; another ``key`` means: stop it and start it again."""

    key: object  # configuration and restart count; compared only
    mode: object = None  # switched in place (paused or not)


@dataclass(frozen=True, slots=True)
class RunningWork:
    """How an instance does run."""

    key: object
    mode: object
    life: Life


@dataclass(frozen=True, slots=True)
class WorkActions(Generic[Id]):
    """The starts and stops to make now, in this order; ``waiting``: instances that must end before their next step."""

    stop: tuple[Id, ...] = ()
    forget: tuple[Id, ...] = ()
    switch: tuple[Id, ...] = ()
    start: tuple[Id, ...] = ()
    waiting: tuple[Id, ...] = ()
    held_back: tuple[Id, ...] = ()  # would start, but ``may_start`` was False

    def nothing(self) -> bool:
        """Return whether there is nothing to do (there may be something to wait for)."""
        return not (self.stop or self.forget or self.switch or self.start)

    def settled(self) -> bool:
        """Return whether there is neither anything to do nor anything to wait for."""
        return self.nothing() and not (self.waiting or self.held_back)


_NO_ACTIONS: Final[WorkActions[Any]] = WorkActions()


def plan_work(wanted: Mapping[Id, TargetWork], actual: Mapping[Id, RunningWork], may_start: bool) -> WorkActions[Id]:
    """Compare the wanted with the actual work, instance by instance.

    Args:
        wanted: the work that this worker ought to run by its assignment and the configuration it knows.
        actual: the work that it runs, or ran and has not forgotten.
        may_start: False during a rebalance or before a due one: then only stops happen.
    """
    steps: dict[str, list[Id]] = {}
    for instance, is_now in actual.items():
        want = wanted.get(instance)
        if want is not None and is_now.life is Life.ALIVE and want.key == is_now.key and want.mode == is_now.mode:
            continue  # nearly all of them, at every tick
        step = _step_of(want, is_now, may_start)
        if step:
            steps.setdefault(step, []).append(instance)
    for instance in wanted:
        if instance not in actual:
            steps.setdefault("start" if may_start else "held_back", []).append(instance)
    return WorkActions(**{name: tuple(instances) for name, instances in steps.items()}) if steps else _NO_ACTIONS


class LastPlan(Generic[Id]):
    """Plans again only if an argument has changed since the last time: in most ticks none has."""

    def __init__(self) -> None:
        self._facts: tuple[Mapping[Id, TargetWork], Mapping[Id, RunningWork], bool] | None = None
        self._actions: WorkActions[Id] = _NO_ACTIONS

    def of(self, wanted: Mapping[Id, TargetWork], actual: Mapping[Id, RunningWork], may_start: bool) -> WorkActions[Id]:
        """See ``plan_work``. Mappings that were given once must not be changed."""
        last = self._facts
        if last is None or last[0] is not wanted or last[1] is not actual or last[2] is not may_start:
            self._facts = (wanted, actual, may_start)
            self._actions = plan_work(wanted, actual, may_start)
        return self._actions


def _step_of(want: TargetWork | None, is_now: RunningWork, may_start: bool) -> str | None:
    if is_now.life is Life.STOPPING:
        return "waiting"
    over = is_now.life in (Life.STOPPED, Life.FAILED)
    if want is None:
        return "forget" if over else "stop"
    if want.key == is_now.key and is_now.life is Life.FAILED:
        return None
    if over:
        return "start" if may_start else "held_back"
    if want.key != is_now.key:
        return "stop"
    return "switch" if want.mode != is_now.mode else None

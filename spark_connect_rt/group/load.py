"""Which tasks should change places, because one worker has more to do than the others. Pure.

Owns the definition of load and the hysteresis. Tasks are swapped between two workers, a hot one against a cold one, so
the numbers that the assignor balances stay the same and nothing else moves. A skew must last, a swap must gain, after
swaps there is a pause, and a task that was moved stays in place for long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spark_connect_rt.base.ids import ConnectorTaskId

RECORD_COST = 2e-6
"""CPU seconds that a record is taken to cost where a task's CPU is not known."""


@dataclass(frozen=True, slots=True)
class TaskLoadSample:
    """The load that a worker reports for one of its tasks. ``cpu_seconds``: since its run began, None: unknown."""

    records_per_s: float
    lag: int | None = None
    cpu_seconds: float | None = None


Samples = Mapping[str, Mapping[ConnectorTaskId, TaskLoadSample]]
"""Worker -> the load samples of its tasks."""
Loads = Mapping[str, Mapping[ConnectorTaskId, float]]
"""Worker -> its tasks -> cores that each needs."""


@dataclass(frozen=True, slots=True)
class LoadRules:
    """The limits for swaps of tasks between workers. Times are in ms."""

    skew: float = 1.5  # times the mean: a worker with more has too much
    least_cores: float = 0.1  # above the mean; less is not worth a restart of two tasks
    gain: float = 0.1  # of the worse of the two workers, that a swap must take off
    after_ms: int = 180_000  # the skew lasted so long
    pause_ms: int = 600_000  # after swaps
    rest_ms: int = 3_600_000  # a task that was swapped is left alone
    worker_share: float = 0.1  # of the workers give a task away at once, at least one


@dataclass(frozen=True, slots=True)
class Swap:
    """``hot`` goes from one worker to the other, ``cold`` the other way."""

    hot: ConnectorTaskId
    giver: str
    cold: ConnectorTaskId
    taker: str


@dataclass(frozen=True, slots=True)
class LoadMemory:
    """The leader's memory between checks. A new one is empty."""

    skewed_since_ms: int | None = None
    swapped_at_ms: int | None = None
    resting: Mapping[ConnectorTaskId, int] = field(default_factory=dict)  # task -> when it was swapped
    smooth: Mapping[ConnectorTaskId, float] = field(default_factory=dict)  # cores, over the last checks


def cores_of(now: TaskLoadSample, before: TaskLoadSample | None, passed_s: float) -> float:
    """Return how many cores a task needs: its present use, and up to as much again while records wait for it."""
    cores = now.records_per_s * RECORD_COST
    if now.cpu_seconds is not None and before is not None and before.cpu_seconds is not None and passed_s > 0:
        cores = max(0.0, now.cpu_seconds - before.cpu_seconds) / passed_s
    waits_s = (now.lag or 0) / max(now.records_per_s, 1.0)
    return cores * (1 + min(1.0, waits_s / 60))


def loads_of(samples: Samples, before: Samples, passed_s: float) -> dict[str, dict[ConnectorTaskId, float]]:
    """Return the load of every task, from two looks; a task that moved in between is counted by its records."""
    return {
        worker: {task: cores_of(sample, before.get(worker, {}).get(task), passed_s) for task, sample in tasks.items()}
        for worker, tasks in samples.items()
    }


def decide(memory: LoadMemory, loads: Loads, now_ms: int, rules: LoadRules) -> tuple[LoadMemory, tuple[Swap, ...]]:
    """Return the memory for the next check and the swaps to make now. Most checks return no swap."""
    memory, loads = _smoothed(memory, loads, now_ms, rules)
    sums = {worker: sum(tasks.values()) for worker, tasks in loads.items()}
    if len(sums) < 2 or not _is_skewed(sums, rules):
        return replace(memory, skewed_since_ms=None), ()
    since_ms = now_ms if memory.skewed_since_ms is None else memory.skewed_since_ms
    memory = replace(memory, skewed_since_ms=since_ms)
    paused = memory.swapped_at_ms is not None and now_ms - memory.swapped_at_ms < rules.pause_ms
    if paused or now_ms - since_ms < rules.after_ms:
        return memory, ()
    swaps = _swaps(loads, sums, memory.resting, rules)
    if swaps:
        moved = {task: now_ms for swap in swaps for task in (swap.hot, swap.cold)}
        memory = replace(memory, swapped_at_ms=now_ms, resting={**memory.resting, **moved}, skewed_since_ms=None)
    return memory, swaps


def _smoothed(
    memory: LoadMemory, loads: Loads, now_ms: int, rules: LoadRules
) -> tuple[LoadMemory, dict[str, dict[ConnectorTaskId, float]]]:
    """Return each load as the mean of its old and new value, and the memory without removed and rested tasks."""
    smooth = {
        worker: {task: (memory.smooth.get(task, cores) * 3 + cores) / 4 for task, cores in tasks.items()}
        for worker, tasks in loads.items()
    }
    every = {task: cores for tasks in smooth.values() for task, cores in tasks.items()}
    resting = {task: at_ms for task, at_ms in memory.resting.items() if now_ms - at_ms < rules.rest_ms}
    return replace(memory, smooth=every, resting=resting), smooth


def _is_skewed(sums: Mapping[str, float], rules: LoadRules) -> bool:
    mean, worst = sum(sums.values()) / len(sums), max(sums.values())
    return worst > mean * rules.skew and worst - mean >= rules.least_cores


def _swaps(
    loads: Loads, sums: dict[str, float], resting: Mapping[ConnectorTaskId, int], rules: LoadRules
) -> tuple[Swap, ...]:
    """Return the best swap of the busiest and the idlest worker, then of the next two, while they are skewed."""
    found: list[Swap] = []
    free = dict(sums)
    for _ in range(max(1, int(len(sums) * rules.worker_share))):
        if len(free) < 2 or not _is_skewed(free, rules):
            break
        giver, taker = max(free, key=lambda w: (free[w], w)), min(free, key=lambda w: (free[w], w))
        swap = _best(loads, giver, taker, free, resting, rules)
        del free[giver]
        if swap is not None:
            found.append(swap)
            del free[taker]
    return tuple(found)


def _best(
    loads: Loads,
    giver: str,
    taker: str,
    sums: Mapping[str, float],
    resting: Mapping[ConnectorTaskId, int],
    rules: LoadRules,
) -> Swap | None:
    hot, cold = _movable(loads[giver], resting), _movable(loads[taker], resting)
    wanted = (sums[giver] - sums[taker]) / 2
    best, left = None, sums[giver] * (1 - rules.gain)
    for offered in hot:
        # Of the taker's tasks the one with which the two workers come out nearest to each other.
        other = min(
            cold, key=lambda task: (abs(loads[giver][offered] - loads[taker][task] - wanted), task), default=None
        )
        if other is None:
            return None
        moved = loads[giver][offered] - loads[taker][other]
        worse = max(sums[giver] - moved, sums[taker] + moved)
        if worse < left:
            best, left = Swap(offered, giver, other, taker), worse
    return best


def _movable(
    tasks: Mapping[ConnectorTaskId, float], resting: Mapping[ConnectorTaskId, int]
) -> Sequence[ConnectorTaskId]:
    return sorted(task for task in tasks if task not in resting)

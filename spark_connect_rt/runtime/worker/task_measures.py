"""Measurements that the executors report of one run: totals, the last minute, calls that do not return.

Owns adding up over the hostings of a run (each counts from zero). Decides nothing. Not thread-safe: the task's lock
guards it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spark_connect_rt.config.worker_config import RuntimeSettings
from spark_connect_rt.engine.task_runner import TaskMeasured, is_value

WINDOW_MS = 60_000  # Java's default: 2 samples of 30 s


def metrics_window_ms(settings: RuntimeSettings) -> int:
    """Return the window of averages and rates: ``metrics.sample.window.ms`` times ``metrics.num.samples``."""
    return max(1_000, settings.metrics_sample_window_ms * settings.metrics_num_samples)


SAMPLES = 12  # a window is forgotten in so many pieces


@dataclass(frozen=True, slots=True)
class _Sample:
    """The counts that reports added in one piece of the window."""

    at_ms: int
    added: Counter[str]
    longest: dict[str, float]


class TaskMeasures:
    """Counts of one run, as totals since its start and as rates over a window."""

    def __init__(self, now_ms: int, window_ms: int = WINDOW_MS) -> None:
        self.moved_at_ms = now_ms  # it began to run, or something moved
        self.where = ""  # machine:pid of the process that hosts it
        self._window_ms = window_ms
        self._began_ms = now_ms
        self._host = 0
        self._of_host: dict[str, Mapping[str, float]] = {}  # half -> totals of the present hosting
        self._calls: dict[str, tuple[str, int]] = {}  # half -> call, since when
        self._away: dict[str, tuple[str, int]] = {}  # half -> that brokers do not answer, since when
        self._values: dict[str, float] = {}  # current values, in the present hosting
        self._totals: Counter[str] = Counter()
        self._samples: deque[_Sample] = deque()

    def take(self, event: TaskMeasured, now_ms: int) -> None:
        """Add one report; totals of another hosting start from 0."""
        if event.host != self._host:
            self._host, self._of_host, self._values = event.host, {}, {}
            self.forget_calls()
        self.where = event.where or self.where
        before = self._of_host.get(event.half, {})
        self._values.update({name: number for name, number in event.totals.items() if is_value(name)})
        totals = {name: number for name, number in event.totals.items() if not is_value(name)}
        added = {name: number - before.get(name, 0) for name, number in totals.items()}
        self._of_host[event.half] = totals
        self._totals.update(added)  # type: ignore[arg-type]
        if any(number > 0 for name, number in added.items() if name.endswith(".records")):
            self.moved_at_ms = now_ms
        self._calls.pop(event.half, None)
        if event.call:
            self._calls[event.half] = (event.call, now_ms - event.call_ms)
        self._away.pop(event.half, None)
        if event.away:
            self._away[event.half] = (event.away, now_ms - event.away_ms)
        self._keep(now_ms, added, event.longest)

    def committed(self, now_ms: int, took_ms: int, *, good: bool) -> None:
        """Count one commit of offsets."""
        added = {"commit.calls": 1, "commit.ms": took_ms, "commit.good" if good else "commit.bad": 1}
        self._totals.update(added)
        self._keep(now_ms, added, {"commit.ms_max": took_ms})

    def calls(self) -> tuple[tuple[str, int], ...]:
        """Return the calls that were long in progress at the last report, and since when."""
        return tuple(self._calls.values())

    def forget_calls(self) -> None:
        """Forget calls and outages that were reported before the run was paused or began to run."""
        self._calls.clear()
        self._away.clear()

    def away(self) -> tuple[tuple[str, int], ...]:
        """Return which brokers did not answer at the last report, and since when."""
        return tuple(self._away.values())

    def waiting(self) -> int:
        """Return how many records were read of a sink's topics and not taken by its task, or dropped, yet."""
        read = self._of_host.get("reader", {}).get("read.records", 0)
        return int(read - self._of_host.get("writer", {}).get("taken.records", 0))

    def total(self, name: str) -> float:
        """Return a total since the run began."""
        return self._totals[name]

    def names(self, prefix: str) -> list[str]:
        """Return what was counted under names that begin so."""
        return [name for name in self._totals if name.startswith(prefix)]

    def values(self) -> Mapping[str, float]:
        """Return what was reported as it is now, by name (``plugin_metric_keys``)."""
        return self._values

    def errors(self, skipped: int) -> int:
        """Return how many attempts at records failed; ``skipped``: records that the driver knows to be skipped."""
        return max(int(self._totals.get("errors.failures", 0)), skipped)

    def shown(self, skipped: int) -> dict[str, Any]:
        """Return what a task's progress shows of what executors counted; ``skipped``: records, by the driver."""
        return {
            "errors": self.errors(skipped),
            "executor": self.where or None,
            "cpu_seconds": round(self.total("cpu.ms") / 1000, 3) or None,
        }

    def latest(self, name: str) -> float:
        """Return what was added in the newest piece of the window in which anything was."""
        return next((sample.added[name] for sample in reversed(self._samples) if sample.added.get(name)), 0.0)

    def recent(self, name: str, now_ms: int) -> float:
        """Return what was added within the window."""
        self._forget(now_ms)
        return sum(sample.added.get(name, 0) for sample in self._samples)

    def rate(self, name: str, now_ms: int) -> float:
        """Return what was added a second, over the window."""
        return round(self.recent(name, now_ms) / self.window_s(now_ms), 1)

    def recent_longest(self, name: str, now_ms: int) -> float:
        """Return the greatest within the window, 0 if nothing was reported."""
        self._forget(now_ms)
        return max((sample.longest[name] for sample in self._samples if name in sample.longest), default=0)

    def window_s(self, now_ms: int) -> float:
        """Return how long the window is that ``recent`` speaks of: shorter for a young run."""
        return max(1.0, min(self._window_ms, now_ms - self._began_ms) / 1000)

    def _keep(self, now_ms: int, added: Mapping[str, float], longest: Mapping[str, float]) -> None:
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1].at_ms >= self._window_ms / SAMPLES:
            self._samples.append(_Sample(now_ms, Counter(), {}))
        sample = self._samples[-1]
        sample.added.update(added)  # type: ignore[arg-type]
        for name, number in longest.items():
            sample.longest[name] = max(number, sample.longest.get(name, number))

    def _forget(self, now_ms: int) -> None:
        while self._samples and self._samples[0].at_ms <= now_ms - self._window_ms:
            self._samples.popleft()


class StateTimes:
    """How long a task was in which state (Java ``StateTracker``)."""

    def __init__(self, state: str, now_ms: int) -> None:
        self._state, self._since_ms = state, now_ms
        self._began_ms = now_ms
        self._spent_ms: Counter[str] = Counter()

    def enter(self, state: str, now_ms: int) -> None:
        """It is in another state from now on."""
        self._spent_ms[self._state] += now_ms - self._since_ms
        self._state, self._since_ms = state, now_ms

    def share(self, state: str, now_ms: int) -> float:
        """Return which part of its time it was in ``state``, 0 to 1."""
        spent_ms = self._spent_ms[state] + (now_ms - self._since_ms if state == self._state else 0)
        return round(spent_ms / max(1, now_ms - self._began_ms), 4)

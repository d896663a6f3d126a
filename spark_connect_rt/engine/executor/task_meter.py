"""Counts the work of one half of one hosted task, and names the call it is in: the driver sees whether it moves.

Owns counting on the task's own thread, and what of it is worth a message. Another thread asks for ``news`` about once
a second: a thread that hangs in a call cannot report that itself.
"""

from __future__ import annotations

import math
import os
import socket
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from spark_connect_rt.api.task import PLUGINS
from spark_connect_rt.engine.task_runner import COUNT, LEAST, MOST, NUMBER, PREFIX, SUM, VALUE, PluginMetricKey, part_of

ERRORS = "errors."  # reported as they come, too: a record that is tried again and again moves nothing
TELL_EACH_S = 1.0
LONG_CALL_S = 1.0  # a shorter call is reported only when it is over
CPU_MS = "cpu.ms"  # of the threads that were in calls
_HOST = socket.gethostname()


EVENTS_MAX = 20  # between two reports, a second apart
EVENT_CHARACTERS_MAX = 500


def where() -> str:
    """Return the process that hosts a task here: machine:pid."""
    return f"{_HOST}:{os.getpid()}"


class TaskMeter:
    """Totals since the hosting began, by name; ``*.ms_max`` and ``*.records_max`` since their last report."""

    def __init__(self, half: str) -> None:
        self._half = half
        self._totals: dict[str, float] = defaultdict(float)
        self._longest: dict[str, float] = {}
        self._gauges: dict[str, float] = {}  # changed since their last report
        self._topics: frozenset[str] = frozenset()  # put of since their last report
        self._call: tuple[str, float] | None = None  # its name, and since when
        self._elsewhere: tuple[str, float] | None = None  # the same, of the process that runs the task's code
        self._away: dict[str, tuple[str, float]] = {}  # servers that do not answer -> why, and since when
        self._events: list[tuple[str, dict[str, str | int]]] = []  # since their last report
        self._changed = True  # since ``news`` was last asked
        self._reported_moved = -1.0  # the first report comes anyway: it says where the task is
        self._reported_call = False
        self._reported_away = False

    @contextmanager
    def call(self, name: str, *, counted: bool = True) -> Iterator[None]:
        """Be in a call of the task's or a client's code, such as ``put``; ``counted``: else ``made`` is called, too."""
        outer, began_s, began_cpu_s = self._call, time.monotonic(), time.thread_time()
        self._call = (name, began_s)
        try:
            yield
        finally:
            self._call = outer
            self._changed = True
            if counted:
                took_ms = (time.monotonic() - began_s) * 1000
                self.made(name, 1, took_ms, took_ms)
            if outer is None:  # else counted by the call around it
                self._totals[CPU_MS] += (time.thread_time() - began_cpu_s) * 1000

    def made(self, name: str, calls: int, took_ms: float, longest_ms: float) -> None:
        """Count calls that took so long in all, and the longest of them."""
        self._totals[f"{name}.calls"] += calls
        self._totals[f"{name}.ms"] += took_ms
        self.reached(f"{name}.ms_max", longest_ms)

    def seen_in(self, name: str, for_s: float = 0.0) -> None:
        """Be in a call that is made elsewhere, such as in a JVM, and has taken so long; an empty name: in none."""
        self._call = (name, time.monotonic() - for_s) if name else None

    def moved(self, name: str, records: int) -> None:
        """Count records that a step called ``name`` moved on."""
        self._totals[f"{name}.records"] += records
        self._changed = True
        self._totals[f"{name}.batches"] += 1
        self.reached(f"{name}.records_max", records)

    def count(self, name: str, number: float = 1) -> None:
        """Add to the total of any name."""
        self._totals[name] += number
        self._changed = True

    def count_attempt(self, *, again: bool) -> None:
        """Count an attempt at a record that failed for now; ``again``: it is tried again (Java ``execAndRetry``)."""
        self.count("errors.failures")
        self.count("errors.retries", again)

    def set(self, name: str, number: float) -> None:
        """Set what is counted elsewhere."""
        self._totals[name] = number
        self._changed = True

    def gauge(self, name: str, number: float) -> None:
        """Take note of what something is now, under a name of ``plugin_metric_keys``; any thread."""
        self._gauges[name] = number
        self._changed = True

    def uses(self, topics: Iterable[str]) -> None:
        """Take note of the topics of a put that is reported as durable much later."""
        self._topics = self._topics.union(topics)

    def elsewhere(self, call: str, since_s: float) -> None:
        """Take note of the call the task's code is in, where another process runs it; empty: in none. Any thread."""
        self._elsewhere = (call, since_s) if call else None

    def record_event(self, summary: str, **details: str | int) -> None:
        """Take an event for the group's events; of many between two reports only the first are kept. Any thread."""
        if len(self._events) < EVENTS_MAX:
            self._events.append((summary[:EVENT_CHARACTERS_MAX], details))

    def contact(self, servers: str, why: str) -> None:
        """Take what a client says of a cluster, see ``kafka.cluster_contact.OnContact``. Any thread."""
        if not why:
            if servers in self._away:
                self._away = {cluster: since for cluster, since in self._away.items() if cluster != servers}
        elif servers not in self._away:
            self._away = {**self._away, servers: (why, time.monotonic())}

    def reached(self, name: str, number: float) -> None:
        """Take note of a number, of which only the greatest since the last report counts."""
        if number > self._longest.get(name, -math.inf):
            self._longest[name] = number

    def news(self, now_s: float, *, anyway: bool = False) -> dict[str, Any] | None:
        """Return the fields of a report if anything moved, or a call is long or no longer long. The asking thread."""
        away = self._away
        reported = self._reported_call or self._reported_away
        events, self._events = self._events, []
        anyway = anyway or bool(events)
        if not (self._changed or self._call or self._elsewhere or reported or away or anyway):
            return None  # of an idle task; it is asked each second
        self._changed = False
        call = min(
            (running for running in (self._call, self._elsewhere) if running),
            key=lambda running: running[1],
            default=None,
        )
        long_call = call is not None and now_s - call[1] >= LONG_CALL_S
        totals = dict(self._totals)
        moved = sum(number for name, number in totals.items() if _is_news(name))
        gauges, self._gauges = self._gauges, {}
        if moved == self._reported_moved and not (long_call or reported or away or gauges or anyway):
            return None
        self._reported_moved, self._reported_call, self._reported_away = moved, long_call, bool(away)
        longest, self._longest = self._longest, {}
        fields: dict[str, Any] = {"half": self._half, "totals": totals | gauges, "longest": longest, "where": where()}
        topics, self._topics = self._topics, frozenset()
        if topics:
            fields["topics"] = sorted(topics)
        if events:
            fields["events"] = events
        if call is not None and long_call:
            fields |= {"call": call[0], "call_ms": int((now_s - call[1]) * 1000)}
        if away:
            servers, (why, since_s) = min(away.items(), key=lambda entry: entry[1][1])
            fields |= {"away": f"no broker at {servers} answers: {why}", "away_ms": int((now_s - since_s) * 1000)}
        return fields


def _is_news(name: str) -> bool:
    return name.endswith(".records") or name.startswith((PREFIX, ERRORS))


# A task's own metrics (KIP-877), counted together with its host's counts.


class MeteredPluginMetrics:
    """A task's PluginMetrics on the meter of its host."""

    def __init__(self, meter: TaskMeter) -> None:
        """Measure into this meter of the task."""
        self._meter = meter
        self._said: dict[str, float] = {}

    def count(self, name: str, number: float = 1, group: str = PLUGINS, **tags: str) -> None:
        """See ``api.task.PluginMetrics``; numpy's numbers cannot be sent, floats can."""
        self._meter.count(part_of(PluginMetricKey(group, name, tags).encode(), COUNT), float(number))

    def observe(self, name: str, values: Sequence[float], group: str = PLUGINS, **tags: str) -> None:
        """Add to the sum, number, maximum and minimum of ``<name>``, which the driver combines."""
        if not values:
            return
        key = PluginMetricKey(group, name, tags).encode()
        self._meter.count(part_of(key, SUM), float(sum(values)))
        self._meter.count(part_of(key, NUMBER), len(values))
        self._meter.reached(part_of(key, MOST), float(max(values)))
        self._meter.reached(part_of(key, LEAST), -float(min(values)))

    def gauge(self, name: str, value: float, group: str = PLUGINS, **tags: str) -> None:
        """Set the current value of ``<name>``; a value that has not changed is not reported."""
        key = part_of(PluginMetricKey(group, name, tags).encode(), VALUE)
        if self._said.get(key) != value:
            self._said[key] = float(value)
            self._meter.gauge(key, float(value))

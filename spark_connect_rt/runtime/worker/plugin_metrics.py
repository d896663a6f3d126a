"""The metrics that a task keeps itself (KIP-877), from its executor's reports, and those of a connector.

Owns their names: those that Java's sensors of counts and values have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from spark_connect_rt.api.task import PLUGINS
from spark_connect_rt.engine.task_runner import (
    COUNT,
    LEAST,
    MOST,
    NUMBER,
    PREFIX,
    SUM,
    VALUE,
    PluginMetricKey,
    part_of,
    parted,
)
from spark_connect_rt.runtime.metric_names import METRICS, Metric, MetricValue
from spark_connect_rt.runtime.worker.task_measures import TaskMeasures

_OWN = "Metric of a plug-in."


def plugin_metrics(measures: TaskMeasures, now_ms: int, tags: Mapping[str, str]) -> Iterator[MetricValue]:
    """Yield the task's own metrics; ``tags`` are its task's."""
    for name in measures.names(PREFIX):
        key, part = parted(name)
        if part == COUNT:
            yield from _counted(measures, key, now_ms, tags)
        elif part == NUMBER:
            yield from _observed(measures, key, now_ms, tags)
    yield from own_values(measures.values(), tags)


def own_values(values: Mapping[str, float], tags: Mapping[str, str]) -> Iterator[MetricValue]:
    """Yield what is something now, by name (``plugin_metric_keys``); ``tags`` are its task's or its connector's."""
    for name, value in list(values.items()):
        yield _measured(parted(name)[0], "", value, tags)


class ConnectorMetrics:
    """A connector's ``PluginMetrics``: it lives in the worker's process, so values are shown at once. Any thread."""

    def __init__(self, measured: Callable[[Mapping[str, float]], None]) -> None:
        """``measured`` takes what values are now, by name (``plugin_metric_keys``)."""
        self._measured = measured
        self._lock = threading.Lock()
        self._totals: dict[str, float] = {}
        self._observed: dict[str, tuple[int, float, float, float]] = {}  # number, sum, least, most

    def count(self, name: str, number: float = 1, group: str = PLUGINS, **tags: str) -> None:
        """Add to ``<name>-count``, the total since the connector's start. Any thread."""
        key = _now(group, f"{name}-count", tags)
        with self._lock:
            self._totals[key] = self._totals.get(key, 0.0) + float(number)
            self._measured({key: self._totals[key]})

    def observe(self, name: str, values: Sequence[float], group: str = PLUGINS, **tags: str) -> None:
        """Record values of ``<name>``: the last, ``-avg``, ``-min`` and ``-max`` since the connector's start."""
        if not values:
            return
        key, new = _now(group, name, tags), [float(value) for value in values]
        with self._lock:
            number, total, least, most = self._observed.get(key, (0, 0.0, new[0], new[0]))
            number, total, least, most = number + len(new), total + sum(new), min(least, *new), max(most, *new)
            self._observed[key] = number, total, least, most
            of = {"": new[-1], "-avg": round(total / number, 3), "-min": least, "-max": most}
            self._measured({_now(group, name + suffix, tags): value for suffix, value in of.items()})

    def gauge(self, name: str, value: float, group: str = PLUGINS, **tags: str) -> None:
        """Set the current value of ``<name>``. Any thread."""
        with self._lock:
            self._measured({_now(group, name, tags): float(value)})


def _now(group: str, name: str, tags: Mapping[str, str]) -> str:
    return part_of(PluginMetricKey(group, name, tags).encode(), VALUE)


def _counted(measures: TaskMeasures, key: str, now_ms: int, tags: Mapping[str, str]) -> Iterator[MetricValue]:
    name = part_of(key, COUNT)
    yield _measured(key, "-count", measures.total(name), tags)
    yield _measured(key, "-rate", measures.rate(name, now_ms), tags)


def _observed(measures: TaskMeasures, key: str, now_ms: int, tags: Mapping[str, str]) -> Iterator[MetricValue]:
    number = measures.recent(part_of(key, NUMBER), now_ms)
    if not number:
        return  # nothing within the window
    yield _measured(key, "-avg", round(measures.recent(part_of(key, SUM), now_ms) / number, 3), tags)
    yield _measured(key, "-max", measures.recent_longest(part_of(key, MOST), now_ms), tags)
    yield _measured(key, "-min", -measures.recent_longest(part_of(key, LEAST), now_ms), tags)
    last = measures.latest(part_of(key, SUM)) / measures.latest(part_of(key, NUMBER))
    yield _measured(key, "", round(last, 3), tags)


def _measured(key: str, suffix: str, value: float, tags: Mapping[str, str]) -> MetricValue:
    group, name, own = PluginMetricKey.decode(key)
    metric = METRICS.get((group, name + suffix)) or Metric(group, name + suffix, _OWN, (*tags, *own))
    return MetricValue(metric, value, {**tags, **own})

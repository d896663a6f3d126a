"""The metrics that a task keeps itself (KIP-877), from its executor's reports, and those of a Java connector.

Owns their names: those that Java's sensors of counts and values have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from spark_connect_rt.ports.metric_names import METRICS, Measured, Metric
from spark_connect_rt.ports.plugin_metric_keys import (
    COUNT,
    LEAST,
    MOST,
    NUMBER,
    PREFIX,
    SUM,
    PluginMetricKey,
    part_of,
    parted,
)
from spark_connect_rt.runtime.worker.task_measures import TaskMeasures

_OWN = "A plug-in's own."


def plugin_metrics(measures: TaskMeasures, now_ms: int, tags: Mapping[str, str]) -> Iterator[Measured]:
    """Yield the task's own metrics; ``tags`` are its task's."""
    for name in measures.names(PREFIX):
        key, part = parted(name)
        if part == COUNT:
            yield from _counted(measures, key, now_ms, tags)
        elif part == NUMBER:
            yield from _observed(measures, key, now_ms, tags)
    yield from own_values(measures.values(), tags)


def own_values(values: Mapping[str, float], tags: Mapping[str, str]) -> Iterator[Measured]:
    """Yield what is something now, by name (``plugin_metric_keys``); ``tags`` are its task's or its connector's."""
    for name, value in list(values.items()):
        yield _measured(parted(name)[0], "", value, tags)


def _counted(measures: TaskMeasures, key: str, now_ms: int, tags: Mapping[str, str]) -> Iterator[Measured]:
    name = part_of(key, COUNT)
    yield _measured(key, "-count", measures.total(name), tags)
    yield _measured(key, "-rate", measures.rate(name, now_ms), tags)


def _observed(measures: TaskMeasures, key: str, now_ms: int, tags: Mapping[str, str]) -> Iterator[Measured]:
    number = measures.recent(part_of(key, NUMBER), now_ms)
    if not number:
        return  # nothing within the window
    yield _measured(key, "-avg", round(measures.recent(part_of(key, SUM), now_ms) / number, 3), tags)
    yield _measured(key, "-max", measures.recent_longest(part_of(key, MOST), now_ms), tags)
    yield _measured(key, "-min", -measures.recent_longest(part_of(key, LEAST), now_ms), tags)
    last = measures.latest(part_of(key, SUM)) / measures.latest(part_of(key, NUMBER))
    yield _measured(key, "", round(last, 3), tags)


def _measured(key: str, suffix: str, value: float, tags: Mapping[str, str]) -> Measured:
    group, name, own = PluginMetricKey.decode(key)
    metric = METRICS.get((group, name + suffix)) or Metric(group, name + suffix, _OWN, (*tags, *own))
    return Measured(metric, value, {**tags, **own})

"""What a task measures itself (KIP-877), counted with what its host counts of it."""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.api.task import PLUGINS
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.engine.plugin_metric_keys import COUNT, LEAST, MOST, NUMBER, SUM, VALUE, PluginMetricKey, part_of


class MeteredPluginMetrics:
    """A task's PluginMetrics on the meter of its host."""

    def __init__(self, meter: TaskMeter) -> None:
        """Take the meter."""
        self._meter = meter
        self._said: dict[str, float] = {}

    def count(self, name: str, number: float = 1, group: str = PLUGINS, **tags: str) -> None:
        """See ``api.task.PluginMetrics``; numpy's numbers cannot be sent, floats can."""
        self._meter.count(part_of(PluginMetricKey(group, name, tags).encode(), COUNT), float(number))

    def observe(self, name: str, values: Sequence[float], group: str = PLUGINS, **tags: str) -> None:
        """See ``api.task.PluginMetrics``."""
        if not values:
            return
        key = PluginMetricKey(group, name, tags).encode()
        self._meter.count(part_of(key, SUM), float(sum(values)))
        self._meter.count(part_of(key, NUMBER), len(values))
        self._meter.reached(part_of(key, MOST), float(max(values)))
        self._meter.reached(part_of(key, LEAST), -float(min(values)))

    def gauge(self, name: str, value: float, group: str = PLUGINS, **tags: str) -> None:
        """See ``api.task.PluginMetrics``; what is as it was is no news."""
        key = part_of(PluginMetricKey(group, name, tags).encode(), VALUE)
        if self._said.get(key) != value:
            self._said[key] = float(value)
            self._meter.gauge(key, float(value))

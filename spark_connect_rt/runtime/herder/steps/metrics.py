"""Connect's metrics of this worker, gathered on request (Java ``ConnectMetrics`` and the groups it holds).

Owns those of the group and of connectors; those of tasks are runtime.worker.task_metrics'. The step ``note rebalances``
only takes times; it decides nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.tick import NOTHING, Verdict
from spark_connect_rt.runtime.metric_names import MetricValue, measured
from spark_connect_rt.runtime.worker.launches import plugin_of
from spark_connect_rt.runtime.worker.worker import Worker

REBALANCE, WORKER = "connect-worker-rebalance-metrics", "connect-worker-metrics"
_STATES = ("running", "paused", "failed", "unassigned", "restarting")


class HerderMetrics:
    """Any thread may ask; the tick notes."""

    def __init__(self, deps: HerderDependencies, state: GroupState, worker: Worker) -> None:
        self._deps = deps
        self._state = state
        self._worker = worker
        self._began_ms: int | None = deps.clock.monotonic_ms()  # of the rebalance in progress
        self._ended_ms: int | None = None
        self._completed = 0
        self._total_ms = 0
        self._longest_ms = 0

    def note(self, now_ms: int) -> Verdict:
        """Take the time of rebalances."""
        if not self._state.resolved:
            self._began_ms = now_ms if self._began_ms is None else self._began_ms
        elif self._began_ms is not None:
            took_ms, self._began_ms, self._ended_ms = now_ms - self._began_ms, None, now_ms
            self._completed += 1
            self._total_ms += took_ms
            self._longest_ms = max(self._longest_ms, took_ms)
        return NOTHING

    def gathered(self) -> list[MetricValue]:
        """Return every metric that has a value."""
        return [*self._of_group(), *self._of_connectors(), *self._worker.metrics()]

    def _of_group(self) -> Iterator[MetricValue]:
        view, held = self._state.view, self._state.held
        yield measured(REBALANCE, "epoch", view.generation)
        yield measured(REBALANCE, "completed-rebalances-total", self._completed)
        yield measured(REBALANCE, "rebalancing", self._began_ms is not None)
        if self._completed and self._ended_ms is not None:
            yield measured(REBALANCE, "rebalance-avg-time-ms", round(self._total_ms / self._completed, 1))
            yield measured(REBALANCE, "rebalance-max-time-ms", self._longest_ms)
            since_ms = self._deps.clock.monotonic_ms() - self._ended_ms
            yield measured(REBALANCE, "time-since-last-rebalance-ms", since_ms)
        if view.leader_url:
            yield measured(REBALANCE, "leader-name", 1, leader_name=view.leader_url)
        if view.protocol:
            yield measured(REBALANCE, "connect-protocol", 1, connect_protocol=view.protocol.name)
        yield measured("connect-coordinator-metrics", "assigned-connectors", len(held.connectors) if held else 0)
        yield measured("connect-coordinator-metrics", "assigned-tasks", len(held.tasks) if held else 0)

    def _of_connectors(self) -> Iterator[MetricValue]:
        snapshot = self._deps.config_store.snapshot()
        for name, state in self._worker.connector_states().items():
            statuses = self._deps.status_store.tasks(name)
            tasks = [task.task for task in snapshot.tasks(name)]
            states = Counter(statuses[n].state.value.lower() if n in statuses else "unassigned" for n in tasks)
            yield measured("connector-metrics", "status", 1, connector=name, status=state.lower())
            yield from self._of_plugin(name, snapshot.connector_config(name) or NO_SETTINGS)
            yield measured(WORKER, "connector-total-task-count", len(tasks), connector=name)
            for task_state in _STATES:
                yield measured(WORKER, f"connector-{task_state}-task-count", states[task_state], connector=name)

    def _of_plugin(self, name: str, config: StoredConfig) -> Iterator[MetricValue]:
        try:
            facts = self._deps.plugins.find(plugin_of(config, self._deps.resolve))
        except ConnectError:  # it is not here any more, or is a reference that nothing answers
            return
        status = self._deps.status_store.connector(name)
        version = status.version if status is not None and status.version else facts.version
        tags = {"connector_type": facts.type, "connector_class": facts.java_class, "connector_version": version or ""}
        for tag, value in tags.items():
            yield measured("connector-metrics", tag.replace("_", "-"), 1, connector=name, **{tag: value})

"""Events of config readers and connectors, applied by the tick: restarts, generated task configs, levels.

Configuration itself is not taken from events: every step reads the snapshot. Java ``DistributedHerder``'s
ConfigUpdateListener and ``processRestartRequests``.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.loggers import LEVELS
from spark_connect_rt.runtime.group_events import RecordEvent, config_event_key
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.health import RestartByPlan, RestartRequest, most_impactful
from spark_connect_rt.runtime.herder.steps.publishing import PublishTaskConfigs
from spark_connect_rt.runtime.herder.tick import Verdict
from spark_connect_rt.runtime.worker.events import (
    LifeChanged,
    ReconfigurationRequested,
    ReloadDue,
    TaskConfigsFailed,
    TaskConfigsGenerated,
    WorkerEvent,
)
from spark_connect_rt.runtime.worker.worker import Worker
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.config_state import (
    ClusterConfigState,
    ConfigEvent,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    LoggerLevelUpdated,
    RestartRequested,
    TargetStateChanged,
    TaskConfigsUpdated,
)

# Records of the config topic as events of the group's event log. Every worker reads them, so each event has the offset
# of its record. Values of settings are left out.


_REQUESTS = {TargetState.STARTED: "start", TargetState.PAUSED: "pause", TargetState.STOPPED: "stop"}


def record_config_event(record: RecordEvent, event: object, snapshot: ClusterConfigState) -> None:
    """Record an event of the config topic's reader, unless it means nothing to a user."""
    match event:
        case ConnectorConfigUpdated(name, at, created, changed):
            verb = "created" if created else "reconfigured"
            details = {"action": "create" if created else "update", "settings": list(changed)}
            record("config", f"connector {name} is {verb}", connector=name, details=details, key=config_event_key(at))
        case ConnectorConfigRemoved(name, at):
            record(
                "config",
                f"connector {name} is deleted",
                connector=name,
                details={"action": "delete"},
                key=config_event_key(at),
            )
        case TargetStateChanged(name, at):
            wanted = snapshot.target_state(name)
            details = {"target_state": "gone" if wanted is None else wanted.value}
            summary = f"connector {name}: {'deletion' if wanted is None else _REQUESTS[wanted]} requested"
            record("state", summary, connector=name, details=details, key=config_event_key(at))
        case RestartRequested(name, include_tasks, only_failed, at):
            what = "connector and tasks" if include_tasks else "connector"
            which = ", of these what FAILED" if only_failed else ""
            restart: dict[str, Any] = {"why": "request", "include_tasks": include_tasks, "only_failed": only_failed}
            summary = f"restart of {name} is requested: {what}{which}"
            record("restart", summary, connector=name, details=restart, key=config_event_key(at))
        case LoggerLevelUpdated(namespace, level, at):
            details = {"logger": namespace, "level": level, "scope": "cluster"}
            record(
                "logger", f"logger {namespace} is at {level} on every worker", details=details, key=config_event_key(at)
            )
        case _:
            return


SAID_MOST = 20  # in one line of the event log: a thousand connectors may start in one tick

log = logging.getLogger(__name__)


class EventInbox:
    """The step ``apply events``, and the inbox it empties."""

    def __init__(
        self,
        deps: HerderDependencies,
        state: GroupState,
        worker: Worker,
        publishing: PublishTaskConfigs,
        wakeup: Callable[[], None],
    ) -> None:
        self._deps = deps
        self._state = state
        self._worker = worker
        self._publishing = publishing
        self._restarts = RestartByPlan(deps, state, worker)
        self._wakeup = wakeup
        self._inbox: deque[WorkerEvent | ConfigEvent] = deque()

    def put(self, event: WorkerEvent | ConfigEvent) -> None:
        """Take an event from any thread."""
        self._inbox.append(event)
        self._wakeup()

    def apply(self, now_ms: int) -> Verdict:
        """Apply everything in the inbox, in order of arrival; restarts of one connector count once."""
        restarts: list[RestartRequest] = []
        reasons: list[str] = []
        while self._inbox:
            event = self._inbox.popleft()
            record_config_event(self._deps.record_event, event, self._deps.config_store.snapshot())
            if isinstance(event, RestartRequested):
                restarts.append(RestartRequest(event.name, event.include_tasks, event.only_failed))
            else:
                reasons.append(self._take(event, now_ms))
        for request in most_impactful(restarts).values():
            reasons.append(self._restarts.restart(request))
        said = list(dict.fromkeys(filter(None, reasons)))
        more = [f"{len(said) - SAID_MOST} more"] if len(said) > SAID_MOST else []
        return Verdict("; ".join([*said[:SAID_MOST], *more]))

    def _take(self, event: WorkerEvent | ConfigEvent, now_ms: int) -> str:
        reason = ""
        match event:
            case LoggerLevelUpdated(namespace, level):
                reason = self._set_logger_level(namespace, level)
            case ReconfigurationRequested(connector):
                self._worker.generate_task_configs(connector)
            case TaskConfigsGenerated() as generated:
                self._publishing.take(generated, now_ms)
            case TaskConfigsFailed(connector, error):
                reason = self._publishing.generate_again(connector, error, now_ms)
            case LifeChanged(what):
                reason = what
            case ReloadDue(item, key):
                reason = self._reload(item, key)
            case TaskConfigsUpdated(name, ()):
                reason = self._left_without_tasks(name)
            case _:
                pass  # the group's event log has it
        return reason

    def _reload(self, item: str | ConnectorTaskId, key: object) -> str:
        runs = self._worker.connectors().get(item) if isinstance(item, str) else self._worker.tasks().get(item)
        if runs is None or runs.key != key:
            return ""  # made again meanwhile
        self._state.restarts = self._state.restarts.plus(item)
        return f"{item} restarts: a value of a config provider expired"

    def _left_without_tasks(self, name: str) -> str:
        """Ask a connector that should run: a stop whose second record did not arrive took its tasks away."""
        if self._deps.config_store.snapshot().target_state(name) is TargetState.STARTED:
            self._worker.generate_task_configs(name)
        return "the configuration changed"

    def _set_logger_level(self, namespace: str, level: str) -> str:
        if self._deps.loggers is None or level.upper() not in LEVELS:
            return f"level {level} of logger {namespace} is unknown"
        self._deps.loggers.set_level(namespace, level.upper(), self._deps.clock.now_ms())
        return f"logger {namespace} is at {level.upper()} now"

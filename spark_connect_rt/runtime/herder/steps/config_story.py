"""What the config topic says, for the group's own story: every worker reads it, so each event has the record's offset.

Owns the words. Values of settings are not in them.
"""

from __future__ import annotations

from typing import Any

from spark_connect_rt.runtime.group_events import RecordEvent, config_event_key
from spark_connect_rt.topics.config_fold import (
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    LoggerLevelUpdated,
    RestartRequested,
    TargetStateChanged,
)
from spark_connect_rt.topics.config_state import ClusterConfigState
from spark_connect_rt.topics.target_state import TargetState

_REQUESTS = {TargetState.STARTED: "start", TargetState.PAUSED: "pause", TargetState.STOPPED: "stop"}


def record_config_event(record: RecordEvent, event: object, snapshot: ClusterConfigState) -> None:
    """Record one event of the config topic's reader; what says nothing to a user is left out."""
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

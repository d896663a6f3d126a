"""The effect of each request on the tick thread (Java ``DistributedHerder``'s request bodies).

Every method checks that this worker must serve the request (``group.peers``), writes the config topic on another
thread, and answers from the record that was read back. The order of effects is Java's, because clients see it in the
topics when a request is interrupted. ``create_connector`` creates connectors, ``offset_requests`` changes offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar, assert_never

from spark_connect_rt.base.concurrency import answered
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import BadRequestError, ConfigConflictError, NotFoundError
from spark_connect_rt.group.load import Swap
from spark_connect_rt.group.peers import require_leader, require_owner
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.health import RestartRequest, plan_restart
from spark_connect_rt.runtime.herder.herder_requests import (
    DeleteConnector,
    FenceZombies,
    ModifyOffsets,
    NoteRestore,
    PutConfig,
    PutTaskConfigs,
    RestartConnector,
    RestartTask,
    SetGroupLoggerLevel,
    SetTargetState,
    SwapTasks,
    TickRequest,
)
from spark_connect_rt.runtime.herder.request_queue import ConfigTopicCalls
from spark_connect_rt.runtime.herder.requests.create_connector import CreateConnectors
from spark_connect_rt.runtime.herder.requests.offset_requests import OffsetRequests
from spark_connect_rt.runtime.herder.requests.zombie_fencing import ZombieFencing
from spark_connect_rt.runtime.herder.steps.publishing import PublishTaskConfigs
from spark_connect_rt.runtime.herder.steps.reconciling import Reconciling
from spark_connect_rt.runtime.herder.views import ConnectorViews
from spark_connect_rt.runtime.values import ConfigWritten, ConnectorStateInfo
from spark_connect_rt.topics.config_records import PendingChange, TargetState
from spark_connect_rt.topics.status_records import State

T = TypeVar("T")


class ConnectorRequests:
    """Requests about connectors and tasks. All methods are called on the tick thread."""

    def __init__(
        self,
        deps: HerderDependencies,
        state: GroupState,
        views: ConnectorViews,
        publishing: PublishTaskConfigs,
        reconciling: Reconciling,
        topic: ConfigTopicCalls,
        fencing: ZombieFencing,
        offsets: OffsetRequests,
        creates: CreateConnectors,
        begun: Callable[..., PendingChange],
    ) -> None:
        self._deps = deps
        self._store = deps.config_store
        self._state = state
        self._views = views
        self._publishing = publishing
        self._reconciling = reconciling
        self._topic = topic
        self._fencing = fencing
        self._offsets = offsets
        self._creates = creates
        self._begun = begun

    def serve(self, request: TickRequest) -> Any:  # noqa: C901 - a table: one line for each request
        """Return the answer or a Future of it. Raises the error that the client gets."""
        match request:
            case PutConfig(name, config, expected):
                return self._put_config(name, config, expected)
            case DeleteConnector(name):
                return self._delete(name)
            case SetTargetState(name, TargetState.STOPPED):
                return self._stop_connector(name)
            case SetTargetState(name, target):
                return self._set_target_state(name, target)
            case NoteRestore(name, target):
                return self._note_restore(name, target)
            case RestartConnector(name, False, False):
                return self._restart_connector(name)
            case RestartConnector(name, include_tasks, only_failed):
                return self._restart_by_plan(RestartRequest(name, include_tasks, only_failed))
            case RestartTask(task):
                return self._restart_task(task)
            case ModifyOffsets(name, offsets):
                return self._offsets.modify(name, offsets)
            case PutTaskConfigs(name, configs):
                return self._put_task_configs(name, configs)
            case SwapTasks(swaps):
                return self._swap_tasks(swaps)
            case FenceZombies(name):
                return self._fence(name)
            case SetGroupLoggerLevel(namespace, level):
                return self._set_logger_level(namespace, level)
            case _:
                assert_never(request)

    def _swap_tasks(self, swaps: tuple[Swap, ...]) -> None:
        """Rejoin for a round that revokes the tasks. The next round assigns them to their new workers."""
        self._require_leader("swap tasks")
        if not self._state.resolved:
            return  # a rebalance is in progress, so the load that led to the swap has changed
        self._state.swaps = swaps
        self._state.rejoin_because = f"{len(swaps)} tasks change places with others by load"

    def _put_config(self, name: str, config: Mapping[str, str], expected: int | None) -> Future[ConfigWritten]:
        """Create a connector or replace its configuration."""
        self._require_leader(f"configure connector {name}")
        self.require_version(name, expected)
        created = not self._store.snapshot().contains(name)
        self._creates.refuse_under_way(name)
        return self._unchanged(name, config) or self._write_config(name, config, None, created)

    def config_to_patch(self, name: str, expected: int | None = None) -> Mapping[str, str]:
        """Return the raw configuration that a patch applies to. Raises NotLeaderError, NotFoundError."""
        self._require_leader(f"patch connector {name}")
        self._require_known(name, f"Connector {name} not found")
        self.require_version(name, expected)
        return self._views.connector_config(name).written()

    def require_version(self, name: str, expected: int | None) -> None:
        """Raise ConfigConflictError unless the configuration is still of the version ``expected``, if it is given."""
        if expected is not None and self._store.snapshot().configured_at.get(name) != expected:
            raise ConfigConflictError(f"The configuration of connector {name} was changed in the meantime")

    def replace_config(
        self, name: str, before: Mapping[str, str], config: Mapping[str, str]
    ) -> Future[ConfigWritten] | None:
        """Replace the configuration if it still is ``before``. None: it changed, so patch the new one."""
        if self.config_to_patch(name) != before:
            return None
        return self._unchanged(name, config) or self._write_config(name, config, None, created=False)

    def _unchanged(self, name: str, config: Mapping[str, str]) -> Future[ConfigWritten] | None:
        """Return the answer to a configuration that is stored already, or None if it must be written.

        Only the leader writes configurations, so its snapshot is up to date. Java writes the same record once more,
        which puts it behind the task set (``ClusterConfigState.overtaken``) and restarts the Connector instance: one
        that FAILED is restarted here, too.
        """
        snapshot, status = self._store.snapshot(), self._deps.status_store.connector(name)
        has_failed = status is not None and status.state is State.FAILED
        if snapshot.connector_config(name) != config or name in snapshot.pending or has_failed:
            return None
        # In the order that was sent, as if it had been written and read back.
        return answered(lambda: ConfigWritten(False, replace(self._views.connector_info(name), config=dict(config))))

    def _delete(self, name: str) -> Future[None]:
        """Delete a connector by a tombstone. Its tasks stop in the rebalance that follows."""
        self._require_leader(f"delete connector {name}")
        self._require_known(name, f"Connector {name} not found")
        stage = f"removing the config for connector {name} from the config topic"
        return self._topic.write(stage, lambda: self._store.remove_connector_config(name), _nothing)

    def _set_target_state(self, name: str, target: TargetState) -> Future[None]:
        """Pause or resume a connector. Any worker may."""
        self._require_known(name, f"Unknown connector {name}")
        stage = f"writing the {target.value} target state for connector {name} to the config topic"
        return self._topic.write(stage, lambda: self._store.put_target_state(name, target), _nothing)

    def _note_restore(self, name: str, target: TargetState) -> Future[None]:
        """Record the target state that a connector gets back after a change of its offsets. Any worker may."""
        self._require_known(name, f"Unknown connector {name}")
        stage = f"writing to the config topic that connector {name} is stopped for a change of its offsets"
        return self._topic.write(stage, lambda: self._store.put_pending(name, self._begun(target=target)), _nothing)

    def _set_logger_level(self, namespace: str, level: str) -> Future[None]:
        """Write a logger level for every worker of the group. Any worker may."""
        stage = f"writing level {level} of logger {namespace} to the config topic"
        return self._topic.write(stage, lambda: self._store.put_logger_level(namespace, level), _nothing)

    def _stop_connector(self, name: str) -> Future[None]:
        """Write an empty task set and the target state STOPPED."""
        self._require_leader(f"stop connector {name}")
        self._require_known(name, f"Unknown connector {name}")
        if self._is_stopped(name):  # as read here; any worker may have resumed it since
            return self._topic.read(lambda: None if self._is_stopped(name) else self._stop_connector(name))
        stage = f"writing the STOPPED target stage for connector {name} to the config topic"
        return self._topic.write(stage, lambda: self._store.put_stopped(name), _nothing)

    def _is_stopped(self, name: str) -> bool:
        snapshot = self._store.snapshot()
        is_over = snapshot.target_state(name) is TargetState.STOPPED and not snapshot.tasks(name)
        return is_over and name not in snapshot.pending

    def _restart_connector(self, name: str) -> Future[None]:
        """Restart the Connector instance alone. The answer comes once the new one runs."""
        self._require_known(name, f"Unknown connector: {name}")
        held = self._state.held
        owned = held is not None and name in held.connectors
        owner_url = self._state.owner_urls.get(name)
        require_owner(self._state.standing, owned, owner_url, f"restart connector {name}")
        return self._restart_item(name)

    def _restart_task(self, task: ConnectorTaskId) -> Future[None]:
        """Restart a task. The answer comes once the engine has the new run."""
        snapshot = self._store.snapshot()
        self._require_known(task.connector, f"Unknown connector: {task.connector}")
        if task not in snapshot.tasks(task.connector):
            raise NotFoundError(f"Unknown task: {task}")
        held = self._state.held
        owned = held is not None and task in held.tasks
        require_owner(self._state.standing, owned, self._state.owner_urls.get(task), f"restart task {task}")
        return self._restart_item(task)

    def _restart_by_plan(self, request: RestartRequest) -> Future[ConnectorStateInfo]:
        """Plan, write the request for every worker to act on, answer the plan (KIP-745)."""
        name = request.connector
        self._require_leader(f"restart connector {name}")
        self._require_known(name, f"Unknown connector: {name}")
        status_store = self._deps.status_store
        plan = plan_restart(request, status_store.connector(name), status_store.tasks(name))
        if plan is None:
            raise NotFoundError(f"Status for connector {name} not found")
        planned = self._views.planned_status(plan)
        return self._topic.write(
            f"writing restart request for connector {name} to the config topic",
            lambda: self._store.put_restart_request(name, request.include_tasks, request.only_failed),
            lambda: planned,
        )

    def _put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> Future[None] | None:
        """Write the task set that a follower generated, unless the same set is stored already."""
        self._require_leader(f"write task configs of {name}")
        self._require_known(name, f"Connector {name} not found")
        snapshot = self._store.snapshot()
        if snapshot.target_state(name) is TargetState.STOPPED and configs:
            raise BadRequestError(f"Cannot submit non-empty set of task configs for stopped connector {name}")
        if not self._publishing.changed(name, configs, snapshot):
            return None
        stage = f"writing {len(configs)} task configs for connector {name} to the config topic"
        return self._topic.write(stage, lambda: self._store.put_task_configs({name: configs}), _nothing)

    def _fence(self, name: str) -> Future[None]:
        """Fence older producers of a source connector's tasks, if there may be any (KIP-618)."""
        require_leader(self._state.standing, f"fence connector {name}")
        self._require_known(name, f"Connector {name} not found")
        if self._views.connector_type(name) != "source":
            raise BadRequestError(f"Connector {name} is not a source connector")
        return self._fencing.fence(name)

    def _restart_item(self, item: str | ConnectorTaskId) -> Future[None]:
        name, task = (item, None) if isinstance(item, str) else (item.connector, item.task)
        what = f"connector {item}" if task is None else f"task {item}"
        details = {"why": "request"}
        self._deps.record_event("restart", f"{what} restarts: requested", connector=name, task=task, details=details)
        self._state.restarts = self._state.restarts.plus(item)
        answer: Future[None] = Future()
        self._reconciling.when_restarted(item, answer)
        return answer

    def _write_config(
        self, name: str, config: Mapping[str, str], target: TargetState | None, created: bool
    ) -> Future[ConfigWritten]:
        return self._topic.write(
            f"writing a config for connector {name} to the config topic",
            lambda: self._store.put_connector_config(name, config, target),
            lambda: ConfigWritten(created, self._views.connector_info(name)),
        )

    def _require_leader(self, what: str) -> None:
        require_leader(self._state.standing, what)

    def _require_known(self, name: str, message: str) -> None:
        if not self._store.snapshot().contains(name):
            raise NotFoundError(message)


def _nothing() -> None:
    return None

"""The herder of a standalone worker (Java ``StandaloneHerder``): the same one, over a group of one and local stores.

What differs to the outside: nothing is forwarded, the two requests between workers are refused, a created connector is
answered with its tasks, and restarts are answered when they are done.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from spark_connect_rt.errors import ConnectError, NotFoundError, TimedOutError
from spark_connect_rt.planning.restart_plan import RestartRequest, plan_restart
from spark_connect_rt.ports.herder import ConfigWritten, ConnectorStateInfo, InternalKey
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.runtime.herder.requests import copy_outcome
from spark_connect_rt.state.connector_status import ConnectorStatus, State
from spark_connect_rt.state.target_state import TargetState

T = TypeVar("T")

NO_TASK_CONFIGS = "Kafka Connect in standalone mode does not support externally setting task configurations."
NO_FENCING = "Kafka Connect in standalone mode does not support exactly-once source connectors."
LOOK_EVERY_S = 0.01


class StandaloneHerder(DistributedHerder):
    """Implements ports.herder.HerderApi."""

    @property
    def request_limit_s(self) -> float:
        """Return how long a request may take."""
        return self._deps.settings.request_limit_ms / 1000

    def internal_key(self) -> InternalKey:
        """See HerderApi: nobody signs anything here."""
        return InternalKey(required=False, key=None)

    def create(self, name: str, config: Mapping[str, str], initial_state: TargetState | None) -> Future[ConfigWritten]:
        """See HerderApi; answered when the connector has split its work, or failed."""
        return self._when_settled(super().create(name, config, initial_state))

    def put_config(self, name: str, config: Mapping[str, str]) -> Future[ConfigWritten]:
        """See HerderApi; answered when the connector has split its work, or failed."""
        return self._when_settled(super().put_config(name, config))

    def restart(self, name: str, include_tasks: bool, only_failed: bool) -> Future[ConnectorStateInfo | None]:
        """See HerderApi; answered when everything of the plan runs again."""
        if not (include_tasks or only_failed):
            return self._answer_beside(lambda: self._restart_connector(name))
        return self._answer_beside(lambda: self._restart_by_plan(RestartRequest(name, include_tasks, only_failed)))

    def restart_task(self, task: ConnectorTaskId) -> Future[None]:
        """See HerderApi."""
        snapshot = self._deps.config_store.snapshot()
        if snapshot.contains(task.connector) and task not in snapshot.tasks(task.connector):
            refused: Future[None] = Future()
            refused.set_exception(NotFoundError(f"Task {task} not found"))
            return refused
        return super().restart_task(task)

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> Future[None]:
        """Refuse, in Java's words."""
        return _refused(NO_TASK_CONFIGS)

    def fence(self, name: str) -> Future[None]:
        """Refuse, in Java's words."""
        return _refused(NO_FENCING)

    def _restart_by_plan(self, request: RestartRequest) -> ConnectorStateInfo:
        name = request.connector
        if not self._deps.config_store.snapshot().contains(name):
            raise NotFoundError(f"Unknown connector: {name}")
        store = self._deps.status_store
        plan = plan_restart(request, store.connector(name), store.tasks(name))
        if plan is None:
            raise NotFoundError(f"Status for connector {name} not found")
        planned = self._views.planned_status(plan)
        if plan.restart_connector:
            self._restart_connector(name)
        tasks = [super(StandaloneHerder, self).restart_task(ConnectorTaskId(name, number)) for number in plan.tasks]
        for answer in tasks:
            answer.result(self.request_limit_s)
        return planned

    def _restart_connector(self, name: str) -> None:
        """Restart the Connector instance and wait until the new one stands. Raises ConnectError."""
        super().restart(name, include_tasks=False, only_failed=False).result(self.request_limit_s)
        self._await(lambda: self._stands(name), f"connector {name} did not restart")

    def _stands(self, name: str) -> bool:
        """Return whether the Connector instance came to a state, and everybody can read it."""
        state, status = self._loop.worker.connector_state(name), self._deps.status_store.connector(name)
        return state is not State.UNASSIGNED and (status is None or status.state is state)

    def _when_settled(self, written: Future[ConfigWritten]) -> Future[ConfigWritten]:
        answer: Future[ConfigWritten] = Future()

        def then(done: Future[ConfigWritten]) -> None:
            if done.exception() is not None:
                copy_outcome(done, answer)
                return
            settled = self._answer_beside(lambda: self._await_tasks(done.result()))
            settled.add_done_callback(lambda outcome: copy_outcome(outcome, answer))

        written.add_done_callback(then)
        return answer

    def _await_tasks(self, written: ConfigWritten) -> ConfigWritten:
        """Wait until the tasks are made from this very configuration. Raises ConnectError: the connector failed."""
        name = written.info.name
        self._await(lambda: self._is_settled(name), f"connector {name} did not split its work")
        return ConfigWritten(written.created, self._views.connector_info(name))

    def _await(self, condition: Callable[[], bool], otherwise: str) -> None:
        waiting, began_ms = threading.Event(), self._deps.clock.monotonic_ms()
        while not (condition() or self.stopped.is_set()):
            if self._deps.clock.monotonic_ms() - began_ms > self._deps.settings.request_limit_ms:
                raise TimedOutError(f"{otherwise} in time")
            waiting.wait(LOOK_EVERY_S)

    def _is_settled(self, name: str) -> bool:
        snapshot, status = self._deps.config_store.snapshot(), self._deps.status_store.connector(name)
        if status is not None and status.state is State.FAILED:
            raise ConnectError(_why(status))
        if snapshot.target_state(name) is not TargetState.STARTED:
            return status is not None or not snapshot.contains(name)
        return name not in snapshot.inconsistent and snapshot.applied_config(name) == snapshot.connector_config(name)


def _why(status: ConnectorStatus) -> str:
    """Return the message of the error that a trace ends with."""
    lines = (status.trace or "").strip().splitlines() or ["the connector failed"]
    _, colon, message = lines[-1].partition(": ")
    return message if colon else lines[-1]


def _refused(message: str) -> Future[None]:
    refused: Future[None] = Future()
    refused.set_exception(ConnectError(message))
    return refused

"""The herder of a standalone worker (Java ``StandaloneHerder``): the same one, over a group of one and local stores.

What differs to the outside: nothing is forwarded, the two requests between workers are refused, a created connector is
answered with its tasks, and restarts are answered when they are done.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from spark_connect_rt.base.concurrency import copy_outcome
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.errors import ConnectError, NotFoundError, TimedOutError
from spark_connect_rt.group.member import Assigned, AssignmentRequired, JoinRequired, MembershipEvent
from spark_connect_rt.runtime.herder.health import RestartRequest, plan_restart
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.runtime.herder.herder_requests import (
    CreateConnector,
    FenceZombies,
    HerderRequest,
    PutConfig,
    PutTaskConfigs,
    RestartConnector,
    RestartTask,
)
from spark_connect_rt.runtime.values import ConfigWritten, ConnectorStateInfo
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.status_records import ConnectorStatus, State

NO_TASK_CONFIGS = "Kafka Connect in standalone mode does not support externally setting task configurations."
NO_FENCING = "Kafka Connect in standalone mode does not support exactly-once source connectors."
LOOK_EVERY_S = 0.01


class StandaloneHerder(DistributedHerder):
    """Implements runtime.herder.herder_api.HerderApi.

    A created connector is answered when it has split its work or failed, a restart when everything of it runs again;
    requests between workers are refused in Java's words.
    """

    @property
    def request_limit_s(self) -> float:
        """Return how long a request may take."""
        return self._deps.settings.request_limit_ms / 1000

    def _serve(self, request: HerderRequest) -> Future[Any]:
        match request:
            case CreateConnector() | PutConfig():
                return self._when_settled(super()._serve(request))
            case RestartConnector(name, False, False):
                return self._beside(lambda: self._restart_connector(name))
            case RestartConnector(name, include_tasks, only_failed):
                plan = RestartRequest(name, include_tasks, only_failed)
                return self._beside(lambda: self._restart_by_plan(plan))
            case RestartTask(task) if self._is_beyond(task):
                return _refused(NotFoundError(f"Task {task} not found"))
            case PutTaskConfigs():
                return _refused(ConnectError(NO_TASK_CONFIGS))
            case FenceZombies():
                return _refused(ConnectError(NO_FENCING))
            case _:
                return super()._serve(request)

    def _is_beyond(self, task: ConnectorTaskId) -> bool:
        """Return whether the connector is there and has no such task."""
        snapshot = self._deps.config_store.snapshot()
        return snapshot.contains(task.connector) and task not in snapshot.tasks(task.connector)

    def _restart_by_plan(self, request: RestartRequest) -> ConnectorStateInfo:
        name = request.connector
        if not self._deps.config_store.snapshot().contains(name):
            raise NotFoundError(f"Unknown connector: {name}")
        store = self._deps.status_store
        plan = plan_restart(request, store.connector(name), store.tasks(name))
        if plan is None:
            raise NotFoundError(f"Status for connector {name} not found")
        planned = self.views.planned_status(plan)
        if plan.restart_connector:
            self._restart_connector(name)
        tasks = [self.submit(RestartTask(ConnectorTaskId(name, number))) for number in plan.tasks]
        for answer in tasks:
            answer.result(self.request_limit_s)
        return planned

    def _restart_connector(self, name: str) -> None:
        """Restart the Connector instance and wait until the new one stands. Raises ConnectError."""
        super()._serve(RestartConnector(name)).result(self.request_limit_s)
        self._await(lambda: self._stands(name), f"connector {name} did not restart")

    def _stands(self, name: str) -> bool:
        """Return whether the Connector instance came to a state, and every reader can see it."""
        state, status = self._loop.worker.connector_state(name), self._deps.status_store.connector(name)
        return state is not State.UNASSIGNED and (status is None or status.state is state)

    def _when_settled(self, written: Future[ConfigWritten]) -> Future[ConfigWritten]:
        answer: Future[ConfigWritten] = Future()

        def then(done: Future[ConfigWritten]) -> None:
            if done.exception() is not None:
                copy_outcome(done, answer)
                return
            settled = self._beside(lambda: self._await_tasks(done.result()))
            settled.add_done_callback(lambda outcome: copy_outcome(outcome, answer))

        written.add_done_callback(then)
        return answer

    def _await_tasks(self, written: ConfigWritten) -> ConfigWritten:
        """Wait until the tasks are made from this very configuration. Raises ConnectError: the connector failed."""
        name = written.info.name
        self._await(lambda: self._is_settled(name), f"connector {name} did not return its task configurations")
        info = replace(self.views.connector_info(name), offsets_status=written.info.offsets_status)
        return ConfigWritten(written.created, info)

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


def _refused(error: ConnectError) -> Future[Any]:
    refused: Future[Any] = Future()
    refused.set_exception(error)
    return refused


# A group of one, for a standalone worker: it leads, and every rebalance is done at once. No network.


MEMBER_ID = "standalone"


class SoloMember:
    """Implements group.member.GroupMember for a group of one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: deque[MembershipEvent] = deque()
        self._woken = False
        self._generation = 0
        self._protocol = ""
        self._stable = False

    def start(self) -> None:
        """Request the only join of this worker; JoinRequired follows at once."""
        self.request_rejoin("started")

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        """Return the queued events, waiting at most ``timeout_ms`` for one. Empty after a wakeup or timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._woken, timeout_ms / 1000)
            self._woken = False
            events = list(self._events)
            self._events.clear()
        return events

    def wakeup(self) -> None:
        """Make a waiting or the next ``poll`` return at once. Any thread."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def request_rejoin(self, reason: str) -> None:
        """Begin another round; the next ``poll`` returns JoinRequired."""
        self._stable = False
        self._emit(JoinRequired(reason))

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Begin the next generation as its leader, under the first protocol; AssignmentRequired follows."""
        self._protocol, metadata = protocols[0]
        self._generation += 1
        self._emit(AssignmentRequired(self._generation, self._protocol, MEMBER_ID, {MEMBER_ID: metadata}))

    def sync(self, assignments: Mapping[str, bytes]) -> None:
        """Take this member's own assignment and become stable; Assigned follows."""
        self._stable = True
        self._emit(Assigned(self._generation, self._protocol, MEMBER_ID, MEMBER_ID, assignments[MEMBER_ID]))

    def member_id(self) -> str:
        """Return ``MEMBER_ID``, empty unless the membership is stable."""
        return MEMBER_ID if self._stable else ""

    def trouble(self) -> str:
        """Return an empty text: a group of one can always be joined."""
        return ""

    def in_contact(self) -> bool:
        """See the port: no other worker can take work from it."""
        return True

    def holds_lease(self) -> bool:
        """Return True: no other worker could get the work."""
        return True

    def fenced(self) -> None:
        """Do nothing: contact cannot be lost, so no lease has to be restored."""

    def leave(self, reason: str) -> None:
        """Mark the membership as not stable, so that ``member_id`` is empty."""
        self._stable = False

    def stop(self) -> None:
        """Leave; there are no connections or threads to close."""
        self._stable = False

    def _emit(self, event: MembershipEvent) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

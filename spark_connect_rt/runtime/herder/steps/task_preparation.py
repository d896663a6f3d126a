"""Preparation of a source task's start: its connector's zombies are fenced, its own offset topic is opened.

Java: ``DistributedHerder.fenceZombieSourceTasks`` and ``verifyTaskGenerationAndOwnership``, which every exactly-once
task calls. ``prepare`` and ``check`` block, and run on threads of the tasks.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from urllib.parse import quote

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import ConnectError, FencedError, NotLeaderError, RetriableError, TimedOutError
from spark_connect_rt.group.peers import sign
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.worker.source_offset_stores import SourceOffsetStores

log = logging.getLogger(__name__)

LIMIT_MS = 90_000  # of one task's preparation
PAUSE_S = 0.25  # a leader that cannot yet, a rebalance


class TaskPreparation:
    """Prepares tasks of this worker, and checks them again once their producers are theirs alone."""

    def __init__(
        self, deps: HerderDependencies, state: GroupState, own: SourceOffsetStores, fence: Callable[[str], Future[None]]
    ) -> None:
        """Take what it asks; ``fence`` queues a round on this worker, should it lead."""
        self._deps = deps
        self._state = state
        self._own = own
        self._fence = fence
        self._lock = threading.Lock()
        self._generations: dict[ConnectorTaskId, int | None] = {}  # of task configurations, when a task was started

    def needed(self, launch: TaskLaunch) -> bool:
        """Return whether ``prepare`` has anything to do; notes from which configurations the task is started."""
        if launch.kind is not TaskKind.SOURCE:
            return False
        connector = launch.task.connector
        if launch.offsets_topic:
            snapshot = self._state.adopted
            with self._lock:
                self._generations[launch.task] = snapshot.task_config_generation(connector)
        return bool(launch.offsets_topic) or self._own.wanted(launch.connector_config)

    def prepare(self, launch: TaskLaunch) -> None:
        """Return when the task may be hosted. Raises ConnectError."""
        if self._own.wanted(launch.connector_config):
            self._own.open(launch.task.connector, launch.connector_config)
        if launch.offsets_topic:
            self._round(launch.task.connector)

    def check(self, task: ConnectorTaskId) -> None:
        """Make sure that an exactly-once task is still to run from these configurations; other tasks: nothing.

        Its producer has fenced all others by now; if it is not the newest run, the newest one has it next.
        Raises RetriableError (config topic), FencedError in Java's words.
        """
        with self._lock:
            if task not in self._generations:
                return
            started_from = self._generations[task]
        snapshot = self._deps.config_store.refresh(self._deps.settings.worker_sync_timeout_ms)
        if snapshot.task_config_generation(task.connector) != started_from:
            raise FencedError(
                f"Cannot start source task {task} with exactly-once support as the connector has already generated a "
                "new set of task configs"
            )
        held = self._state.held
        if held is None or task not in held.tasks:
            raise FencedError(f"Cannot start source task {task} as it has already been revoked from this worker")

    def _round(self, connector: str) -> None:
        """Have the leader fence, and wait for it; passing faults are waited out. Raises ConnectError."""
        clock = self._deps.clock
        end_ms = clock.monotonic_ms() + LIMIT_MS
        while True:
            try:
                self._ask(connector, max(1, end_ms - clock.monotonic_ms()))
                return
            except (RetriableError, NotLeaderError) as error:
                if clock.monotonic_ms() >= end_ms:
                    raise ConnectError(
                        f"Failed to perform zombie fencing for connector {connector}: {error}"
                    ) from error
                log.info("connector=%s requesting zombie fencing again: %s", connector, error)
            self._deps.threads.event().wait(PAUSE_S)

    def _ask(self, connector: str, limit_ms: int) -> None:
        standing = self._state.standing
        if standing.is_leader:
            try:
                self._fence(connector).result(limit_ms / 1000)
            except TimeoutError as error:
                raise TimedOutError(f"no end of the fencing round of {connector}") from error
            return
        if not standing.leader_url:
            raise RetriableError("the group has no leader")
        url = f"{standing.leader_url.rstrip('/')}/connectors/{quote(connector, safe='')}/fence"
        answer = self._deps.peers.request("PUT", url, b"", self._signature(), limit_ms)
        if answer.status in (403, 409, 503):  # another session key, a rebalance, a leader that has read no key yet
            raise RetriableError(f"the leader {standing.leader_url} answered {answer.status}: {answer.body[:300]!r}")
        if answer.status >= 300:
            raise ConnectError(
                f"Failed to perform zombie fencing for connector {connector}: the leader {standing.leader_url} "
                f"answered {answer.status}: {answer.body[:300]!r}"
            )

    def _signature(self) -> dict[str, str]:
        if self._state.protocol.version < 2:
            return {}
        key = self._deps.config_store.snapshot().session_key
        if key is None:
            raise RetriableError("no session key has been read yet")
        return sign(key.key, self._deps.settings.signature_algorithm, b"")

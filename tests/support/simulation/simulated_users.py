"""The users of a simulated cluster: they write configurations by REST's rules and remember the answers.

Owns the promises: a write that answered success must be visible on every worker (S5). A write that failed, or was not
answered, may or may not have happened, until a later one to the same connector succeeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from spark_connect_rt.errors import ConnectError, NotLeaderError, RetriableError
from spark_connect_rt.runtime.herder.herder_requests import (
    DeleteConnector,
    PutConfig,
    Request,
    RestartConnector,
    SetTargetState,
)
from spark_connect_rt.topics.config_records import TargetState
from tests.support.simulation.simulated_cluster import SimulatedCluster, SimulatedWorker, memory_source

WATCH_MS = 2_000
Wanted = tuple[int, str] | None
"""tasks.max and target state; None: there is no such connector."""


@dataclass(slots=True)
class _Promise:
    """The possible states of one connector."""

    possible: set[Wanted] = field(default_factory=lambda: {None})
    busy: bool = False


class Users:
    """Writes to a few connectors, one write at a time each."""

    def __init__(self, cluster: SimulatedCluster, names: tuple[str, ...] = ("a", "b", "c")) -> None:
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        self._promises = {name: _Promise() for name in names}
        self.answers: Counter[str] = Counter()

    def act(self) -> None:
        """Do something to some connector, unless its last write is still unanswered."""
        names = [name for name, promise in self._promises.items() if not promise.busy]
        workers = [w for w in self._cluster.in_service() if w.herder.started.done() and not w.process.frozen]
        if not names or not workers:
            return
        name = names[self._scheduler.between(0, len(names) - 1)]
        worker = workers[self._scheduler.between(0, len(workers) - 1)]
        if all(wanted is None for wanted in self._promises[name].possible):
            self._configure(name, worker)
            return
        kind = self._scheduler.between(0, 9)
        if kind <= 4:
            self._configure(name, worker)
        elif kind == 5:
            self._write(name, worker, "delete", DeleteConnector(name), lambda _: None)
        elif kind == 6:
            self._target(name, worker, "pause", TargetState.PAUSED)
        elif kind == 7:
            self._target(name, worker, "resume", TargetState.STARTED)
        elif kind == 8:
            self._target(name, worker, "stop", TargetState.STOPPED)
        else:
            self._write(name, worker, "restart", RestartConnector(name, include_tasks=True), lambda was: was)

    def broken_promises(self) -> list[str]:
        """Return every write that answered success and is not visible on some worker in service (S5)."""
        broken = []
        for worker in self._cluster.in_service():
            snapshot = worker.config_store.snapshot()
            for name, promise in self._promises.items():
                config, target = snapshot.connector_config(name), snapshot.target_state(name)
                seen = (
                    None
                    if config is None
                    else (int(config.written()["tasks.max"]), target.value if target else "STARTED")
                )
                if not promise.busy and seen not in promise.possible:
                    broken.append(f"{worker.name} sees {name} as {seen}, promised {promise.possible}")
        return broken

    def _configure(self, name: str, worker: SimulatedWorker) -> None:
        tasks = self._scheduler.between(1, 4)
        config = memory_source(tasks, records=str(self._scheduler.between(0, 9)))

        def after(was: Wanted) -> Wanted:
            return (tasks, was[1] if was else "STARTED")

        self._write(name, worker, "configure", PutConfig(name, config), after)

    def _target(self, name: str, worker: SimulatedWorker, what: str, target: TargetState) -> None:
        request = SetTargetState(name, target)
        self._write(name, worker, what, request, lambda was: None if was is None else (was[0], target.value))

    def _write(
        self,
        name: str,
        worker: SimulatedWorker,
        what: str,
        request: Request[Any],
        after: Callable[[Wanted], Wanted],
        hops: int = 2,
    ) -> None:
        promise = self._promises[name]
        if not promise.busy:
            promise.busy = True
            promise.possible = promise.possible | {after(was) for was in promise.possible}
        before_and_after = promise.possible

        def answered(answer: Future[Any]) -> None:
            error = RetriableError("its worker died") if answer.cancelled() else answer.exception()
            if isinstance(error, NotLeaderError) and hops and error.leader_url:
                leader = self._cluster.workers.get(error.leader_url.split("//")[1].partition(":")[0])
                if leader is not None and leader.process.alive and not leader.process.frozen:
                    self._write(name, leader, what, request, after, hops - 1)
                    return
            self._conclude(name, what, before_and_after, after, error)

        answer = worker.herder.submit(request)
        answer.add_done_callback(answered)
        self._watch(worker, answer)

    def _watch(self, worker: SimulatedWorker, answer: Future[Any]) -> None:
        """Give up an answer whose worker is dead."""
        if answer.done():
            return
        if not worker.process.alive:
            answer.cancel()
            return
        self._scheduler.later(WATCH_MS, lambda: self._watch(worker, answer))

    def _conclude(
        self,
        name: str,
        what: str,
        possible: set[Wanted],
        after: Callable[[Wanted], Wanted],
        error: BaseException | None,
    ) -> None:
        promise = self._promises[name]
        promise.busy = False
        if error is None:
            self.answers[f"{what}: done"] += 1
            promise.possible = {after(was) for was in possible if _fits(what, was)}
        elif isinstance(error, ConnectError):
            self.answers[f"{what}: {type(error).__name__}"] += 1
        else:
            raise AssertionError(f"{what} {name}: {type(error).__name__}: {error}") from error


def _fits(what: str, was: Wanted) -> bool:
    """Return whether a write can succeed on the present state: only configure creates a connector."""
    return was is not None or what == "configure"

"""The leader's fencing rounds: older producers of a connector's tasks are fenced (Java ``ZombieFencing``).

``fence`` is the tick's; Kafka is asked on its own thread. One round at a time for each connector: a request during
a round gets that round's outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum

from spark_connect_rt.base.concurrency import copy_outcome
from spark_connect_rt.config.client_properties import exactly_once_producer_properties
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.errors import ConnectError, FencedError, NotLeaderError, RebalanceInProgressError
from spark_connect_rt.group.peers import require_leader
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.request_queue import TopicCalls
from spark_connect_rt.topics.config_state import ClusterConfigState

# Whether a connector's older producers must be fenced before its tasks start (KIP-618).
#
# Java ``DistributedHerder.fenceZombieSourceTasks``. Pure: snapshot in, decision out. The leader decides, and
# runtime.herder.requests.zombie_fencing carries the decision out.


class Need(Enum):
    """The action that the leader takes for one connector."""

    NOTHING = "nothing: all older producers are fenced"
    RECORD = "only write the number of tasks: there can be no zombie"
    FENCE = "fence the older producers, then write the number of tasks"


@dataclass(frozen=True, slots=True)
class FencingPlan:
    """One round for one connector."""

    need: Need
    zombies: int  # producers of tasks 0 to zombies-1 are fenced
    tasks: int  # number of tasks in the record to write
    generation: int | None  # of the task configurations; another one when the round ends: it was for nothing


def fencing_plan(snapshot: ClusterConfigState, connector: str) -> FencingPlan:
    """Return what a round of a connector must do.

    A single task before and after needs no round: the new producer has the old one's transactional id.
    """
    record, tasks = snapshot.task_count_record(connector), snapshot.task_count(connector)
    generation = snapshot.task_config_generation(connector)
    if connector not in snapshot.pending_fencing:
        return FencingPlan(Need.NOTHING, 0, tasks, generation)
    if record is None or (record == 1 and tasks == 1):
        return FencingPlan(Need.RECORD, 0, tasks, generation)
    return FencingPlan(Need.FENCE, record, tasks, generation)


log = logging.getLogger(__name__)

FENCE_LIMIT_MS = 90_000
AddRequest = Callable[[str, Callable[[], Future[None] | None]], Future[None]]


class ZombieFencing:
    """Rounds in progress and their outcomes."""

    def __init__(self, deps: HerderDependencies, state: GroupState, calls: TopicCalls, add: AddRequest) -> None:
        self._deps = deps
        self._state = state
        self._calls = calls
        self._add = add
        self._under_way: dict[str, Future[None]] = {}

    def fence(self, name: str) -> Future[None]:
        """Begin a round, or join the one that is in progress; done when the number of tasks is recorded.

        Answers RebalanceInProgressError (new task configurations came meanwhile), ConnectError (Kafka refused).
        """
        before = self._under_way.get(name)
        if before is not None and not before.done():
            return before
        answer: Future[None] = Future()
        self._under_way[name] = answer
        self._after_read(name, answer, lambda plan: self._carry_out(name, plan, answer))
        return answer

    def _after_read(self, name: str, answer: Future[None], then: Callable[[FencingPlan], None]) -> None:
        """Read the config topic to its end, then continue with its content; a failure is the answer."""

        def read(error: Exception | None, _now_ms: int) -> None:
            if error is not None:
                text = "Failed to read to end of config topic before performing zombie fencing"
                answer.set_exception(ConnectError(f"{text}: {error}"))
                return
            try:
                require_leader(self._state.standing, f"fence connector {name}")
                then(fencing_plan(self._deps.config_store.snapshot(), name))
            except NotLeaderError:
                self._again(name, answer, then)
            except ConnectError as refusal:
                answer.set_exception(refusal)

        limit_ms = self._deps.settings.worker_sync_timeout_ms
        refresh = self._deps.config_store.refresh
        self._calls.begin("reading to the end of the config topic", lambda: refresh(limit_ms), read)

    def _again(self, name: str, answer: Future[None], then: Callable[[FencingPlan], None]) -> None:
        """A rebalance began meanwhile: wait for its end like every request, then see who leads."""

        def go_on() -> None:
            require_leader(self._state.standing, f"fence connector {name}")
            self._after_read(name, answer, then)

        def refused(done: Future[None]) -> None:
            if (error := done.exception()) is not None:
                answer.set_exception(error)

        self._add(f"fence {name}", go_on).add_done_callback(refused)

    def _carry_out(self, name: str, plan: FencingPlan, answer: Future[None]) -> None:
        log.info("connector=%s zombie fencing: %s (%d of them)", name, plan.need.value, plan.zombies)
        if plan.need is Need.NOTHING:
            answer.set_result(None)
        elif plan.need is Need.RECORD:
            self._record(name, plan, answer)
        else:
            self._deps.threads.start("fence-zombies", lambda: self._shut_out(name, plan, answer))

    def _shut_out(self, name: str, plan: FencingPlan, answer: Future[None]) -> None:
        """Ask Kafka (on its own thread), then continue on the tick."""
        try:
            assert self._deps.transactions is not None
            worker = self._deps.settings.worker
            config = self._deps.config_store.snapshot().connector_config(name) or NO_SETTINGS
            producers = [
                self._deps.resolve(exactly_once_producer_properties(worker, config.written(), name, number))
                for number in range(plan.zombies)
            ]
            self._deps.transactions.fence(producers, FENCE_LIMIT_MS)
        except Exception as error:  # noqa: BLE001 - top of a thread: the round's failure is its answer
            answer.set_exception(ConnectError(f"Failed to perform round of zombie fencing: {error}"))
            return

        def check_and_record() -> Future[None]:
            attempt: Future[None] = Future()  # a write that met the fence is tried again: ``answer`` is for the last
            self._after_read(name, attempt, lambda now: self._record_unless_new(name, plan, now, attempt))
            return attempt

        asked = self._add(f"record the fenced tasks of {name}", check_and_record)
        asked.add_done_callback(lambda done: copy_outcome(done, answer))

    def _record_unless_new(self, name: str, plan: FencingPlan, now: FencingPlan, answer: Future[None]) -> None:
        if now.generation != plan.generation:
            raise RebalanceInProgressError(
                "Failed to complete zombie fencing because a new set of task configs was generated"
            )
        self._record(name, plan, answer)

    def _record(self, name: str, plan: FencingPlan, answer: Future[None]) -> None:
        store = self._deps.config_store

        def written(error: Exception | None, _now_ms: int) -> None:
            if isinstance(error, FencedError):
                self._state.stop_leading()
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(None)

        stage = f"writing the number of fenced tasks of connector {name} to the config topic"
        self._calls.begin(stage, lambda: store.put_task_count_record(name, plan.tasks), written)

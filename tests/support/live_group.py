"""Many workers of one group in one process, on a real broker: membership, bytes, assignor are real, nothing runs.

Each worker is a ``KafkaGroupMember`` with its own connections and heartbeats. One thread polls them all and does what
the herder does with the group's events. It remembers the work of each worker and does not start it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping

from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.group.assignments import NOTHING, ConnectorsAndTasks
from spark_connect_rt.group.assignor import AssignorMemory
from spark_connect_rt.group.compact.form import decode_compact, is_compact
from spark_connect_rt.group.compact.reported_work import ClaimRules, Known, compact_offers
from spark_connect_rt.group.member import Assigned, AssignmentRequired, JoinRequired
from spark_connect_rt.group.rebalance_plan import allocation_of, held_after
from spark_connect_rt.group.subprotocol import (
    Assignment,
    ConnectProtocol,
    WorkerMetadata,
    decode_assignment,
    join_protocols,
)
from spark_connect_rt.runtime.herder.steps.assigning import assign_work
from spark_connect_rt.topics.config_state import ClusterConfigState
from tests.support.group_members import new_member

SESSIONED = ConnectProtocol.SESSIONED


class LiveWorker:
    """One member and the work it holds."""

    def __init__(self, settings: Mapping[str, str], number: int, snapshot: ClusterConfigState) -> None:
        self.url = f"http://10.9.{number >> 8}.{number & 255}:8083/"
        self.member = new_member(settings, client_id=f"connect-{self.url[7:-1]}")
        self.snapshot = snapshot
        self.held: ConnectorsAndTasks | None = None
        self.last: Assignment | None = None
        self.rules, self.memory, self.completed = ClaimRules(), AssignorMemory(), -1
        self.known: Known = {}
        self.protocol, self.rounds, self.assigned_bytes = "", 0, 0
        self._again: str | None = None
        self.member.start()

    def tick(self) -> None:
        """Do the work that the group requests."""
        for event in self.member.poll(0):
            if isinstance(event, JoinRequired):
                metadata = WorkerMetadata(self.url, self.snapshot.offset, allocation_of(self.held, self.last))
                offers = compact_offers(SESSIONED, metadata, self.rules)
                self.member.join(offers + join_protocols(SESSIONED, metadata))
            elif isinstance(event, AssignmentRequired):
                self._lead(event)
            elif isinstance(event, Assigned):
                self._adopt(event)

    def _lead(self, event: AssignmentRequired) -> None:
        answer = assign_work(
            event,
            joined_with=self.snapshot,
            fresh=self.snapshot,
            memory=self.memory,
            last_completed_generation=self.completed,
            now_ms=int(time.monotonic() * 1000),
            max_delay_ms=0,
            lost_delay_ms=0,
            known=self.known,
        )
        self.memory, self.known, self._again = answer.memory, answer.known, answer.again
        self.rounds += 1
        self.assigned_bytes = max(self.assigned_bytes, sum(map(len, answer.blobs.values())))
        self.member.sync(answer.blobs)

    def _adopt(self, event: Assigned) -> None:
        received = None
        if is_compact(event.protocol):
            known_url = self.rules.url_of(event.leader_id)
            received = decode_compact(event.assignment, self.snapshot.offset, event.leader_id, known_url)
        self.last = received.assignment if received else decode_assignment(event.assignment)
        self.held = held_after(self.held, self.last, incremental=True)
        self.rules = self.rules.after(received, self.held)
        self.protocol, self.completed = event.protocol, event.generation
        again = self._again if event.leader_id == event.member_id else None
        if self.last.revokes or again:
            self._again = None
            self.member.request_rejoin(again or "revoked work has stopped")


class LiveGroup:
    """Workers of one group; ``until`` lets them live."""

    def __init__(self, settings: Mapping[str, str], connectors: int, tasks: int) -> None:
        names = [f"connector-{n:05d}" for n in range(connectors)]
        self._settings = settings
        self.tasks = connectors * tasks
        self.snapshot = ClusterConfigState(
            offset=self.tasks,
            connector_configs=dict.fromkeys(names, NO_SETTINGS),
            task_counts=dict.fromkeys(names, tasks),
        )
        self.workers: list[LiveWorker] = []
        self._made = 0

    def join(self, count: int) -> None:
        """Let ``count`` new workers join the group."""
        for _ in range(count):
            self._made += 1
            self.workers.append(LiveWorker(self._settings, self._made, self.snapshot))

    def leave(self, count: int) -> None:
        """Let the workers that joined last leave."""
        for worker in self.workers[-count:]:
            worker.member.stop()
        del self.workers[-count:]

    def is_settled(self) -> bool:
        """Return whether every task is held once, evenly."""
        counts = [len((worker.held or NOTHING).tasks) for worker in self.workers]
        if sum(counts) != self.tasks or max(counts) - min(counts) > 1:
            return False
        held = Counter(task for worker in self.workers for task in (worker.held or NOTHING).tasks)
        return len(held) == self.tasks and len({worker.completed for worker in self.workers}) == 1

    def until(self, fact: Callable[[], bool], limit_s: float) -> float:
        """Poll all workers until it is so; return the seconds. Raises AssertionError when time is up."""
        begun = time.monotonic()
        while True:
            for worker in self.workers:
                worker.tick()
            if fact():
                return time.monotonic() - begun
            assert time.monotonic() - begun < limit_s, {worker.member.trouble() for worker in self.workers}
            time.sleep(0.01)

    def close(self) -> None:
        """Stop every member of the group."""
        for worker in self.workers:
            worker.member.stop()

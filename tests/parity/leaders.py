"""The leading halves of a group's workers, twice: Java's and ours, asked the same questions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_connect_rt.group.assignor import AssignorMemory
from spark_connect_rt.group.member import AssignmentRequired
from spark_connect_rt.group.subprotocol import ConnectProtocol
from spark_connect_rt.runtime.herder.steps.assigning import assign_work
from spark_connect_rt.topics.config_state import ClusterConfigState
from tests.parity.group_history import Configured, Leaders, Question
from tests.parity.java_leader import JavaLeader
from tests.parity.told import Told, blobs_of, told, without_order


class JavaLeaders:
    """Java's ``WorkerCoordinator``, one for each worker, in one JVM."""

    def __init__(self, java: JavaLeader) -> None:
        self._java = java
        self.seconds: list[float] = []

    def begin(self, worker: str, max_delay_ms: int) -> None:
        self._java.begin(worker, max_delay_ms)

    def ask(self, question: Question) -> Mapping[str, bytes]:
        worker = question.leader
        self._java.store(worker, *question.joined_with)
        self._java.join(worker)
        self._java.store(worker, *question.store)
        answer = self._java.lead(
            worker, question.protocol.protocol_name, question.generation, question.now_ms, question.members
        )
        self.seconds.append(answer.seconds)
        return answer.blobs

    def synced(self, worker: str, protocol: ConnectProtocol, generation: int, assignment: bytes) -> None:
        self._java.synced(worker, protocol.protocol_name, generation, assignment)


class OurLeaders:
    """The herder's leader path, bytes to bytes, with each worker's memory."""

    def __init__(self) -> None:
        self._memories: dict[str, AssignorMemory] = {}
        self._completed: dict[str, int] = {}
        self._max_delay_ms = 0

    def begin(self, worker: str, max_delay_ms: int) -> None:
        self._memories[worker], self._completed[worker] = AssignorMemory(), -1
        self._max_delay_ms = max_delay_ms

    def ask(self, question: Question) -> Mapping[str, bytes]:
        answer = assign_work(
            AssignmentRequired(question.generation, question.protocol.protocol_name, question.leader, question.members),
            joined_with=snapshot(*question.joined_with),
            fresh=snapshot(*question.store),
            memory=self._memories[question.leader],
            last_completed_generation=self._completed[question.leader],
            now_ms=question.now_ms,
            max_delay_ms=self._max_delay_ms,
            lost_delay_ms=0,  # counts in groups of our own workers only, which speak other protocol names
        )
        self._memories[question.leader] = answer.memory
        return answer.blobs

    def synced(self, worker: str, protocol: ConnectProtocol, generation: int, assignment: bytes) -> None:
        self._completed[worker] = generation


class RecordedLeaders:
    """Java's answers as they were recorded, whatever is asked."""

    def __init__(self, answers: Iterable[Told]) -> None:
        self._answers = iter(answers)

    def begin(self, worker: str, max_delay_ms: int) -> None:
        """A recording needs no memory."""

    def ask(self, question: Question) -> Mapping[str, bytes]:
        return blobs_of(next(self._answers))

    def synced(self, worker: str, protocol: ConnectProtocol, generation: int, assignment: bytes) -> None:
        """A recording needs no memory."""


class BothLeaders:
    """Asks ``java`` and ours, and goes on with Java's answer. Raises AssertionError when they differ."""

    def __init__(self, java: Leaders) -> None:
        self._sides = (java, OurLeaders())

    def begin(self, worker: str, max_delay_ms: int) -> None:
        for side in self._sides:
            side.begin(worker, max_delay_ms)

    def ask(self, question: Question) -> Mapping[str, bytes]:
        answer, ours = (side.ask(question) for side in self._sides)
        java_told, told_by_us = told(answer), told(ours)
        assert without_order(told_by_us) == without_order(java_told), f"ours {told_by_us}\njava {java_told}"
        return answer

    def synced(self, worker: str, protocol: ConnectProtocol, generation: int, assignment: bytes) -> None:
        for side in self._sides:
            side.synced(worker, protocol, generation, assignment)


def snapshot(offset: int, configured: Configured) -> ClusterConfigState:
    """Return the snapshot in which just this is configured."""
    return ClusterConfigState(
        offset=offset,
        connector_configs={name: {} for name in configured},
        task_counts={name: 3 if n is None else n for name, n in configured.items()},
        inconsistent=frozenset(name for name, n in configured.items() if n is None),
    )

"""A large group that has only our workers, without broker or threads: members' bytes to the leader and back.

The members do what ``runtime.herder.steps.membership`` does with those bytes; the leader is ``assign_work``. The record
that a broker would keep is counted as Kafka writes it (``GroupMetadataValue`` 3), and rejected above the limit.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.group.assignments import NOTHING, ConnectorsAndTasks
from spark_connect_rt.group.assignor import AssignorMemory
from spark_connect_rt.group.compact.form import compact_name, decode_compact
from spark_connect_rt.group.compact.reported_work import ClaimRules, Known, compact_offers
from spark_connect_rt.group.member import AssignmentRequired
from spark_connect_rt.group.rebalance_plan import allocation_of, held_after
from spark_connect_rt.group.subprotocol import Assignment, ConnectProtocol, WorkerMetadata
from spark_connect_rt.runtime.herder.steps.assigning import DEFAULT_RECORD_LIMIT_BYTES, assign_work
from spark_connect_rt.topics.config_state import ClusterConfigState

SESSIONED = ConnectProtocol.SESSIONED


@dataclass
class Worker:
    """One member of the group, with the work that it holds."""

    url: str
    held: ConnectorsAndTasks | None = None
    last: Assignment | None = None
    rules: ClaimRules = field(default_factory=ClaimRules)


@dataclass
class Figures:
    """The cost of one event; bytes are the largest of any round."""

    rounds: int = 0
    leader_s: float = 0.0  # of the slowest round
    all_s: float = 0.0
    sync_bytes: int = 0
    record_bytes: int = 0
    asked_rounds: int = 0


class CompactGroup:
    """Members by id; ``settle`` rebalances until nothing is left to do."""

    def __init__(
        self, connectors: Mapping[str, int], client_id: str = "c", limit_bytes: int = DEFAULT_RECORD_LIMIT_BYTES
    ) -> None:
        self.limit_bytes = limit_bytes
        self._client_id = client_id
        self._made = 0
        self.workers: dict[str, Worker] = {}
        self.memory, self.generation, self.completed = AssignorMemory(), 0, -1
        self.known: Known = {}
        self.leader = ""
        self.offset = 0
        self.configure(connectors)

    def configure(self, connectors: Mapping[str, int]) -> None:
        """Let just these connectors be configured, each with so many tasks."""
        self.connectors = dict(connectors)
        self.offset += sum(connectors.values()) + 2 * len(connectors)
        self.snapshot = ClusterConfigState(
            offset=self.offset,
            connector_configs=dict.fromkeys(connectors, NO_SETTINGS),
            task_counts=dict(connectors),
        )

    def join(self, count: int) -> None:
        """Let new workers join, named as brokers name members."""
        for _ in range(count):
            n = self._made = self._made + 1
            member = f"{self._client_id}-{n * 0x9E3779B97F4A7C15F39CC0605CEDC835 % 2**128:036x}"
            self.workers[member] = Worker(f"http://10.{n >> 16 & 255}.{n >> 8 & 255}.{n & 255}:8083/")
        self.leader = self.leader or next(iter(self.workers))

    def leave(self, count: int) -> None:
        """Let the workers that joined last be gone."""
        for member in list(self.workers)[-count:]:
            del self.workers[member]

    def change_leader(self) -> None:
        """Let the leader be gone; another member leads, and remembers nothing."""
        del self.workers[self.leader]
        self.leader = next(iter(self.workers))
        self.memory, self.known = AssignorMemory(), {}

    def settle(self, most_rounds: int = 400) -> Figures:
        """Rebalance as leader and members ask for it, until nothing is left to do."""
        figures = Figures()
        for _ in range(most_rounds):
            if not self._round(figures):
                return figures
        raise AssertionError(f"not settled after {most_rounds} rounds: {figures}")

    def _round(self, figures: Figures) -> bool:
        """Rebalance once; return whether another round is asked for."""
        self.generation += 1
        blobs = {member: self._metadata(worker) for member, worker in self.workers.items()}
        begun = time.process_time()
        event = AssignmentRequired(self.generation, compact_name(SESSIONED), self.leader, blobs)
        answer = assign_work(
            event,
            joined_with=self.snapshot,
            fresh=self.snapshot,
            memory=self.memory,
            last_completed_generation=self.completed,
            now_ms=0,
            max_delay_ms=0,
            lost_delay_ms=0,
            known=self.known,
            record_limit_bytes=self.limit_bytes,
        )
        spent = time.process_time() - begun
        self.memory, self.known = answer.memory, answer.known
        record = self.record_bytes(blobs, answer.blobs)
        figures.rounds += 1
        figures.leader_s, figures.all_s = max(figures.leader_s, spent), figures.all_s + spent
        figures.sync_bytes = max(figures.sync_bytes, sum(map(len, answer.blobs.values())))
        figures.record_bytes = max(figures.record_bytes, record)
        figures.asked_rounds += "what they run" in answer.sentence
        assert record <= self.limit_bytes, f"the broker refuses {record} bytes: {answer.sentence}"
        self.completed = self.generation
        revoked = [self._adopt(worker, answer.blobs[member]) for member, worker in self.workers.items()]
        return any(revoked) or answer.again is not None

    def _metadata(self, worker: Worker) -> bytes:
        metadata = WorkerMetadata(worker.url, self.offset, allocation_of(worker.held, worker.last))
        return dict(compact_offers(SESSIONED, metadata, worker.rules))[compact_name(SESSIONED)]

    def _adopt(self, worker: Worker, blob: bytes) -> bool:
        received = decode_compact(blob, self.offset, self.leader, worker.rules.url_of(self.leader))
        worker.last = received.assignment
        worker.held = held_after(worker.held, received.assignment, incremental=True)
        worker.rules = worker.rules.after(received, worker.held)
        return received.assignment.revokes

    def record_bytes(self, metadata: Mapping[str, bytes], assignments: Mapping[str, bytes]) -> int:
        """Return the size of the group's record as a broker writes it, batch header and all."""
        head = 61 + 20 + 2 + 40 + 2 + len("connect") + 4 + 2 + len(compact_name(SESSIONED)) + 2 + len(self.leader) + 12
        each = 2 + 2 + 2 + 2 + 4 + 4 + 4 + 4 + len(self._client_id)
        hosts = sum(len(worker.url) - len("http://:8083/") + 1 for worker in self.workers.values())
        return head + hosts + sum(each + len(m) + len(blob) + len(assignments[m]) for m, blob in metadata.items())

    def check_once(self) -> None:
        """Raise AssertionError if two workers hold the same."""
        parts = [worker.held or NOTHING for worker in self.workers.values()]
        tasks = Counter(task for part in parts for task in part.tasks)
        assert set(tasks.values()) <= {1}, [task for task, count in tasks.items() if count > 1]

    def check(self) -> None:
        """Raise AssertionError unless everything configured is held exactly once, evenly."""
        parts = [worker.held or NOTHING for worker in self.workers.values()]
        tasks = Counter(task for part in parts for task in part.tasks)
        wanted = {(name, n) for name, count in self.connectors.items() for n in range(count)}
        assert tasks.keys() == wanted, f"{len(wanted - tasks.keys())} not held, {len(tasks.keys() - wanted)} too many"
        assert set(tasks.values()) <= {1}
        connectors = Counter(name for part in parts for name in part.connectors)
        assert connectors == Counter(self.connectors.keys())
        counts = [len(part.tasks) for part in parts]
        assert max(counts) - min(counts) <= 1

    def held_tasks(self) -> Iterator[int]:
        """Yield how many tasks each worker holds."""
        return (len((worker.held or NOTHING).tasks) for worker in self.workers.values())

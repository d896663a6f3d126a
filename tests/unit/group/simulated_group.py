"""A worker group without a broker: members hold work, the leader assigns, all members obey."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.group import assignor as incremental
from spark_connect_rt.group.assignments import NOTHING, AssignmentResult, AssignmentRound, ConnectorsAndTasks
from spark_connect_rt.group.assignor import AssignorMemory
from spark_connect_rt.group.subprotocol import Assignment, WorkerMetadata
from tests.unit.group.assignment_rules import Round, broken_rules


def configured(tasks_by_connector: dict[str, int]) -> ConnectorsAndTasks:
    return ConnectorsAndTasks(
        tuple(tasks_by_connector),
        tuple(ConnectorTaskId(c, n) for c, count in tasks_by_connector.items() for n in range(count)),
    )


class SimulatedGroup:
    """Rounds of the incremental assignor; ``leader_crashes`` loses the memory as a new leader would."""

    def __init__(self, max_delay_ms: int = 300_000, **tasks_by_connector: int) -> None:
        self.max_delay_ms = max_delay_ms
        self.lost_delay_ms: int | None = None  # as Java
        self.connectors = dict(tasks_by_connector)
        self.held: dict[str, ConnectorsAndTasks] = {}
        self.memory = AssignorMemory()
        self.generation = 0
        self.last_completed = -1
        self.now_ms = 1_000_000
        self.last: AssignmentResult | None = None
        self.broken: list[str] = []  # rules that any round broke

    def join(self, *workers: str) -> None:
        self.held.update(dict.fromkeys(workers, NOTHING))

    def leave(self, *workers: str) -> None:
        for worker in workers:
            del self.held[worker]

    def leader_crashes(self) -> None:
        self.memory, self.last_completed = AssignorMemory(), -1

    def round(self, unreached: Collection[str] = (), leader_syncs: bool = True) -> AssignmentResult:
        """Run one rebalance; members in ``unreached`` never see their part of it."""
        self.generation += 1
        members = {
            worker: WorkerMetadata(f"http://{worker}/", 7, Assignment("", "", 7, held.connectors, held.tasks))
            for worker, held in self.held.items()
        }
        before, memory = dict(self.held), self.memory
        self.memory, self.last = incremental.assign(
            memory,
            AssignmentRound(
                leader_id=min(members),
                members=members,
                configured=configured(self.connectors),
                config_offset=7,
                generation=self.generation,
                last_completed_generation=self.last_completed,
                now_ms=self.now_ms,
                max_delay_ms=self.max_delay_ms,
                lost_delay_ms=self.lost_delay_ms,
            ),
        )
        self.broken += broken_rules(Round(memory, configured(self.connectors), before, self.last, self.now_ms))
        for worker, told in self.last.assignments.items():
            started = ConnectorsAndTasks(told.connectors, told.tasks)
            revoked = ConnectorsAndTasks(told.revoked_connectors, told.revoked_tasks)
            assert (started & revoked).is_empty, f"{worker} starts and stops {started & revoked}"
            if leader_syncs and worker not in unreached:
                assert (self.held[worker] & started).is_empty, f"{worker} is told to start what it runs"
                # Java balances after it gave lost work to candidates, so a worker may have to stop work that it was
                # about to get. No worker runs that, and the revocation makes the worker rejoin for the next round.
                never_given = revoked - self.held[worker]
                for other, held in self.held.items():
                    assert (never_given & held).is_empty, f"{worker} is told to stop what {other} runs"
                self.held[worker] = (self.held[worker] - revoked) | started
        if leader_syncs:
            self.last_completed = self.generation
        return self.last

    def settle(self, limit: int = 20) -> int:
        """Run rounds, as members would ask for them, until none revokes; return how many."""
        for count in range(1, limit + 1):
            result = self.round()
            if result.delay_ms:
                self.now_ms += result.delay_ms
            elif not any(told.revokes for told in result.assignments.values()):
                return count
        raise AssertionError(f"not settled after {limit} rounds: {self.held}")

    @property
    def delay_ms(self) -> int:
        assert self.last is not None
        return self.last.delay_ms

    def loads(self) -> list[tuple[int, int]]:
        """Return (connectors, tasks) held by each worker, smallest first."""
        return sorted((len(held.connectors), len(held.tasks)) for held in self.held.values())

    def problems(self) -> list[str]:
        """Return violations: work that is not complete, disjoint or balanced now, and forbidden results of rounds."""
        wanted = configured(self.connectors)
        connectors = Counter(c for held in self.held.values() for c in held.connectors)
        tasks = Counter(t for held in self.held.values() for t in held.tasks)
        found = [f"{c} runs {n} times" for c, n in connectors.items() if n > 1]
        found += [f"{t} runs {n} times" for t, n in tasks.items() if n > 1]
        found += [f"{c} does not run" for c in wanted.connectors if c not in connectors]
        found += [f"{t} does not run" for t in wanted.tasks if t not in tasks]
        found += [f"{c} is gone but runs" for c in connectors if c not in wanted.connectors]
        found += [f"{t} is gone but runs" for t in tasks if t not in wanted.tasks]
        for counts in ([c for c, _ in self.loads()], [t for _, t in self.loads()]):
            if max(counts) - min(counts) > 1:
                found.append(f"unbalanced: {counts}")
        return found + self.broken

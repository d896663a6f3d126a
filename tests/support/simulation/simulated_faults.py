"""The faults of a simulation, and the users' actions meanwhile. The seed makes every choice.

Owns the kinds of faults and how often each struck. A fault is ordered by ``strike`` and ends by itself, or when
``stop`` ends all faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tests.support.simulation.simulated_cluster import SimulatedCluster, SimulatedWorker

FAULTS = (
    "crash",
    "freeze",
    "partition",
    "coordinator unreachable",
    "leader crash",
    "leader freeze",
    "slow batch",
    "slow slice",
    "slow topics",
    "executors lost",
    "lost answer of the group",
    "lost answer of a log",
    "refused append",
    "compaction",
    "orderly stop",
    "new worker",
)
FAILING_TASKS = "failing tasks"  # not of FAULTS: without a restart policy they stay down, and nothing would settle
SLOW_TOPIC_MS = 900  # each way


class Faults:
    """Strikes a cluster with faults, and counts them."""

    def __init__(self, cluster: SimulatedCluster, max_workers: int = 4) -> None:
        self._cluster = cluster
        self._scheduler = cluster.scheduler
        self._max_workers = max_workers
        self._number = len(cluster.workers)
        self._under_way: list[Callable[[], None]] = []  # the calls that end the faults in progress
        self.struck: Counter[str] = Counter()
        self.over = False

    def strike(self, kind: str) -> None:
        """Let one fault strike. A fault without a victim is not counted."""
        kinds: dict[str, Callable[[], bool]] = {
            "crash": lambda: self._crash(self._victim()),
            "freeze": lambda: self._freeze(self._victim()),
            "partition": self._partition,
            "coordinator unreachable": self._lose_coordinator,
            "leader crash": lambda: self._crash(self._cluster.leader()),
            "leader freeze": lambda: self._freeze(self._cluster.leader()),
            "slow batch": self._slow_batch,
            "slow slice": self._slow_slice,
            "slow topics": self._slow_topics,
            "executors lost": self._lose_executors,
            "lost answer of the group": self._lose_group_answer,
            "lost answer of a log": self._lose_log_answer,
            "refused append": self._refuse_append,
            "compaction": self._compact,
            "orderly stop": self._stop,
            "new worker": self._add,
            FAILING_TASKS: self._fail_tasks,
        }
        if kinds[kind]():
            self.struck[kind] += 1

    def stop(self) -> None:
        """End every fault that lasts."""
        self.over = True
        for end in self._under_way:
            end()
        self._under_way.clear()
        if not self._cluster.in_service():
            self._add()

    def _victim(self) -> SimulatedWorker | None:
        workers = self._cluster.in_service()
        return workers[self._scheduler.between(0, len(workers) - 1)] if workers else None

    def _last(self, end: Callable[[], None], longest_ms: int) -> None:
        self._under_way.append(end)
        self._scheduler.later(self._scheduler.between(200, longest_ms), end)

    def _crash(self, victim: SimulatedWorker | None) -> bool:
        if victim is None:
            return False
        name = victim.name
        self._cluster.crash(name)

        def come_back() -> None:
            if not self._cluster.workers[name].process.alive:
                self._cluster.add_worker(name)

        if self._scheduler.chance(0.6):
            self._last(come_back, 20_000)
        return True

    def _freeze(self, victim: SimulatedWorker | None) -> bool:
        if victim is None or victim.process.frozen:
            return False
        victim.process.freeze()

        def thaw() -> None:
            if victim.process.alive and victim.process.frozen:
                victim.process.thaw()

        self._last(thaw, 30_000)
        return True

    def _partition(self) -> bool:
        victim = self._victim()
        if victim is None or not victim.link.up:
            return False
        victim.link.cut()

        def mend() -> None:
            if not victim.link.up:
                victim.link.mend()

        self._last(mend, 40_000)
        return True

    def _lose_coordinator(self) -> bool:
        victim = self._victim()
        if victim is None or not victim.member.coordinator_up:
            return False
        victim.member.coordinator_up = False

        def mend() -> None:
            victim.member.coordinator_up = True

        self._last(mend, 30_000)
        return True

    def _slow_batch(self) -> bool:
        victim = self._victim()
        if victim is None:
            return False
        victim.slices.slow_batch_ms = self._scheduler.between(4_000, 25_000)
        return True

    def _slow_slice(self) -> bool:
        victim = self._victim()
        if victim is None:
            return False
        victim.slices.slow_connect_ms = self._scheduler.between(1_000, 12_000)
        return True

    def _slow_topics(self) -> bool:
        victim = self._victim()
        if victim is None:
            return False
        for log in victim.logs:
            log.slow_ms = SLOW_TOPIC_MS

        def quicken() -> None:
            for log in victim.logs:
                log.slow_ms = victim.link.slow_ms

        self._last(quicken, 15_000)
        return True

    def _lose_executors(self) -> bool:
        victim = self._victim()
        if victim is None:
            return False
        return victim.slices.lose_slices() > 0

    def _fail_tasks(self) -> bool:
        victim = self._victim()
        return victim is not None and victim.slices.fail_tasks() > 0

    def _lose_group_answer(self) -> bool:
        self._cluster.group.answers_to_lose += 1
        return True

    def _lose_log_answer(self) -> bool:
        victim = self._victim()
        if victim is None:
            return False
        victim.logs[self._scheduler.between(0, 2)].lose_next_answer = True
        return True

    def _refuse_append(self) -> bool:
        victim = self._victim()
        if victim is None:
            return False
        victim.logs[self._scheduler.between(0, 2)].refuse_next = True
        return True

    def _compact(self) -> bool:
        cluster = self._cluster
        for topic in (cluster.config_topic, cluster.status_topic, cluster.offset_topic):
            topic.compact()
        return True

    def _stop(self) -> bool:
        victim = self._victim()
        if victim is None or len(self._cluster.in_service()) < 2:
            return False
        self._cluster.stop(victim.name)
        return True

    def _add(self) -> bool:
        if len(self._cluster.in_service()) >= self._max_workers:
            return False
        self._number += 1
        self._cluster.add_worker(f"w{self._number}")
        return True

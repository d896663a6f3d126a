"""One schedule: a cluster, users and faults for a while, then quiet, and the checks afterwards. A seed determines all.

Owns the shape of a schedule and its counters. ``run_schedule(seed)`` is the same on every machine and in every process;
``run_schedules`` runs many of them.
"""

from __future__ import annotations

import gc
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.driver.slot_packing import PackingLimits
from spark_connect_rt.errors import ConnectError
from tests.support.simulation.simulated_cluster import SimulatedCluster
from tests.support.simulation.simulated_faults import FAULTS, Faults
from tests.support.simulation.simulated_invariants import InvariantViolation
from tests.support.simulation.simulated_threads import Scheduler
from tests.support.simulation.simulated_users import Users

SETTLE_LIMIT_MS = 180_000
TROUBLE_MS = (4_000, 15_000)  # shortest and longest
LOOK_MS = 500
BUSY_SHARE = 0.15  # of the tasks
NO_CONFIG: Mapping[str, str] = MappingProxyType({})


@dataclass(slots=True)
class Tally:
    """The totals of one schedule, or of many."""

    schedules: int = 0
    steps: int = 0
    virtual_ms: int = 0
    longest_settling_ms: int = 0
    generations: int = 0
    leader_changes: int = 0
    task_starts: int = 0
    batches: int = 0
    commits: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    writes: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Add the totals of another tally."""
        for name in ("schedules", "steps", "virtual_ms", "generations", "leader_changes", "task_starts", "batches"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.commits += other.commits
        self.longest_settling_ms = max(self.longest_settling_ms, other.longest_settling_ms)
        self.faults += other.faults
        self.writes += other.writes

    def report(self) -> str:
        """Return all of it, for people."""
        lines = [
            f"{self.schedules} schedules, {self.steps} steps, {self.virtual_ms // 1000} s of virtual time",
            f"{self.generations} generations, {self.leader_changes} changes of leader, {self.task_starts} task starts,"
            f" {self.batches} batches, {self.commits} offset commits",
            f"longest settling after the last fault: {self.longest_settling_ms / 1000:.1f} s",
            "faults: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items())),
            "writes: " + ", ".join(f"{kind} {count}" for kind, count in sorted(self.writes.items())),
        ]
        return "\n".join(lines)


class ScheduleFailed(AssertionError):
    """A schedule broke an invariant: ``seed`` shows it again."""

    def __init__(self, seed: int, invariant: str, what: str, cluster: str) -> None:
        super().__init__(f"seed {seed} breaks {what}\n{cluster}")
        self.seed = seed
        self.invariant = invariant
        self.args = (seed, invariant, what, cluster)  # it crosses processes

    def __str__(self) -> str:
        seed, _, what, cluster = self.args
        return f"seed {seed} breaks {what}\n{cluster}"


class Schedule:
    """The run of one seed: cluster, faults and users."""

    def __init__(
        self,
        seed: int,
        kinds: Sequence[str] = FAULTS,
        trouble_ms: tuple[int, int] = TROUBLE_MS,
        worker_config: Mapping[str, str] = NO_CONFIG,
    ) -> None:
        """Take the seed, the faults it may choose from, how long they strike at least and at most, settings."""
        self.seed = seed
        self._trouble_ms = trouble_ms
        self._kinds = tuple(kinds)
        scheduler = self._scheduler = Scheduler(seed)
        delay_ms = (0, 0, 3_000, 15_000)[scheduler.between(0, 3)]
        engine = EngineSettings(
            slice_length_ms=(6_000, 20_000, 600_000)[scheduler.between(0, 2)],
            limits=PackingLimits(tasks_per_slot=(1, 3, 25)[scheduler.between(0, 2)]),
        )
        config = {"scheduled.rebalance.max.delay.ms": str(delay_ms), **worker_config}
        self.cluster = SimulatedCluster(scheduler, config, engine=engine, busy_share=BUSY_SHARE)
        for number in range(scheduler.between(2, 3)):
            self.cluster.add_worker(f"w{number + 1}")
        self.users = Users(self.cluster)
        self.faults = Faults(self.cluster)
        self._leaders = 0
        self._leader_id = ""

    def run(self) -> Tally:
        """Run the schedule. Raises ScheduleFailed: an invariant is broken, or a thread raised."""
        settled_ms = 0
        try:
            self._trouble(self._scheduler.between(*self._trouble_ms))
            self.faults.stop()
            settled_ms = self._settle()
        except InvariantViolation as broken:
            raise ScheduleFailed(self.seed, broken.invariant, str(broken), self.cluster.describe()) from broken
        except (ConnectError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
            raise ScheduleFailed(self.seed, "crash", repr(error), self.cluster.describe()) from error
        finally:
            self.cluster.close()
        return self._tally(settled_ms)

    def _trouble(self, duration_ms: int) -> None:
        scheduler = self._scheduler
        end_ms = scheduler.at_ms + duration_ms

        def user() -> None:
            if scheduler.at_ms < end_ms:
                self.users.act()
                scheduler.later(scheduler.between(200, 5_000), user)

        def fault() -> None:
            if scheduler.at_ms < end_ms:
                self.faults.strike(self._kinds[scheduler.between(0, len(self._kinds) - 1)])
                scheduler.later(scheduler.between(300, 3_500), fault)

        scheduler.later(scheduler.between(0, 2_000), user)
        scheduler.later(scheduler.between(500, 3_000), fault)
        self._run_until(end_ms)

    def _run_until(self, end_ms: int) -> None:
        scheduler, step = self._scheduler, self._scheduler.step
        scheduler.later(end_ms - scheduler.at_ms, lambda: None)
        while scheduler.at_ms < end_ms:
            step()
        self._note_leader()

    def _settle(self) -> int:
        """Run until the cluster is settled and stays so; return how long that took. Raises S3, S5."""
        began_ms = self._scheduler.at_ms
        while (why := self.cluster.unsettled()) is not None or (why := self._promises()) is not None:
            if self._scheduler.at_ms - began_ms > SETTLE_LIMIT_MS:
                invariant = "S3" if self.cluster.unsettled() is not None else "S5"
                raise InvariantViolation(invariant, f"not settled {SETTLE_LIMIT_MS} ms after the last fault: {why}")
            self._run_until(self._scheduler.at_ms + LOOK_MS)
        return self._scheduler.at_ms - began_ms

    def _promises(self) -> str | None:
        return "; ".join(self.users.broken_promises()) or None

    def _note_leader(self) -> None:
        leader_id = self.cluster.group.leader_id
        if leader_id and leader_id != self._leader_id:
            self._leader_id = leader_id
            self._leaders += 1

    def _tally(self, settled_ms: int) -> Tally:
        truth = self.cluster.truth
        return Tally(
            schedules=1,
            steps=self._scheduler.steps,
            virtual_ms=self._scheduler.at_ms,
            longest_settling_ms=settled_ms,
            generations=self.cluster.group.generation,
            leader_changes=self._leaders - 1,
            task_starts=truth.starts,
            batches=truth.batches,
            commits=truth.commits,
            faults=self.faults.struck,
            writes=self.users.answers,
        )


def run_schedule(seed: int, kinds: Sequence[str] = FAULTS, trouble_ms: tuple[int, int] = TROUBLE_MS) -> Tally:
    """Run one schedule. Raises ScheduleFailed."""
    return Schedule(seed, kinds, trouble_ms).run()


def run_schedules(
    seeds: Iterable[int], kinds: Sequence[str] = FAULTS, trouble_ms: tuple[int, int] = TROUBLE_MS
) -> Tally:
    """Run many; the herders' log lines are switched off meanwhile. Raises ScheduleFailed at the first failure."""
    total = Tally()
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        for number, seed in enumerate(seeds):
            total.add(run_schedule(seed, kinds, trouble_ms))
            if number % 50 == 0:
                gc.collect()
    finally:
        logging.disable(disabled)
    return total

"""A slice that starts while its driver is frozen: its tasks run elsewhere by the time the driver continues (E5)."""

from __future__ import annotations

import pytest

from spark_connect_rt.engine.driver.engine import Engine
from spark_connect_rt.runtime.herder.herder_requests import PutConfig
from tests.support.simulation.simulated_cluster import SimulatedCluster, memory_source
from tests.support.simulation.simulated_invariants import InvariantViolation
from tests.support.simulation.simulated_slices import SliceTimes
from tests.support.simulation.simulated_threads import Scheduler

FROZEN_MS = 14_000  # longer than the session, so that the group gives the tasks to the other worker
LATE_MS = 13_000
SEEDS = range(16)


def thaw_behind_a_late_slice(seed: int) -> None:
    times = SliceTimes(start_ms=1, way_ms=20)  # a task is quick to start, a stop may be late
    cluster = SimulatedCluster(Scheduler(seed), {"scheduled.rebalance.max.delay.ms": "0"}, times=times)
    try:
        first = cluster.add_worker("w1")
        cluster.add_worker("w2")
        cluster.until(lambda: cluster.unsettled() is None)
        cluster.run_for(1_000)
        first.slices.lose_slices()
        first.slices.slow_connect_ms = LATE_MS
        leader = cluster.leader()
        assert leader is not None
        leader.herder.submit(PutConfig("a", memory_source(4)))
        cluster.until(lambda: len(first.slices.slices) == 1)
        first.process.freeze()
        cluster.run_for(FROZEN_MS)
        assert [slice_.up for slice_ in first.slices.slices] == [True]
        first.process.thaw()
        cluster.run_for(20_000)
        cluster.until(lambda: cluster.unsettled() is None)
    finally:
        cluster.close()


def broken(seed: int) -> bool:
    try:
        thaw_behind_a_late_slice(seed)
    except InvariantViolation as violation:
        return violation.invariant == "S1"
    return False


def test_e5_a_thawed_driver_hosts_nothing_in_a_slice_that_came_up_meanwhile() -> None:
    assert not any(broken(seed) for seed in SEEDS)


@pytest.mark.parametrize("at_once", [True, False])
def test_it_would_without_asking_for_contact_and_ahead_of_the_stops(
    at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hasty(engine: Engine, number: int) -> None:
        if at_once or engine._holds_lease():
            engine._slots.connected(number)
        else:
            engine._loop.later(500, lambda: hasty(engine, number))

    monkeypatch.setattr(Engine, "_on_connected", hasty)
    assert any(broken(seed) for seed in SEEDS)

"""Seeded schedules of real herders: no invariant breaks, and enough went wrong to mean something.

A thousand of them in every run of the tests, ten thousand by ``./test.sh long``.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

import pytest

from spark_connect_rt.engine.driver.loop import Loop, Step
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.suite.steps import SCHEDULES as SCHEDULES_VARIABLE
from tests.support.simulation.simulated_faults import FAULTS
from tests.support.simulation.simulated_schedule import Tally, run_schedule, run_schedules
from tests.support.simulation.simulated_slices import SliceTimes

SCHEDULES = int(os.environ.get(SCHEDULES_VARIABLE, "1000"))
AT_A_TIME = 50  # both processes end at nearly the same time
PROCESSES = 2


def in_processes(seeds: list[int]) -> Tally:
    """Run seeds in blocks on two processes; the first failure ends it, and names its seed."""
    blocks = [seeds[at : at + AT_A_TIME] for at in range(0, len(seeds), AT_A_TIME)]
    total = Tally()
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, mp_context=spawn, initializer=_begin) as pool:
        try:
            for done in as_completed([pool.submit(run_schedules, block) for block in blocks]):
                total.add(done.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return total


def _begin() -> None:
    """Let a step of the engine that raises end its schedule. In production it is logged, and the engine continues.

    Also exclude imported objects from garbage collection: visiting them takes 5 % of the time.
    """
    Loop._guarded = staticmethod(_unguarded)  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _unguarded(step: Step) -> None:
    step()


@pytest.mark.timeout(1_200)
def test_schedules_keep_every_invariant(capsys: pytest.CaptureFixture[str]) -> None:
    began_s = time.monotonic()
    total = in_processes(list(range(SCHEDULES)))
    took_s = time.monotonic() - began_s
    with capsys.disabled():
        print(f"\n{SCHEDULES} schedules in {took_s:.0f} s, {SCHEDULES / took_s:.0f}/s")
        print(total.report())
    assert total.schedules == SCHEDULES
    assert {kind: total.faults[kind] for kind in FAULTS if total.faults[kind] < SCHEDULES // 20} == {}
    assert total.generations > 5 * SCHEDULES
    assert total.leader_changes > SCHEDULES // 10
    assert total.batches > 5 * SCHEDULES
    assert total.commits > 5 * SCHEDULES
    assert total.writes.total() > 2 * SCHEDULES


def test_a_seed_is_all_of_a_schedule() -> None:
    assert run_schedule(7) == run_schedule(7)
    assert run_schedule(7) != run_schedule(8)


def test_executors_of_the_simulation_bear_silence_as_long_as_those_of_spark() -> None:
    assert SliceTimes().silence_ms == worker_settings().channel_timeout_ms
    assert SliceTimes().ping_ms == worker_settings().channel_timeout_ms // 3

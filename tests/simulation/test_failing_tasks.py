"""Tasks fail by their own code while everything else goes wrong: the restart policy brings them back, once each."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.support.simulation.simulated_faults import FAILING_TASKS, FAULTS
from tests.support.simulation.simulated_schedule import Schedule, Tally

SCHEDULES = 40
BACKOFF = {
    "errors.restart.policy": "backoff",
    "errors.restart.delay.ms": "300",
    "errors.restart.delay.max.ms": "4000",
    "errors.restart.max": "1000",
    "errors.restart.poison": "0",
}


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(disabled)


def test_every_invariant_holds_and_every_task_runs_in_the_end() -> None:
    total = Tally()
    kinds = (*FAULTS, *[FAILING_TASKS] * (len(FAULTS) // 2))
    for seed in range(SCHEDULES):
        total.add(Schedule(seed, kinds, worker_config=BACKOFF).run())
    assert total.faults[FAILING_TASKS] > SCHEDULES // 2
    assert sum(total.faults[kind] for kind in FAULTS) > SCHEDULES

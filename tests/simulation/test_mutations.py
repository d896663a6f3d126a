"""Each guard, taken out, is noticed by the simulation: as the invariant it keeps."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS, Mutation
from tests.support.simulation.simulated_schedule import ScheduleFailed, run_schedules


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_without_its_guard_an_invariant_breaks(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.remove(monkeypatch)
    broken = []
    for seed in (mutation.shown_by, *range(mutation.seeds)):
        try:
            run_schedules([seed], mutation.faults, mutation.trouble_ms)
        except ScheduleFailed as failed:
            broken.append(failed.invariant)
            if failed.invariant == mutation.invariant:
                return
    pytest.fail(f"{mutation.seeds} seeds kept {mutation.invariant} without the guard; broken was {broken}")


@pytest.mark.parametrize(("invariant", "guards"), [("S1", 7), ("S2", 4), ("S3", 5), ("S4", 2), ("S5", 1)])
def test_every_invariant_has_guards_to_lose(invariant: str, guards: int) -> None:
    assert sum(mutation.invariant == invariant for mutation in MUTATIONS) == guards

"""Back-off with jitter."""

from __future__ import annotations

import random

import pytest

from spark_connect_rt.base.backoff import Backoff


@pytest.mark.parametrize(("failures", "wait"), [(0, 100), (1, 100), (2, 200), (4, 800), (5, 1_000), (5_000, 1_000)])
def test_wait_doubles_with_each_failure_up_to_the_longest(failures: int, wait: float) -> None:
    assert Backoff(100, 1_000).wait(failures, 0.5) == wait


def test_jitter_spreads_the_wait_evenly_around_its_exact_length() -> None:
    chance = random.Random(7)
    waits = [Backoff(100, 10_000).wait(3, chance.random()) for _ in range(1_000)]
    assert min(waits) >= 320
    assert max(waits) <= 480
    assert sum(waits) / len(waits) == pytest.approx(400, rel=0.02)
    assert len(set(waits)) > 900


def test_jitter_never_exceeds_the_longest_wait() -> None:
    assert Backoff(100, 1_000).wait(5, 1.0) == 1_000
    assert Backoff(100, 1_000, jitter=0).wait(2, 1.0) == 200


def test_waits_at_the_bound_are_still_spread() -> None:
    assert Backoff(100, 1_000).wait(50, 0.0) == 800

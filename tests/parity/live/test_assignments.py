"""Java's leader and ours, asked the same by histories that nobody has recorded."""

from __future__ import annotations

from tests.parity.group_history import make_up
from tests.parity.java_leader import JavaLeader
from tests.parity.leaders import JavaLeaders
from tests.parity.record_assignments import compare

SEEDS = range(20_000, 20_030)


def test_both_leaders_assign_the_same_to_every_group() -> None:
    with JavaLeader() as java:
        assert sum(compare(JavaLeaders(java), *make_up(seed, 40)) for seed in SEEDS) > 400

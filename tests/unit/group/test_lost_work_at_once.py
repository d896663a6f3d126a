"""In a group that has only our workers, lost work is placed at once; the pause between revocations stays Java's."""

from __future__ import annotations

from tests.unit.group.simulated_group import SimulatedGroup

JAVAS_DELAY_MS = 300_000


def own_group(lost_delay_ms: int = 0, **tasks_by_connector: int) -> SimulatedGroup:
    group = SimulatedGroup(JAVAS_DELAY_MS, **(tasks_by_connector or {"c1": 4, "c2": 4}))
    group.lost_delay_ms = lost_delay_ms
    group.join("w1", "w2", "w3")
    group.settle()
    return group


def test_work_of_a_vanished_worker_is_placed_in_the_first_round() -> None:
    group = own_group()
    group.leave("w3")
    group.round()
    assert group.problems() == []
    assert (sum(tasks for _, tasks in group.loads()), group.delay_ms) == (8, 0)


def test_as_soon_as_a_java_worker_is_there_it_waits_as_java_has_it() -> None:
    group = own_group()
    group.lost_delay_ms = None
    group.leave("w3")
    group.round()
    assert group.delay_ms == JAVAS_DELAY_MS


def test_an_own_delay_is_shorter_than_javas() -> None:
    group = own_group(lost_delay_ms=700)
    group.leave("w3")
    group.round()
    assert group.delay_ms == 700
    group.now_ms += 700
    group.settle()
    assert group.problems() == []


def paused_between_revocations() -> SimulatedGroup:
    """Two newcomers in two revoking rounds: the second revocation waits for its pause."""
    group = SimulatedGroup(JAVAS_DELAY_MS, c1=20)
    group.lost_delay_ms = 0
    group.join("w1")
    group.settle()
    group.join("w2")
    group.round()
    group.join("w3")
    group.round()
    assert group.delay_ms == 40
    return group


def test_the_pause_between_revocations_ends_and_the_group_gets_balanced() -> None:
    group = paused_between_revocations()
    group.now_ms += 40
    group.settle()
    assert group.problems() == []
    assert max(tasks for _, tasks in group.loads()) - min(tasks for _, tasks in group.loads()) <= 1


def test_work_lost_during_the_pause_is_placed_at_once_and_the_pause_continues() -> None:
    group = paused_between_revocations()
    group.now_ms += 10
    group.leave("w2")
    group.round()
    assert group.delay_ms == 30
    assert sum(tasks for _, tasks in group.loads()) == 20
    group.now_ms += 30
    group.settle()
    assert group.problems() == []
    assert [tasks for _, tasks in group.loads()] == [10, 10]

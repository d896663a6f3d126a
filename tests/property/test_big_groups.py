"""Groups with a small record: after any events no record is rejected, and all work ends up held once, evenly."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.support.compact_group import CompactGroup

LIMIT_BYTES = 4_096


class NarrowGroup(RuleBasedStateMachine):
    """Joins, losses, new leaders and configurations; several may happen before the group is settled again."""

    @initialize(workers=st.integers(1, 18), tasks=st.integers(0, 120))
    def begin(self, workers: int, tasks: int) -> None:
        self.group = CompactGroup({"a": tasks, "b-long-name": 7}, limit_bytes=LIMIT_BYTES)
        self.group.join(workers)
        self.group.settle()
        self.changed = False

    @rule(count=st.integers(1, 6))
    def join(self, count: int) -> None:
        if len(self.group.workers) + count <= 22:
            self.group.join(count)
            self.changed = True

    @rule(count=st.integers(1, 6))
    def leave(self, count: int) -> None:
        if len(self.group.workers) > count:
            self.group.leave(count)
            self.changed = True

    @rule()
    def lose_the_leader(self) -> None:
        if len(self.group.workers) > 1:
            self.group.change_leader()
            self.changed = True

    @rule(name=st.sampled_from(["a", "b-long-name", "c", "d"]), tasks=st.integers(0, 150))
    def configure(self, name: str, tasks: int) -> None:
        self.group.configure({**self.group.connectors, name: tasks})
        self.changed = True

    @rule(name=st.sampled_from(["a", "b-long-name", "c", "d"]))
    def delete(self, name: str) -> None:
        self.group.configure({connector: n for connector, n in self.group.connectors.items() if connector != name})
        self.changed = True

    @rule()
    def settle(self) -> None:
        self.group.settle()
        self.changed = False

    @invariant()
    def no_task_is_held_twice(self) -> None:
        if hasattr(self, "group"):
            self.group.check_once()
            if not self.changed:
                self.group.check()


NarrowGroup.TestCase.settings = settings(max_examples=12, stateful_step_count=10, deadline=None)
TestNarrowGroup = NarrowGroup.TestCase


def test_a_new_leader_asks_members_in_as_many_rounds_as_it_takes() -> None:
    group = CompactGroup({f"{n * 7919 % 9973:04d}-of-some-team": 4 for n in range(300)}, limit_bytes=4_096)
    group.join(22)
    first = group.settle()
    assert first.rounds > 1  # not all work had room at once
    group.check()
    group.change_leader()
    again = group.settle()
    assert again.asked_rounds >= 2
    group.check()


def test_members_of_a_small_group_never_need_to_be_asked() -> None:
    group = CompactGroup({f"connector-{n}": 40 for n in range(20)})
    group.join(22)
    assert group.settle().rounds == 1
    group.change_leader()
    assert group.settle().rounds == 1
    group.check()


def test_a_new_leader_revokes_what_was_deleted_while_there_was_none() -> None:
    group = CompactGroup({"a": 1, "b": 7})
    group.join(2)
    group.settle()
    group.change_leader()
    group.configure({"a": 0, "b": 7})
    assert group.settle().rounds == 3  # taken over, revoked, nothing left to do
    group.check()

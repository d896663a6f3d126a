"""For any events of a group's members, no event is ever illegal and the group settles in the end."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from spark_connect_rt.group.member import Assigned, AssignmentRequired, ContactLost, JoinRequired
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.testing.memory_group import MemoryGroup, MemoryGroupMember

SESSION_MS, REBALANCE_MS = 6_000, 10_000
WHO = st.integers(0, 3)


class _Worker:
    """A herder that answers when the test lets it, in the order it was asked."""

    def __init__(self, member: MemoryGroupMember) -> None:
        self.member = member
        self.asked: list[JoinRequired | AssignmentRequired] = []
        self.work: Assigned | None = None
        self.wants_in = True
        member.start()

    def poll(self) -> None:
        for event in self.member.poll(0):
            if isinstance(event, Assigned):
                self.work = event
            elif isinstance(event, ContactLost):
                self.work = None
            else:
                self.asked.append(event)

    def answer(self) -> None:
        if not self.asked:
            return
        asked = self.asked.pop(0)
        if isinstance(asked, JoinRequired):
            # A herder that is asked twice answers once: the newer question covers the older.
            if not any(isinstance(later, JoinRequired) for later in self.asked):
                self.member.join([("sessioned", b"")])
        elif not self.asked:
            self.member.sync({member: member.encode() for member in asked.members})


class GroupOfMembers(RuleBasedStateMachine):
    """Four workers, one virtual clock, every fault the in-memory group knows."""

    def __init__(self) -> None:
        super().__init__()
        self.clock_ms = 0
        self.group = MemoryGroup(monotonic_ms=lambda: self.clock_ms)
        timing = Timing(SESSION_MS, 1_000, REBALANCE_MS)
        self.workers = [_Worker(self.group.member(f"w{n}", timing=timing)) for n in range(4)]

    @rule(who=WHO)
    def poll(self, who: int) -> None:
        self.workers[who].poll()

    @rule(who=WHO)
    def answer(self, who: int) -> None:
        self.workers[who].answer()

    @rule(who=WHO)
    def ask_for_a_rebalance(self, who: int) -> None:
        self.workers[who].member.request_rejoin("the configuration changed")

    @rule(who=WHO)
    def leave(self, who: int) -> None:
        worker = self.workers[who]
        worker.member.leave("why not")
        worker.asked, worker.work = [], None

    @rule(who=WHO)
    def cut_off(self, who: int) -> None:
        self.workers[who].member.cut_off()

    @rule(who=WHO)
    def reconnect(self, who: int) -> None:
        if not self.workers[who].member.reachable:
            self.workers[who].member.reconnect()

    @rule(ms=st.sampled_from([100, 1_000, SESSION_MS, REBALANCE_MS]))
    def wait(self, ms: int) -> None:
        self.clock_ms += ms

    @precondition(lambda self: self.group.member_ids)
    @rule(who=WHO)
    def expel(self, who: int) -> None:
        ids = self.group.member_ids
        self.group.expel(ids[who % len(ids)])

    @invariant()
    def nobody_believes_in_work_that_is_long_lost(self) -> None:
        for worker in self.workers:
            worker.member.check_time()
            state = worker.member.state
            assert not state.holding or self.clock_ms - state.last_contact_ms < SESSION_MS

    def teardown(self) -> None:
        for worker in self.workers:
            if not worker.member.reachable:
                worker.member.reconnect()
            worker.member.request_rejoin("everybody come back")
        for _ in range(60):
            for worker in self.workers:
                worker.poll()
                while worker.asked:
                    worker.answer()
            self.clock_ms += 500
        told = [worker.work for worker in self.workers]
        assert {work.generation for work in told if work} == {self.group.generation}
        assert [work.assignment.decode() for work in told if work] == [w.member.member_id() for w in self.workers]
        assert sorted(self.group.member_ids) == sorted(w.member.member_id() for w in self.workers)


GroupOfMembers.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestGroupOfMembers = GroupOfMembers.TestCase


def test_member_expelled_while_its_join_waits_comes_back() -> None:
    group = GroupOfMembers()  # found by the machine above
    for who in (3, 0):
        group.poll(who)
        group.answer(who)
    group.expel(1)
    group.teardown()

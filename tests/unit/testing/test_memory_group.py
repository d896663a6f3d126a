"""The in-memory group keeps the contract of group members; its faults do what they say."""

from __future__ import annotations

import pytest

from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.group.member import ContactLost, GroupMember, JoinRequired
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.testing.memory_group import MemoryGroup
from tests.contract.group_member_contract import (
    REBALANCE_MS,
    SESSION_MS,
    GroupMemberContract,
    settled,
    until,
)


class TestMemoryGroupMember(GroupMemberContract):
    @pytest.fixture(autouse=True)
    def _group(self) -> None:
        self.clock_ms = 0
        self.group = MemoryGroup(monotonic_ms=lambda: self.clock_ms)

    def new_member(self, name: str) -> GroupMember:
        return self.group.member(name, timing=Timing(SESSION_MS, 1_000, REBALANCE_MS))

    def vanish(self, member: GroupMember) -> None:
        member.vanish()  # type: ignore[attr-defined]

    def pass_time(self, ms: int) -> None:
        self.clock_ms += ms

    def test_an_isolated_member_stops_its_work_and_comes_back(self) -> None:
        a, b = self.pair()
        a.member.cut_off()  # type: ignore[attr-defined]
        for _ in range(SESSION_MS // 1_000):
            assert b.last().leader_id != b.member.member_id()  # type: ignore[union-attr]
            self.pass_time(1_000)
            b.tick()
            a.tick()
            assert a.saw(ContactLost) == (self.clock_ms >= a.member.timing.lease_ms)  # type: ignore[attr-defined]
        until(lambda: b.last().leader_id == b.member.member_id(), [b])  # type: ignore[union-attr]
        a.member.reconnect()  # type: ignore[attr-defined]
        until(lambda: settled(a, b), [a, b])

    def test_a_short_cut_goes_unnoticed(self) -> None:
        a, b = self.pair()
        before = a.last()
        a.member.cut_off()  # type: ignore[attr-defined]
        self.pass_time(SESSION_MS // 2)
        b.tick()
        a.tick()
        a.member.reconnect()  # type: ignore[attr-defined]
        until(lambda: settled(a, b), [a, b])
        assert a.last() is before

    def test_an_expelled_member_stops_before_it_rejoins(self) -> None:
        a, b = self.pair()
        seen = len(a.seen)
        self.group.expel(a.member.member_id())
        until(lambda: settled(a, b) and len(a.seen) > seen, [a, b])
        assert [type(event) for event in a.seen[seen : seen + 2]] == [ContactLost, JoinRequired]

    def test_members_without_a_common_protocol_are_refused(self) -> None:
        a = self.herder("a", protocols=("sessioned",))
        until(a.is_settled, [a])
        b = self.herder("b", protocols=("default",))
        with pytest.raises(BadConfigError, match=r"connect\.protocol"):
            until(lambda: False, [a, b])

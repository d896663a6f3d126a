"""The contract of every group member, in memory (tests/unit) and on a real broker (tests/integration)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from spark_connect_rt.group.member import (
    Assigned,
    AssignmentRequired,
    ContactLost,
    GroupMember,
    JoinRequired,
    MembershipEvent,
)

LIMIT_S = 30.0
SESSION_MS = 6_000  # the least a broker allows by default
REBALANCE_MS = 4_000


class Herder:
    """The part of a herder that answers a member: offers its metadata, assigns work as the leader."""

    def __init__(self, name: str, member: GroupMember, protocols: Sequence[str] = ("sessioned", "default")) -> None:
        self.name = name
        self.member = member
        self.protocols = protocols
        self.seen: list[MembershipEvent] = []
        self.answers_joins = True
        member.start()

    def tick(self, timeout_ms: int = 20) -> None:
        for event in self.member.poll(timeout_ms):
            self.seen.append(event)
            if isinstance(event, JoinRequired) and self.answers_joins:
                self.member.join([(name, f"{self.name} {name}".encode()) for name in self.protocols])
            elif isinstance(event, AssignmentRequired):
                self.member.sync({m: b"work of " + said for m, said in event.members.items()})

    def last(self) -> Assigned | None:
        return next((event for event in reversed(self.seen) if isinstance(event, Assigned)), None)

    def is_settled(self) -> bool:
        last = self.last()
        return last is not None and self.member.member_id() == last.member_id

    def saw(self, kind: type, since: int = 0) -> bool:
        return any(isinstance(event, kind) for event in self.seen[since:])


def until(condition: Callable[[], bool], herders: Sequence[Herder], limit_s: float = LIMIT_S) -> None:
    """Tick the herders in turn until the condition holds; report the events of each when it never does."""
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("\n".join(f"{herder.name} saw {herder.seen}" for herder in herders))
        for herder in herders:
            herder.tick()


def settled(*herders: Herder) -> bool:
    """All stable in one generation, as members of one another."""
    lasts = [herder.last() for herder in herders]
    return (
        all(herder.is_settled() for herder in herders)
        and len({last.generation for last in lasts if last}) == 1
        and len({last.leader_id for last in lasts if last}) == 1
    )


class GroupMemberContract:
    """Subclasses provide ``new_member``, ``vanish`` and ``pass_time``."""

    @pytest.fixture(autouse=True)
    def _members(self) -> Iterator[None]:
        self.herders: list[Herder] = []
        yield
        for herder in self.herders:
            herder.member.stop()

    def new_member(self, name: str) -> GroupMember:
        raise NotImplementedError

    def vanish(self, member: GroupMember) -> None:
        raise NotImplementedError

    def pass_time(self, ms: int) -> None:
        """Advance a virtual clock; a real one advances by itself."""

    def herder(self, name: str, **options: Sequence[str]) -> Herder:
        made = Herder(name, self.new_member(name), **options)
        self.herders.append(made)
        return made

    def pair(self) -> tuple[Herder, Herder]:
        a, b = self.herder("a"), self.herder("b")
        until(lambda: settled(a, b), [a, b])
        return a, b

    def test_a_lone_member_leads_and_is_given_what_it_assigned(self) -> None:
        a = self.herder("a")
        until(a.is_settled, [a])
        kinds = [type(event) for event in a.seen]
        assert kinds == [JoinRequired, AssignmentRequired, Assigned]
        _, asked, told = a.seen
        assert isinstance(asked, AssignmentRequired)
        assert isinstance(told, Assigned)
        assert (asked.protocol, asked.leader_id) == ("sessioned", told.member_id)
        assert asked.members == {told.member_id: b"a sessioned"}
        assert (told.generation, told.leader_id) == (asked.generation, told.member_id)
        assert told.assignment == b"work of a sessioned"
        assert told.generation >= 1

    def test_the_member_id_is_empty_until_stable(self) -> None:
        a = self.herder("a")
        assert a.member.member_id() == ""
        until(lambda: a.saw(JoinRequired), [a])
        assert a.member.member_id() == ""
        until(a.is_settled, [a])
        a.member.request_rejoin("the configuration changed")
        assert a.member.member_id() == ""

    def test_a_second_member_brings_both_into_one_generation(self) -> None:
        a = self.herder("a")
        until(a.is_settled, [a])
        first = a.last()
        b = self.herder("b")
        until(lambda: settled(a, b), [a, b])
        assert first is not None
        assert a.last().generation > first.generation  # type: ignore[union-attr]
        assert a.last().leader_id == first.member_id  # type: ignore[union-attr]
        assert [h.last().assignment for h in (a, b)] == [  # type: ignore[union-attr]
            b"work of a sessioned",
            b"work of b sessioned",
        ]
        assert not b.saw(AssignmentRequired)

    def test_one_member_with_the_old_protocol_takes_the_group_down_to_it(self) -> None:
        a, b = self.herder("a"), self.herder("b", protocols=("default",))
        until(lambda: settled(a, b), [a, b])
        assert a.last().protocol == "default"  # type: ignore[union-attr]
        assert a.last().assignment == b"work of a default"  # type: ignore[union-attr]

    def by_role(self) -> tuple[Herder, Herder]:
        """Return leader and follower of a settled pair."""
        a, b = self.pair()
        return (a, b) if a.member.member_id() == a.last().leader_id else (b, a)  # type: ignore[union-attr]

    def test_a_leaders_rejoin_gives_a_new_generation(self) -> None:
        leader, follower = self.by_role()
        before = leader.last()
        leader.member.request_rejoin("the configuration changed")
        until(lambda: settled(leader, follower) and leader.last() is not before, [leader, follower])
        assert leader.last().generation > before.generation  # type: ignore[union-attr]

    def test_a_followers_rejoin_with_news_gives_a_new_generation(self) -> None:
        leader, follower = self.by_role()
        before = follower.last()
        follower.name += "'s news"
        follower.member.request_rejoin("the configuration changed")
        until(lambda: settled(leader, follower) and follower.last() is not before, [leader, follower])
        assert follower.last().generation > before.generation  # type: ignore[union-attr]
        assert b"news" in follower.last().assignment  # type: ignore[union-attr]

    def test_a_followers_rejoin_without_news_repeats_the_generation_and_the_assignment(self) -> None:
        leader, follower = self.by_role()
        before, seen = follower.last(), len(follower.seen)
        follower.member.request_rejoin("nothing changed")
        until(lambda: follower.saw(Assigned, since=seen) and settled(leader, follower), [leader, follower])
        assert follower.last() == before

    def test_leaving_hands_over_at_once_and_a_rejoin_gets_another_member_id(self) -> None:
        a, b = self.pair()
        old_id, asked = a.member.member_id(), len(b.seen)
        a.member.leave("taking too long to read the log")
        assert a.member.member_id() == ""
        until(lambda: b.saw(AssignmentRequired, since=asked) and b.is_settled(), [b])
        assert b.last().leader_id == b.member.member_id()  # type: ignore[union-attr]
        assert not a.saw(ContactLost)
        a.member.request_rejoin("the log was read")
        until(lambda: settled(a, b), [a, b])
        assert a.member.member_id() != old_id

    def test_a_member_that_vanishes_is_replaced_after_its_session(self) -> None:
        a, b = self.pair()
        self.vanish(a.member)
        asked = len(b.seen)
        self.pass_time(SESSION_MS // 2)
        b.tick()
        self.pass_time(SESSION_MS // 2)
        until(lambda: b.saw(AssignmentRequired, since=asked) and b.is_settled(), [b])
        assert b.last().leader_id == b.member.member_id()  # type: ignore[union-attr]

    def test_a_stopped_member_leaves_its_group(self) -> None:
        a, b = self.pair()
        begun = time.monotonic()
        a.member.stop()
        a.member.stop()
        asked = len(b.seen)
        until(lambda: b.saw(AssignmentRequired, since=asked) and b.is_settled(), [b])
        assert time.monotonic() - begun < SESSION_MS / 1000

    def test_member_that_does_not_poll_loses_its_place_and_its_work(self) -> None:
        a, b = self.pair()
        old_id, asked = a.member.member_id(), len(b.seen)
        for _ in range(REBALANCE_MS // 1_000):  # b's herder continues, a's hangs
            self.pass_time(1_000)
            b.tick()
        until(lambda: b.saw(AssignmentRequired, since=asked) and b.is_settled(), [b])
        seen = len(a.seen)
        until(lambda: settled(a, b), [a, b])
        assert [type(event) for event in a.seen[seen : seen + 2]] == [ContactLost, JoinRequired]
        assert a.member.member_id() != old_id

    def test_a_wakeup_ends_the_poll_it_meets_or_the_next_one(self) -> None:
        a = self.herder("a")
        until(a.is_settled, [a])
        a.member.wakeup()
        begun = time.monotonic()
        assert list(a.member.poll(5_000)) == []
        assert time.monotonic() - begun < 2

    def test_a_poll_with_nothing_to_say_ends_in_time(self) -> None:
        a = self.herder("a")
        until(a.is_settled, [a])
        begun = time.monotonic()
        assert list(a.member.poll(100)) == []
        assert 0.09 <= time.monotonic() - begun < 2

    def test_a_join_for_an_outdated_question_is_dropped(self) -> None:
        a = self.herder("a")
        until(a.is_settled, [a])
        a.answers_joins = False
        a.member.request_rejoin("first question")
        until(lambda: a.seen[-1] == JoinRequired("first question"), [a])
        a.member.leave("changed its mind")
        a.member.request_rejoin("second question")
        seen = len(a.seen)
        a.member.join([("sessioned", b"older than the leave")])
        a.answers_joins = True
        until(a.is_settled, [a])
        asked = next(event for event in a.seen[seen:] if isinstance(event, AssignmentRequired))
        assert list(asked.members.values()) == [b"a sessioned"]

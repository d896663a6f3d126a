"""Every row of the membership table, and the scenarios that make the rows necessary."""

from __future__ import annotations

import pytest

from spark_connect_rt.group import membership as ev
from spark_connect_rt.group.membership import (
    IN_GROUP,
    NEXT,
    Effect,
    IllegalTransitionError,
    Member,
    MemberPhase,
    Timing,
    holds_lease,
    in_contact,
    must_heartbeat,
    next_deadline_ms,
    overdue,
    step,
)

OFFER = (("sessioned", b"meta"),)
SAMPLES: dict[type, object] = {
    type(event): event
    for event in [
        ev.Started(),
        ev.RejoinRequested("why"),
        ev.JoinOffered(3, OFFER),
        ev.SyncOffered(7, {"m": b"work"}),
        ev.LeaveRequested("why"),
        ev.Polled(),
        ev.Fenced(),
        ev.PollExpired(),
        ev.ContactExpired(),
        ev.CoordinatorFound(),
        ev.CoordinatorLost("why"),
        ev.MemberIdGiven("m2"),
        ev.JoinedAsLeader(8, "sessioned", "m", "m", {"m": b"meta"}, 500),
        ev.JoinedAsFollower(8, "sessioned", "m", "l", 500),
        ev.SyncAnswered(b"work", 600),
        ev.RoundAborted(),
        ev.HeartbeatOk(7, 700),
        ev.RebalanceSignalled(7, 700),
        ev.GenerationLost(7, 700),
        ev.MemberUnknown(7),
        ev.RequestRefused("why"),
    ]
}


def member_in(phase: MemberPhase) -> Member:
    """A member of generation 7, round 3, holding work, with a coordinator."""
    known = phase in IN_GROUP
    return Member(phase, "m", 7, "sessioned", "m", known, holding=known, round=3, last_contact_ms=100)


@pytest.mark.parametrize("phase", list(MemberPhase))
@pytest.mark.parametrize("kind", list(SAMPLES), ids=lambda kind: kind.__name__)
def test_every_pair_of_phase_and_event(phase: MemberPhase, kind: type) -> None:
    before = member_in(phase)
    if (phase, kind) not in NEXT:
        with pytest.raises(IllegalTransitionError, match=f"{kind.__name__} while {phase.value}"):
            step(before, SAMPLES[kind])
        return
    wanted_phase, wanted_effects = NEXT[phase, kind]
    after, effects = step(before, SAMPLES[kind])
    assert after.phase is wanted_phase
    assert effects == wanted_effects
    assert after.round == before.round + (Effect.TELL_JOIN in effects)
    if Effect.TELL_CONTACT_LOST in effects:
        assert not after.holding
    if after.phase not in IN_GROUP:
        assert not after.coordinator_known


def test_no_row_is_for_an_unknown_event() -> None:
    assert {kind for _, kind in NEXT} == set(SAMPLES)


def test_herder_and_time_events_are_legal_in_every_phase() -> None:
    # They cannot see the phase change under them; only a second join or sync for the same request is a bug.
    for kind in (ev.RejoinRequested, ev.LeaveRequested, ev.Polled):
        assert all((phase, kind) in NEXT for phase in MemberPhase)


def run(member: Member, *events: object) -> tuple[Member, list[Effect]]:
    effects: list[Effect] = []
    for event in events:
        member, more = step(member, event)
        effects += more
    return member, effects


def joined(member: Member | None = None) -> Member:
    """A follower, stable in generation 1."""
    return run(
        member or Member(),
        ev.Started(),
        ev.CoordinatorFound(),
        ev.JoinOffered(1, OFFER),
        ev.MemberIdGiven("m"),
        ev.JoinedAsFollower(1, "sessioned", "m", "l", 1_000),
        ev.SyncAnswered(b"work", 1_100),
    )[0]


def test_first_join_with_a_member_id_asked_for() -> None:
    member, effects = run(Member(), ev.Started(), ev.CoordinatorFound(), ev.JoinOffered(1, OFFER))
    assert effects == [Effect.FIND_COORDINATOR, Effect.TELL_JOIN, Effect.SEND_JOIN]
    member, effects = run(member, ev.MemberIdGiven("m"))
    assert (member.member_id, member.generation, member.offer) == ("m", -1, OFFER)
    assert effects == [Effect.SEND_JOIN]
    member, effects = run(member, ev.JoinedAsLeader(1, "sessioned", "m", "m", {"m": b""}, 1_000))
    assert effects == [Effect.TELL_ASSIGNMENT_REQUIRED]
    member, effects = run(member, ev.SyncOffered(1, {"m": b"all"}))
    assert effects == [Effect.SEND_SYNC]
    assert member.plan == {"m": b"all"}
    member, effects = run(member, ev.SyncAnswered(b"all", 1_200))
    assert effects == [Effect.TELL_ASSIGNED]
    assert member.holding
    assert member.last_contact_ms == 1_200


def test_a_broken_connection_keeps_the_generation() -> None:
    member, effects = run(joined(), ev.CoordinatorLost("reset by peer"), ev.CoordinatorFound())
    assert effects == [Effect.FIND_COORDINATOR]
    assert (member.phase, member.generation, member.holding) == (MemberPhase.STABLE, 1, True)
    assert must_heartbeat(member)


def test_join_and_sync_wait_for_a_coordinator_and_are_sent_again() -> None:
    member, _ = run(joined(), ev.RejoinRequested("config"), ev.CoordinatorLost("gone"))
    member, effects = run(member, ev.JoinOffered(2, OFFER))
    assert (member.phase, effects) == (MemberPhase.JOINING, [])
    member, effects = run(member, ev.CoordinatorFound())
    assert effects == [Effect.SEND_JOIN]
    member, effects = run(
        member,
        ev.JoinedAsFollower(2, "sessioned", "m", "l", 2_000),
        ev.CoordinatorLost("gone"),
        ev.CoordinatorFound(),
    )
    assert effects == [Effect.SEND_SYNC, Effect.FIND_COORDINATOR, Effect.SEND_SYNC]


def test_i7_work_ends_before_the_session_of_the_last_answered_heartbeat() -> None:
    member, _ = run(joined(), ev.HeartbeatOk(1, 5_000), ev.HeartbeatOk(1, 4_000))
    timing = Timing(session_ms=10_000, rebalance_ms=60_000)
    assert timing.lease_ms == 8_000
    assert overdue(member, timing, 12_999, last_poll_ms=12_000) is None
    assert in_contact(member, timing, 12_999)
    assert next_deadline_ms(member, timing, last_poll_ms=12_000) == 13_000
    assert overdue(member, timing, 13_000, last_poll_ms=13_000) == ev.ContactExpired()
    assert not in_contact(member, timing, 13_000)


@pytest.mark.parametrize("lost", [ev.ContactExpired(), ev.PollExpired(), ev.MemberUnknown(1)])
def test_e5_lost_work_holds_no_lease_before_the_herder_has_ended_it(lost: object) -> None:
    timing = Timing(session_ms=10_000, heartbeat_ms=3_000, rebalance_ms=60_000)
    held, _ = run(joined(), ev.HeartbeatOk(1, 5_000))
    assert holds_lease(held, timing, 5_001, last_poll_ms=5_000)
    member, _ = run(held, lost)
    assert not holds_lease(member, timing, 5_001, last_poll_ms=5_000)
    member, _ = run(member, ev.Fenced())
    assert holds_lease(member, timing, 5_001, last_poll_ms=5_000)


def test_e5_hanging_herder_is_unhealthy_a_session_before_the_group_drops_it() -> None:
    timing = Timing(session_ms=10_000, heartbeat_ms=3_000, rebalance_ms=60_000)
    held, _ = run(joined(), ev.HeartbeatOk(1, 55_000))
    assert holds_lease(held, timing, 55_000, last_poll_ms=5_000)
    assert not holds_lease(held, timing, 55_001, last_poll_ms=5_000)
    assert overdue(held, timing, 55_001, last_poll_ms=5_000) is None


def test_contact_expiry_stops_work_once_and_keeps_the_member_id_for_the_rejoin() -> None:
    member, effects = run(joined(), ev.CoordinatorLost("silent"), ev.ContactExpired())
    assert effects == [Effect.FIND_COORDINATOR, Effect.TELL_CONTACT_LOST, Effect.FIND_COORDINATOR]
    assert overdue(member, Timing(), 10**9, 0) is None
    member, effects = run(member, ev.CoordinatorFound())
    assert effects == [Effect.TELL_JOIN]
    assert (member.member_id, member.holding) == ("m", False)
    # The coordinator may have expired it all the same; nothing is held, so nothing is lost twice.
    member, effects = run(member, ev.MemberUnknown(1))
    assert effects == [Effect.ABANDON, Effect.TELL_JOIN]
    assert member.member_id == ""


def test_a_join_that_answers_an_older_round_is_dropped() -> None:
    member, _ = run(joined(), ev.RejoinRequested("config"))
    assert member.round == 2
    member, _ = run(member, ev.MemberUnknown(1))
    member, effects = run(member, ev.JoinOffered(2, (("sessioned", b"claims work that was stopped"),)))
    assert (member.phase, effects, member.offer) == (MemberPhase.PREPARING, [], OFFER)
    assert run(member, ev.JoinOffered(3, OFFER))[0].phase is MemberPhase.JOINING


def test_late_answers_of_another_generation_change_nothing() -> None:
    member = joined()
    for late in (ev.GenerationLost(0, 9), ev.MemberUnknown(-1), ev.RebalanceSignalled(0, 9), ev.SyncOffered(0, {})):
        assert step(member, late) == (member, ())


def test_a_rejoin_asked_for_during_a_rebalance_follows_it() -> None:
    member, _ = run(joined(), ev.RebalanceSignalled(1, 2_000), ev.RejoinRequested("covered by this round"))
    member, _ = run(member, ev.JoinOffered(2, OFFER), ev.RejoinRequested("newer than the metadata"))
    member, effects = run(member, ev.JoinedAsFollower(2, "sessioned", "m", "l", 3_000), ev.SyncAnswered(b"", 3_100))
    assert effects == [Effect.SEND_SYNC, Effect.TELL_ASSIGNED, Effect.TELL_JOIN]
    assert (member.phase, member.rejoin_wanted) == (MemberPhase.PREPARING, False)
    member, effects = run(
        member,
        ev.JoinOffered(3, OFFER),
        ev.JoinedAsFollower(3, "sessioned", "m", "l", 3_000),
        ev.SyncAnswered(b"", 3_200),
    )
    assert member.phase is MemberPhase.STABLE


def test_member_that_does_not_poll_leaves_and_comes_back_when_it_does() -> None:
    timing = Timing(session_ms=10_000, rebalance_ms=60_000)
    member, _ = run(joined(), ev.HeartbeatOk(1, 61_000))
    assert overdue(member, timing, 61_001, last_poll_ms=1_001) == ev.PollExpired()
    member, effects = run(member, ev.PollExpired())
    assert effects == [Effect.ABANDON, Effect.TELL_CONTACT_LOST, Effect.SEND_LEAVE]
    assert (member.phase, member.member_id) == (MemberPhase.LAPSED, "")
    assert overdue(member, timing, 10**9, 0) is None
    member, effects = run(member, ev.Polled(), ev.CoordinatorFound())
    assert effects == [Effect.FIND_COORDINATOR, Effect.TELL_JOIN]


def test_leaving_forgets_the_member_id_and_a_rejoin_starts_from_scratch() -> None:
    member, effects = run(joined(), ev.LeaveRequested("stopping"))
    assert effects == [Effect.ABANDON, Effect.SEND_LEAVE]
    assert (member.phase, member.member_id, member.generation, member.holding) == (MemberPhase.IDLE, "", -1, False)
    member, effects = run(member, ev.RejoinRequested("config read again"))
    assert (member.phase, effects) == (MemberPhase.SEARCHING, [Effect.FIND_COORDINATOR])


def test_leaving_without_a_coordinator_sends_nothing() -> None:
    assert run(joined(), ev.CoordinatorLost("gone"), ev.LeaveRequested("stopping"))[1] == [
        Effect.FIND_COORDINATOR,
        Effect.ABANDON,
    ]


def test_an_aborted_sync_asks_for_a_new_join_and_keeps_heartbeating() -> None:
    member, _ = run(joined(), ev.RebalanceSignalled(1, 2_000), ev.JoinOffered(2, OFFER))
    member, effects = run(member, ev.JoinedAsFollower(2, "sessioned", "m", "l", 2_000), ev.RoundAborted())
    assert effects == [Effect.SEND_SYNC, Effect.TELL_JOIN]
    assert must_heartbeat(member)


def test_members_heartbeat_in_these_phases() -> None:
    stable = joined()
    assert must_heartbeat(stable)
    assert not must_heartbeat(stable._replace(coordinator_known=False))
    assert not must_heartbeat(stable._replace(member_id=""))
    assert must_heartbeat(stable._replace(phase=MemberPhase.JOINING))
    assert not must_heartbeat(stable._replace(phase=MemberPhase.JOINING, holding=False))
    assert must_heartbeat(stable._replace(phase=MemberPhase.PREPARING, holding=False))
    assert not must_heartbeat(stable._replace(phase=MemberPhase.PREPARING, holding=False, generation=-1))
    assert must_heartbeat(stable._replace(phase=MemberPhase.LEADING, holding=False))


def test_a_waiting_join_of_a_member_without_work_counts_as_contact() -> None:
    member, _ = run(Member(), ev.Started(), ev.CoordinatorFound(), ev.JoinOffered(1, OFFER))
    member, _ = run(member, ev.JoinedAsFollower(1, "sessioned", "m", "l", 40_000))
    assert member.last_contact_ms == 40_000
    held, _ = run(joined(), ev.RejoinRequested("x"), ev.JoinOffered(2, OFFER))
    held, _ = run(held, ev.JoinedAsFollower(2, "sessioned", "m", "l", 40_000))
    assert held.last_contact_ms == 1_100


def test_a_refusal_stops_work_and_is_final() -> None:
    member, effects = run(joined(), ev.RequestRefused("group.id: not authorised"))
    assert effects == [Effect.ABANDON, Effect.TELL_CONTACT_LOST]
    assert (member.phase, member.reason) == (MemberPhase.REFUSED, "group.id: not authorised")

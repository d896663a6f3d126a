"""This member's life in the group, as a transition table (Java ``AbstractCoordinator``, ``WorkerCoordinator``).

Owns every decision about joining, syncing, heartbeats, losing contact and leaving. Sends nothing, waits for nothing,
reads no clock: a shell (``kafka.membership.group_member``, ``testing.memory_group``) feeds events in and executes the
resulting effects. Nothing here starts or stops work; the herder does when an event asks for it.

In addition to the phase there are two independent facts. One is whether the coordinator is known: the member may search
for it while the generation lives on. The other is whether work is held: then silence beyond the session timeout is
ContactExpired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from spark_connect_rt.config.group_config import GROUP

# The events of ``group.membership``: everything that can happen to a member of the group.
#
# Owns their shapes only. Requests of the herder come first, then timeouts, then answers of the coordinator. Events that
# answer a request carry the generation or round they belong to, so that late ones change nothing.


@dataclass(frozen=True, slots=True)
class Started:
    """The herder wants in for the first time."""


@dataclass(frozen=True, slots=True)
class RejoinRequested:
    """The herder wants a rebalance, or back in after it left."""

    reason: str


@dataclass(frozen=True, slots=True)
class JoinOffered:
    """The herder answered JoinRequired number ``round``."""

    round: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True)
class SyncOffered:
    """The herder answered AssignmentRequired of ``generation``."""

    generation: int
    assignments: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class LeaveRequested:
    """The herder asks to leave the group."""

    reason: str


@dataclass(frozen=True, slots=True)
class Polled:
    """The herder polls for events again, after a pause or as usual."""


@dataclass(frozen=True, slots=True)
class Fenced:
    """The herder ended everything that ran under the contact that was lost."""


@dataclass(frozen=True, slots=True)
class PollExpired:
    """The herder has not polled for rebalance.timeout.ms."""

    reason: str = "worker poll timeout has expired."


@dataclass(frozen=True, slots=True)
class ContactExpired:
    """No heartbeat sent within the last session.timeout.ms was answered."""

    reason: str = "no contact with the group coordinator for session.timeout.ms"


@dataclass(frozen=True, slots=True)
class CoordinatorFound:
    """There are connections to the coordinator."""

    reason: str = "the group coordinator was found"


@dataclass(frozen=True, slots=True)
class CoordinatorLost:
    """The connection broke, an answer is overdue, or the broker coordinates this group no more."""

    reason: str


@dataclass(frozen=True, slots=True)
class MemberIdGiven:
    """JoinGroup was answered MEMBER_ID_REQUIRED: join again under this id."""

    member_id: str


@dataclass(frozen=True, slots=True)
class JoinedAsLeader:
    """JoinGroup succeeded and this member must assign; ``members`` maps ids to metadata."""

    generation: int
    protocol: str
    member_id: str
    leader_id: str
    members: Mapping[str, bytes]
    at_ms: int


@dataclass(frozen=True, slots=True)
class JoinedAsFollower:
    """JoinGroup succeeded; another member leads and assigns."""

    generation: int
    protocol: str
    member_id: str
    leader_id: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class SyncAnswered:
    """SyncGroup succeeded; ``sent_ms`` is when the request was sent."""

    assignment: bytes
    sent_ms: int


@dataclass(frozen=True, slots=True)
class RoundAborted:
    """SyncGroup was answered REBALANCE_IN_PROGRESS: a newer round began."""

    reason: str = "the rebalance was overtaken by another one"


@dataclass(frozen=True, slots=True)
class HeartbeatOk:
    """A heartbeat of ``generation`` was answered without error."""

    generation: int
    sent_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceSignalled:
    """A heartbeat was answered REBALANCE_IN_PROGRESS."""

    generation: int
    sent_ms: int
    reason: str = "the group is rebalancing"


@dataclass(frozen=True, slots=True)
class GenerationLost:
    """ILLEGAL_GENERATION: the member id is good, the generation is over."""

    generation: int
    sent_ms: int
    reason: str = "the group has moved on to another generation"


@dataclass(frozen=True, slots=True)
class MemberUnknown:
    """UNKNOWN_MEMBER_ID: the group continued without this member; others may have its work by now."""

    generation: int
    reason: str = "the group coordinator no longer knows this member"


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """An answer that repeating cannot change."""

    reason: str


class MemberPhase(Enum):
    """The phase of this member in the group protocol."""

    IDLE = "idle"  # does not want in: before start, after leave
    SEARCHING = "searching"  # wants to join; searches for the coordinator
    PREPARING = "preparing"  # the herder was asked to stop revoked work and to join
    JOINING = "joining"  # JoinGroup sent, or waiting for a coordinator to send it to
    LEADING = "leading"  # joined as leader; the herder assigns
    SYNCING = "syncing"  # SyncGroup sent, or waiting for a coordinator to send it to
    STABLE = "stable"  # assignment held, heartbeating
    LAPSED = "lapsed"  # left because the herder did not poll; rejoins when it does
    REFUSED = "refused"  # the group rejected this member for good; only a changed configuration helps


class Effect(Enum):
    """The actions of the shell, in the order given."""

    FIND_COORDINATOR = "find coordinator"  # drop the connections and whatever is in flight, then search
    ABANDON = "abandon"  # drop whatever is in flight
    SEND_JOIN = "send JoinGroup"
    SEND_SYNC = "send SyncGroup"
    SEND_LEAVE = "send LeaveGroup"  # for the member id there was BEFORE the step; then disconnect
    TELL_JOIN = "notify JoinRequired"
    TELL_ASSIGNMENT_REQUIRED = "notify AssignmentRequired"
    TELL_ASSIGNED = "notify Assigned"
    TELL_CONTACT_LOST = "notify ContactLost"


class Member(NamedTuple):
    """Everything the machine knows; replaced, never changed (a tuple: of a dataclass a new one costs four times more).

    ``round`` counts the JoinRequired events so far: a ``join`` that answers an older one is dropped, because its
    metadata may claim work that was stopped since. ``last_contact_ms`` is when the last heartbeat that was
    answered was SENT: the coordinator cannot have expired this member before that plus the session timeout.
    """

    phase: MemberPhase = MemberPhase.IDLE
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leader_id: str = ""
    coordinator_known: bool = False
    holding: bool = False
    fence_due: bool = False  # contact was lost, and the herder has not ended the work yet
    rejoin_wanted: bool = False
    round: int = 0
    last_contact_ms: int = 0
    reason: str = ""
    offer: tuple[tuple[str, bytes], ...] = ()
    plan: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Timing:
    """The group's three times, ms."""

    session_ms: int = GROUP["session.timeout.ms"].default
    heartbeat_ms: int = GROUP["heartbeat.interval.ms"].default
    rebalance_ms: int = GROUP["rebalance.timeout.ms"].default

    @property
    def lease_ms(self) -> int:
        """How long after the last contact a member may work, ms.

        The coordinator may assign its work elsewhere ``session_ms`` after it. The fifth before that is for ending the
        work: killed tasks die, offsets in flight arrive or are given up (I7).
        """
        return self.session_ms * 4 // 5


class IllegalTransitionError(Exception):
    """An event arrived in a phase that cannot see it."""


_P, _E = MemberPhase, Effect
IN_GROUP: Final = (_P.PREPARING, _P.JOINING, _P.LEADING, _P.SYNCING, _P.STABLE)
_NOT_LEADING: Final = (_P.IDLE, _P.SEARCHING, _P.PREPARING, _P.JOINING, _P.LAPSED, _P.REFUSED)
_NOT_LAPSED: Final = tuple(phase for phase in MemberPhase if phase is not _P.LAPSED)

_Row = tuple[MemberPhase, tuple[Effect, ...]]


def _stay(event: type, *phases: MemberPhase) -> dict[tuple[MemberPhase, type], _Row]:
    return {(phase, event): (phase, ()) for phase in phases}


def _all(
    event: type, phases: tuple[MemberPhase, ...], to: MemberPhase, *effects: Effect
) -> dict[tuple[MemberPhase, type], _Row]:
    return {(phase, event): (to, effects) for phase in phases}


NEXT: Final[Mapping[tuple[MemberPhase, type], _Row]] = {
    (_P.IDLE, Started): (_P.SEARCHING, (_E.FIND_COORDINATOR,)),
    # A rejoin during a rejoin is remembered (``rejoin_wanted``), because the metadata of the first one is older.
    (_P.IDLE, RejoinRequested): (_P.SEARCHING, (_E.FIND_COORDINATOR,)),
    (_P.STABLE, RejoinRequested): (_P.PREPARING, (_E.TELL_JOIN,)),
    **_stay(RejoinRequested, _P.SEARCHING, *IN_GROUP[:-1], _P.LAPSED, _P.REFUSED),
    (_P.PREPARING, JoinOffered): (_P.JOINING, (_E.SEND_JOIN,)),
    **_stay(JoinOffered, _P.IDLE, _P.SEARCHING, _P.LAPSED, _P.REFUSED),  # the herder could not know yet
    (_P.LEADING, SyncOffered): (_P.SYNCING, (_E.SEND_SYNC,)),
    **_stay(SyncOffered, *_NOT_LEADING),
    **_all(LeaveRequested, IN_GROUP, _P.IDLE, _E.ABANDON, _E.SEND_LEAVE),
    **_all(LeaveRequested, (_P.IDLE, _P.SEARCHING, _P.LAPSED), _P.IDLE, _E.ABANDON),
    **_stay(LeaveRequested, _P.REFUSED),
    (_P.LAPSED, Polled): (_P.SEARCHING, (_E.FIND_COORDINATOR,)),
    **_stay(Polled, *_NOT_LAPSED),
    **_stay(Fenced, *MemberPhase),
    # A worker that does not poll cannot stop its work when the group asks for it. So it leaves and gives up its work.
    **_all(PollExpired, IN_GROUP, _P.LAPSED, _E.ABANDON, _E.TELL_CONTACT_LOST, _E.SEND_LEAVE),
    **_all(ContactExpired, IN_GROUP, _P.SEARCHING, _E.TELL_CONTACT_LOST, _E.FIND_COORDINATOR),
    (_P.SEARCHING, CoordinatorFound): (_P.PREPARING, (_E.TELL_JOIN,)),
    (_P.JOINING, CoordinatorFound): (_P.JOINING, (_E.SEND_JOIN,)),
    (_P.SYNCING, CoordinatorFound): (_P.SYNCING, (_E.SEND_SYNC,)),
    **_stay(CoordinatorFound, _P.PREPARING, _P.LEADING, _P.STABLE),
    **{(phase, CoordinatorLost): (phase, (_E.FIND_COORDINATOR,)) for phase in IN_GROUP},
    (_P.JOINING, MemberIdGiven): (_P.JOINING, (_E.SEND_JOIN,)),
    (_P.JOINING, JoinedAsLeader): (_P.LEADING, (_E.TELL_ASSIGNMENT_REQUIRED,)),
    (_P.JOINING, JoinedAsFollower): (_P.SYNCING, (_E.SEND_SYNC,)),
    (_P.SYNCING, SyncAnswered): (_P.STABLE, (_E.TELL_ASSIGNED,)),
    (_P.SYNCING, RoundAborted): (_P.PREPARING, (_E.TELL_JOIN,)),
    **_stay(HeartbeatOk, *IN_GROUP),
    (_P.STABLE, RebalanceSignalled): (_P.PREPARING, (_E.TELL_JOIN,)),
    # Old brokers return this all through a rebalance; SyncGroup's own answer decides.
    **_stay(RebalanceSignalled, *IN_GROUP[:-1]),
    **_all(GenerationLost, (_P.LEADING, _P.SYNCING, _P.STABLE), _P.PREPARING, _E.ABANDON, _E.TELL_JOIN),
    **_stay(GenerationLost, _P.PREPARING, _P.JOINING),
    **_all(MemberUnknown, IN_GROUP, _P.PREPARING, _E.ABANDON, _E.TELL_CONTACT_LOST, _E.TELL_JOIN),
    **_all(RequestRefused, IN_GROUP, _P.REFUSED, _E.ABANDON, _E.TELL_CONTACT_LOST),
    (_P.SEARCHING, RequestRefused): (_P.REFUSED, (_E.ABANDON,)),
}
"""(phase, event type) -> (phase, effects for the shell). An absent pair is illegal."""


def step(member: Member, event: object) -> tuple[Member, tuple[Effect, ...]]:
    """Return the next member and the effects to run; after IllegalTransitionError nothing has changed.

    An answer to an older round or generation changes nothing, whatever the phase.
    """
    if _is_stale(member, event):
        return member, ()
    if (member.phase, type(event)) not in NEXT:
        raise IllegalTransitionError(f"{type(event).__name__} while {member.phase.value}")
    phase, effects = NEXT[member.phase, type(event)]
    learn = _LEARN.get(type(event), _learn_nothing)
    after, reason = learn(member, event), getattr(event, "reason", member.reason)
    if phase is not after.phase or reason != after.reason:
        after = after._replace(phase=phase, reason=reason)
    if phase is MemberPhase.STABLE and after.rejoin_wanted:
        after, effects = after._replace(phase=MemberPhase.PREPARING), (*effects, Effect.TELL_JOIN)
    effects = tuple(effect for effect in effects if _is_due(effect, member, after))
    return _after_effects(after, effects), effects


def must_heartbeat(member: Member) -> bool:
    """Return whether heartbeats belong in this state.

    True for a stable member, and in two more cases. A member that prepares to rejoin must not expire meanwhile. A
    member that holds work while its JoinGroup waits needs proof that the coordinator delays it, not a dead connection.
    """
    if not member.coordinator_known or not member.member_id:
        return False
    if member.phase in (MemberPhase.LEADING, MemberPhase.SYNCING, MemberPhase.STABLE) or member.holding:
        return True
    return member.phase is MemberPhase.PREPARING and member.generation >= 0


def overdue(member: Member, timing: Timing, now_ms: int, last_poll_ms: int) -> ContactExpired | PollExpired | None:
    """Return the event that the passing of time has caused, if any. All times of one monotonic clock."""
    if member.phase not in IN_GROUP:
        return None
    if member.holding and not in_contact(member, timing, now_ms):
        return ContactExpired()
    return PollExpired() if now_ms - last_poll_ms >= timing.rebalance_ms else None


def next_deadline_ms(member: Member, timing: Timing, last_poll_ms: int) -> int | None:
    """Return when ``overdue`` will next return an event if nothing else happens; None for never."""
    if member.phase not in IN_GROUP:
        return None
    poll_ms = last_poll_ms + timing.rebalance_ms
    return min(poll_ms, member.last_contact_ms + timing.lease_ms) if member.holding else poll_ms


def in_contact(member: Member, timing: Timing, now_ms: int) -> bool:
    """Return whether the work that this member holds is certainly still its own (I7)."""
    return member.holding and now_ms - member.last_contact_ms < timing.lease_ms


def holds_lease(member: Member, timing: Timing, now_ms: int, last_poll_ms: int) -> bool:
    """Return whether this member may confirm to its executors that its work may continue (E5).

    The executors rely on a confirmation for a while after it. So a member confirms only while its last contact is at
    most a heartbeat old. Otherwise both timeouts, one after the other, would outlast the session.
    When contact is lost, it does not confirm until the herder has ended the work, which may hang. If the herder does
    not poll, the group removes the member after ``rebalance_ms``. So the confirmations end a session earlier.
    """
    if member.fence_due:
        return False
    if not member.holding:
        return True
    polls = now_ms - last_poll_ms <= max(timing.heartbeat_ms, timing.rebalance_ms - timing.session_ms)
    return polls and now_ms - member.last_contact_ms <= timing.heartbeat_ms


def _is_stale(member: Member, event: object) -> bool:
    if isinstance(event, JoinOffered):
        return event.round != member.round
    if isinstance(event, SyncOffered | HeartbeatOk | RebalanceSignalled | GenerationLost | MemberUnknown):
        return event.generation != member.generation
    return False


def _is_due(effect: Effect, before: Member, after: Member) -> bool:
    if effect in (Effect.SEND_JOIN, Effect.SEND_SYNC):
        return after.coordinator_known  # else CoordinatorFound sends it
    if effect is Effect.SEND_LEAVE:
        return before.coordinator_known and bool(before.member_id)
    if effect is Effect.TELL_CONTACT_LOST:
        return before.holding
    return True


def _after_effects(member: Member, effects: tuple[Effect, ...]) -> Member:
    if Effect.FIND_COORDINATOR in effects or member.phase in (
        MemberPhase.IDLE,
        MemberPhase.LAPSED,
        MemberPhase.REFUSED,
    ):
        member = member._replace(coordinator_known=False)
    if Effect.TELL_CONTACT_LOST in effects:
        member = member._replace(holding=False, fence_due=True)
    if Effect.TELL_JOIN in effects:
        member = member._replace(round=member.round + 1, rejoin_wanted=False)
    return member


def _learn_nothing(member: Member, _event: Any) -> Member:
    return member


def _remember_rejoin(member: Member, _event: RejoinRequested) -> Member:
    return member._replace(
        rejoin_wanted=member.phase in (MemberPhase.JOINING, MemberPhase.LEADING, MemberPhase.SYNCING)
    )


def _learn_join(member: Member, event: JoinedAsLeader | JoinedAsFollower) -> Member:
    return member._replace(
        generation=event.generation,
        protocol=event.protocol,
        member_id=event.member_id,
        leader_id=event.leader_id,
        # A join may wait for minutes. At its answer it proves contact only for a member that holds no work.
        last_contact_ms=member.last_contact_ms if member.holding else event.at_ms,
    )


def _learn_contact(member: Member, event: HeartbeatOk | RebalanceSignalled | SyncAnswered) -> Member:
    return member._replace(last_contact_ms=max(member.last_contact_ms, event.sent_ms))


def _forget_membership(member: Member, _event: Any) -> Member:
    return member._replace(member_id="", generation=-1, holding=False, rejoin_wanted=False)


_LEARN: Final[Mapping[type, Callable[[Member, Any], Member]]] = {
    RejoinRequested: _remember_rejoin,
    JoinOffered: lambda member, event: member._replace(offer=event.protocols, rejoin_wanted=False),
    SyncOffered: lambda member, event: member._replace(plan=event.assignments),
    LeaveRequested: _forget_membership,
    PollExpired: _forget_membership,
    MemberUnknown: _forget_membership,
    Fenced: lambda member, _: member._replace(fence_due=False),
    CoordinatorFound: lambda member, _: member._replace(coordinator_known=True),
    MemberIdGiven: lambda member, event: member._replace(member_id=event.member_id, generation=-1),
    JoinedAsLeader: _learn_join,
    JoinedAsFollower: lambda member, event: _learn_join(member, event)._replace(plan={}),
    SyncAnswered: lambda member, event: _learn_contact(member, event)._replace(holding=True),
    HeartbeatOk: _learn_contact,
    RebalanceSignalled: _learn_contact,
    GenerationLost: lambda member, event: _learn_contact(member, event)._replace(generation=-1),
}

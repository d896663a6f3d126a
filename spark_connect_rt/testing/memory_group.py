"""In-memory twin of ``kafka.membership.group_member``: a coordinator without a broker, and members of it.

Owns: ``MemoryGroup`` (the work of the broker's group coordinator) and ``MemoryGroupMember``, which runs the same
``group.membership`` machine and the same inbox as the real one; only the network is simulated. Heartbeats happen
whenever any member polls. Passes tests/contract/group_member_contract.py.

Time is an argument: pass ``monotonic_ms`` to control it. Faults: ``member.cut_off()`` and ``reconnect()`` (its
coordinator is unreachable), ``member.vanish()`` (its process is gone), ``group.expel()`` (its session is over).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.group import membership as happened
from spark_connect_rt.group.member import (
    Assigned,
    AssignmentRequired,
    ContactLost,
    JoinRequired,
    MembershipEvent,
    MembershipInbox,
)
from spark_connect_rt.group.membership import (
    Effect,
    Member,
    MemberPhase,
    Timing,
    holds_lease,
    in_contact,
    must_heartbeat,
    overdue,
    step,
)

POLL_SLICE_MS = 20


@dataclass(slots=True)
class _Seat:
    """A member as its coordinator sees it."""

    member: MemoryGroupMember
    protocols: dict[str, bytes]
    joined: bool = False
    syncing: bool = False
    seen_ms: int = 0


class MemoryGroup:
    """One group and its coordinator. One lock serialises all calls. Has no thread."""

    def __init__(self, *, monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        self.lock = threading.RLock()
        self.generation = 0
        self.leader_id = ""
        self.now_ms = monotonic_ms
        self._protocol = ""
        self._state = "empty"  # preparing | completing | stable
        self._since_ms = 0
        self._plan: Mapping[str, bytes] = {}
        self._seats: dict[str, _Seat] = {}
        self._all: list[MemoryGroupMember] = []
        self._given_ids = 0
        self._answers: deque[tuple[MemoryGroupMember, object, int]] = deque()
        self._answering = False

    def member(self, client_id: str = "connect", *, timing: Timing | None = None) -> MemoryGroupMember:
        """Return a new member that has not started yet."""
        made = MemoryGroupMember(self, client_id, timing or Timing())
        self._all.append(made)
        return made

    @property
    def member_ids(self) -> tuple[str, ...]:
        """Return the ids of the members, in order of arrival."""
        with self.lock:
            return tuple(self._seats)

    def expel(self, member_id: str) -> None:
        """End a member's session, as if it had been silent too long; a JoinGroup of it that waits is answered."""
        with self.lock:
            seat = self._seats.pop(member_id, None)
            if seat is None:
                return
            if seat.joined:
                self.answer(seat.member, happened.MemberUnknown(seat.member.state.generation))
            self._rebalance()

    def check_time(self) -> None:
        """Exchange a heartbeat with every reachable member, and let each check its timeouts.

        Then expel members that were silent or late.
        """
        with self.lock:
            for member in self._all:
                if member.reachable and must_heartbeat(member.state):
                    self.answer(member, self._heartbeat(member))
                member.check_time()
            now_ms = self.now_ms()
            for member_id, seat in list(self._seats.items()):
                if self._is_over(seat, now_ms):
                    self.expel(member_id)

    def _is_over(self, seat: _Seat, now_ms: int) -> bool:
        """Return whether a member was silent for a session, or too late for a rebalance."""
        waits = (seat.joined or seat.syncing) and seat.member.reachable  # for others: not the member's fault
        if not waits and now_ms - seat.seen_ms >= seat.member.timing.session_ms:
            return True
        late = self._state == "preparing" and not seat.joined
        return late and now_ms - self._since_ms >= seat.member.timing.rebalance_ms

    def answer(self, member: MemoryGroupMember, event: object) -> None:
        """Deliver an answer after the pending ones: one step at a time, as over a network."""
        self._answers.append((member, event, member.era))
        if self._answering:
            return
        self._answering = True
        try:
            while self._answers:
                to, what, era = self._answers.popleft()
                if to.reachable and to.era == era:
                    to.apply(what)
        finally:
            self._answering = False

    def request_join(self, member: MemoryGroupMember, state: Member) -> None:
        """Answer JoinGroup as the coordinator: a member id first, then a round."""
        if not state.member_id:
            self._given_ids += 1
            member_id = f"{member.client_id}-{self._given_ids}"
            self._seats[member_id] = _Seat(member, {}, seen_ms=self.now_ms())
            self.answer(member, happened.MemberIdGiven(member_id))
            return
        seat = self._seats.get(state.member_id)
        if seat is None:
            self.answer(member, happened.MemberUnknown(state.generation))
            return
        seat.seen_ms = self.now_ms()
        if self._is_nothing_new(state, seat):
            self._tell_joined(state.member_id, seat)
            return
        seat.protocols, seat.joined = dict(state.offer), True
        self._rebalance()

    def _is_nothing_new(self, state: Member, seat: _Seat) -> bool:
        """Return whether a join changes nothing: a broker then repeats the generation there is.

        The leader of a stable group is different: it may have something to assign that no metadata shows.
        """
        leads = state.member_id == self.leader_id
        settled = self._state == "completing" or (self._state == "stable" and not leads)
        return settled and seat.protocols == dict(state.offer)

    def request_sync(self, member: MemoryGroupMember, state: Member) -> None:
        """Answer SyncGroup as the coordinator, or reject another generation's."""
        seat = self._seats.get(state.member_id)
        if seat is None:
            self.answer(member, happened.MemberUnknown(state.generation))
        elif state.generation != self.generation:
            self.answer(member, happened.GenerationLost(state.generation, self.now_ms()))
        elif self._state == "preparing":
            self.answer(member, happened.RoundAborted())
        else:
            seat.syncing = True
            if state.member_id == self.leader_id and self._state == "completing":
                self._plan, self._state = dict(state.plan), "stable"
            self._hand_out()

    def request_leave(self, member_id: str) -> None:
        """Answer LeaveGroup as the coordinator: the others rebalance."""
        if self._seats.pop(member_id, None) is not None:
            self._rebalance()

    def _heartbeat(self, member: MemoryGroupMember) -> object:
        state, now_ms = member.state, self.now_ms()
        seat = self._seats.get(state.member_id)
        if seat is None:
            return happened.MemberUnknown(state.generation)
        seat.seen_ms = now_ms
        if state.generation != self.generation:
            return happened.GenerationLost(state.generation, now_ms)
        if self._state == "preparing":
            return happened.RebalanceSignalled(state.generation, now_ms)
        return happened.HeartbeatOk(state.generation, now_ms)

    def _rebalance(self) -> None:
        """Begin a round unless one is in progress, and complete it when every member has joined."""
        if self._state != "preparing":
            self._state, self._since_ms = "preparing", self.now_ms()
            for seat in self._seats.values():
                if seat.syncing:
                    seat.syncing = False
                    self.answer(seat.member, happened.RoundAborted())
        if not self._seats:
            self._state, self.leader_id = "empty", ""
        elif all(seat.joined for seat in self._seats.values()):
            self._complete()

    def _complete(self) -> None:
        common = set.intersection(*(set(seat.protocols) for seat in self._seats.values()))
        if not common:
            for seat in self._seats.values():
                self.answer(seat.member, happened.RequestRefused("connect.protocol: no protocol in common"))
            return
        self.generation += 1
        self._state = "completing"
        if self.leader_id not in self._seats:
            self.leader_id = next(iter(self._seats))
        votes = [next(name for name in seat.protocols if name in common) for seat in self._seats.values()]
        self._protocol = max(sorted(common), key=votes.count)
        for member_id, seat in list(self._seats.items()):
            seat.joined = False
            self._tell_joined(member_id, seat)

    def _tell_joined(self, member_id: str, seat: _Seat) -> None:
        agreed, now_ms = (self.generation, self._protocol, member_id, self.leader_id), self.now_ms()
        if member_id == self.leader_id:
            # A member that has an id but has not joined does not belong to this generation.
            metadata = {m: s.protocols[self._protocol] for m, s in self._seats.items() if s.protocols}
            self.answer(seat.member, happened.JoinedAsLeader(*agreed, members=metadata, at_ms=now_ms))
        else:
            self.answer(seat.member, happened.JoinedAsFollower(*agreed, at_ms=now_ms))

    def _hand_out(self) -> None:
        if self._state == "stable":
            for member_id, seat in self._seats.items():
                if seat.syncing:
                    seat.syncing = False
                    part = self._plan.get(member_id, b"")
                    self.answer(seat.member, happened.SyncAnswered(part, self.now_ms()))


class MemoryGroupMember:
    """A ``group.member.GroupMember`` without a network."""

    def __init__(self, group: MemoryGroup, client_id: str, timing: Timing) -> None:
        self.client_id = client_id
        self.timing = timing
        self.reachable = True
        self.state = Member()
        self.era = 0
        self._group = group
        self._inbox = MembershipInbox()
        self._last_poll_ms = group.now_ms()
        self._polling = 0
        self._gone = False

    def start(self) -> None:
        """Find the coordinator at once."""
        self._last_poll_ms = self._group.now_ms()
        self.apply(happened.Started())

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        """Return new events; also exchanges every member's heartbeats."""
        end_ms = time.monotonic_ns() // 1_000_000 + timeout_ms
        self._polling += 1
        try:
            if self.state.phase is MemberPhase.LAPSED:
                self.apply(happened.Polled())
            while True:
                self._group.check_time()
                left_ms = end_ms - time.monotonic_ns() // 1_000_000
                events, ended = self._inbox.take(min(left_ms, POLL_SLICE_MS))
                if events or ended or left_ms <= 0:
                    return events
        finally:
            self._last_poll_ms = self._group.now_ms()
            self._polling -= 1

    def wakeup(self) -> None:
        """End the wait of a ``poll``, or of the next one."""
        self._inbox.wakeup()

    def request_rejoin(self, reason: str) -> None:
        """Ask the coordinator for a rebalance."""
        self.apply(happened.RejoinRequested(reason))

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Answer the JoinRequired that was polled last."""
        self.apply(happened.JoinOffered(self._inbox.join_round, tuple(protocols)))

    def sync(self, assignments: Mapping[str, bytes]) -> None:
        """Answer the AssignmentRequired that was polled last."""
        self.apply(happened.SyncOffered(self._inbox.assignment_generation, dict(assignments)))

    def member_id(self) -> str:
        """Return the member id, empty unless stable and everything that happened has been polled."""
        return self.state.member_id if self.state.phase is MemberPhase.STABLE and self._inbox.is_empty else ""

    def trouble(self) -> str:
        """Return why the group is not joined."""
        return "" if self.reachable else "the coordinator cannot be reached"

    def in_contact(self) -> bool:
        """Return whether the assigned work is certainly still this member's."""
        return in_contact(self.state, self.timing, self._group.now_ms())

    def holds_lease(self) -> bool:
        """Return whether contact is so fresh that executors may be kept alive."""
        return holds_lease(self.state, self.timing, self._group.now_ms(), self._polled_ms())

    def fenced(self) -> None:
        """Note that no work from before ContactLost runs any more."""
        self.apply(happened.Fenced())

    def leave(self, reason: str) -> None:
        """Leave the group and drop undelivered events."""
        self.apply(happened.LeaveRequested(reason))
        self._inbox.forget()

    def stop(self) -> None:
        """Leave the group for good."""
        self.leave("the worker is stopping")
        self._gone = True

    def cut_off(self) -> None:
        """Make the coordinator unreachable for this member; it learns so by time alone."""
        self.reachable = False

    def reconnect(self) -> None:
        """Make the coordinator reachable again after ``cut_off``."""
        with self._group.lock:
            self.reachable = True
            if self.state.phase not in (MemberPhase.IDLE, MemberPhase.LAPSED, MemberPhase.REFUSED):
                self.apply(happened.CoordinatorFound())

    def vanish(self) -> None:
        """Disappear without LeaveGroup, as a killed process does."""
        self.reachable, self._gone = False, True

    def check_time(self) -> None:
        """Pass overdue events to the state machine."""
        now_ms = self._group.now_ms()
        event = None if self._gone else overdue(self.state, self.timing, now_ms, self._polled_ms())
        if event is not None:
            self.apply(event)

    def _polled_ms(self) -> int:
        return self._group.now_ms() if self._polling else self._last_poll_ms

    def apply(self, event: object) -> None:
        """Step the machine and run its effects."""
        with self._group.lock:
            before = self.state
            self.state, effects = step(before, event)
            if self.state.phase is MemberPhase.REFUSED and before.phase is not MemberPhase.REFUSED:
                setting, _, problem = self.state.reason.partition(": ")
                self._inbox.fail(BadConfigError({setting: [problem]}))
            after = self.state
            self.era += bool({Effect.ABANDON, Effect.FIND_COORDINATOR, Effect.SEND_LEAVE} & set(effects))
            for effect in effects:
                self._run(effect, before, after, event)

    def _run(self, effect: Effect, before: Member, state: Member, event: object) -> None:
        group = self._group
        if effect is Effect.FIND_COORDINATOR:
            group.answer(self, happened.CoordinatorFound())
        elif effect is Effect.SEND_JOIN and self.reachable:
            group.request_join(self, state)
        elif effect is Effect.SEND_SYNC and self.reachable:
            group.request_sync(self, state)
        elif effect is Effect.SEND_LEAVE and self.reachable:
            group.request_leave(before.member_id)
        else:
            self._tell(effect, state, event)

    def _tell(self, effect: Effect, state: Member, event: object) -> None:
        if effect is Effect.TELL_JOIN:
            self._inbox.tell(JoinRequired(state.reason), state.round)
        elif effect is Effect.TELL_CONTACT_LOST:
            self._inbox.tell(ContactLost(state.reason))
        elif isinstance(event, happened.JoinedAsLeader):
            request = AssignmentRequired(state.generation, state.protocol, state.leader_id, event.members)
            self._inbox.tell(request, state.generation)
        elif isinstance(event, happened.SyncAnswered):
            ids = (state.member_id, state.leader_id)
            self._inbox.tell(Assigned(state.generation, state.protocol, *ids, event.assignment))

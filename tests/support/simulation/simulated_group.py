"""The worker group of a simulation: the memory group and the real membership machine, over links that fail.

Owns ``SimulatedGroup`` (a coordinator whose clock is virtual) and ``SimulatedMember``. Requests and answers travel in
order and are lost while the link is down. A request that is not answered ends the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spark_connect_rt.group import membership as happened
from spark_connect_rt.group.member import MembershipEvent, MembershipInbox
from spark_connect_rt.group.membership import (
    IN_GROUP,
    Effect,
    Member,
    MemberPhase,
    Timing,
    must_heartbeat,
    next_deadline_ms,
)
from spark_connect_rt.testing.memory_group import MemoryGroup, MemoryGroupMember, _Seat
from tests.support.simulation.simulated_log import Link
from tests.support.simulation.simulated_threads import Alarm, Scheduler, SimulatedProcess

WATCH_MS = 1_000  # the coordinator looks at least this often
SEARCH_MS = 500
_ANSWERS_TO_JOIN = (happened.JoinedAsLeader, happened.JoinedAsFollower)
_ANSWERS_TO_SYNC = (happened.SyncAnswered, happened.RoundAborted)


class SimulatedGroup(MemoryGroup):
    """The coordinator. ``forget_answers`` makes it lose answers on their way (by the seed)."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(monotonic_ms=scheduler.monotonic_ms)
        self.scheduler = scheduler
        self.on_generation: Callable[[int, str, str], None] = lambda number, leader_id, protocol: None
        self.answers_to_lose = 0
        self._watch()

    def join_member(self, name: str, process: SimulatedProcess, link: Link, timing: Timing) -> SimulatedMember:
        """Return a new member that has not started yet."""
        made = SimulatedMember(self, name, process, link, timing)
        self._all.append(made)
        return made

    def answer(self, member: MemoryGroupMember, event: object) -> None:
        """Send an answer on its way."""
        assert isinstance(member, SimulatedMember)
        if self.answers_to_lose and not isinstance(event, happened.HeartbeatOk):
            self.answers_to_lose -= 1
            member.break_connection()
            return
        parked = isinstance(event, _ANSWERS_TO_JOIN + _ANSWERS_TO_SYNC)
        era = member.asked_era[isinstance(event, _ANSWERS_TO_SYNC)] if parked else member.heard_era
        member.carry(lambda: member.process.arrive(lambda: member.hear(event, era)))

    def request_join(self, member: MemoryGroupMember, state: Member) -> None:
        """Serve JoinGroup; its answer may come much later, on the same connection."""
        assert isinstance(member, SimulatedMember)
        member.asked_era[False] = member.heard_era
        super().request_join(member, state)

    def request_sync(self, member: MemoryGroupMember, state: Member) -> None:
        """Serve SyncGroup; its answer may come much later, on the same connection."""
        assert isinstance(member, SimulatedMember)
        member.asked_era[True] = member.heard_era
        super().request_sync(member, state)

    def heartbeat(self, member: SimulatedMember, generation: int, member_id: str, sent_ms: int) -> None:
        """Serve a Heartbeat that was sent at ``sent_ms``."""
        seat = self._seats.get(member_id)
        if seat is None:
            self.answer(member, happened.MemberUnknown(generation))
            return
        seat.seen_ms = self.now_ms()
        if generation != self.generation:
            self.answer(member, happened.GenerationLost(generation, sent_ms))
        elif self._state == "preparing":
            self.answer(member, happened.RebalanceSignalled(generation, sent_ms))
        else:
            self.answer(member, happened.HeartbeatOk(generation, sent_ms))

    def _complete(self) -> None:
        before = self.generation
        super()._complete()
        if self.generation != before:
            self.on_generation(self.generation, self.leader_id, self._protocol)

    def _tell_joined(self, member_id: str, seat: _Seat) -> None:
        seat.seen_ms = self.now_ms()
        super()._tell_joined(member_id, seat)

    def _hand_out(self) -> None:
        for seat in self._seats.values():
            if seat.syncing and self._state == "stable":
                seat.seen_ms = self.now_ms()
        super()._hand_out()

    def _watch(self) -> None:
        """Expel members that were silent or late, at the very millisecond."""
        now_ms = self.now_ms()
        for member_id, seat in list(self._seats.items()):
            if self._is_over(seat, now_ms):
                self.expel(member_id)
        ends = [seat.seen_ms + seat.member.timing.session_ms for seat in self._seats.values()]
        wait_ms = min([end - now_ms for end in ends if end > now_ms], default=WATCH_MS)
        self.scheduler.later(max(1, min(wait_ms, WATCH_MS)), self._watch)


class SimulatedMember(MemoryGroupMember):
    """A ``group.member.GroupMember`` whose requests and answers travel over a simulated link."""

    def __init__(
        self, group: SimulatedGroup, client_id: str, process: SimulatedProcess, link: Link, timing: Timing
    ) -> None:
        super().__init__(group, client_id, timing)
        self.process = process
        self.link = link
        self.coordinator_up = True  # this member's way to the coordinator alone
        self._coordinator = group
        self._scheduler = group.scheduler
        self._inbox = MembershipInbox(process)
        self.heard_era = 0  # the connection of the last request that the coordinator received
        self.asked_era = {False: 0, True: 0}  # and the one of its last JoinGroup, and SyncGroup
        self._last_arrival_ms = 0
        self._deadline: Alarm | None = None

    @property
    def connected(self) -> bool:
        """Return whether anything gets through."""
        return self.link.up and self.coordinator_up and self.process.alive

    def start(self) -> None:
        """Start the member and its heartbeats."""
        super().start()
        self._scheduler.later(self._scheduler.between(1, self.timing.heartbeat_ms), self._beat)

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        """Return the next events, after waiting for at most ``timeout_ms`` of virtual time."""
        self._polling += 1
        try:
            if self.state.phase is MemberPhase.LAPSED:
                self.apply(happened.Polled())
            events, _ = self._inbox.take(timeout_ms)
            return events
        finally:
            self._last_poll_ms = self._scheduler.at_ms
            self._polling -= 1

    def carry(self, call: Callable[[], None]) -> None:
        """Take one message to or from the coordinator, in order; when nothing gets through the connection breaks."""
        at_ms = max(self._last_arrival_ms, self._scheduler.at_ms + self._scheduler.between(1, self.link.slow_ms))
        self._last_arrival_ms = at_ms
        era = self.era

        def arrive() -> None:
            if self.connected:
                call()
            elif era == self.era:
                self.break_connection()

        self._scheduler.later(at_ms - self._scheduler.at_ms, arrive)

    def _ask(self, request: Callable[[], None]) -> None:
        """Send a request. Its answer is delivered only while its connection is the member's."""
        era = self.era

        def serve() -> None:
            self.heard_era = era
            request()

        self.carry(serve)

    def break_connection(self) -> None:
        """Let the member find out, some time soon, that its connection is dead."""
        era = self.era
        limit_ms = max(2, self.timing.session_ms // 2)
        self._scheduler.later(
            self._scheduler.between(1, limit_ms), lambda: self.process.arrive(lambda: self._connection_lost(era))
        )

    def hear(self, event: object, era: int) -> None:
        """Take an answer in, unless its connection is gone."""
        if era == self.era and not self._gone:
            self.apply(event)

    def apply(self, event: object) -> None:
        """Step the machine, run its effects, watch its deadlines."""
        super().apply(event)
        self._watch_deadline()

    def check_time(self) -> None:
        """Pass overdue events to the state machine."""
        super().check_time()
        self._watch_deadline()

    def _connection_lost(self, era: int) -> None:
        if era == self.era and not self._gone and self.state.phase in IN_GROUP:
            self.apply(happened.CoordinatorLost("the connection broke"))

    def _run(self, effect: Effect, before: Member, state: Member, event: object) -> None:
        coordinator = self._coordinator
        if effect is Effect.FIND_COORDINATOR:
            self._search(self.era)
        elif effect is Effect.SEND_JOIN:
            self._ask(lambda: coordinator.request_join(self, state))
        elif effect is Effect.SEND_SYNC:
            self._ask(lambda: coordinator.request_sync(self, state))
        elif effect is Effect.SEND_LEAVE:
            self._ask(lambda: coordinator.request_leave(before.member_id))
        else:
            self._tell(effect, state, event)

    def _search(self, era: int) -> None:
        def look() -> None:
            if era != self.era or self._gone:
                return
            if self.connected:
                self.apply(happened.CoordinatorFound())
            else:
                self._search(era)

        wait_ms = self._scheduler.between(1, self.link.slow_ms) if self.connected else SEARCH_MS
        self._scheduler.later(wait_ms, lambda: self.process.arrive(look))

    def _beat(self) -> None:
        if self._gone or not self.process.alive:
            return
        self._scheduler.later(self.timing.heartbeat_ms, self._beat)
        if must_heartbeat(self.state) and not self.process.frozen:
            sent_ms, state = self._scheduler.at_ms, self.state
            self._ask(lambda: self._coordinator.heartbeat(self, state.generation, state.member_id, sent_ms))

    def _watch_deadline(self) -> None:
        """Have the process look at its clock when something will be overdue (``overdue`` decides)."""
        polled_ms = self._scheduler.at_ms if self._polling else self._last_poll_ms
        due_ms = None if self._gone else next_deadline_ms(self.state, self.timing, polled_ms)
        if due_ms is None or (self._deadline is not None and self._scheduler.at_ms < self._deadline.at_ms <= due_ms):
            return
        if self._deadline is not None:
            self._deadline.cancel()
        wait_ms = max(1, due_ms - self._scheduler.at_ms)
        self._deadline = self._scheduler.later(wait_ms, lambda: self.process.arrive(self.check_time))

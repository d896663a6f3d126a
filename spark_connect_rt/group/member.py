"""This worker's membership in the Connect group, as the herder sees it (Java ``WorkerGroupMember``).

The member's own I/O runs elsewhere; the herder's thread polls for its events, and answers. Nothing here starts or stops
work: the herder does, on its own thread, before it answers ``join``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from spark_connect_rt.base.concurrency import MACHINE_THREADS, Threads


@dataclass(frozen=True, slots=True)
class JoinRequired:
    """The group requires a (re)join: stop the revoked work, then call ``join``."""

    reason: str


@dataclass(frozen=True, slots=True)
class AssignmentRequired:
    """This member leads: compute every member's assignment, then call ``sync``."""

    generation: int
    protocol: str  # "default" | "compatible" | "sessioned", or one of group.subprotocol's own names
    leader_id: str
    members: Mapping[str, bytes]  # member id -> its metadata blob of that protocol


@dataclass(frozen=True, slots=True)
class Assigned:
    """SyncGroup completed the rebalance: ``assignment`` is Connect's bytes for this member."""

    generation: int
    protocol: str
    member_id: str
    leader_id: str
    assignment: bytes


@dataclass(frozen=True, slots=True)
class ContactLost:
    """No coordinator contact for session.timeout.ms (or it is unreachable): stop all work now, locally."""

    reason: str


MembershipEvent = JoinRequired | AssignmentRequired | Assigned | ContactLost


class GroupMember(Protocol):
    """A member of the group. All methods are called from the herder's thread but ``wakeup``."""

    def start(self) -> None:
        """Start searching for the coordinator; returns at once. JoinRequired follows when it is found."""

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        """Return new events, waiting at most ``timeout_ms``; empty after a wakeup or time out.

        Not polling for rebalance.timeout.ms makes the member leave (Java: poll timeout expired): ContactLost, then
        JoinRequired follow. Raises BadConfigError, naming the setting, once the group refused for good.
        """

    def wakeup(self) -> None:
        """Make a waiting or the next ``poll`` return at once. Any thread."""

    def request_rejoin(self, reason: str) -> None:
        """Ask for a rebalance; JoinRequired follows."""

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Answer JoinRequired: (protocol name, metadata) in order of preference. Returns at once."""

    def sync(self, assignments: Mapping[str, bytes]) -> None:
        """Answer AssignmentRequired: member id -> assignment. Returns at once."""

    def member_id(self) -> str:
        """Return the member id, empty unless the membership is stable."""

    def trouble(self) -> str:
        """Return the last reason why the group could not be joined; empty: there was none. Any thread."""

    def in_contact(self) -> bool:
        """Return whether the assigned work is certainly still this member's (I7). Any thread; reads the clock.

        False also when ContactLost is not polled yet: a worker that was frozen finds out before it is notified.
        """

    def holds_lease(self) -> bool:
        """Return whether contact is so fresh that executors may be kept alive (E5). Any thread."""

    def fenced(self) -> None:
        """Note that the work of before ContactLost was ended: only then ``holds_lease`` can hold again (E5)."""

    def leave(self, reason: str) -> None:
        """Send LeaveGroup and forget the member id; ``request_rejoin`` starts as a new member. Waits a little."""

    def stop(self) -> None:
        """Leave if still in, close connections and threads."""


# The events that wait for the herder's next poll, and the one Condition it waits on.
#
# Owns the order of MembershipEvents, and which older events a newer one replaces. Three things end a wait: an event, a
# wake-up, time. Any thread may queue events or wake; only the herder's thread takes them.


class MembershipInbox:
    """A queue of membership events with the numbers of the questions they ask."""

    def __init__(self, threads: Threads = MACHINE_THREADS) -> None:
        self._condition = threads.condition()
        self._events: list[tuple[MembershipEvent, int]] = []
        self._woken = False
        self._error: Exception | None = None
        self.join_round = 0
        self.assignment_generation = -1

    def tell(self, event: MembershipEvent, number: int = 0) -> None:
        """Queue an event; ``number`` is the round or generation its answer must carry.

        A lost contact clears the queue, because the herder must not act on older events any more. A new JoinRequired
        replaces the older one, and the leader's AssignmentRequired of an older round.
        """
        with self._condition:
            if isinstance(event, ContactLost):
                self._events.clear()
            elif isinstance(event, JoinRequired):
                worthless = (JoinRequired, AssignmentRequired)
                self._events = [kept for kept in self._events if not isinstance(kept[0], worthless)]
            self._events.append((event, number))
            self._condition.notify_all()

    def forget(self) -> None:
        """Drop the queued events: the member left."""
        with self._condition:
            self._events.clear()

    def fail(self, error: Exception) -> None:
        """Make this and every later ``take`` raise ``error``, once the queued events are taken."""
        with self._condition:
            self._error = error
            self._condition.notify_all()

    def wakeup(self) -> None:
        """End the wait, or the next one."""
        with self._condition:
            if self._woken:
                return  # the waiting thread was notified already and will take the events
            self._woken = True
            self._condition.notify_all()

    @property
    def is_empty(self) -> bool:
        """Return whether nothing waits to be taken."""
        with self._condition:
            return not self._events

    def take(self, timeout_ms: int) -> tuple[Sequence[MembershipEvent], bool]:
        """Wait at most ``timeout_ms``; return the events, and whether a wake-up or an event ended the wait."""
        with self._condition:
            ended = self._condition.wait_for(self._has_reason, max(0, timeout_ms) / 1000)
            if not self._events and self._error is not None:
                raise self._error
            taken, self._events, self._woken = self._events, [], False
        for event, number in taken:
            if isinstance(event, JoinRequired):
                self.join_round = number
            elif isinstance(event, AssignmentRequired):
                self.assignment_generation = number
        return [event for event, _ in taken], ended

    def _has_reason(self) -> bool:
        return bool(self._events) or self._woken or self._error is not None

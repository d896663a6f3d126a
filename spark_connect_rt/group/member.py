"""This worker's membership in the Connect group, as the herder sees it (Java ``WorkerGroupMember``).

The member's own I/O runs elsewhere; the herder's thread polls, is notified of what happened, and answers. Nothing
here starts or stops work: the herder does, on its own thread, before it answers ``join``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class JoinRequired:
    """The group wants a (re)join: stop what must stop, then call ``join``."""

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
        """Start looking for the coordinator; returns at once. JoinRequired follows when it is found."""

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        """Return what happened, waiting at most ``timeout_ms``; empty after a wakeup or time out.

        Not polling for rebalance.timeout.ms makes the member leave (Java: poll timeout expired): ContactLost,
        then JoinRequired follow. Raises BadConfigError, naming the setting, once the group refused for good.
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
        """Return why the group is not joined, as it was said last; empty: nothing was. Any thread."""

    def in_contact(self) -> bool:
        """Return whether what was assigned is certainly still this member's (I7). Any thread; reads the clock.

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

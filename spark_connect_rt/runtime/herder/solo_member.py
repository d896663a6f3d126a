"""A group of one, for a standalone worker: it leads, and every rebalance is done at once. No network."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence

from spark_connect_rt.group.member import Assigned, AssignmentRequired, JoinRequired, MembershipEvent

MEMBER_ID = "standalone"


class SoloMember:
    """Implements group.member.GroupMember for a group of one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._events: deque[MembershipEvent] = deque()
        self._woken = False
        self._generation = 0
        self._protocol = ""
        self._stable = False

    def start(self) -> None:
        """See ``group.member.GroupMember.start``."""
        self.request_rejoin("started")

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        """See ``group.member.GroupMember.poll``."""
        with self._changed:
            self._changed.wait_for(lambda: self._events or self._woken, timeout_ms / 1000)
            self._woken = False
            events = list(self._events)
            self._events.clear()
        return events

    def wakeup(self) -> None:
        """See ``group.member.GroupMember.wakeup``."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def request_rejoin(self, reason: str) -> None:
        """See ``group.member.GroupMember.request_rejoin``."""
        self._stable = False
        self._emit(JoinRequired(reason))

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """See ``group.member.GroupMember.join``."""
        self._protocol, metadata = protocols[0]
        self._generation += 1
        self._emit(AssignmentRequired(self._generation, self._protocol, MEMBER_ID, {MEMBER_ID: metadata}))

    def sync(self, assignments: Mapping[str, bytes]) -> None:
        """See ``group.member.GroupMember.sync``."""
        self._stable = True
        self._emit(Assigned(self._generation, self._protocol, MEMBER_ID, MEMBER_ID, assignments[MEMBER_ID]))

    def member_id(self) -> str:
        """See ``group.member.GroupMember.member_id``."""
        return MEMBER_ID if self._stable else ""

    def trouble(self) -> str:
        """See ``group.member.GroupMember.trouble``."""
        return ""

    def in_contact(self) -> bool:
        """See the port: no other worker can take work from it."""
        return True

    def holds_lease(self) -> bool:
        """Return True: no other worker could get the work."""
        return True

    def fenced(self) -> None:
        """See ``group.member.GroupMember.fenced``."""

    def leave(self, reason: str) -> None:
        """See ``group.member.GroupMember.leave``."""
        self._stable = False

    def stop(self) -> None:
        """See ``group.member.GroupMember.stop``."""
        self._stable = False

    def _emit(self, event: MembershipEvent) -> None:
        with self._changed:
            self._events.append(event)
            self._changed.notify_all()

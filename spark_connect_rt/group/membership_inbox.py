"""What waits for the herder's next poll, and the one Condition it waits on.

Owns the order of MembershipEvents and which of them a newer one makes worthless. Three things end a wait: an
event, a wake-up, time. Any thread may tell or wake; only the herder's takes.
"""

from __future__ import annotations

from collections.abc import Sequence

from spark_connect_rt.base.concurrency import MACHINE_THREADS, Threads
from spark_connect_rt.group.member import AssignmentRequired, ContactLost, JoinRequired, MembershipEvent


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

        A lost contact overtakes everything: what it follows must not be acted on any more. A new JoinRequired
        replaces the older one and the leader's task of a round that is over.
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
        """Drop what waits: the member left."""
        with self._condition:
            self._events.clear()

    def fail(self, error: Exception) -> None:
        """Make this and every later ``take`` raise ``error``, once what waits is taken."""
        with self._condition:
            self._error = error
            self._condition.notify_all()

    def wakeup(self) -> None:
        """End the wait, or the next one."""
        with self._condition:
            if self._woken:
                return  # who waits was notified, and is on its way
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

"""This worker's membership over real connections: the shell around ``group.membership``.

Owns the state and the I/O thread, and nothing else of importance: every decision is the machine's, every byte
``group_requests``', every socket ``group_link``'s. State is replaced under one lock, by the herder's thread or
the I/O thread; requests run on the latter only (``group_io``). An answer belongs to the era in which its request
was sent; ABANDON, FIND_COORDINATOR and SEND_LEAVE end the era, so no answer can arrive too late to be wrong.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from spark_connect_rt.errors import BadConfigError, ConnectError
from spark_connect_rt.group import membership_events as happened
from spark_connect_rt.group.member import Assigned, AssignmentRequired, ContactLost, JoinRequired, MembershipEvent
from spark_connect_rt.group.membership import (
    Effect,
    Member,
    MemberPhase,
    holds_lease,
    in_contact,
    next_deadline_ms,
    overdue,
    step,
)
from spark_connect_rt.group.membership_inbox import MembershipInbox
from spark_connect_rt.kafka.membership.group_io import LEAVE_LIMIT_S, GroupIo
from spark_connect_rt.kafka.membership.group_settings import MemberSettings

_log = logging.getLogger(__name__)

_ENDS_ERA = (Effect.ABANDON, Effect.FIND_COORDINATOR, Effect.SEND_LEAVE)
_TELLS = (
    Effect.TELL_JOIN,
    Effect.TELL_ASSIGNMENT_REQUIRED,
    Effect.TELL_ASSIGNED,
    Effect.TELL_CONTACT_LOST,
)


class KafkaGroupMember:
    """``group.member.GroupMember`` on aiokafka's connections (protocol type ``connect``)."""

    def __init__(
        self,
        settings: MemberSettings,
        *,
        monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000,
    ) -> None:
        self._settings = settings
        self._now_ms = monotonic_ms
        self._lock = threading.RLock()
        self._member = Member()
        self._era = 0
        self._trouble = ""
        self._inbox = MembershipInbox()
        self._last_poll_ms = monotonic_ms()
        self._polling = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._io = GroupIo(self)
        self._left = threading.Event()

    def start(self) -> None:
        """Start the I/O thread and look for the coordinator; returns at once."""
        self._quiet_aiokafka()
        self._last_poll_ms = self._now_ms()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._io.run, args=(self._loop,), name="connectrt-group-io", daemon=True)
        self._thread.start()
        self.apply(happened.Started())

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        """Return what happened, waiting at most ``timeout_ms``; BadConfigError once the group refused for good."""
        self._last_poll_ms = self._now_ms()
        self._polling = True
        try:
            if self._member.phase is MemberPhase.LAPSED:
                self.apply(happened.Polled())
            return self._take(self._last_poll_ms + max(0, timeout_ms))
        finally:
            self._last_poll_ms = self._now_ms()
            self._polling = False

    def wakeup(self) -> None:
        """End the wait of a ``poll``, or of the next one. Any thread."""
        self._inbox.wakeup()

    def request_rejoin(self, reason: str) -> None:
        """Ask for a rebalance, or to come back after ``leave``."""
        self.apply(happened.RejoinRequested(reason))

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Answer the JoinRequired that was polled last; dropped when a newer one waits."""
        self.apply(happened.JoinOffered(self._inbox.join_round, tuple(protocols)))

    def sync(self, assignments: Mapping[str, bytes]) -> None:
        """Answer the AssignmentRequired that was polled last; dropped when its round is over."""
        self.apply(happened.SyncOffered(self._inbox.assignment_generation, dict(assignments)))

    def member_id(self) -> str:
        """Return the member id, empty unless stable and everything that happened has been polled."""
        member = self._member
        return member.member_id if member.phase is MemberPhase.STABLE and self._inbox.is_empty else ""

    def trouble(self) -> str:
        """Return why the group is not joined, as it was said last. Any thread."""
        return self._trouble

    def in_contact(self) -> bool:
        """Return whether what was assigned is certainly still this member's. Any thread."""
        return in_contact(self._member, self._settings.timing, self._now_ms())

    def holds_lease(self) -> bool:
        """Return whether contact is so fresh that executors may be kept alive. Any thread."""
        return holds_lease(self._member, self._settings.timing, self._now_ms(), self._polled_ms())

    def fenced(self) -> None:
        """Take note that nothing of the work before ContactLost runs any more."""
        self.apply(happened.Fenced())

    def leave(self, reason: str) -> None:
        """Send LeaveGroup and forget the member id; waits for the answer, at most a second."""
        self._left.clear()
        if Effect.SEND_LEAVE in self.apply(happened.LeaveRequested(reason)):
            self._left.wait(LEAVE_LIMIT_S)
        self._inbox.forget()

    def stop(self) -> None:
        """Leave if still in, end the I/O thread. Safe to call twice."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self.leave("the worker is stopping")
        self._loop = self._thread = None
        with contextlib.suppress(RuntimeError):  # closed already
            loop.call_soon_threadsafe(self._io.end)
        thread.join(LEAVE_LIMIT_S * 2)

    @property
    def settings(self) -> MemberSettings:
        """Return what the member was made with."""
        return self._settings

    @property
    def state(self) -> Member:
        """Return the machine's present state; any thread."""
        return self._member

    @property
    def era(self) -> int:
        """Return the number that an answer must still find unchanged."""
        return self._era

    def now_ms(self) -> int:
        """Return the monotonic clock all this member's times are of."""
        return self._now_ms()

    def apply(self, event: object, era: int | None = None) -> tuple[Effect, ...]:
        """Step the machine and have its effects run; ignored when ``era`` is over. Any thread."""
        with self._lock:
            if era is not None and era != self._era:
                return ()
            before = self._member
            after, effects = step(before, event)
            self._member = after
            if after.phase is MemberPhase.STABLE and before.phase is not MemberPhase.STABLE:
                self._trouble = ""
            if any(effect in _ENDS_ERA for effect in effects):
                self._era += 1
            self._log_change(before, after)
            if after.phase is MemberPhase.REFUSED and before.phase is not MemberPhase.REFUSED:
                self._inbox.fail(_refusal(after.reason))
            for effect in effects:
                if effect in _TELLS:
                    self._tell(effect, after, event)
                else:
                    self._on_loop(self._io.run_effect, effect, before, after, self._era)
            self._on_loop(self._io.nudge)
        return effects

    def check_time(self) -> None:
        """Let the machine know when contact or the herder's poll is overdue. Any thread."""
        with self._lock:
            event = overdue(self._member, self._settings.timing, self._now_ms(), self._polled_ms())
            if event is not None:
                self.apply(event)

    def deadline_ms(self) -> int | None:
        """Return when ``check_time`` is worth calling next, None while time changes nothing."""
        return next_deadline_ms(self._member, self._settings.timing, self._polled_ms())

    def crashed(self, error: Exception) -> None:
        """Take note that the I/O thread cannot go on: the herder's next poll raises."""
        _log.error("group=%s the membership's I/O thread failed", self._settings.link.group_id, exc_info=error)
        self._inbox.fail(ConnectError(f"the group membership of {self._settings.link.group_id} failed: {error!r}"))

    def troubled(self, why: str) -> None:
        """Take note of what keeps this member out; forgotten when it is in again. Any thread."""
        self._trouble = why

    def has_left(self) -> None:
        """Take note that LeaveGroup was answered, or will not be."""
        self._left.set()

    def _take(self, end_ms: int) -> Sequence[MembershipEvent]:
        while True:
            # The clock is looked at here too: if the I/O thread hangs, the silence must still be noticed.
            self.check_time()
            deadline_ms = self.deadline_ms()
            wait_ms = (end_ms if deadline_ms is None else min(end_ms, deadline_ms)) - self._now_ms()
            events, ended = self._inbox.take(wait_ms)
            if events or ended or self._now_ms() >= end_ms:
                return events

    def _polled_ms(self) -> int:
        return self._now_ms() if self._polling else self._last_poll_ms

    def _on_loop(self, work: Callable[..., None], *arguments: object) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: its thread failed, ``poll`` tells
                self._loop.call_soon_threadsafe(work, *arguments)

    def _tell(self, effect: Effect, after: Member, event: object) -> None:
        if effect is Effect.TELL_JOIN:
            self._inbox.tell(JoinRequired(after.reason), after.round)
        elif effect is Effect.TELL_CONTACT_LOST:
            self._inbox.tell(ContactLost(after.reason))
        elif effect is Effect.TELL_ASSIGNMENT_REQUIRED and isinstance(event, happened.JoinedAsLeader):
            request = AssignmentRequired(after.generation, after.protocol, after.leader_id, event.members)
            self._inbox.tell(request, after.generation)
        elif isinstance(event, happened.SyncAnswered):
            member_ids = (after.member_id, after.leader_id)
            self._inbox.tell(Assigned(after.generation, after.protocol, *member_ids, event.assignment))

    def _log_change(self, before: Member, after: Member) -> None:
        if before.phase is not after.phase or before.coordinator_known != after.coordinator_known:
            _log.info(
                "group=%s member=%s gen=%d %s -> %s%s: %s",
                self._settings.link.group_id,
                after.member_id or "-",
                after.generation,
                before.phase.name,
                after.phase.name,
                "" if after.coordinator_known else " (coordinator unknown)",
                after.reason,
            )

    @staticmethod
    def _quiet_aiokafka() -> None:
        logger = logging.getLogger("aiokafka")
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.WARNING)


def _refusal(reason: str) -> BadConfigError:
    setting, _, problem = reason.partition(": ")
    return BadConfigError({setting: [problem or reason]})

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
import random
import threading
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from spark_connect_rt.errors import BadConfigError, ConnectError
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
    holds_lease,
    in_contact,
    must_heartbeat,
    next_deadline_ms,
    overdue,
    step,
)
from spark_connect_rt.kafka.membership import group_link as requests
from spark_connect_rt.kafka.membership.group_link import (
    NETWORK_ERRORS,
    CoordinatorLink,
    CoordinatorRefusesError,
    CoordinatorSearch,
    CoordinatorUnknownError,
)
from spark_connect_rt.kafka.membership.group_settings import MemberSettings

# The I/O thread of a membership: the search for the coordinator, the requests, the heartbeat.
#
# Owns an asyncio loop and the tasks on it. Knows no rule of the protocol: it runs the effects it is handed and
# turns what comes back into events. Everything here but ``run``'s caller is on the loop's thread.


_log = logging.getLogger(__name__)

LEAVE_LIMIT_S = 1.0
_FAR_MS = 3_600_000


class GroupClient(Protocol):
    """The I/O thread's view of the member it works for."""

    @property
    def settings(self) -> MemberSettings:
        """Return the group's times and how to connect."""

    @property
    def state(self) -> Member:
        """Return the machine's present state."""

    @property
    def era(self) -> int:
        """Return the number that an answer must still find unchanged."""

    def now_ms(self) -> int:
        """Return the time of the monotonic clock, ms."""

    def apply(self, event: object, era: int | None = None) -> tuple[Effect, ...]:
        """Step the machine, unless the era is over."""

    def check_time(self) -> None:
        """Let the machine know what is overdue."""

    def deadline_ms(self) -> int | None:
        """Return when ``check_time`` is worth calling next."""

    def troubled(self, why: str) -> None:
        """Take note of what keeps this member out."""

    def crashed(self, error: Exception) -> None:
        """Note that this thread cannot continue."""

    def has_left(self) -> None:
        """Take note that LeaveGroup was answered, or will not be."""


class GroupIoThread:
    """Runs effects. ``run`` is the thread's whole life; the rest is called on its loop."""

    def __init__(self, shell: GroupClient) -> None:
        self._shell = shell
        self._settings = shell.settings
        self._group_id = shell.settings.link.group_id
        self._search = CoordinatorSearch(shell.settings.link)
        self._link: CoordinatorLink | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._leaving: set[asyncio.Task[None]] = set()
        self._nudged = asyncio.Event()
        self._failures = 0
        self._ever_found = False
        self._let_in = False  # an assignment was handed to this member
        self._beat: asyncio.Task[None] | None = None
        self._beat_due_ms = 0
        self._ended = False

    def run(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve the loop until ``end``."""
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._serve())
        except Exception as error:  # noqa: BLE001 - top of the thread
            self._shell.crashed(error)
            loop.run_until_complete(self._wind_up())
        finally:
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    def end(self) -> None:
        """Make ``run`` return; the loop looks at once."""
        self._ended = True
        self._nudged.set()

    def nudge(self) -> None:
        """Look at the clock again: the state changed."""
        self._nudged.set()

    def run_effect(self, effect: Effect, before: Member, after: Member, era: int) -> None:
        """Run one effect of a step from ``before`` to ``after``."""
        if effect is Effect.FIND_COORDINATOR:
            self._drop()
            self._spawn(self._find, era)
        elif effect is Effect.ABANDON:
            self._abandon()
        elif effect is Effect.SEND_JOIN:
            self._spawn(partial(self._join, after), era)
        elif effect is Effect.SEND_SYNC:
            self._spawn(partial(self._sync, after), era)
        elif effect is Effect.SEND_LEAVE:
            self._leave(before.member_id, after.reason)

    async def _serve(self) -> None:
        while not self._ended:
            self._shell.check_time()
            self._beat_if_due()
            self._nudged.clear()
            try:
                await asyncio.wait_for(self._nudged.wait(), self._idle_ms() / 1000)
            except TimeoutError:
                continue
        await self._wind_up()

    async def _wind_up(self) -> None:
        """Serve what leaving the group takes until ``end``, then close everything."""
        while not self._ended:
            self._nudged.clear()
            await self._nudged.wait()
        if self._leaving:
            await asyncio.wait(self._leaving, timeout=LEAVE_LIMIT_S)
        link = self._link
        self._drop()
        await asyncio.gather(*self._tasks, *self._leaving, return_exceptions=True)
        if link is not None:
            await link.wait_closed(LEAVE_LIMIT_S)

    def _idle_ms(self) -> int:
        due_ms = [self._shell.deadline_ms()]
        if self._must_beat():
            due_ms.append(self._beat_due_ms)
        now_ms = self._shell.now_ms()
        nearest_ms = min((due for due in due_ms if due is not None), default=now_ms + _FAR_MS)
        return max(1, min(nearest_ms - now_ms, _FAR_MS))

    def _must_beat(self) -> bool:
        in_flight = self._beat is not None and not self._beat.done()
        return self._link is not None and not in_flight and must_heartbeat(self._shell.state)

    def _beat_if_due(self) -> None:
        if self._must_beat() and self._shell.now_ms() >= self._beat_due_ms:
            self._beat_due_ms = self._shell.now_ms() + self._settings.timing.heartbeat_ms
            self._beat = self._spawn(self._heartbeat, self._shell.era)

    async def _find(self, era: int) -> None:
        while True:
            if self._failures:
                await asyncio.sleep(self._settings.backoff_ms(self._failures, random.random()) / 1000)
            self._failures += 1
            try:
                link = await self._search.find()
            except CoordinatorUnknownError as unknown:
                self._out("no coordinator: ", unknown)
            except CoordinatorRefusesError as refused:
                # After a member was once let in, a single refusal does not end its membership: its rights may be
                # changing.
                if not self._ever_found:
                    self._shell.apply(happened.RequestRefused(str(refused)), era)
                    return
                self._out("no coordinator: ", refused)
            else:
                self._adopt(link, era)
                return

    def _out(self, what: str, why: object) -> None:
        _log.warning("group=%s %s%s", self._group_id, what, why)
        self._shell.troubled(f"{what}{why}")

    def _adopt(self, link: CoordinatorLink, era: int) -> None:
        if era != self._shell.era:
            link.close()
            return
        self._link, self._ever_found = link, True
        self._beat_due_ms = self._shell.now_ms()
        self._shell.apply(happened.CoordinatorFound(), era)

    async def _join(self, member: Member, era: int) -> None:
        if self._link is not None:
            request = requests.join_request(self._group_id, member, self._settings.timing)
            answer = await self._link.ask_and_wait(request)
            self._answered(requests.join_answered(answer, member, self._shell.now_ms()), era)

    async def _sync(self, member: Member, era: int) -> None:
        if self._link is not None:
            sent_ms = self._shell.now_ms()
            answer = await self._link.ask_and_wait(requests.sync_request(self._group_id, member))
            self._link.end_wait()
            self._answered(requests.sync_answered(answer, member, sent_ms), era)

    async def _heartbeat(self, era: int) -> None:
        if self._link is not None:
            member, sent_ms = self._shell.state, self._shell.now_ms()
            answer = await self._link.ask(requests.heartbeat_request(self._group_id, member))
            self._answered(requests.heartbeat_answered(answer, member, sent_ms), era)

    def _answered(self, event: object, era: int) -> None:
        if isinstance(event, happened.SyncAnswered):
            self._let_in = True
        elif isinstance(event, happened.RequestRefused) and self._let_in:
            # As in ``_find``: after the member was let in, a single refusal does not end its membership.
            self._out("", event.reason)
            event = happened.CoordinatorLost(event.reason)
        if not isinstance(event, happened.CoordinatorLost):
            self._failures = 0
        self._shell.apply(event, era)

    def _leave(self, member_id: str, reason: str) -> None:
        link, self._link = self._link, None
        if link is None:
            self._shell.has_left()
            return
        task = asyncio.get_running_loop().create_task(self._say_goodbye(link, member_id, reason))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _say_goodbye(self, link: CoordinatorLink, member_id: str, reason: str) -> None:
        request = requests.leave_request(self._group_id, member_id, reason)
        try:
            await asyncio.wait_for(link.ask(request), LEAVE_LIMIT_S)
        except NETWORK_ERRORS as error:
            _log.info("group=%s LeaveGroup was not answered: %r", self._group_id, error)
        finally:
            link.close()
            self._shell.has_left()

    def _spawn(self, work: Callable[[int], Awaitable[None]], era: int) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guarded(work, era))
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._nudged.set()  # a heartbeat may be due that had to wait for this one

    async def _guarded(self, work: Callable[[int], Awaitable[None]], era: int) -> None:
        try:
            await work(era)
        except NETWORK_ERRORS as error:
            self._shell.apply(happened.CoordinatorLost(f"{type(error).__name__}: {error}"), era)
        except Exception as error:  # noqa: BLE001 - top of a task
            self._shell.crashed(error)

    def _abandon(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._link is not None:
            self._link.end_wait()

    def _drop(self) -> None:
        self._abandon()
        if self._link is not None:
            self._link.close()
            self._link = None


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
        self._io = GroupIoThread(self)
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
        """Return the last reason why the group is not joined. Any thread."""
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
        """Note that the I/O thread cannot continue: the herder's next poll raises."""
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
            with contextlib.suppress(RuntimeError):  # the loop is closed: its thread failed, and ``poll`` raises
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

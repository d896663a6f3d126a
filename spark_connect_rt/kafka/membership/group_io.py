"""The I/O thread of a membership: the search for the coordinator, the requests, the heartbeat.

Owns an asyncio loop and the tasks on it. Knows no rule of the protocol: it runs the effects it is handed and
turns what comes back into events. Everything here but ``run``'s caller is on the loop's thread.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol

from spark_connect_rt.group import membership_events as happened
from spark_connect_rt.group.membership import Effect, Member, must_heartbeat
from spark_connect_rt.kafka.membership import group_requests as requests
from spark_connect_rt.kafka.membership.group_link import (
    NETWORK_ERRORS,
    CoordinatorLink,
    CoordinatorRefusesError,
    CoordinatorSearch,
    CoordinatorUnknownError,
)
from spark_connect_rt.kafka.membership.group_settings import MemberSettings

_log = logging.getLogger(__name__)

LEAVE_LIMIT_S = 1.0
_FAR_MS = 3_600_000


class GroupShell(Protocol):
    """What the I/O thread needs of the member it works for."""

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
        """Take note that this thread cannot go on."""

    def has_left(self) -> None:
        """Take note that LeaveGroup was answered, or will not be."""


class GroupIo:
    """Runs effects. ``run`` is the thread's whole life; the rest is called on its loop."""

    def __init__(self, shell: GroupShell) -> None:
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
                # Who was let in before is not turned away for good by one answer: rights may be in the making.
                if not self._ever_found:
                    self._shell.apply(happened.Refused(str(refused)), era)
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
        elif isinstance(event, happened.Refused) and self._let_in:
            # As in ``_find``: who was let in before is not turned away for good by one answer.
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

"""Joins a running group only when this worker can run tasks at once.

A worker that joins is given work that others were doing until then. Its first Spark job takes ten seconds or more, in
which no worker would do that work: so the engine is warmed first, and the group is joined afterwards. Where no group is
running there is no work to keep going: it joins at once. A worker whose Spark takes too long joins after all (one whose
Spark fails ends).
Java has nothing like it: its tasks are threads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence

from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere, watched
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group.member import GroupMember, MembershipEvent

log = logging.getLogger(__name__)


class DeferredMember:
    """Port GroupMember in front of another one; ``start`` takes effect when the engine is warm."""

    def __init__(
        self,
        member: GroupMember,
        others: Callable[[], bool],
        await_warm: Callable[[], bool],
        report: Report = report_nowhere,
    ) -> None:
        """Wrap a member whose start is deferred.

        Args:
            member: the one that joins.
            others: returns whether the group has members now; may block, may raise ConnectError.
            await_warm: waits until a task would run at once; False when that took too long.
            report: called when the wait ended by an error, so that the group would never be joined.
        """
        self._member = member
        self._others = others
        self._await_warm = await_warm
        self._report = report
        self._may_start = threading.Event()
        self._started = False

    def start(self) -> None:
        """Begin to wait; returns at once."""
        wait = watched(self._wait, SupervisedPart.GROUP, self._report)
        threading.Thread(target=wait, name="warm-up", daemon=True).start()

    def _wait(self) -> None:
        try:
            others = self._others()
        except ConnectError as error:
            log.warning("the group's members are unknown, so this worker joins immediately: %s", error)
            others = False
        if others:
            log.info("the group already has members, so this worker joins once its engine is ready")
            if not self._await_warm():
                log.warning("the engine is not ready yet, but the worker joins the group now and its tasks will wait")
        self._may_start.set()
        self._member.wakeup()

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        """See the port; nothing happens before the engine is warm."""
        if not self._started and self._may_start.is_set():
            self._started = True
            self._member.start()
        return self._member.poll(timeout_ms)

    def wakeup(self) -> None:
        """Make a waiting or the next ``poll`` of the member return at once. Any thread."""
        self._member.wakeup()

    def request_rejoin(self, reason: str) -> None:
        """Ask for a rebalance, if the member has started."""
        if self._started:
            self._member.request_rejoin(reason)

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        """Pass the answer to JoinRequired on to the member."""
        self._member.join(protocols)

    def sync(self, assignments: Mapping[str, bytes]) -> None:
        """Pass the leader's assignments on to the member."""
        self._member.sync(assignments)

    def member_id(self) -> str:
        """Return the member id, empty unless the membership is stable."""
        return self._member.member_id()

    def trouble(self) -> str:
        """Return the last reason why the group could not be joined. Any thread."""
        return self._member.trouble()

    def in_contact(self) -> bool:
        """Return whether the assigned work is certainly still this member's. Any thread."""
        return self._member.in_contact()

    def holds_lease(self) -> bool:
        """Return whether contact is so fresh that executors may be kept alive. Any thread."""
        return self._member.holds_lease()

    def fenced(self) -> None:
        """Note that the work of before ContactLost was ended."""
        self._member.fenced()

    def leave(self, reason: str) -> None:
        """Send LeaveGroup, if the member has started."""
        if self._started:
            self._member.leave(reason)

    def stop(self) -> None:
        """Leave if still in, and close connections and threads."""
        self._member.stop()

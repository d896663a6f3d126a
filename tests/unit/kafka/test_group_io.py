"""The I/O thread of a membership: which refusals are final, and that a crash still lets the worker leave."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group import membership as happened
from spark_connect_rt.group.membership import Member, MemberPhase
from spark_connect_rt.kafka.membership.group_member import GroupIoThread, KafkaGroupMember
from tests.support.group_members import new_member, settings_of

SETTINGS = {"group.id": "g", "bootstrap.servers": "127.0.0.1:1", "client.id": "c"}


class Shell(KafkaGroupMember):
    """A member whose events are only noted."""

    def __init__(self) -> None:
        super().__init__(settings_of(SETTINGS))
        self.heard: list[object] = []

    def apply(self, event: object, era: int | None = None) -> tuple[Any, ...]:
        self.heard.append(event)
        return ()


@pytest.mark.parametrize("reason", ["group.id: not authorised", "group.id: group.max.size", "session.timeout.ms: no"])
def test_a_refusal_is_final_only_for_who_was_never_let_in(reason: str) -> None:
    shell = Shell()
    io = GroupIoThread(shell)
    io._answered(happened.RequestRefused(reason), 0)
    assert shell.heard == [happened.RequestRefused(reason)]
    io._answered(happened.SyncAnswered(b"", 5), 0)
    io._answered(happened.RequestRefused(reason), 0)  # an authorizer that reloads, a heartbeat answered 30
    assert shell.heard[1:] == [happened.SyncAnswered(b"", 5), happened.CoordinatorLost(reason)]
    assert shell.trouble() == reason


def test_trouble_of_a_member_is_forgotten_when_it_is_in_again() -> None:
    member = new_member(SETTINGS)
    member._member = Member(MemberPhase.SYNCING, "m", 7, "sessioned", "l", coordinator_known=True)
    member.troubled("group.id: not authorised")
    member.apply(happened.RebalanceSignalled(7, 1))
    assert member.trouble() == "group.id: not authorised"
    member.apply(happened.SyncAnswered(b"", 5))
    assert member.trouble() == ""


class Link:
    """A coordinator that answers LeaveGroup."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, request: object) -> None:
        self.asked.append(type(request).__name__)

    def end_wait(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing is open."""

    async def wait_closed(self, limit_s: float) -> None:
        """Nothing is open."""


def test_a_failed_io_thread_notifies_the_herder_and_can_still_leave_the_group() -> None:
    member, link = new_member(SETTINGS), Link()
    member._member = Member(
        MemberPhase.STABLE, "m", 7, "sessioned", "l", True, holding=True, last_contact_ms=member.now_ms()
    )
    member._io._link = link  # type: ignore[assignment]
    failing: Callable[[], None] = _raise
    member._io._beat_if_due = failing  # type: ignore[method-assign]
    member._loop = asyncio.new_event_loop()
    member._thread = threading.Thread(target=member._io.run, args=(member._loop,), daemon=True)
    member._thread.start()
    thread = member._thread
    with pytest.raises(ConnectError, match="membership of g failed: MemoryError"):
        member.poll(5_000)
    member.stop()
    assert link.asked == ["LeaveRequest"]
    assert not thread.is_alive()


def _raise() -> None:
    raise MemoryError("nothing left")

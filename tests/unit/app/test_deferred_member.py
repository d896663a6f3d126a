"""A worker joins a running group when its engine is warm, an empty one at once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from spark_connect_rt.app.distributed import DeferredMember
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.group.member import MembershipEvent


class Recorder:
    """A GroupMember that writes down what it is told; ``poll`` waits for ``wakeup``."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self._woken = threading.Event()

    def start(self) -> None:
        self.calls.append("start")

    def poll(self, timeout_ms: int) -> Sequence[MembershipEvent]:
        self._woken.wait(timeout_ms / 1000)
        self._woken.clear()
        return ()

    def wakeup(self) -> None:
        self._woken.set()

    def request_rejoin(self, reason: str) -> None:
        self.calls.append(f"rejoin: {reason}")

    def join(self, protocols: Sequence[tuple[str, bytes]]) -> None:
        self.calls.append("join")

    def sync(self, assignments: Mapping[str, bytes]) -> None:
        self.calls.append("sync")

    def member_id(self) -> str:
        return "me" if "start" in self.calls else ""

    def leave(self, reason: str) -> None:
        self.calls.append("leave")

    def stop(self) -> None:
        self.calls.append("stop")


def polled_until_started(member: DeferredMember, inner: Recorder) -> None:
    member.start()
    for _ in range(20):
        if inner.calls:
            return
        member.poll(1_000)


def test_an_empty_group_is_joined_at_once() -> None:
    inner = Recorder()
    polled_until_started(DeferredMember(inner, lambda: False, lambda: threading.Event().wait()), inner)
    assert inner.calls == ["start"]


def test_a_running_group_is_joined_when_the_engine_is_warm() -> None:
    inner, warm, asked = Recorder(), threading.Event(), threading.Event()

    def await_warm() -> bool:
        asked.set()
        return warm.wait(10)

    member = DeferredMember(inner, lambda: True, await_warm)
    member.start()
    assert asked.wait(10)
    member.poll(0)
    member.request_rejoin("nothing to come back to yet")
    member.leave("never in")
    assert inner.calls == []
    assert member.member_id() == ""
    warm.set()
    for _ in range(20):
        member.poll(1_000)
        if inner.calls:
            break
    assert inner.calls == ["start"]
    member.request_rejoin("why not")
    assert inner.calls == ["start", "rejoin: why not"]


def test_an_engine_that_never_warms_does_not_keep_the_worker_out() -> None:
    inner = Recorder()
    polled_until_started(DeferredMember(inner, lambda: True, lambda: False), inner)
    assert inner.calls == ["start"]


def test_a_group_that_cannot_be_looked_up_is_joined() -> None:
    def others() -> bool:
        raise ConnectError("no answer")

    inner = Recorder()
    polled_until_started(DeferredMember(inner, others, lambda: threading.Event().wait()), inner)
    assert inner.calls == ["start"]

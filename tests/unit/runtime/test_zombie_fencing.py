"""A fencing round that a rebalance overtakes while it reads waits for its end, and then sees who leads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.base.concurrency import answer_by
from spark_connect_rt.errors import NotLeaderError
from spark_connect_rt.group.subprotocol import Assignment, ConnectProtocol
from spark_connect_rt.runtime.herder.group_state import GroupState
from spark_connect_rt.runtime.herder.requests.zombie_fencing import ZombieFencing
from spark_connect_rt.topics.config_state import ClusterConfigState

SNAPSHOT = ClusterConfigState(
    offset=1, connector_configs={"a": {}}, task_counts={"a": 1}, pending_fencing=frozenset({"a"})
)


class _Round:
    """A round of connector ``a``, its reads and requests carried out one by one."""

    def __init__(self) -> None:
        self.state = GroupState(ConnectProtocol.SESSIONED, member_id="m", assignment=Assignment("m", "u", 1))
        self.calls: list[tuple[str, Callable[[Exception | None, int], None]]] = []
        self.requests: list[tuple[Callable[[], Any], Future[None]]] = []
        store = SimpleNamespace(snapshot=lambda: SNAPSHOT, refresh=None)
        deps: Any = SimpleNamespace(
            config_store=store, settings=SimpleNamespace(worker_sync_timeout_ms=1), transactions=None
        )
        calls: Any = SimpleNamespace(begin=lambda what, _, done: self.calls.append((what, done)))
        self.answer = ZombieFencing(deps, self.state, calls, self._add).fence("a")

    def _add(self, _: str, action: Callable[[], Future[None] | None]) -> Future[None]:
        answer: Future[None] = Future()
        self.requests.append((action, answer))
        return answer

    def end_call(self) -> str:
        what, done = self.calls.pop(0)
        done(None, 0)
        return what

    def serve(self) -> None:
        action, answer = self.requests.pop(0)
        answer_by(answer, action)  # type: ignore[arg-type]


def test_it_continues_after_the_rebalance_if_this_worker_still_leads() -> None:
    fencing = _Round()
    fencing.state.member_id = ""  # the rebalance begins
    fencing.end_call()
    assert not fencing.answer.done()
    fencing.state.member_id = "m"
    fencing.serve()
    assert fencing.end_call().startswith("reading")
    assert fencing.end_call().startswith("writing the number of fenced tasks")
    assert fencing.answer.result(0) is None


def test_it_says_so_where_another_worker_leads_then() -> None:
    fencing = _Round()
    fencing.state.member_id = ""
    fencing.end_call()
    fencing.serve()
    with pytest.raises(NotLeaderError):
        fencing.answer.result(0)

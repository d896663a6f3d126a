"""A worker dies between the two writes of a change: what was begun is finished, or leaves nothing."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from typing import Any

import pytest

from spark_connect_rt.operations.history.rollback_routes import OffsetRestore
from spark_connect_rt.topics import config_records as records
from spark_connect_rt.topics.config_records import PendingChange, TargetState
from spark_connect_rt.topics.config_state import ClusterConfigState
from tests.unit.operations.history.history_workers import HistoryWorkers
from tests.unit.operations.history.test_initial_offsets import CONFIG, at, new


def snapshot(group: HistoryWorkers, worker: str) -> ClusterConfigState:
    return group.cluster.workers[worker].herder._loop._deps.config_store.snapshot()


def dies(group: HistoryWorkers, worker: str) -> None:
    group.cluster.workers[worker].member.vanish()
    del group.peers.apps[f"{worker}:8083"]


@pytest.mark.parametrize("old", [[at(1), at(4, "old")], []])
def test_a_creation_whose_leader_dies_before_the_connector_is_written_leaves_nothing(
    group: HistoryWorkers, old: list[dict[str, Any]]
) -> None:
    leader, other = group.named(leads=True), group.named(leads=False)
    if old:
        group.ok("POST", "/connectors", new(*old, initial_state="STOPPED"))
        group.ok("DELETE", "/connectors/a")
    creates = group.cluster.workers[leader].herder._loop.creates
    creates._write_config = lambda request: Future()  # type: ignore[method-assign, assignment]  # it comes never
    store = group.cluster.workers[leader].herder._loop._deps.offset_store
    group.begin(leader, "POST", "/connectors", new(at(3)))
    group.cluster.until(lambda: [offset for _, offset in store.connector_offsets("a")] == [{"position": 3}])
    group.cluster.until(lambda: "a" in snapshot(group, other).pending)
    assert snapshot(group, other).pending["a"].config is not None
    refused = group.asked("POST", "/connectors", {"name": "a", "config": CONFIG}, leader)
    assert (refused.status_code, "is being created" in refused.json()["message"]) == (409, True)
    dies(group, leader)
    group.cluster.until(lambda: group.cluster.workers[other].herder.views.is_leader())
    group.cluster.until(lambda: not snapshot(group, other).pending)
    assert group.ok("GET", "/connectors", worker=other) == []
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG, "initial_state": "STOPPED"}, worker=other)
    left = group.ok("GET", "/connectors/a/offsets", worker=other)["offsets"]
    assert sorted(left, key=str) == sorted(old, key=str)


@pytest.mark.parametrize("written", [False, True])
def test_an_undo_whose_worker_dies_midway_is_wanted_again_as_it_was(
    group: HistoryWorkers, written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, other = group.named(leads=True), group.named(leads=False)
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG}, worker=leader)
    group.cluster.until(lambda: group.position("a") == 5)
    group.ok("PUT", "/connectors/a/stop", worker=leader)
    group.cluster.until(lambda: group.cluster.states("a") == {"a": "STOPPED"})
    group.ok("PATCH", "/connectors/a/offsets", {"offsets": [at(2)]}, worker=leader)
    number = group.changes("a", "&kind=offsets", worker=leader)[0]["number"]
    group.ok("PUT", "/connectors/a/pause", worker=leader)
    group.cluster.until(lambda: group.cluster.states("a").get("a") == "PAUSED")
    reached = threading.Event()
    write = OffsetRestore._write

    async def dead(*arguments: Any) -> Any:
        if written:
            await write(*arguments)
        reached.set()
        await asyncio.sleep(3600)

    monkeypatch.setattr(OffsetRestore, "_write" if written else "_stopped", dead)
    group.begin(other, "POST", f"/admin/history/a/{number}/undo", {})
    group.cluster.until(reached.is_set)
    assert snapshot(group, leader).target_states["a"] is TargetState.STOPPED
    dies(group, other)
    group.cluster.until(lambda: snapshot(group, leader).target_states["a"] is TargetState.PAUSED)
    assert not snapshot(group, leader).pending
    assert group.position("a", leader) == (5 if written else 2)


def test_a_worker_that_is_back_ends_what_its_earlier_process_began(group: HistoryWorkers) -> None:
    other = group.named(leads=False)
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG})
    group.ok("PUT", "/connectors/a/stop")
    url = group.cluster.workers[other].herder.views.standing().worker_url
    begun = PendingChange(url, "of before", int(time.time() * 1000), "STARTED")
    group.cluster.config_topic.write([(records.pending_key("a"), records.encode_pending(begun))])
    group.cluster.until(lambda: snapshot(group, other).target_states["a"] is TargetState.STARTED)
    group.cluster.until(lambda: not snapshot(group, other).pending)


def test_pending_change_of_a_live_worker_is_left_to_it(group: HistoryWorkers) -> None:
    leader, other = group.named(leads=True), group.named(leads=False)
    group.ok("POST", "/connectors", {"name": "a", "config": CONFIG})
    group.ok("PUT", "/connectors/a/stop")
    pending = group.cluster.workers[other].herder._loop._pending
    begun = pending.begun(target=TargetState.STARTED)
    group.cluster.config_topic.write([(records.pending_key("a"), records.encode_pending(begun))])
    group.cluster.until(lambda: bool(snapshot(group, leader).pending and snapshot(group, other).pending))
    time.sleep(0.3)
    assert snapshot(group, leader).pending["a"] == begun
    assert snapshot(group, leader).target_states["a"] is TargetState.STOPPED


def test_running_change_is_left_alone_and_ends_with_its_last_write(group: HistoryWorkers) -> None:
    leader, other = group.named(leads=True), group.named(leads=False)
    group.ok("POST", "/connectors", new(at(3)), worker=other)
    assert snapshot(group, leader).pending == {}
    group.cluster.until(lambda: group.position("a") == 5)
    number = group.changes("a", "&kind=offsets")[0]["number"]
    refused = group.asked("POST", f"/admin/history/a/{number}/undo", {}, other)
    assert refused.status_code == 409
    assert group.ok("POST", f"/admin/history/a/{number}/undo", {"force": True}, worker=other)["applied"] is True
    assert snapshot(group, leader).pending == snapshot(group, other).pending == {}
    group.cluster.until(lambda: snapshot(group, leader).target_states["a"] is TargetState.STARTED)

"""The group's own story over real herders in memory: whichever worker is asked, and whoever is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.operations.events import routes as rest_events
from spark_connect_rt.operations.events import service as group_events
from spark_connect_rt.operations.events.service import GroupEvents
from spark_connect_rt.rest.peers import HttpGroupReads
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.operations.event_stream_client import followed
from tests.unit.operations.managed_workers import ManagedWorkers
from tests.unit.rest.conftest import ask
from tests.unit.rest.test_over_herders import QUICK
from tests.unit.runtime.cluster_stories import source

STREAM = "/admin/events/stream"


def with_events(worker: InProcessWorker, reads: HttpGroupReads) -> Management:
    return Management(group_reads=reads, events=GroupEvents(worker.events, reads, SystemClock(), limit_ms=10_000))


@pytest.fixture
def workers() -> Iterator[ManagedWorkers]:
    with InProcessCluster(timing=QUICK) as cluster:
        workers = ManagedWorkers(cluster, "w1", "w2", parts=with_events)
        yield workers
        workers.stop()


@pytest.fixture(autouse=True)
def gathered_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_events, "FRESH_MS", 50)


def events(workers: ManagedWorkers, of: str, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = workers.ask(of, "GET", f"/admin/events{query}").json()["events"]
    return found


def running(workers: ManagedWorkers) -> set[str]:
    return {task for worker in workers.cluster.workers.values() for task in worker.running_tasks()}


def eventually(workers: ManagedWorkers, of: str, query: str, most_s: float = 10.0) -> list[dict[str, Any]]:
    end_s = time.monotonic() + most_s
    while not (found := events(workers, of, query)) and time.monotonic() < end_s:
        time.sleep(0.1)
    return found


def test_a_rebalance_is_one_event_for_the_group_with_who_what_and_how_long(workers: ManagedWorkers) -> None:
    assert workers.ask("w1", "PUT", "/connectors/a/config", source(tasks=2)).status_code == 201
    workers.cluster.until(lambda: len(running(workers)) == 2)
    began_s = time.monotonic()
    workers.cluster.add_worker("w3")
    workers.cluster.until_stable()
    workers.cluster.until(lambda: len(running(workers)) == 2)
    whole_ms = (time.monotonic() - began_s) * 1000
    time.sleep(0.1)  # what was gathered a moment ago is not asked for again
    stories = {name: events(workers, name, "?kind=rebalance") for name in ("w1", "w2")}
    assert stories["w1"] == stories["w2"]
    assert len({event["id"] for event in stories["w1"]}) == len(stories["w1"])
    joined = [event for event in stories["w1"] if event["details"]["joined"] == ["w3:8083"]]
    assert len(joined) == 1, [event["summary"] for event in stories["w1"]]
    told = joined[0]
    assert told["details"]["members"] == ["w1:8083", "w2:8083", "w3:8083"]
    assert told["details"]["left"] == []
    assert 0 <= told["details"]["took_ms"] <= whole_ms
    assert "w3:8083 joined" in told["summary"]
    # Connector and two tasks on three workers: each has one at the end, and the events say how they came there.
    moved = [item for event in stories["w1"] for item in event["details"]["moved"]]
    assert {(it["connector"], it["task"]) for it in moved} == {("a", None), ("a", 0), ("a", 1)}
    last = stories["w1"][0]["details"]
    assert {it["worker_id"] for it in last["workers"]} >= {"w1:8083", "w2:8083"}


def test_the_work_of_a_worker_that_vanished_moved_from_it(workers: ManagedWorkers) -> None:
    workers.ask("w1", "PUT", "/connectors/a/config", source(tasks=4))
    workers.cluster.until(lambda: len(running(workers)) == 4)
    stays, goes = workers.named(leads=True), workers.named(leads=False)
    assert eventually(workers, stays, "?kind=state")  # gathered while it was there
    lost = workers.cluster.workers[goes].running_tasks()
    worker = workers.cluster.workers[goes]
    worker.member.vanish()
    del workers.peers.apps[f"{goes}:8083"]
    began_s = time.monotonic()
    workers.cluster.until(lambda: workers.cluster.workers[stays].running_tasks() == {f"a-{n}" for n in range(4)})
    waited_ms = (time.monotonic() - began_s) * 1000
    time.sleep(0.1)
    told = next(event for event in events(workers, stays, "?kind=rebalance") if event["details"]["left"])
    assert told["details"]["left"] == [f"{goes}:8083"]
    assert told["details"]["took_ms"] <= waited_ms + 100
    moved = {f"{it['connector']}-{it['task']}": it for it in told["details"]["moved"] if it["task"] is not None}
    assert set(moved) == lost
    assert all(it["from"] == f"{goes}:8083" and it["to"] == f"{stays}:8083" for it in moved.values())
    assert any(event["worker_id"] == f"{goes}:8083" for event in events(workers, stays, "?kind=state&limit=2000"))


def test_changes_are_seen_by_all_workers_and_shown_once(workers: ManagedWorkers) -> None:
    secret = "hunter2hunter2"
    workers.ask("w1", "PUT", "/connectors/a/config", source(tasks=1))
    workers.cluster.until(lambda: len(running(workers)) == 1)
    workers.ask("w2", "PUT", "/connectors/a/config", {**source(tasks=1), "some.password": secret})
    workers.ask("w1", "PUT", "/connectors/a/pause")
    workers.ask("w2", "POST", "/connectors/a/restart?includeTasks=true")
    workers.ask("w1", "PUT", "/admin/loggers/x.y?scope=cluster", {"level": "DEBUG"})
    workers.ask("w1", "DELETE", "/connectors/a")
    workers.cluster.until_stable()
    time.sleep(0.1)
    answer = workers.ask("w2", "GET", "/admin/events?kind=config,state,restart,logger&limit=2000")
    found = answer.json()["events"]
    assert answer.json()["unanswered"] == []
    assert secret not in answer.text
    config = [event["summary"] for event in found if event["kind"] == "config"]
    assert config == ["connector a is deleted", "connector a is reconfigured", "connector a is created"]
    again = next(event for event in found if event["summary"] == "connector a is reconfigured")
    assert again["details"]["settings"] == ["some.password"]
    assert [event["summary"] for event in found if event["kind"] == "logger"] == [
        "logger x.y is at DEBUG on every worker"
    ]
    assert "connector a: pause requested" in [event["summary"] for event in found]
    assert any(event["kind"] == "restart" and event["details"]["include_tasks"] for event in found)
    assert [event["at_ms"] for event in found] == sorted((event["at_ms"] for event in found), reverse=True)


def test_a_failure_is_one_line_with_a_trace_field(workers: ManagedWorkers) -> None:
    faults.raises("a-0.poll", ValueError("no such\ntable"))
    try:
        workers.ask("w1", "PUT", "/connectors/a/config", source(tasks=1))
        failed = eventually(workers, "w2", "?kind=failure&connector=a")
    finally:
        faults.clear()
    assert failed
    assert (failed[0]["connector"], failed[0]["kind"]) == ("a", "failure")
    assert failed[0]["summary"] == "task a-0 FAILED: ValueError: no such"
    assert "\n" not in failed[0]["summary"]
    assert "Traceback" in failed[0]["details"]["trace"]


def test_restarts_by_policy_and_changed_offsets_are_events_of_their_authors(workers: ManagedWorkers) -> None:
    faults.raises("a-0.poll", ValueError("no"))
    policy = {"errors.restart.policy": "backoff", "errors.restart.delay.ms": "50", "errors.restart.max": "2"}
    try:
        workers.ask("w1", "PUT", "/connectors/a/config", {**source(tasks=1), **policy})
        assert eventually(workers, "w2", "?kind=restart&connector=a")
        time.sleep(0.1)
        restarts = events(workers, "w1", "?kind=restart&connector=a")
    finally:
        faults.clear()
    assert {restart["details"]["why"] for restart in restarts} == {"policy"}
    assert restarts[-1]["summary"] == "a-0 is restarted (attempt 1)"
    workers.ask("w1", "PUT", "/connectors/a/stop")
    workers.cluster.until(lambda: not running(workers))
    end_s = time.monotonic() + 10
    while (answer := workers.ask("w1", "DELETE", "/connectors/a/offsets")).status_code != 200:
        assert time.monotonic() < end_s, answer.text
        time.sleep(0.1)
    time.sleep(0.1)
    (changed,) = events(workers, "w2", "?kind=offsets")
    assert (changed["connector"], changed["summary"]) == ("a", "offsets of a are reset")


def test_the_leader_remembers_what_a_worker_saw_that_is_gone(workers: ManagedWorkers) -> None:
    leader, other = workers.named(leads=True), workers.named(leads=False)
    workers.cluster.workers[other].events("worker", "its last words")
    assert eventually(workers, leader, "?kind=worker")
    workers.cluster.add_worker("w3")  # it never asked while that one was there
    workers.cluster.until_stable()
    third = workers.cluster.workers["w3"]
    workers.cluster.workers[other].member.vanish()
    del workers.peers.apps[f"{other}:8083"]
    reads = HttpGroupReads(third.herder.views, workers.peers)
    story = GroupEvents(third.events, reads, SystemClock(), limit_ms=10_000)
    stay = {f"{leader}:8083", "w3:8083"}  # while the group rebalances a worker knows of itself alone
    workers.cluster.until(lambda: {worker.worker_id for worker in reads.workers()} == stay)
    found, missing = story.gathered()
    reads.stop()
    assert [unanswered.why for unanswered in missing] == []
    assert "its last words" in [event.summary for event in found]


def test_contact_that_is_lost_is_an_event(workers: ManagedWorkers) -> None:
    cut = workers.named(leads=False)
    workers.cluster.workers[cut].member.cut_off()
    found = eventually(workers, cut, "?kind=worker")
    workers.cluster.workers[cut].member.reconnect()
    assert "contact to the group lost, all work stops" in found[0]["summary"]


@pytest.mark.parametrize(
    ("query", "words"), [("kind=nonsense", "nonsense"), ("limit=-1", "limit"), ("since_ms=" + "9" * 30, "since_ms")]
)
def test_a_parameter_that_cannot_be_read_is_refused(workers: ManagedWorkers, query: str, words: str) -> None:
    answer = workers.ask("w1", "GET", f"/admin/events?{query}")
    assert answer.status_code == 400
    assert words in answer.json()["message"]


def test_a_stream_resumes_after_the_last_event_on_another_worker(
    workers: ManagedWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_events, "LOOK_EACH_S", 0.2)
    monkeypatch.setattr(rest_events, "SETTLE_S", 0.3)

    def level(name: str) -> None:
        workers.ask("w1", "PUT", f"/admin/loggers/{name}?scope=cluster", {"level": "DEBUG"})

    first = followed(workers.app("w1"), STREAM, lambda: level("one"))
    assert [event["details"].get("logger") for event in first] == ["one"]
    assert first[0]["sse"]["event"] == "logger"
    assert first[0]["sse"]["id"] == first[0]["id"]
    level("two")  # no one listens
    rest = followed(workers.app("w2"), STREAM, lambda: level("three"), last=first[0]["id"])
    assert [event["details"].get("logger") for event in rest if event["kind"] == "logger"] == ["two", "three"]


def test_a_browser_may_accept_event_streams_only_and_they_end_with_the_worker(workers: ManagedWorkers) -> None:
    answer = ask(workers.app("w1"), "GET", "/admin/events", accept="text/event-stream")
    assert answer.status_code == 406
    streams = workers.managements["w1"].streams
    left_open: list[int] = []

    def stop() -> None:
        left_open.append(streams.open)
        streams.end()
        time.sleep(0.6)
        left_open.append(streams.open)

    followed(workers.app("w1"), STREAM, stop)
    assert left_open == [1, 0]
    late = workers.ask("w1", "GET", "/admin/events/stream")
    assert (late.status_code, late.json()["code"]) == (500, "CRT-1070")

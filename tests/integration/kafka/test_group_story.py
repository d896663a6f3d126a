"""Three real workers (tasks on threads), a real broker: their story by any of them, a change whose worker dies."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.app.offline.internal_topics import InternalTopics
from spark_connect_rt.app.offline.tables import read_table
from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.integration.kafka.threads_worker import ThreadsWorkerProcess
from tests.topics import count_records

SESSION = {"session.timeout.ms": "8000", "heartbeat.interval.ms": "1000"}
CONNECTORS = ("one", "two", "three", "four")


class Group:
    """Workers by name; each is asked over HTTP."""

    def __init__(self, directory: Path, servers: str) -> None:
        self.workers = {
            name: ThreadsWorkerProcess(directory / name, servers, "story", properties=SESSION) for name in "abc"
        }
        self.directory, self.servers = directory, servers

    def start(self, *names: str) -> None:
        for name in names:
            self.workers[name].launch()
        for name in names:
            self.workers[name].await_answer("/health")

    def asked(self, worker: str, method: str, path: str, body: Any = None) -> Any:
        answer = self.workers[worker].rest.request(method, path, body)
        assert answer.status < 300, answer
        return answer.json() if answer.body else None

    def events(self, worker: str, kind: str) -> list[dict[str, Any]]:
        return list(self.asked(worker, "GET", f"/admin/events?kind={kind}&limit=2000")["events"])

    def asked_of_the_dying(self, worker: str, path: str) -> None:
        with contextlib.suppress(Exception):  # no answer comes
            self.asked(worker, "POST", path, {"force": True})

    def tell_alike(self, *workers: str) -> bool:
        """Return whether each of them tells the same rebalances, and none of its others did not answer."""
        answers = [self.asked(worker, "GET", "/admin/events?kind=rebalance&limit=2000") for worker in workers]
        return all(answer["events"] == answers[0]["events"] and not answer["unanswered"] for answer in answers)

    def id(self, worker: str) -> str:
        return f"127.0.0.1:{self.workers[worker].rest_port}"

    def leader(self) -> str:
        leader = self.asked("a", "GET", "/admin/group")["leader"]
        return next(name for name in self.workers if self.id(name) == leader)

    def states(self, worker: str) -> list[tuple[str, list[str]]]:
        return [self.workers[worker].rest.states(name) for name in CONNECTORS]

    def config(self, name: str) -> dict[str, str]:
        lines = self.directory / f"{name}.txt"
        lines.write_text("zero\none\n")
        return {"connector.class": "FileStreamSource", "file": str(lines), "topic": "story-lines"}


@pytest.fixture
def group(tmp_path: Path, broker: EmbeddedKafka) -> Iterator[Group]:
    made = Group(tmp_path, broker.bootstrap_servers)
    yield made
    for worker in made.workers.values():
        worker.stop(10)
        worker.rest.close()


def outsiders_find_the_workers(group: Group, *names: str) -> None:
    """Commands and tables that join no group ask one of its workers, or name them all."""
    urls = sorted(f"http://{group.id(name)}/" for name in names)
    settings = group.workers[names[0]].properties
    with InternalTopics(settings) as topics:
        assert topics.worker_urls() == urls
        assert [(member.url, member.runtime) for member in topics.members()] == [(url, "python") for url in urls]
        assert topics.group_runs()
    assert sorted(row[0] for row in read_table("workers", settings)) == urls


def until(what: str, good: Any, limit_s: float = 40.0) -> None:
    end_s = time.monotonic() + limit_s
    while not good():
        assert time.monotonic() < end_s, what
        time.sleep(0.1)


@pytest.mark.timeout(200)
def test_any_worker_shows_changes_and_ends_those_of_a_killed_worker(group: Group) -> None:
    group.start("a", "b")
    for name in CONNECTORS:
        group.asked("a", "PUT", f"/connectors/{name}/config", group.config(name))
    whole = [("RUNNING", ["RUNNING"])] * len(CONNECTORS)
    until("all run", lambda: group.states("b") == whole)
    outsiders_find_the_workers(group, "a", "b")
    group.start("c")
    joined = {"joined": [group.id("c")], "left": []}

    def told(worker: str, wanted: dict[str, Any]) -> list[dict[str, Any]]:
        found = [event for event in group.events(worker, "rebalance") if wanted.items() <= event["details"].items()]
        return found if group.states(worker) == whole else []

    until("c has joined, as a tells", lambda: told("a", joined))
    until("its work has moved", lambda: moved_to(group, "c") and group.states("c") == whole)
    until("all tell the same", lambda: group.tell_alike("a", "b", "c"))
    [join] = told("b", joined)
    assert sorted(join["details"]["members"]) == sorted(map(group.id, "abc"))
    assert 0 <= join["details"]["took_ms"] < 30_000
    assert join["details"]["workers"]

    leader = group.leader()
    dying, other = [name for name in "abc" if name != leader]
    group.asked(dying, "PUT", "/connectors/one/stop")
    group.workers[leader].rest.await_states("one", "STOPPED", [])
    partition = {"filename": str(group.directory / "one.txt")}
    body = {"offsets": [{"partition": partition, "offset": {"position": 5}}]}
    until("its offset is there", lambda: group.asked(other, "GET", "/connectors/one/offsets")["offsets"])
    group.asked(dying, "PATCH", "/connectors/one/offsets", body)
    with (group.directory / "one.txt").open("a") as lines:
        lines.write("two\n")  # or it would soon be where it was, and nothing would be left to undo
    group.asked(dying, "PUT", "/connectors/one/resume")
    until("all run again", lambda: group.states(other) == whole)
    number = group.asked(other, "GET", "/admin/history?connector=one&kind=offsets")["changes"][0]["number"]
    for name in "abc":
        until(
            "who altered",
            lambda name=name: [event["who"] for event in group.events(name, "offsets")][:1] == ["127.0.0.1"],
        )

    # The undo's worker has said what it begins, and has asked the leader to stop the connector, when it is killed.
    written = count_records(group.servers, "story-configs")
    os.kill(group.workers[leader].pid, signal.SIGSTOP)
    undo = f"/admin/history/one/{number}/undo"
    threading.Thread(target=lambda: group.asked_of_the_dying(dying, undo), daemon=True).start()
    until("it says what it begins", lambda: count_records(group.servers, "story-configs") > written)
    time.sleep(0.5)
    group.workers[dying].kill()
    os.kill(group.workers[leader].pid, signal.SIGCONT)
    lost = {"left": [group.id(dying)]}
    until("the leader has noticed", lambda: told(leader, lost))
    until("one runs again", lambda: group.states(other) == whole)
    states = [event["summary"] for event in group.events(other, "state") if "requested" in event["summary"]]
    assert states[:2] == ["connector one: start requested", "connector one: stop requested"], states
    until("both tell the same", lambda: group.tell_alike(leader, other))
    [gone] = told(other, lost)
    assert {move["from"] for move in gone["details"]["moved"]} <= {group.id(dying), None, ""}


def moved_to(group: Group, worker: str) -> set[str]:
    events = group.events("a", "rebalance")
    moved = [item for event in events for item in event["details"]["moved"] if item["to"] == group.id(worker)]
    return {item["connector"] for item in moved}

"""REST over real herders: whichever worker is asked, the answer is the same."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.errors import UnreachableError
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.group.peers import PeerAnswer
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.rest.conftest import ask
from tests.unit.runtime.cluster_stories import source

QUICK = Timing(session_ms=1_500, heartbeat_ms=20, rebalance_ms=30_000)


class AppPeers:
    """Other workers' applications, called without a socket."""

    def __init__(self) -> None:
        self.apps: dict[str, FastAPI] = {}
        self.asked: list[str] = []

    def request(
        self,
        method: str,
        url: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_ms: int = 90_000,
    ) -> PeerAnswer:
        self.asked.append(f"{method} {url}")
        app = self.apps.get(urlsplit(url).netloc)
        if app is None:
            raise UnreachableError(f"{url}: connection refused")

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
                return await client.request(method, url, content=body, headers=dict(headers or {}))

        answer = asyncio.run(send())
        return PeerAnswer(answer.status_code, answer.content, dict(answer.headers))

    def close(self) -> None: ...


class Workers:
    """A cluster whose workers serve REST without sockets."""

    def __init__(self, cluster: InProcessCluster, *names: str) -> None:
        self.cluster = cluster
        self.peers = AppPeers()
        for name in names:
            worker = cluster.add_worker(name)
            self.peers.apps[f"{name}:8083"] = create_app(worker.herder, self.peers)
        cluster.until_stable()

    def named(self, leads: bool) -> str:
        """Return the name of the leader, or of a worker that does not lead."""
        return next(name for name, worker in self.cluster.workers.items() if worker.herder.views.is_leader() is leads)

    def ask(self, name: str, method: str, path: str, body: object = None) -> httpx.Response:
        return ask(self.peers.apps[f"{name}:8083"], method, path, None if body is None else json.dumps(body).encode())

    def begin(self, name: str, method: str, path: str, body: object = None) -> Future[httpx.Response]:
        """Ask on a thread of its own."""
        answer: Future[httpx.Response] = Future()
        threading.Thread(target=lambda: answer.set_result(self.ask(name, method, path, body)), daemon=True).start()
        return answer


@pytest.fixture
def workers() -> Iterator[Workers]:
    faults.clear()
    with InProcessCluster(timing=QUICK) as cluster:
        yield Workers(cluster, "w1", "w2")
        faults.clear()


READS = ("", "/config", "/status", "/tasks", "/tasks/0/status", "/offsets", "/topics")


def test_during_a_rebalance_every_read_answers_and_writes_wait_for_its_end(workers: Workers) -> None:
    cluster, gates = workers.cluster, [faults.blocks(f"a-{n}.stop_task") for n in range(2)]
    assert workers.ask("w1", "POST", "/connectors", {"name": "a", "config": source(tasks=2)}).status_code == 201
    assert workers.ask("w1", "POST", "/connectors", {"name": "keep", "config": source()}).status_code == 201
    cluster.until(lambda: sum(len(w.running_tasks()) for w in cluster.workers.values()) == 3)
    cluster.until_stable()
    assert workers.ask("w2", "DELETE", "/connectors/a").status_code == 204
    # Nobody joins before its task of a has stopped, and that is blocked: the rebalance stays open.
    cluster.until(lambda: all(worker.herder.views.progress().leader_url is None for worker in cluster.workers.values()))
    waiting = [workers.begin(name, "POST", "/connectors", {"name": name, "config": source()}) for name in ("w1", "w2")]
    waiting.append(workers.begin("w2", "POST", "/connectors/keep/tasks/0/restart"))
    for name in ("w1", "w2"):
        for path in READS:
            assert workers.ask(name, "GET", f"/connectors/keep{path}").status_code == 200, (name, path)
        assert workers.ask(name, "GET", "/connectors").json() == ["keep"]
        assert workers.ask(name, "GET", "/connectors?expand=status&expand=info").status_code == 200
        assert workers.ask(name, "GET", "/").status_code == 200
    assert not any(answer.done() for answer in waiting)
    for gate in gates:
        gate.set()
    assert [answer.result(15).status_code for answer in waiting] == [201, 201, 204]


def test_write_answered_by_a_worker_is_known_to_every_other_worker(workers: Workers) -> None:
    leader, follower = workers.named(leads=True), workers.named(leads=False)
    log = workers.cluster.workers[follower].herder._deps.config_store._log
    assert isinstance(log, MemoryCompactedLog)
    log.stalled = True
    assert workers.ask(leader, "POST", "/connectors", {"name": "a", "config": source()}).status_code == 201
    reads = [workers.begin(follower, "GET", f"/connectors/a{path}") for path in ("", "/config", "/status")]
    pause = workers.begin(follower, "PUT", "/connectors/a/pause")
    assert workers.cluster.workers[follower].herder.views.list_connectors() == []
    log.stalled = False
    log.topic.wake()
    assert [read.result(10).status_code for read in reads] == [200, 200, 200]
    assert reads[0].result().json()["config"]["topic"] == "t"
    assert reads[2].result().json()["connector"]["state"] in {"UNASSIGNED", "RUNNING", "PAUSED"}
    assert pause.result(10).status_code == 202


def test_a_worker_that_passed_a_write_on_has_read_it_when_it_answers(workers: Workers) -> None:
    leader, follower = workers.named(leads=True), workers.named(leads=False)
    assert workers.ask(follower, "POST", "/connectors", {"name": "a", "config": source()}).status_code == 201
    assert workers.ask(follower, "GET", "/connectors").json() == ["a"]
    log = workers.cluster.workers[follower].herder._deps.config_store._log
    assert isinstance(log, MemoryCompactedLog)
    workers.cluster.until(lambda: workers.cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING"})
    workers.cluster.until_stable()
    log.stalled = True
    changed = workers.begin(follower, "PUT", "/connectors/a/config", source(note="new"))
    its_config = workers.cluster.workers[leader].herder.views.connector_config
    workers.cluster.until(lambda: its_config("a").written().get("note") == "new")
    assert not changed.done()
    log.stalled = False
    log.topic.wake()
    assert changed.result(10).status_code == 200
    assert workers.ask(follower, "GET", "/connectors/a/config").json()["note"] == "new"
    assert workers.ask(follower, "DELETE", "/connectors/a").status_code == 204
    assert workers.ask(follower, "GET", "/connectors/a").status_code == 404


def test_a_write_outlives_the_leader_it_was_meant_for(workers: Workers) -> None:
    cluster, leader, follower = workers.cluster, workers.named(leads=True), workers.named(leads=False)
    gone = cluster.workers.pop(leader)
    gone.member.vanish()
    del workers.peers.apps[f"{leader}:8083"]
    answer = workers.ask(follower, "POST", "/connectors", {"name": "a", "config": source()})
    assert answer.status_code == 201, answer.text
    assert any(f"//{leader}:8083" in asked for asked in workers.peers.asked)
    assert workers.ask(follower, "GET", "/connectors/a/status").status_code == 200
    gone.herder.stop(10)


@pytest.mark.parametrize("asked", ["leader", "follower"])
def test_the_life_of_a_connector_through_any_worker(asked: str) -> None:
    with InProcessCluster() as cluster:
        cluster.add_worker("w1")
        cluster.add_worker("w2")
        cluster.until_stable()
        peers = AppPeers()
        for name, worker in cluster.workers.items():
            peers.apps[f"{name}:8083"] = create_app(worker.herder, peers)
        herder = next(
            worker.herder
            for worker in cluster.workers.values()
            if worker.herder.views.is_leader() is (asked == "leader")
        )
        app = peers.apps[herder.views.progress().worker_id]

        def rest(method: str, path: str, body: object = None) -> httpx.Response:
            return ask(app, method, path, None if body is None else json.dumps(body).encode())

        created = rest("POST", "/connectors", {"name": "a/b", "config": source(records=5)})
        assert created.status_code == 201, created.text
        assert created.headers["location"].endswith("/connectors/a%2Fb")
        cluster.until(lambda: set(cluster.states("a/b").values()) == {"RUNNING"} and len(cluster.states("a/b")) == 2)
        assert rest("POST", "/connectors", {"name": "a/b", "config": source()}).status_code == 409
        assert rest("GET", "/connectors").json() == ["a/b"]
        status = rest("GET", "/connectors/a%2Fb/status").json()
        assert [task["state"] for task in status["tasks"]] == ["RUNNING"]
        assert rest("GET", "/connectors/a%2Fb/tasks").json()[0]["id"] == {"connector": "a/b", "task": 0}
        assert rest("POST", "/connectors/a%2Fb/tasks/0/restart").status_code == 204
        assert rest("POST", "/connectors/a%2Fb/restart").status_code == 204
        plan = rest("POST", "/connectors/a%2Fb/restart?includeTasks=true")
        assert (plan.status_code, plan.json()["connector"]["state"]) == (202, "RESTARTING")
        cluster.until(lambda: set(cluster.states("a/b").values()) == {"RUNNING"})
        assert rest("PUT", "/connectors/a%2Fb/pause").status_code == 202
        cluster.until(lambda: set(cluster.states("a/b").values()) == {"PAUSED"})
        assert rest("PUT", "/connectors/a%2Fb/stop").status_code == 204
        cluster.until(lambda: cluster.states("a/b") == {"a/b": "STOPPED"})
        offsets = rest("GET", "/connectors/a%2Fb/offsets").json()["offsets"]
        assert [entry["offset"] for entry in offsets] == [{"position": 5}]
        assert rest("DELETE", "/connectors/a%2Fb").status_code == 204
        assert rest("GET", "/connectors/a%2Fb").status_code == 404
        assert rest("DELETE", "/connectors/a%2Fb").status_code == 404
        if asked == "follower":
            assert any(line.startswith("POST http") and "/connectors?forward=true" in line for line in peers.asked)
        unsigned = rest("POST", "/connectors/a%2Fb/tasks", [])
        assert (unsigned.status_code, unsigned.json()["message"]) == (
            400,
            "Internal request missing required signature",
        )

"""REST over real herders: whichever worker is asked, the answer is the same."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx
import pytest
from fastapi import FastAPI

from spark_connect_rt.ports.peer_client import PeerAnswer
from spark_connect_rt.rest.app import create_app
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from tests.unit.rest.conftest import ask
from tests.unit.runtime.cluster_stories import source


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
        app = self.apps[urlsplit(url).netloc]

        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app)) as client:
                return await client.request(method, url, content=body, headers=dict(headers or {}))

        answer = asyncio.run(send())
        return PeerAnswer(answer.status_code, answer.content, dict(answer.headers))

    def close(self) -> None: ...


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
            worker.herder for worker in cluster.workers.values() if worker.herder.is_leader() is (asked == "leader")
        )
        app = peers.apps[herder.worker_id()]

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

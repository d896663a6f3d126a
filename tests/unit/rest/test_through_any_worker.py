"""Requests for the leader, or for every worker, asked of a follower; reads while the tick stands still."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.rest.test_over_herders import READS, Workers
from tests.unit.runtime.cluster_stories import source

PATH = "/connectors/a/offsets"


@pytest.fixture
def workers() -> Iterator[Workers]:
    faults.clear()
    with InProcessCluster() as cluster:
        yield Workers(cluster, "w1", "w2")
        faults.clear()


def stopped_at_five(workers: Workers, follower: str) -> dict[str, Any]:
    """Run ``a`` to position 5 and stop it; return its one entry of the offsets."""
    created = workers.ask(follower, "POST", "/connectors", {"name": "a", "config": source(records=5)})
    assert created.status_code == 201
    workers.cluster.until(lambda: positions(workers, follower) == [5])
    assert workers.ask(follower, "PUT", "/connectors/a/stop").status_code == 204
    workers.cluster.until(lambda: workers.cluster.states("a") == {"a": "STOPPED"})
    (entry,) = workers.ask(follower, "GET", PATH).json()["offsets"]
    return dict(entry)


def positions(workers: Workers, name: str) -> list[int]:
    return [entry["offset"]["position"] for entry in workers.ask(name, "GET", PATH).json().get("offsets", [])]


def forwarded(workers: Workers, method: str) -> list[str]:
    return [line for line in workers.peers.asked if line.startswith(method) and f"{PATH}?forward=" in line]


def test_a_follower_has_offsets_altered_and_reset(workers: Workers) -> None:
    leader, follower = workers.named(leads=True), workers.named(leads=False)
    entry = stopped_at_five(workers, follower)
    altered = workers.ask(follower, "PATCH", PATH, {"offsets": [{**entry, "offset": {"position": 2}}]})
    assert altered.status_code == 200, altered.text
    assert "have been altered successfully" in altered.json()["message"]
    assert forwarded(workers, "PATCH") == [f"PATCH http://{leader}:8083{PATH}?forward=true"]
    assert positions(workers, follower) == positions(workers, leader) == [2]
    reset = workers.ask(follower, "DELETE", PATH)
    assert reset.status_code == 200, reset.text
    assert "have been reset successfully" in reset.json()["message"]
    assert forwarded(workers, "DELETE") == [f"DELETE http://{leader}:8083{PATH}?forward=true"]
    assert positions(workers, follower) == positions(workers, leader) == []


def test_a_follower_passes_on_why_offsets_are_not_changed(workers: Workers) -> None:
    follower = workers.named(leads=False)
    created = workers.ask(follower, "POST", "/connectors", {"name": "a", "config": source(records=5)})
    assert created.status_code == 201
    workers.cluster.until(lambda: workers.cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING"})
    wanted = {"offsets": [{"partition": {"task": "a-0"}, "offset": {"position": 2}}]}
    for method, body in (("PATCH", wanted), ("DELETE", None)):
        running = workers.ask(follower, method, PATH, body)
        assert running.status_code == 400, running.text
        assert running.json()["message"].startswith("Connectors must be in the STOPPED state")
        assert len(forwarded(workers, method)) == 1
        none = workers.ask(follower, method, "/connectors/none/offsets", body)
        assert (none.status_code, none.json()["message"]) == (404, "Connector none not found")
    for body in ({}, {"offsets": []}, {"offsets": "x"}):
        assert workers.ask(follower, "PATCH", PATH, body).status_code in (400, 500)
    assert len(forwarded(workers, "PATCH")) == 1  # what cannot be read is refused where it comes in


def levels(workers: Workers, logger: str) -> dict[str, str | None]:
    found = {name: workers.ask(name, "GET", f"/admin/loggers/{logger}") for name in workers.cluster.workers}
    return {name: answer.json().get("level") for name, answer in found.items()}


@pytest.mark.parametrize("leads", [True, False])
def test_a_cluster_level_reaches_every_worker_through_any_worker(workers: Workers, leads: bool) -> None:
    asked = workers.named(leads=leads)
    answer = workers.ask(asked, "PUT", "/admin/loggers/org.x?scope=cluster", {"level": "debug"})
    assert (answer.status_code, answer.content) == (204, b"")
    workers.cluster.until(lambda: levels(workers, "org.x") == {"w1": "DEBUG", "w2": "DEBUG"})
    here = workers.ask(asked, "PUT", "/admin/loggers/org.x", {"level": "WARN"})
    assert (here.status_code, here.json()) == (200, ["org.x"])
    other = next(name for name in workers.cluster.workers if name != asked)
    assert levels(workers, "org.x") == {asked: "WARN", other: "DEBUG"}
    late = workers.cluster.add_worker("late")
    workers.cluster.until_stable()
    assert late.herder.views.logger_levels().keys() == {"root"}  # as Java: who starts later reads no old levels


def test_no_read_waits_for_a_tick_that_stands_still(workers: Workers) -> None:
    cluster, name = workers.cluster, workers.named(leads=True)
    created = workers.ask(name, "POST", "/connectors", {"name": "keep", "config": source(records=5)})
    assert created.status_code == 201
    cluster.until(lambda: cluster.states("keep") == {"keep": "RUNNING", "keep-0": "RUNNING"})
    cluster.until_stable()
    standing, on = threading.Event(), threading.Event()
    obey = cluster.workers[name].loggers.set_level

    def stand(namespace: str, level: str, now_ms: int) -> Any:
        standing.set()
        on.wait(30)
        return obey(namespace, level, now_ms)

    cluster.workers[name].loggers.set_level = stand  # type: ignore[method-assign]  # the tick itself calls it
    workers.begin(name, "PUT", "/admin/loggers/org.x?scope=cluster", {"level": "DEBUG"})
    assert standing.wait(15)
    write = workers.begin(name, "PUT", "/connectors/keep/pause")
    paths = [f"/connectors/keep{path}" for path in READS]
    paths += ["/", "/health", "/connectors", "/connectors?expand=status&expand=info", "/connector-plugins"]
    paths += ["/admin/loggers", "/admin/story", "/admin/progress", "/openapi.json", "/docs"]
    try:
        for path in paths:
            assert workers.ask(name, "GET", path).status_code == 200, path
        assert not on.is_set()
        assert not write.done()
    finally:
        on.set()
    assert write.result(15).status_code == 202

"""The list of all connectors: bytes are used again, and only while they are true."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark_connect_rt.rest.connectors import ExpandedList
from spark_connect_rt.runtime.herder.herder_requests import SetTargetState
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.rest.test_over_herders import Workers
from tests.unit.runtime.cluster_stories import source

ALL = "/connectors?expand=status&expand=info"


@pytest.fixture
def workers() -> Iterator[Workers]:
    faults.clear()
    with InProcessCluster() as cluster:
        yield Workers(cluster, "w1")
        faults.clear()


def until_listed(workers: Workers, name: str, connector: str, tasks: list[str], **config: str) -> None:
    """Wait until the list says so; each look makes it from what the last one left."""

    def said() -> bool:
        entry = workers.ask("w1", "GET", ALL).json().get(name)
        if entry is None or {key: entry["info"]["config"].get(key) for key in config} != config:
            return False
        states = [task["state"] for task in entry["status"]["tasks"]]
        return (entry["status"]["connector"]["state"], states, len(entry["info"]["tasks"])) == (
            connector,
            tasks,
            len(tasks),
        )

    workers.cluster.until(said)


def test_the_list_follows_a_connector_through_its_life(workers: Workers) -> None:
    for name in ("a", "b"):
        assert workers.ask("w1", "POST", "/connectors", {"name": name, "config": source()}).status_code == 201
    for name in ("a", "b"):
        until_listed(workers, name, "RUNNING", ["RUNNING"])
    assert workers.ask("w1", "PUT", "/connectors/a/pause").status_code == 202
    until_listed(workers, "a", "PAUSED", ["PAUSED"])
    until_listed(workers, "b", "RUNNING", ["RUNNING"])
    assert workers.ask("w1", "PUT", "/connectors/a/config", source(tasks=2, note="new")).status_code == 200
    assert workers.ask("w1", "PUT", "/connectors/a/resume").status_code == 202
    until_listed(workers, "a", "RUNNING", ["RUNNING", "RUNNING"], note="new")
    assert workers.ask("w1", "PUT", "/connectors/a/stop").status_code == 204
    until_listed(workers, "a", "STOPPED", [], note="new")
    assert workers.ask("w1", "DELETE", "/connectors/a").status_code == 204
    workers.cluster.until(lambda: workers.ask("w1", "GET", ALL).json().keys() == {"b"})


def test_unchanged_rows_are_not_rendered_again(workers: Workers) -> None:
    herder = workers.cluster.workers["w1"].herder
    for name in ("a", "b"):
        assert workers.ask("w1", "POST", "/connectors", {"name": name, "config": source()}).status_code == 201
        until_listed(workers, name, "RUNNING", ["RUNNING"])
    workers.cluster.until_stable()
    asked: list[str] = []
    info = herder.views.connector_info
    herder.views.connector_info = lambda name: (asked.append(name), info(name))[1]  # type: ignore[method-assign,func-returns-value]
    listing = ExpandedList(herder.views)
    first = listing.body(["b", "a"], ["info", "status"])
    assert asked == ["b", "a"]
    assert listing.body(["b", "a"], ["status", "info"]) == first
    assert asked == ["b", "a"]
    assert listing.body(["a"], ["info"]) != first
    assert asked == ["b", "a", "a"]
    herder.submit(SetTargetState("a", TargetState.PAUSED)).result(15)
    workers.cluster.until(lambda: workers.cluster.states("a") == {"a": "PAUSED", "a-0": "PAUSED"})
    changed = listing.body(["b", "a"], ["status", "info"])
    assert asked == ["b", "a", "a", "a"]
    assert changed == first.replace(b'"RUNNING"', b'"PAUSED"').replace(b'"PAUSED"', b'"RUNNING"', 2)


def test_the_body_is_what_the_parts_are(workers: Workers) -> None:
    assert workers.ask("w1", "POST", "/connectors", {"name": 'a"é', "config": source()}).status_code == 201
    until_listed(workers, 'a"é', "RUNNING", ["RUNNING"])
    whole = workers.ask("w1", "GET", ALL)
    assert whole.headers["content-type"] == "application/json"
    path = "/connectors/a%22%C3%A9"
    status, info = workers.ask("w1", "GET", f"{path}/status"), workers.ask("w1", "GET", path)
    assert whole.text == f'{{"a\\"é":{{"status":{status.text},"info":{info.text}}}}}'

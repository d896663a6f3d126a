"""The overview of real herders in memory: the same answer from whichever worker is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi import FastAPI

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.operations.overview.wiring import OverviewParts, shown_configs
from spark_connect_rt.rest.peers import HttpGroupReads
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from spark_connect_rt.testing.memory_connectors import faults
from tests.unit.operations.managed_workers import ManagedWorkers
from tests.unit.runtime.cluster_stories import create, source

PASSWORD = "correct-horse"


class OverviewWorkers(ManagedWorkers):
    """A group whose workers serve the overview."""

    def __init__(self, cluster: InProcessCluster, *names: str) -> None:
        self.parts: dict[str, OverviewParts] = {}
        super().__init__(cluster, *names, parts=self._parts_of)

    def _parts_of(self, worker: InProcessWorker, reads: HttpGroupReads) -> Management:
        views = worker.herder.views
        parts = OverviewParts(views, reads, SystemClock(), self.peers, shown_configs(worker.herder._deps))
        self.parts[views.standing().worker_id.partition(":")[0]] = parts
        return Management(group_reads=reads, overview=parts.overview)

    def get(self, name: str, path: str) -> Any:
        answer = self.ask(name, "GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def row(self, name: str, connector: str) -> dict[str, Any]:
        rows = self.get(name, f"/admin/overview?search={connector}")["connectors"]
        return dict(rows[0]) if rows else {}

    def until_row(self, name: str, connector: str, fact: Callable[[dict[str, Any]], bool]) -> None:
        self.cluster.until(lambda: fact(self.row(name, connector)))

    def until_state(self, connector: str, state: str) -> None:
        self.cluster.until(lambda: self.cluster.states(connector)[connector] == state)

    def stop(self) -> None:
        for parts in self.parts.values():
            parts.stop()
        super().stop()


@pytest.fixture
def workers() -> Iterator[OverviewWorkers]:
    faults.clear()
    with InProcessCluster() as cluster:
        workers = OverviewWorkers(cluster, "w1", "w2", "w3")
        yield workers
        workers.stop()
        faults.clear()


def running(workers: OverviewWorkers, name: str, tasks: int) -> None:
    states = {name: "RUNNING", **{f"{name}-{n}": "RUNNING" for n in range(tasks)}}
    workers.cluster.until(lambda: workers.cluster.states(name) == states)


def test_every_worker_lists_every_connector_with_the_records_of_all_workers(
    workers: OverviewWorkers,
) -> None:
    create(workers.cluster, "orders", source(records=1000, tasks=5))
    create(workers.cluster, "idle", source(records=0))
    workers.cluster.write("t2", ["a", "b", "c"])
    create(workers.cluster, "out", {"connector.class": "MemorySink", "tasks.max": "2", "topics": "t2"})
    running(workers, "orders", 5)
    running(workers, "out", 2)
    for name in workers.reads:
        workers.until_row(name, "orders", lambda row: row.get("records_per_second", 0) > 0)
        page = workers.get(name, "/admin/overview?sort=name")
        assert [row["name"] for row in page["connectors"]] == ["idle", "orders", "out"]
        assert (page["total"], page["matching"], page["unanswered"]) == (3, 3, [])
        assert page["counts"] == {"RUNNING": 3, "abnormal": 0}
        idle, orders, out = page["connectors"]
        assert (orders["tasks"], orders["type"], orders["class"]) == ({"RUNNING": 5}, "source", "MemorySource")
        assert (orders["lag"], orders["errors"], orders["abnormal"], orders["why"]) == (None, 0, False, "")
        assert (idle["records_per_second"], out["type"]) == (0.0, "sink")
        workers.until_row(name, "out", lambda row: row["lag"] == 0)
    where = {task["worker_id"] for task in workers.get("w1", "/admin/connectors/orders")["tasks"]}
    assert len(where) > 1  # what one worker alone runs would prove nothing


def test_one_connector_whole(workers: OverviewWorkers) -> None:
    config = source(
        records=7, tasks=3, **{"db.password": PASSWORD, "a.token": "${file:x:y}", "url": f"x://u:{PASSWORD}@h"}
    )
    create(workers.cluster, "orders", config)
    running(workers, "orders", 3)

    def counted() -> dict[str, Any]:
        return dict(workers.get("w2", "/admin/connectors/orders"))

    workers.cluster.until(lambda: [task["records"] for task in counted()["tasks"]] == [7, 7, 7])
    workers.cluster.until(lambda: all(task["executor"] for task in counted()["tasks"]))  # it says so within a second
    for parts in workers.parts.values():
        parts.courses.take()
    detail = counted()
    assert [task["id"] for task in detail["tasks"]] == [0, 1, 2]
    assert all(task["state"] == "RUNNING" and task["errors"] == 0 for task in detail["tasks"])
    assert all(task["cpu_seconds"] is None or task["cpu_seconds"] > 0 for task in detail["tasks"])
    assert detail["topics"] == ["t"]
    assert detail["course"]
    assert {"at_ms", "records_per_second", "lag", "errors"} == set(detail["course"][0])
    assert detail["config"]["db.password"] == detail["config"]["url"] == "[hidden]"
    assert detail["config"]["a.token"] == "${file:x:y}"
    for path in ("/admin/connectors/orders", "/admin/overview", "/admin/group"):
        assert PASSWORD not in workers.ask("w1", "GET", path).text
    assert workers.ask("w1", "GET", "/admin/connectors/none").status_code == 404


def test_failed_connector_comes_first_and_its_error_outlives_the_failure(workers: OverviewWorkers) -> None:
    faults.raises("bad-1.poll", ValueError("no such table: orders"))
    create(workers.cluster, "bad", source(records=5, tasks=2))
    create(workers.cluster, "a-good-one", source(records=5))
    running(workers, "a-good-one", 1)
    states = {"bad": "RUNNING", "bad-0": "RUNNING", "bad-1": "FAILED"}
    workers.cluster.until(lambda: workers.cluster.states("bad") == states)
    for name in workers.reads:
        workers.until_row(name, "bad", lambda row: row.get("tasks") == {"FAILED": 1, "RUNNING": 1})
        first, _ = workers.get(name, "/admin/overview")["connectors"]
        assert (first["name"], first["abnormal"]) == ("bad", True)
        assert first["why"].startswith("task 1 FAILED: ValueError: no such table: orders"), first
        assert first["last_error"] == "task 1: ValueError: no such table: orders"
        assert workers.get(name, "/admin/overview?abnormal=true")["matching"] == 1
    traces = [task["trace"] for task in workers.get("w3", "/admin/connectors/bad")["tasks"]]
    assert traces[0] is None
    assert "Traceback" in traces[1]
    faults.raises("bad-1.poll", None)
    assert workers.ask("w1", "POST", "/connectors/bad/tasks/1/restart").status_code == 204
    running(workers, "bad", 2)
    workers.cluster.until(lambda: not workers.row("w1", "bad")["abnormal"])
    assert workers.row("w1", "bad")["last_error"] == "task 1: ValueError: no such table: orders"


def test_a_write_is_seen_by_the_next_page_though_rates_are_gathered_once_a_second(workers: OverviewWorkers) -> None:
    create(workers.cluster, "orders", source(records=5))
    running(workers, "orders", 1)
    assert workers.row("w1", "orders")["state"] == "RUNNING"
    for verb, state in (("pause", "PAUSED"), ("resume", "RUNNING")):
        workers.ask("w1", "PUT", f"/connectors/orders/{verb}")
        workers.until_state("orders", state)
        assert workers.row("w1", "orders")["state"] == state
    asked = len(workers.peers.asked)
    for _ in range(20):
        workers.row("w1", "orders")
    assert len(workers.peers.asked) - asked <= 4  # two peers, and a second may have passed
    workers.ask("w1", "DELETE", "/connectors/orders")
    workers.cluster.until(lambda: workers.row("w1", "orders") == {})


def test_a_worker_that_is_gone_is_named_and_pages_are_there_at_once(workers: OverviewWorkers) -> None:
    create(workers.cluster, "orders", source(records=5, tasks=3))
    running(workers, "orders", 3)
    asked = workers.named(leads=True)
    gone = next(name for name in workers.reads if name != asked)
    workers.cluster.until(lambda: workers.row(asked, "orders")["errors"] == 0)
    del workers.peers.apps[f"{gone}:8083"]
    workers.parts[asked].rows._gathered = type(workers.parts[asked].rows._gathered)()  # as after a second
    page = workers.get(asked, "/admin/overview")
    assert [worker["worker_id"] for worker in page["unanswered"]] == [f"{gone}:8083"]
    assert "connection refused" in page["unanswered"][0]["why"]
    assert page["connectors"][0]["records_per_second"] is None or page["connectors"][0]["errors"] == 0
    group = {worker["worker_id"]: worker for worker in workers.get(asked, "/admin/group")["workers"]}
    assert (group[f"{gone}:8083"]["reachable"], group[f"{gone}:8083"]["runtime"]) == (False, "unknown")
    assert group[f"{gone}:8083"]["tasks"]  # as its statuses say
    detail = workers.get(asked, "/admin/connectors/orders")
    assert len(detail["tasks"]) == 3
    assert any(task["records"] is None for task in detail["tasks"])


def test_the_group_and_what_runs_where(workers: OverviewWorkers) -> None:
    create(workers.cluster, "orders", source(records=5, tasks=4))
    running(workers, "orders", 4)
    leader = f"{workers.named(leads=True)}:8083"
    for name in workers.reads:
        group = workers.get(name, "/admin/group")
        assert (group["leader"], group["group_id"], group["protocol"]) == (leader, "memory", "sessioned")
        assert [worker["worker_id"] for worker in group["workers"] if worker["this"]] == [f"{name}:8083"]
        assert [worker["worker_id"] for worker in group["workers"] if worker["leader"]] == [leader]
        assert all(worker["reachable"] and worker["runtime"] == "spark-connect-rt" for worker in group["workers"])
        assert all(worker["health"] == "healthy" and worker["memory_bytes"] > 10**6 for worker in group["workers"])
        tasks = sorted(task for worker in group["workers"] for task in worker["tasks"])
        assert tasks == ["orders-0", "orders-1", "orders-2", "orders-3"]
        assert [name for worker in group["workers"] for name in worker["connectors"]] == ["orders"]


def test_a_java_worker_is_a_worker_of_another_kind_and_no_failure(workers: OverviewWorkers) -> None:
    java = FastAPI()

    @java.get("/")
    def version() -> dict[str, str]:
        return {"version": "4.1.1", "commit": "x", "kafka_cluster_id": "y"}

    asked = workers.named(leads=True)
    other = next(name for name in workers.reads if name != asked)
    workers.peers.apps[f"{other}:8083"] = java
    # A group with a Java worker has chosen one of Java's protocols.
    state = workers.cluster.workers[asked].herder._loop._state
    state.own_group = False
    state.publish()
    found = {worker["worker_id"]: worker for worker in workers.get(asked, "/admin/group")["workers"]}[f"{other}:8083"]
    assert (found["runtime"], found["version"], found["reachable"], found["memory_bytes"]) == (
        "java",
        "4.1.1",
        True,
        None,
    )
    page = workers.get(asked, "/admin/overview")
    for query in ("sort=x", "type=x", "limit=0", "offset=-1"):
        refused = workers.ask(asked, "GET", f"/admin/overview?{query}")
        assert (refused.status_code, refused.json()["code"]) == (400, "CRT-1030")
    assert "Java worker" in page["unanswered"][0]["why"]

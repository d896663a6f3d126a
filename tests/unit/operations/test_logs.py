"""Log lines of tasks by REST: any worker answers, whichever worker ran the task when it logged."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.log_lines import RawLine
from spark_connect_rt.engine.task_logs import TaskLogs
from spark_connect_rt.operations.logs import routes as rest_logs
from spark_connect_rt.operations.logs.service import GroupLogs
from spark_connect_rt.rest.peers import HttpGroupReads
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from tests.unit.operations.event_stream_client import followed
from tests.unit.operations.managed_workers import ManagedWorkers
from tests.unit.runtime.cluster_stories import source

A0 = ConnectorTaskId("a", 0)


class LoggingWorkers(ManagedWorkers):
    """Each with a memory of its own, as processes have."""

    def __init__(self, cluster: InProcessCluster) -> None:
        self.logs: dict[str, TaskLogs] = {}
        super().__init__(cluster, "w1", "w2", parts=self._parts)

    def _parts(self, worker: InProcessWorker, reads: HttpGroupReads) -> Management:
        own = self.logs[worker.events.worker_id.partition(":")[0]] = TaskLogs()
        return Management(
            group_reads=reads, logs=GroupLogs(worker.herder.views, reads, worker.events.worker_id, own, limit_ms=10_000)
        )

    def log(self, worker: str, task: ConnectorTaskId | str, at_ms: int, message: str, level: str = "INFO") -> None:
        self.logs[worker].add([task], "executor", f"host of {worker}", [RawLine(at_ms, level, "x", message)])


@pytest.fixture
def workers() -> Iterator[LoggingWorkers]:
    with InProcessCluster() as cluster:
        workers = LoggingWorkers(cluster)
        workers.ask("w1", "PUT", "/connectors/a/config", source(tasks=2))
        cluster.until(lambda: sum(len(worker.running_tasks()) for worker in cluster.workers.values()) == 2)
        yield workers
        workers.stop()


def lines(workers: LoggingWorkers, of: str, path: str) -> list[dict[str, Any]]:
    answer = workers.ask(of, "GET", f"/admin/connectors/{path}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["lines"]
    return found


def test_any_worker_answers_and_lines_before_a_move_precede_those_after(workers: LoggingWorkers) -> None:
    workers.log("w1", A0, 10, "where it was")
    workers.log("w2", A0, 20, "where it is", "ERROR")
    workers.log("w2", ConnectorTaskId("a", 1), 15, "its neighbour")
    workers.log("w2", "a", 5, "the connector")
    workers.log("w2", ConnectorTaskId("ab", 0), 1, "another connector")
    for of in ("w1", "w2"):
        found = lines(workers, of, "a/tasks/0/logs")
        assert [(line["message"], line["worker_id"]) for line in found] == [
            ("where it was", "w1:8083"),
            ("where it is", "w2:8083"),
        ]
        assert found[0]["host"] == "host of w1"
        assert [(line["task"], line["message"]) for line in lines(workers, of, "a/logs")] == [
            (None, "the connector"),
            (0, "where it was"),
            (1, "its neighbour"),
            (0, "where it is"),
        ]
        assert [line["at_ms"] for line in lines(workers, of, "a/logs?tail=2")] == [15, 20]
        assert [line["level"] for line in lines(workers, of, "a/logs?level=warn")] == ["ERROR"]


def test_a_worker_that_is_gone_is_named(workers: LoggingWorkers) -> None:
    workers.log("w1", A0, 1, "here")
    lines(workers, "w1", "a/logs")
    del workers.peers.apps["w2:8083"]
    answer = workers.ask("w1", "GET", "/admin/connectors/a/logs").json()
    assert [line["message"] for line in answer["lines"]] == ["here"]
    assert [worker["worker_id"] for worker in answer["unanswered"]] == ["w2:8083"]


def test_a_connector_that_is_not_there_is_not_found_but_a_deleted_one_is_read_on(workers: LoggingWorkers) -> None:
    assert workers.ask("w1", "GET", "/admin/connectors/none/logs").status_code == 404
    assert workers.ask("w1", "GET", "/admin/connectors/none/logs/stream").status_code == 404
    assert workers.ask("w1", "GET", "/admin/connectors/a/logs?level=loud").status_code == 400
    assert workers.ask("w1", "GET", "/admin/connectors/a/logs?tail=x").status_code == 400
    workers.log("w2", ConnectorTaskId("gone", 0), 1, "its last words")
    assert [line["message"] for line in lines(workers, "w1", "gone/logs")] == ["its last words"]


def test_a_stream_has_each_line_once_and_resumes_where_it_was(
    workers: LoggingWorkers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_logs, "LOOK_EACH_S", 0.1)
    monkeypatch.setattr(rest_logs, "EVERYWHERE_EACH", 2)
    path = "/admin/connectors/a/tasks/0/logs/stream"
    workers.log("w1", A0, 1, "before")
    got = followed(workers.app("w1"), path, lambda: workers.log("w2", A0, 2, "one"))
    assert [line["message"] for line in got] == ["one"]
    assert got[0]["sse"]["event"] == "line"
    workers.log("w1", A0, 3, "two")
    last = got[0]["sse"]["id"]
    got = followed(workers.app("w2"), path, lambda: workers.log("w2", A0, 4, "three"), last=last)
    assert [line["message"] for line in got] == ["two", "three"]
    got = followed(workers.app("w2"), path, lambda: None, query="tail=2&level=info")
    assert [line["message"] for line in got] == ["two", "three"]

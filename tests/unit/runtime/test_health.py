"""What ``/health`` says of a worker that lives and cannot work: out of its group, or without executors."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.task_runner import TaskWaiting
from spark_connect_rt.group.membership import Timing
from spark_connect_rt.testing.in_process_cluster import InProcessCluster, InProcessWorker
from tests.unit.runtime.cluster_stories import create, source

TIMING = Timing(session_ms=500, heartbeat_ms=50, rebalance_ms=5_000)


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    with InProcessCluster(timing=TIMING) as running:
        yield running


def statuses(worker: InProcessWorker) -> tuple[int, int, int, str]:
    """Return the statuses of /health, /health/ready and /health/live, and what the first says."""
    with TestClient(create_app(worker.herder)) as client:
        health, ready, live = (client.get(path) for path in ("/health", "/health/ready", "/health/live"))
    return health.status_code, ready.status_code, live.status_code, health.json()["message"]


def test_a_worker_that_its_group_keeps_out_says_so_and_is_not_ready(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker("w", {"rebalance.timeout.ms": "700"})
    cluster.until(lambda: statuses(worker)[:3] == (200, 200, 200))
    worker.member.cut_off()
    cluster.until(lambda: statuses(worker)[:3] == (500, 503, 200))
    assert "Out of the group for " in statuses(worker)[3]
    assert "the coordinator cannot be reached" in statuses(worker)[3]
    worker.member.reconnect()
    cluster.until(lambda: statuses(worker)[:3] == (200, 200, 200))


def test_a_worker_without_contact_says_so_long_before_a_rebalance_would_be_over(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker("w", {"rebalance.timeout.ms": "600000"})
    cluster.until(lambda: statuses(worker)[:3] == (200, 200, 200))
    worker.member.cut_off()
    cluster.until(lambda: statuses(worker)[:3] == (500, 503, 200))
    assert "the coordinator cannot be reached" in statuses(worker)[3]
    worker.member.reconnect()
    cluster.until(lambda: statuses(worker)[:3] == (200, 200, 200))


def test_a_worker_whose_tasks_wait_for_executors_says_so_and_may_still_be_asked(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker("w")
    create(cluster, "a", source(records=5))
    cluster.until(lambda: worker.running_tasks() == {"a-0"})
    task = ConnectorTaskId("a", 0)
    run = worker.herder._loop.worker._tasks[task].launch.run
    worker.runner._on_event(TaskWaiting(task, run, 75_000))
    cluster.until(lambda: statuses(worker)[:3] == (500, 200, 200))
    said = re.search(r"Tasks that wait for an executor: 1; a-0 for (\d+) s", statuses(worker)[3])
    assert said is not None
    assert int(said[1]) >= 75
    status = worker.herder.views.connector_status("a").tasks[0]
    assert status.progress is not None
    assert status.progress.reason == "it waits for an executor"
    worker.runner._on_event(TaskWaiting(task, run, 0))
    cluster.until(lambda: statuses(worker)[:3] == (200, 200, 200))


def test_reason_why_no_process_can_be_opened_is_in_the_status_and_an_event(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker("w")
    create(cluster, "a", source(records=5))
    cluster.until(lambda: worker.running_tasks() == {"a-0"})
    task = ConnectorTaskId("a", 0)
    run = worker.herder._loop.worker._tasks[task].launch.run
    worker.runner._on_event(TaskWaiting(task, run, 3_000, "no process can be opened: No space left", is_late=False))
    reason = "it waits for an executor, because no process can be opened: No space left"

    def shown() -> str | None:
        progress = worker.herder.views.connector_status("a").tasks[0].progress
        return progress and progress.reason

    cluster.until(lambda: shown() == reason)
    cluster.until(  # the tick notes the status first
        lambda: any(reason in event.summary and event.task == 0 for event in worker.events.events())
    )
    assert statuses(worker)[:3] == (200, 200, 200)  # it is not late yet
    worker.runner._on_event(TaskWaiting(task, run, 0))
    cluster.until(lambda: shown() is None)

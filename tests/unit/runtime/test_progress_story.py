"""RUNNING tasks that move nothing are reported, idle ones are not (``task.progress.timeout.ms``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.rest.json_values import as_json
from spark_connect_rt.runtime.values import TaskProgress
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import delivered, faults
from tests.unit.runtime.cluster_stories import create, emitted, expected, source

SOON = {"task.progress.timeout.ms": "1200"}


def sink(topic: str) -> dict[str, str]:
    return {"connector.class": "MemorySink", "topics": topic, **SOON}


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    faults.clear()
    delivered.clear()
    with InProcessCluster() as running:
        running.add_worker()
        running.add_worker()
        yield running
        faults.clear()


def progress_of(cluster: InProcessCluster, task: str) -> TaskProgress | None:
    everything = [progress for worker in cluster.workers.values() for progress in worker.herder.views.progress().tasks]
    return next((progress for progress in everything if str(progress.task) == task), None)


def stalled(cluster: InProcessCluster, task: str) -> str:
    found = progress_of(cluster, task)
    return found.stalled.reason if found is not None and found.stalled else ""


def noted(cluster: InProcessCluster, connector: str) -> list[dict[str, Any]]:
    statuses = [worker.herder.views.connector_status(connector) for worker in cluster.workers.values()]
    return [as_json(status.tasks[0].progress) or {} for status in statuses]


def told(cluster: InProcessCluster, sentence: str) -> bool:
    return any(sentence in line.reason for worker in cluster.workers.values() for line in worker.herder.views.events())


def test_a_put_that_hangs_is_reported_on_every_worker_until_it_returns(cluster: InProcessCluster) -> None:
    put = faults.blocks("slow.put")
    cluster.write("t1", ["one"])
    cluster.write("t2", ["two"])
    create(cluster, "slow", sink("t1"))
    create(cluster, "idle", sink("t2"))
    cluster.until(lambda: stalled(cluster, "slow-0") == "put() has not returned", limit_s=60)
    cluster.until(lambda: [note.get("reason") for note in noted(cluster, "slow")] == ["put() has not returned"] * 2)
    assert cluster.states("slow") == {"slow": "RUNNING", "slow-0": "RUNNING"}
    cluster.until(lambda: told(cluster, "task slow-0 moves nothing though there is work: put() has not returned"))
    assert [len(records) for records in delivered.values()] == [1]
    put.set()
    cluster.until(lambda: noted(cluster, "slow") == [{}, {}])
    cluster.until(lambda: told(cluster, "task slow-0 moves again"))
    assert stalled(cluster, "slow-0") == ""
    assert not told(cluster, "task idle-0 moves nothing")  # it had a longer time than slow-0 to be taken for one


def test_a_target_that_asks_for_the_same_records_again_and_again_is_reported(cluster: InProcessCluster) -> None:
    faults.raises("again.put", RetriableError("not now"))
    cluster.write("t1", ["one"])
    create(cluster, "again", sink("t1"))
    cluster.until(lambda: stalled(cluster, "again-0") == "records wait, but none of them was taken", limit_s=60)
    faults.raises("again.put", None)
    cluster.until(lambda: stalled(cluster, "again-0") == "" and len(delivered["again"]) == 1, limit_s=60)


def test_a_poll_that_hangs_is_reported(cluster: InProcessCluster) -> None:
    poll = faults.blocks("a-0.poll")
    create(cluster, "a", source(5, **SOON))
    cluster.until(lambda: stalled(cluster, "a-0") == "poll() has not returned", limit_s=60)
    poll.set()
    cluster.until(lambda: emitted(cluster) == expected("a-0", 5))
    cluster.until(lambda: stalled(cluster, "a-0") == "")


def test_with_0_no_task_is_reported(cluster: InProcessCluster) -> None:
    poll, other = faults.blocks("a-0.poll"), faults.blocks("b-0.poll")
    create(cluster, "a", source(5, **{"task.progress.timeout.ms": "0"}))
    create(cluster, "b", source(5, **SOON))
    cluster.until(lambda: stalled(cluster, "b-0") != "")
    assert stalled(cluster, "a-0") == ""
    poll.set()
    other.set()

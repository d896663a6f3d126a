"""One worker, and several, through the whole story: create, run, durable, offsets, restart, delete."""

from collections.abc import Iterator

import pytest

from spark_connect_rt.errors import AlreadyExistsError, BadRequestError, NotFoundError
from spark_connect_rt.state.target_state import TargetState
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import faults


@pytest.fixture()
def cluster() -> Iterator[InProcessCluster]:
    faults.clear()
    with InProcessCluster() as running:
        yield running
        faults.clear()


def source(records: int = 10, tasks: int = 1, **more: str) -> dict[str, str]:
    return {
        "connector.class": "MemorySource",
        "tasks.max": str(tasks),
        "topic": "t",
        "records": str(records),
        **more,
    }


def create(cluster: InProcessCluster, name: str, config: dict[str, str], state: TargetState | None = None):
    return cluster.on_leader(lambda herder: herder.create(name, config, state))


def values(cluster: InProcessCluster) -> list[str]:
    return sorted(value.decode() for value in cluster.topics.values("t"))


def test_a_created_connector_runs_and_its_offsets_are_stored(cluster: InProcessCluster) -> None:
    worker = cluster.add_worker()
    written = create(cluster, "a", source(records=250))
    assert written.created
    assert written.info.config["name"] == "a"
    assert written.info.type == "source"
    assert cluster.states("a")["a"] in {"UNASSIGNED", "RUNNING"}
    cluster.until(lambda: len(cluster.topics.values("t")) == 250)
    cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING"})
    cluster.until(lambda: [o.offset for o in worker.herder.offsets("a").result(5)] == [{"position": 250}])
    cluster.until(lambda: worker.herder.topics("a") == ("t",))
    (progress,) = worker.herder.progress().tasks
    assert (progress.records, progress.state) == (250, "RUNNING")

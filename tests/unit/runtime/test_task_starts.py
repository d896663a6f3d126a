"""A task's connector is imported, made and asked off the tick: a plug-in that blocks there is its own trouble."""

from __future__ import annotations

import pytest

from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.runtime.herder.herder_requests import DeleteConnector, RestartTask, SetTargetState
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import MemorySource, faults
from spark_connect_rt.topics.config_records import TargetState
from tests.unit.runtime.cluster_stories import create, emitted, expected, source


class HangingSource(MemorySource):
    """Its constructor, ``version`` or ``task_class`` may block."""

    def __init__(self) -> None:
        super().__init__()
        faults.at("hanging.new")

    def version(self) -> str:
        faults.at("hanging.version")
        return super().version()

    def task_class(self) -> type[SourceTask]:
        faults.at("hanging.task_class")
        return super().task_class()


@pytest.mark.parametrize("where", ["new", "version", "task_class"])
def test_a_connector_that_blocks_when_a_task_starts_delays_no_other(where: str) -> None:
    faults.clear()
    with InProcessCluster({"HangingSource": HangingSource}) as cluster:
        worker = cluster.add_worker()
        create(cluster, "slow", {**source(records=3), "connector.class": "HangingSource"})
        cluster.until(lambda: cluster.states("slow") == {"slow": "RUNNING", "slow-0": "RUNNING"})
        faults.blocks(f"hanging.{where}")
        cluster.on_leader(lambda herder: herder.submit(RestartTask(ConnectorTaskId("slow", 0))))
        cluster.until(lambda: cluster.states("slow")["slow-0"] == "RESTARTING")
        create(cluster, "a", source(records=3))  # the tick goes on
        cluster.until(lambda: set(emitted(cluster)) >= set(expected("a-0", 3)))
        assert cluster.states("slow") == {"slow": "RUNNING", "slow-0": "RESTARTING"}
        cluster.on_leader(lambda herder: herder.submit(SetTargetState("slow", TargetState.PAUSED)))
        cluster.on_leader(lambda herder: herder.submit(DeleteConnector("slow")))
        cluster.until(lambda: cluster.states("slow") == {})
        cluster.until(lambda: worker.running_tasks() == {"a-0"})
        faults.clear()


def test_task_paused_while_it_waits_for_its_connector_starts_paused() -> None:
    faults.clear()
    with InProcessCluster({"HangingSource": HangingSource}) as cluster:
        cluster.add_worker()
        create(cluster, "slow", {**source(records=3), "connector.class": "HangingSource"})
        cluster.until(lambda: cluster.states("slow") == {"slow": "RUNNING", "slow-0": "RUNNING"})
        faults.blocks("hanging.version")
        cluster.on_leader(lambda herder: herder.submit(RestartTask(ConnectorTaskId("slow", 0))))
        cluster.until(lambda: cluster.states("slow")["slow-0"] == "RESTARTING")
        cluster.on_leader(lambda herder: herder.submit(SetTargetState("slow", TargetState.PAUSED)))
        cluster.until(lambda: cluster.states("slow")["slow"] == "PAUSED")
        faults.clear()
        cluster.until(lambda: cluster.states("slow") == {"slow": "PAUSED", "slow-0": "PAUSED"})

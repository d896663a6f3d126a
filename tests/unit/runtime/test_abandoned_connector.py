"""A connector that does not come back from its own code is abandoned; what it says later concerns nobody."""

from __future__ import annotations

import threading

import pytest

from spark_connect_rt.runtime.herder.herder_requests import RestartConnector
from spark_connect_rt.runtime.worker import worker
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_connectors import MemorySource, faults
from tests.unit.runtime.cluster_stories import create, source

INCARNATIONS: list[MemorySource] = []


class Kept(MemorySource):
    def start(self, config: dict[str, str]) -> None:  # type: ignore[override]
        super().start(config)
        INCARNATIONS.append(self)


def test_a_failure_of_an_abandoned_connector_does_not_cover_its_successors_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker, "CONNECTOR_STOP_LIMIT_MS", 50)
    faults.clear()
    INCARNATIONS.clear()
    with InProcessCluster({"Kept": Kept}) as cluster:
        cluster.add_worker()
        create(cluster, "a", source() | {"connector.class": "Kept"})
        cluster.until(lambda: cluster.states("a") == {"a": "RUNNING", "a-0": "RUNNING"})
        blocked = faults.blocks("a.stop")
        stops = faults.calls["a.stop"]
        (first,) = INCARNATIONS
        first.context.raise_error(ValueError("what it failed by"))
        cluster.until(lambda: faults.calls["a.stop"] > stops)  # it is on its way to FAILED, and hangs
        cluster.on_leader(lambda herder: herder.submit(RestartConnector("a")))
        cluster.until(lambda: len(INCARNATIONS) == 2 and cluster.states("a")["a"] == "RUNNING")
        blocked.set()
        ended = [thread for thread in threading.enumerate() if thread.name == "connector-thread-a"]
        cluster.until(lambda: not any(thread.name == "connector-thread-a" and thread.is_alive() for thread in ended))
        assert cluster.states("a")["a"] == "RUNNING"
        faults.clear()

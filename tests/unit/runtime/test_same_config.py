"""A request that asks for what is so already writes nothing, and no task of the group notices it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.runtime.herder.herder_requests import PatchConfig, PutConfig, SetTargetState
from spark_connect_rt.runtime.herder.steps import publishing
from spark_connect_rt.runtime.herder.steps.publishing import MIXED_REPAIR_PAUSE_MS
from spark_connect_rt.testing.in_process_cluster import InProcessCluster
from spark_connect_rt.testing.memory_compacted_log import MemoryLogTopic
from spark_connect_rt.testing.memory_connectors import faults
from spark_connect_rt.topics.config_records import TargetState
from spark_connect_rt.topics.key_places import Write
from spark_connect_rt.topics.status_records import State
from tests.unit.runtime import test_publishing
from tests.unit.runtime.cluster_stories import create, source
from tests.unit.runtime.test_publishing import STATE, Story

NAMED = {**source(tasks=2), "name": "a"}


@pytest.fixture
def cluster() -> Iterator[InProcessCluster]:
    faults.clear()
    with InProcessCluster() as cluster:
        for _ in range(2):
            cluster.add_worker()
        cluster.until_stable()
        create(cluster, "a", NAMED)
        cluster.until(lambda: _running(cluster, 2))
        yield cluster
    faults.clear()


def _running(cluster: InProcessCluster, tasks: int) -> bool:
    status = cluster.leader().views.connector_status("a")
    states = [status.connector.state, *(task.state for task in status.tasks)]
    return states == ["RUNNING"] * (1 + tasks)


def _keys(topic: MemoryLogTopic) -> list[str]:
    """Return the list that the keys of further records go to."""
    written: list[str] = []
    write = topic.write_placed

    def note(records: Iterable[Write]) -> None:
        noted = list(records)
        written.extend(key.decode() for key, *_ in noted if key)
        write(noted)

    topic.write_placed = note  # type: ignore[method-assign]
    return written


def _generations(cluster: InProcessCluster) -> set[int]:
    return {worker.herder.views.standing().generation for worker in cluster.workers.values()}


def test_an_unchanged_configuration_causes_no_write_and_no_rebalance(cluster: InProcessCluster) -> None:
    written, before = _keys(cluster.config_topic), _generations(cluster)
    for request in (PutConfig("a", NAMED), PatchConfig("a", {"records": NAMED["records"]})):
        answer = cluster.on_leader(lambda herder, request=request: herder.submit(request))  # type: ignore[misc]
        assert (answer.created, len(answer.info.tasks), answer.info.config) == (False, 2, NAMED)
    assert (written, _generations(cluster)) == ([], before)
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", {**NAMED, "records": "11"})))
    assert "connector-a" in written


def test_a_connector_that_failed_is_restarted_by_its_own_configuration(cluster: InProcessCluster) -> None:
    faults.raises("a.start", RuntimeError("no disk"))
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", {**NAMED, "records": "12"})))
    cluster.until(lambda: cluster.leader().views.connector_status("a").connector.state == State.FAILED.value)
    faults.clear()
    cluster.on_leader(lambda herder: herder.submit(PutConfig("a", {**NAMED, "records": "12"})))
    cluster.until(lambda: _running(cluster, 2))


def test_a_second_stop_writes_nothing(cluster: InProcessCluster) -> None:
    stop = SetTargetState("a", TargetState.STOPPED)
    cluster.on_leader(lambda herder: herder.submit(stop))
    cluster.until(lambda: not cluster.leader().views.connector_info("a").tasks)
    written = _keys(cluster.config_topic)
    cluster.on_leader(lambda herder: herder.submit(stop))
    assert written == []
    cluster.on_leader(lambda herder: herder.submit(SetTargetState("a", TargetState.STARTED)))
    cluster.on_leader(lambda herder: herder.submit(stop))
    assert "target-state-a" in written
    cluster.until(lambda: cluster.leader().views.connector_status("a").connector.state == "STOPPED")


@pytest.mark.parametrize(("own_group", "first_ms"), [(True, 0), (False, MIXED_REPAIR_PAUSE_MS)])
def test_overtaken_task_configs_can_wait_in_a_group_with_java_workers(
    monkeypatch: pytest.MonkeyPatch, own_group: bool, first_ms: int
) -> None:
    snapshot = SimpleNamespace(
        **{**vars(test_publishing.SNAPSHOT), "inconsistent": set(), "overtaken": {"a"}},
        connector_task_configs=lambda name: (),
        applied_config=lambda name: {},
    )
    monkeypatch.setattr(test_publishing, "SNAPSHOT", snapshot)
    state: Any = SimpleNamespace(**{**vars(STATE), "own_group": own_group})
    monkeypatch.setattr(test_publishing, "STATE", state)
    story = Story()
    story.publish_until(100)
    story.now_ms = first_ms
    assert bool(story.generated) is own_group
    story.publish_until(first_ms + publishing.REPAIR_PAUSE_MS)
    assert story.generated == len(story.handed_in) == 1

"""What mirror connectors say once about the two clusters: loops of one cluster, checkpoints of topics that are gone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.connectors.mirror.config import MIRROR_SOURCE, TARGET
from spark_connect_rt.connectors.mirror.mirror_checkpoint_task import MirrorCheckpointTask
from spark_connect_rt.connectors.mirror.mirror_source import FlowTopics
from spark_connect_rt.connectors.mirror.records import Checkpoint
from spark_connect_rt.operations.checks.service import ConnectorChecks

CONFIG = {
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "127.0.0.1:1",
    "target.cluster.bootstrap.servers": "127.0.0.1:1",
}


def test_one_cluster_under_two_aliases_is_reported_once_and_new_copies_too(
    caplog: pytest.LogCaptureFixture,
) -> None:
    topics = FlowTopics(CONFIG, MIRROR_SOURCE.parse(CONFIG))
    ids = {"source": "one", "target": "one"}
    topics._source = SimpleNamespace(cluster_id=lambda: ids["source"])  # type: ignore[assignment]
    topics._target = SimpleNamespace(cluster_id=lambda: ids["target"])  # type: ignore[assignment]
    for _ in range(2):
        topics._warn_of_loops(["orders", "A.orders", "C.orders"])
    topics._warn_of_loops(["orders", "A.orders", "A.new"])
    said = [record.getMessage() for record in caplog.records]
    assert ["the same cluster, one: A and B are two names of it" in text for text in said] == [True, False, False]
    assert [text.split(".  ")[0][:25] for text in said[1:]] == [
        "not copied: A.orders. A t",
        "not copied: A.new. A topi",
    ]


def test_checkpoint_of_a_deleted_topic_is_reported_once_and_blocks_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gone, there = TopicPartition("old-name", 0), TopicPartition("A.t", 1)
    set_offsets: list[Any] = []
    task = object.__new__(MirrorCheckpointTask)
    task._groups, task._said_stale = ["g"], set()
    task._last = {"g": {partition: Checkpoint("g", partition, 7, 7) for partition in (gone, there)}}
    task._clusters = {TARGET: {}}
    task._target = SimpleNamespace(groups=dict, topics=lambda: {"A.t": 2})  # type: ignore[assignment]
    task._offsets = SimpleNamespace(  # type: ignore[assignment]
        committed=lambda *_: {}, alter=lambda _, group, wanted: set_offsets.append((group, dict(wanted)))
    )
    for _ in range(3):
        task._set_offsets_of_idle_groups()
    assert set_offsets == [("g", {there: 7})] * 3
    (said,) = (record.getMessage() for record in caplog.records)
    assert "group g: no checkpoints for partitions that the target does not have: old-name-0" in said


def test_a_check_of_a_checkpoint_connector_sees_another_policy_in_its_group() -> None:
    package = "org.apache.kafka.connect.mirror"
    source = {
        "connector.class": f"{package}.MirrorSourceConnector",
        "replication.policy.class": f"{package}.IdentityReplicationPolicy",
        **CONFIG,
    }
    there = SimpleNamespace(connector_configs={"source": StoredConfig(source), "cp": StoredConfig()})
    checks = object.__new__(ConnectorChecks)
    checks._deps = SimpleNamespace(  # type: ignore[assignment]
        config_store=SimpleNamespace(snapshot=lambda: there), resolve=lambda config: config
    )
    (found,) = checks._neighbours("cp", {"connector.class": f"{package}.MirrorCheckpointConnector", **CONFIG})
    assert (found.setting, found.level.value) == ("replication.policy.class", "warning")
    assert "connector source has" in found.what

"""A mirror connector that may not create its own topic, or has too few brokers for it, starts all the same."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.mirror import mirror_checkpoint, mirror_heartbeat, mirror_source
from spark_connect_rt.connectors.mirror.mirror_checkpoint import MirrorCheckpointConnector
from spark_connect_rt.connectors.mirror.mirror_heartbeat import MirrorHeartbeatConnector
from spark_connect_rt.connectors.mirror.mirror_source import MirrorSourceConnector
from spark_connect_rt.errors import ConnectError

CONFIG = {
    "name": "m",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "refresh.topics.enabled": "false",
    "refresh.groups.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "sync.topic.configs.enabled": "false",
}


class Refusing:
    """A cluster with a topic and a group, whose administrator lets nobody create topics."""

    def __init__(self, *_: object) -> None:
        pass

    def create_compacted(self, topic: str, replication_factor: int) -> None:
        raise ConnectError(f"creating topic {topic}: replication factor of {replication_factor} cannot be reached")

    def topics(self) -> dict[str, int]:
        return {"orders": 2, "A.orders": 2}

    def groups(self) -> dict[str, str]:
        return {"readers": "STABLE"}

    def committed(self, *_: object) -> dict[TopicPartition, int]:
        return {TopicPartition("orders", 0): 1}

    def __getattr__(self, name: str) -> Any:
        return lambda *_: {}


@pytest.mark.parametrize(
    ("made", "topic"),
    [
        (MirrorHeartbeatConnector, "heartbeats"),
        (MirrorCheckpointConnector, "A.checkpoints.internal"),
        (MirrorSourceConnector, "mm2-offset-syncs.B.internal"),
    ],
)
def test_it_starts_and_has_tasks(
    made: type[SourceConnector], topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in (mirror_heartbeat, mirror_checkpoint, mirror_source):
        monkeypatch.setattr(module, "MirrorAdmin", Refusing)
    monkeypatch.setattr(mirror_checkpoint, "KafkaGroupOffsets", Refusing)
    connector = made()
    connector.start(CONFIG)
    assert len(connector.task_configs(1)) == 1
    connector.stop()
    assert f"creating topic {topic} failed" in caplog.text
    assert "auto.create.topics.enable" in caplog.text

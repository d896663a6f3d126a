"""A source task makes its topics on a real Kafka before the first record goes there (KIP-158)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, encode_records
from spark_connect_rt.engine.executor.source_task_writer import SourceTaskWriter
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.records.pipeline.columns import produce_batch
from tests.topics import read_values

LANE_LIMIT_S = 120.0


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex[:8]


def launch_of(broker: EmbeddedKafka, connector: Mapping[str, str]) -> TaskLaunch:
    servers = {"bootstrap.servers": broker.bootstrap_servers}
    task = ConnectorTaskId("a", 0)
    launch = TaskLaunch(task, 1, 1, TaskKind.SOURCE, "m:C", {}, connector, {}, client_config=servers)
    return replace(launch, topic_admin=servers)


def write(launch: TaskLaunch, *topics: str) -> list[Mapping[str, Any]]:
    """Have a lane produce one record to each topic; return what it reports but for what it measured."""
    reports: list[Mapping[str, Any]] = []
    lane = SourceTaskWriter(1, launch, reports.append, KafkaExecutorClients())
    lane.start()
    for topic in topics:
        data = encode_records(produce_batch(topic, pa.array(["x"])))
        lane.give(Row(1, RowKind.BATCH, BatchHead(1, (), 0, (topic,)).encode(), data))
    lane.give(Row(1, RowKind.ENDED))
    lane.join(LANE_LIMIT_S)
    assert not lane.is_alive()
    return [report for report in reports if report["op"] != "measures"]


def test_topics_are_made_as_their_groups_say_and_existing_ones_are_left(broker: EmbeddedKafka, name: str) -> None:
    narrow, wide, there = f"{name}-narrow", f"{name}-wide", f"{name}-there"
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topic(TopicSpec(there, 2))
    launch = launch_of(
        broker,
        {
            "topic.creation.groups": "narrow",
            "topic.creation.default.partitions": "5",
            "topic.creation.default.replication.factor": "-1",
            "topic.creation.narrow.include": ".*-narrow",
            "topic.creation.narrow.partitions": "1",
            "topic.creation.narrow.retention.ms": "123456",
            "topic.creation.narrow.max.message.bytes": "54321",
        },
    )
    *written, ended = [report["op"] for report in write(launch, narrow, wide, there, narrow)]
    assert (set(written), ended) == ({"durable"}, "ended")  # at once, or each while the next topic is made
    assert [admin.partition_count(topic) for topic in (narrow, wide, there)] == [1, 5, 2]
    settings = admin.topic_settings(narrow) or {}
    assert (settings["retention.ms"], settings["max.message.bytes"]) == ("123456", "54321")
    assert read_values(broker.bootstrap_servers, narrow, 2) == [b"x", b"x"]


def test_a_topic_that_cannot_be_made_fails_the_task_and_says_which(broker: EmbeddedKafka, name: str) -> None:
    topic = f"{name}-many"
    connector = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "9"}
    failed, ended = write(launch_of(broker, connector), topic)
    assert (failed["op"], ended["op"]) == ("failed", "ended")
    assert f"Task failed to create new topic {topic}" in failed["trace"]
    assert "restart the task" in failed["trace"]
    assert KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}).partition_count(topic) is None

"""A MirrorSource task hosted as in a slot, without Spark: which way it copies, and what a restart copies."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.config.client_properties import sharing, source_producer_properties
from spark_connect_rt.connectors.topics.kafka_source_task import CLUSTER
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.engine.task_runner import BatchDurable, Start, Stop, TaskKind, TaskLaunch
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.testing.memory_executor_clients import MemoryTopics
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.compacted_log_contract import fresh_name
from tests.contract.task_runner_contract import Worker
from tests.topics import delete_topic, read_values

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
CONVERTERS = {f"{part}.converter": BYTES for part in ("key", "value", "header")}


class MirrorWorker(Worker):
    """Keeps the offsets of mirrored partitions."""

    def on_event(self, event: object) -> None:
        if isinstance(event, BatchDurable):
            for partition, offset in event.source_offsets:
                self.offsets[partition[CLUSTER], str(partition["partition"])] = dict(offset or {})
        with self.lock:
            self.events.append(event)  # type: ignore[arg-type]
            self.lock.notify_all()

    def read_offsets(self, task: ConnectorTaskId, partitions: list[Mapping[str, object]]) -> list[object]:  # type: ignore[override]
        return [self.offsets.get((str(partition[CLUSTER]), str(partition["partition"]))) for partition in partitions]


@pytest.fixture
def topic(broker: EmbeddedKafka) -> str:
    name = fresh_name("mirrored")
    for topic_name in (name, f"A.{name}"):
        KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers}).create_topic(TopicSpec(topic_name, 1, 1))
    return name


def write(servers: str, topic: str, first: int, end: int) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5})
    for number in range(first, end):
        producer.produce(topic, b"%d" % number)
    assert producer.flush(30) == 0


def launch(servers: str, topic: str, run: int, connector: Mapping[str, str]) -> TaskLaunch:
    config = {
        "name": topic,
        "source.cluster.alias": "A",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "emit.offset-syncs.enabled": "false",
        "task.assigned.partitions": f"{topic}-0",
        **{name: value for name, value in connector.items() if name.startswith("connectrt")},
    }
    worker = worker_settings({"bootstrap.servers": servers})
    producer = {**source_producer_properties(worker, connector, topic, 0), **sharing(worker, connector)}
    return TaskLaunch(
        ConnectorTaskId(topic, 0),
        run=run,
        generation=1,
        kind=TaskKind.SOURCE,
        task_class="spark_connect_rt.connectors.mirror.mirror_source_task:MirrorSourceTask",
        config=config,
        connector_config={**config, **connector},
        worker_config=CONVERTERS,
        client_config=producer,
    )


@pytest.mark.parametrize(
    ("connector", "said"),
    [
        ({}, "record batches are copied whole"),
        ({"connectrt.mirror.batches": "never"}, "one by one because of connectrt.mirror.batches"),
        (
            {"header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"},
            "one by one because of header.converter",
        ),
        ({"producer.override.retries": "3"}, "one by one because of retries"),
    ],
)
def test_it_says_which_way_it_copies_and_a_stop_leaves_nothing_to_copy_again(
    broker: EmbeddedKafka,
    topic: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    connector: Mapping[str, str],
    said: str,
) -> None:
    caplog.set_level(logging.INFO)
    servers = broker.bootstrap_servers
    clients = KafkaExecutorClients()
    worker = MirrorWorker(MemoryTaskRunner(clients, EngineSettings(housekeeping_ms=20)), MemoryTopics(), tmp_path)  # type: ignore[arg-type]
    worker.runner.open(worker.on_event, worker.read_offsets)  # type: ignore[arg-type]
    for run in (1, 2):
        write(servers, topic, 3_000 * (run - 1), 3_000 * run)
        started = launch(servers, topic, run, connector)
        worker.runner.do(Start(started))
        worker.until(lambda started=started: _copied(worker, started) == 3_000, 60)
        worker.runner.do(Stop(started.task, 10_000))
        assert worker.ended(started).drained
    worker.runner.close(2_000)
    assert said in caplog.text
    assert read_values(servers, f"A.{topic}", 6_000) == [b"%d" % number for number in range(6_000)]
    assert read_values(servers, f"A.{topic}", 6_001, 1.0)[6_000:] == []


@pytest.mark.parametrize("batches", ["auto", "never"])
def test_foreign_topic_changes_are_reported_and_no_existing_record_is_skipped(
    broker: EmbeddedKafka, topic: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, batches: str
) -> None:
    servers = broker.bootstrap_servers
    admin = KafkaAdmin({"bootstrap.servers": servers})
    clients = KafkaExecutorClients()
    worker = MirrorWorker(MemoryTaskRunner(clients, EngineSettings(housekeeping_ms=20)), MemoryTopics(), tmp_path)  # type: ignore[arg-type]
    worker.runner.open(worker.on_event, worker.read_offsets)  # type: ignore[arg-type]
    runs = iter(range(1, 9))

    def copy(count: int) -> None:
        started = launch(servers, topic, next(runs), {"connectrt.mirror.batches": batches})
        worker.runner.do(Start(started))
        worker.until(lambda: _copied(worker, started) == count, 60)
        worker.runner.do(Stop(started.task, 10_000))
        assert worker.ended(started).drained

    write(servers, topic, 0, 20)
    copy(20)
    write(servers, topic, 20, 40)
    admin.delete_records(topic, {0: 30})
    copy(10)
    assert f"{topic}-0: 10 offsets from 20 on were deleted before they were read" in caplog.text
    first_id = worker.offsets["A", "0"]["topicId"]
    assert worker.offsets["A", "0"] == {"offset": 39, "topicId": first_id}

    delete_topic(servers, topic)
    admin.create_topic(TopicSpec(topic, 1, 1))
    write(servers, topic, 100, 150)  # longer than what was read: no offset is out of range
    copy(50)
    assert f"{topic}-0: its topic was deleted and created again; the old one was read up to offset 40" in caplog.text
    assert worker.offsets["A", "0"]["topicId"] not in (None, first_id)

    delete_topic(servers, f"A.{topic}")
    admin.create_topic(TopicSpec(f"A.{topic}", 1, 1))
    write(servers, topic, 150, 160)
    copy(10)
    assert f"A.{topic}-0 at the target was deleted and created again" in caplog.text
    worker.runner.close(2_000)
    assert read_values(servers, f"A.{topic}", 10) == [b"%d" % number for number in range(150, 160)]


def _copied(worker: Worker, started: TaskLaunch) -> int:
    return sum(report.records for report in worker.of(started, BatchDurable))

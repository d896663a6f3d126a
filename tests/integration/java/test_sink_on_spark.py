"""A Java sink in an executor of a real Spark, on a real Kafka: its JVM is killed in mid-flow and no line is lost."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.worker_config import FlushSettings
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.executor_clients import FACTORY
from spark_connect_rt.engine.spark_runner import SparkTaskRunner
from spark_connect_rt.engine.task_runner import Assign, BatchDurable, JavaCode, Start, TaskFailed, TaskKind
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.task_runner_contract import Worker
from tests.support.numbered_lines import create_topics

STRING = "org.apache.kafka.connect.storage.StringConverter"
HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
LIMIT_S = 120.0
COUNT = 200_000
pytestmark = pytest.mark.timeout(3 * LIMIT_S)


@pytest.fixture
def worker(session: SparkSession, broker: EmbeddedKafka, tmp_path: Path) -> Iterator[Worker]:
    settings = EngineSettings(housekeeping_ms=100)
    runner = SparkTaskRunner(worker_settings(), FACTORY, session_factory=lambda: session, settings=settings)
    clients = {"bootstrap.servers": broker.bootstrap_servers, "max.poll.records": "500"}
    worker = Worker(runner, None, tmp_path, clients, limit_s=LIMIT_S)  # type: ignore[arg-type]
    runner.open(worker.on_event, worker.read_offsets)
    yield worker
    runner.close(10_000)


def hosts() -> list[psutil.Process]:
    """Return the JVMs of tasks below this process: of Spark's Python processes, which are its JVM's children."""
    found = []
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it is a zombie, or gone by now
            if "org.sparkconnectrt.host.Host" in child.cmdline():
                found.append(child)
    return found


@pytest.mark.parametrize("fused", [True, False])
def test_every_line_of_a_sink_whose_jvm_is_killed_is_there(
    worker: Worker, broker: EmbeddedKafka, file_plugin: Path, tmp_path: Path, fused: bool
) -> None:
    topic, file = f"t-{uuid.uuid4().hex[:8]}", tmp_path / "out.txt"
    create_topics(broker.bootstrap_servers, [topic])
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "linger.ms": 20})
    for number in range(COUNT):
        producer.produce(topic, b"%06d" % number)
        if number % 50_000 == 0:
            producer.flush()
    assert producer.flush(60) == 0
    launch = worker.launch("lines", "x", TaskKind.SINK)
    connector = {
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": str(file),
        **launch.connector_config.written(),
    }
    code = JavaCode((str(file_plugin),), heap="96m", options=("-XX:TieredStopAtLevel=1",))
    launch = replace(
        launch,
        task_class="spark_connect_rt.engine.java_host.sink_task:JavaSinkTask",
        config={**connector, "task.class": "org.apache.kafka.connect.file.FileStreamSinkTask"},
        connector_config=connector,
        worker_config={"key.converter": STRING, "value.converter": STRING, "header.converter": HEADERS},
        flush=FlushSettings(500, 5_000),
        java=code,
        fused=fused,
    )
    partition = TopicPartition(topic, 0)
    worker.runner.do(Start(launch))
    worker.runner.do(Assign(launch.task, {partition: 0}))
    worker.until(lambda: file.exists() and file.stat().st_size > 0)
    killed = hosts()
    for jvm in killed:
        os.kill(jvm.pid, signal.SIGKILL)
    worker.until(lambda: any((partition, COUNT) in report.sink_offsets for report in worker.of(launch, BatchDurable)))
    assert not worker.of(launch, TaskFailed)
    assert {host.pid for host in hosts()} - {jvm.pid for jvm in killed}
    assert worker.end(launch).drained
    lines = file.read_bytes().split()
    assert set(lines) >= {b"%06d" % number for number in range(COUNT)}
    assert len(lines) < 2 * COUNT, "it began from scratch"

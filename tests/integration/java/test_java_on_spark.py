"""Java sources as tasks of a real Spark, before a real Kafka: counted, restarted, killed, exactly once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.config.client_properties import exactly_once_producer_properties
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.executor_clients import FACTORY
from spark_connect_rt.engine.spark_runner import SparkTaskRunner
from spark_connect_rt.engine.task_runner import BatchDurable, Start, TaskFailed, TaskLaunch
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.integration.java.test_source_task import FILE_TASK, STRING, Offsets, java_code
from tests.support.java_test_plugins import OBEDIENT_SOURCE, OBEDIENT_SOURCE_TASK, java_plugin_path
from tests.topics import CommittedReader, count_records, read_values

TASK = "spark_connect_rt.engine.java_host.source_task:JavaSourceTask"
LIMIT_S = 240.0
MOST_IN_A_BATCH = 10_000  # lines: what the task may have polled while the batch before was on its way


@pytest.fixture(scope="module")
def worker(session: SparkSession, broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offsets]:
    runner = SparkTaskRunner(
        worker_settings(), FACTORY, session_factory=lambda: session, settings=EngineSettings(housekeeping_ms=100)
    )
    clients = {"bootstrap.servers": broker.bootstrap_servers}
    worker = Offsets(runner, None, tmp_path_factory.mktemp("tasks"), clients, limit_s=LIMIT_S)  # type: ignore[arg-type]
    runner.open(worker.on_event, worker.read_offsets)
    yield worker
    runner.close(10_000)


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex[:8]


def launched(worker: Offsets, name: str, plugin: Path, task_class: str, connector: Mapping[str, str]) -> TaskLaunch:
    launch = worker.launch(name, "x")
    config = {"name": name, **launch.connector_config.written(), **connector}
    return replace(
        launch,
        task_class=TASK,
        config={**config, "task.class": task_class},
        connector_config=config,
        worker_config={"key.converter": STRING, "value.converter": STRING},
        topic_admin=worker.client_config,
        java=java_code(plugin),
        fused=True,
    )


def last_number(servers: str, topic: str) -> int:
    """Return the number on the line that was sent last."""
    return int(read_values(servers, topic, count_records(servers, topic))[-1] or b"")


def kill_jvms() -> None:
    """Kill every JVM that hosts Java tasks below this process."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if "org.sparkconnectrt.host.Host" in child.cmdline():
                os.kill(child.pid, signal.SIGKILL)


def test_lines_of_a_file_through_a_killed_jvm_and_a_restart(
    worker: Offsets, broker: EmbeddedKafka, file_plugin: Path, tmp_path: Path, name: str
) -> None:
    file, servers = tmp_path / "lines", broker.bootstrap_servers
    lines = [f"{number:08d}" for number in range(60_000)]
    killed = threading.Event()

    def write() -> None:
        with file.open("a", encoding="utf-8") as out:
            for begin in range(0, 50_000, 1_000):
                if begin == 25_000:
                    killed.wait(LIMIT_S)  # else a slow machine has read all of it before
                out.write("".join(f"{line}\n" for line in lines[begin : begin + 1_000]))
                out.flush()
                time.sleep(0.03)

    config = {
        "connector.class": "FileStreamSource",
        "file": str(file),
        "topic": name,
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
    }
    writing = threading.Thread(target=write)
    writing.start()
    launch = launched(worker, name, file_plugin, FILE_TASK, config)
    worker.runner.do(Start(launch))
    worker.until(lambda: count_records(servers, name) > 10_000)
    kill_jvms()
    killed.set()
    writing.join()
    worker.until(lambda: count_records(servers, name) >= 50_000)
    assert not worker.of(launch, TaskFailed)
    assert worker.end(launch).drained
    sent = count_records(servers, name)
    with file.open("a", encoding="utf-8") as out:
        out.write("".join(f"{line}\n" for line in lines[50_000:]))
    again = launched(worker, name, file_plugin, FILE_TASK, config)
    worker.runner.do(Start(again))
    worker.until(lambda: last_number(servers, name) == 59_999)
    assert worker.end(again).records == count_records(servers, name) - sent
    values = [int(value or b"") for value in read_values(servers, name, count_records(servers, name))]
    # What was durable when the JVM died comes once, but for its last batch: its offsets were held (``held_offsets``).
    came_twice = len(values) - 60_000
    killed_at = next((at for at in range(1, len(values)) if values[at] != values[at - 1] + 1), len(values))
    assert 0 <= came_twice <= MOST_IN_A_BATCH
    assert values == [*range(killed_at), *range(killed_at - came_twice, 60_000)]
    assert sum(batch.records for batch in worker.of(launch, BatchDurable)) == sent


def test_exactly_once_through_a_killed_jvm(worker: Offsets, broker: EmbeddedKafka, name: str) -> None:
    servers, topic, offsets = broker.bootstrap_servers, f"t-{name}", f"offsets-{name}"
    admin = KafkaAdmin({"bootstrap.servers": servers})
    admin.create_topic(TopicSpec(offsets, 1, 1))
    admin.close()
    lines, expected = [], []
    for number in range(200):
        dropped = number % 10 == 9
        lines.append(f"a{number}>{topic}  b{number}>{topic}{'-' if dropped else '+'}")
        expected += [] if dropped else [f"a{number}".encode(), f"b{number}".encode()]
    settings = {"bootstrap.servers": servers, "group.id": name, "exactly.once.source.support": "enabled"}
    launch = launched(
        worker,
        name,
        java_plugin_path() / "misbehaving",
        OBEDIENT_SOURCE_TASK,
        {
            "connector.class": OBEDIENT_SOURCE,
            "script": "\n".join(lines),
            "file": str(worker.folder / name / "notes"),
            "transaction.boundary": "connector",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        },
    )
    launch = replace(
        launch,
        offsets_topic=offsets,
        client_config=exactly_once_producer_properties(worker_settings(settings), {}, name, 0),
    )
    worker.runner.do(Start(launch))
    worker.until(lambda: count_records(servers, topic) > 60)
    kill_jvms()
    reader = CommittedReader(servers, topic)
    worker.until(lambda: len(reader.more()) >= len(expected))
    assert not worker.of(launch, TaskFailed)
    assert worker.end(launch).drained
    assert [value for _, value in reader.to_end()] == expected
    starts = [line for line in (worker.folder / name / "notes").read_text().splitlines() if line.startswith("start")]
    assert len(starts) == 2

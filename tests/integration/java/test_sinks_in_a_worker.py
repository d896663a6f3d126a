"""Java sinks in a real worker on a real Kafka: killed JVMs lose no line, a transaction of a task is its member's."""

from __future__ import annotations

import contextlib
import os
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.java_test_plugins import OBEDIENT_SINK
from tests.support.numbered_lines import create_topics

LIMIT_S = 60.0
QUICK = {"connectrt.java.heap": "96m", "connectrt.java.options": "-XX:TieredStopAtLevel=1"}
pytestmark = pytest.mark.timeout(5 * LIMIT_S)


@pytest.fixture(scope="module")
def worker(
    broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory, file_plugin: Path, misbehaving_plugins: Path
) -> Iterator[OurWorkerProcess]:
    path = {"plugin.path": f"{file_plugin.parent},{misbehaving_plugins}", "offset.flush.interval.ms": "1000"}
    group = f"java-sinks-{uuid.uuid4().hex[:8]}"
    with OurWorkerProcess(
        tmp_path_factory.mktemp("worker"), broker.bootstrap_servers, group, properties=path
    ) as worker:
        yield worker


@pytest.fixture
def topic(broker: EmbeddedKafka) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    create_topics(broker.bootstrap_servers, [name])
    return name


def write(broker: EmbeddedKafka, topic: str, values: list[bytes]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for value in values:
        producer.produce(topic, value)
        producer.poll(0)
    assert producer.flush(30) == 0


def task_jvms(worker: OurWorkerProcess, plugin: str) -> list[psutil.Process]:
    """Return the JVMs that hold open a jar of this name; the driver's do as well."""
    found = []
    for child in psutil.Process(worker.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it is gone by now
            if any(plugin in file.path for file in child.open_files()):
                found.append(child)
    return found


def test_lines_of_a_sink_whose_jvms_are_killed_are_all_there(
    worker: OurWorkerProcess, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    file, count = tmp_path / "out.txt", 60_000
    lines = [b"%06d" % number for number in range(count)]
    config = {
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "connectrt.runtime": "java",
        "topics": topic,
        "file": str(file),
        "consumer.override.max.poll.records": "500",
        **QUICK,
    }
    write(broker, topic, lines[: count // 2])
    worker.rest.create("lines", config)

    def told() -> str:
        return worker.log_file.read_text(errors="replace")[-4000:]

    def written() -> set[bytes]:
        return set(file.read_bytes().split()) if file.exists() else set()

    until(lambda: written(), LIMIT_S, "a first line", told)
    jvms = task_jvms(worker, "connect-file")
    assert jvms, told()
    for jvm in jvms:
        os.kill(jvm.pid, signal.SIGKILL)
    write(broker, topic, lines[count // 2 :])
    until(lambda: written() == set(lines), LIMIT_S, "every line", told)
    worker.rest.await_states("lines", "RUNNING", ["RUNNING"])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def committed() -> int:
        asked = [ConsumerGroupTopicPartitions("connect-lines")]
        found = admin.list_consumer_group_offsets(asked)["connect-lines"].result(30)
        return sum(partition.offset for partition in found.topic_partitions)

    until(lambda: committed() == count, LIMIT_S, "the last commit", told)


def test_a_tasks_own_transactions_are_those_of_its_group_member(
    worker: OurWorkerProcess, broker: EmbeddedKafka, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "notes"
    servers = broker.bootstrap_servers
    config = {"connector.class": OBEDIENT_SINK, "topics": topic, "file": str(file), "servers": servers, **QUICK}
    # Below request.timeout.ms: a consumer accepts that, the admin client that reads the group's offsets does not.
    config["consumer.override.default.api.timeout.ms"] = "20000"
    write(broker, topic, [b"a", b"!member", b"!transaction"])
    worker.rest.create("obedient", config)

    def notes() -> list[str]:
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def told() -> str:
        return f"{notes()}\n{worker.log_file.read_text(errors='replace')[-4000:]}"

    until(lambda: {"fenced", "not fenced"} & set(notes()), LIMIT_S, "an answer to the older generation", told)
    assert notes()[-2:] == ["committed 2", "fenced"]
    admin = AdminClient({"bootstrap.servers": servers})
    (member,) = admin.describe_consumer_groups(["connect-obedient"])["connect-obedient"].result(30).members
    (said,) = (note for note in notes() if note.startswith("member"))
    assert said.split()[1::2][:2] == ["connect-obedient", member.member_id]

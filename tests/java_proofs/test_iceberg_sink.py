"""Apache Iceberg's sink, unmodified, with two tasks: one is elected to commit for both. Killed, it loses no row.

Each task has a JVM of its own here. Which of them commits is seen from outside: it has the coordinator's thread.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from tests.support.iceberg_table import IcebergTable
from tests.support.java_beside_ours import LIMIT_S, SIDES, JavaBesideOurs, whole
from tests.support.java_plugins import iceberg_folder

ROWS = 50_000 if whole() else 2_000
pytestmark = pytest.mark.timeout(3000)
TOPIC = "to-iceberg"
JAR = "iceberg-kafka-connect"


@pytest.fixture(scope="module")
def both(broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBesideOurs]:
    folder = tmp_path_factory.mktemp("iceberg")
    iceberg_folder(folder / "plugins")
    with JavaBesideOurs(folder, broker.bootstrap_servers, folder / "plugins", "iceberg") as made:
        yield made


@pytest.fixture(scope="module")
def tables(
    both: JavaBesideOurs, broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, IcebergTable]:
    warehouse: Path = tmp_path_factory.mktemp("warehouse")
    tables = {side: IcebergTable(warehouse, f"rows_{side}") for side in SIDES}
    admin = KafkaAdmin({"bootstrap.servers": broker.bootstrap_servers})
    for topic in (TOPIC, *(f"control-{table.name}" for table in tables.values())):
        admin.create_topic(TopicSpec(topic, 2 if topic == TOPIC else 1, 1, {}))
    admin.close()
    both.create("iceberg", {side: tables[side].config(TOPIC, broker.bootstrap_servers) for side in SIDES}, tasks=2)
    # If a partition moves to the task that starts last during the first commit, the sink interrupts that commit, and
    # the next coordinator does not commit those files: 21,192 of 50,000 rows were lost so.
    jvms(both)
    send(broker, 0, ROWS)
    return tables


def send(broker: EmbeddedKafka, first: int, count: int) -> None:
    fields = [{"field": "id", "type": "int32", "optional": False}, {"field": "name", "type": "string"}]
    schema = {"type": "struct", "fields": fields}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(first, first + count):
        value = {"schema": schema, "payload": {"id": number, "name": f"row {number}"}}
        producer.produce(TOPIC, json.dumps(value), partition=number % 2)
        producer.poll(0)
    assert producer.flush(60) == 0


def await_rows(table: IcebergTable, count: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    while len(rows := table.rows()) < count:
        assert time.monotonic() < deadline, f"{table.name}: {len(rows)} of {count} rows"
        time.sleep(0.5)
    assert rows == [(number, f"row {number}") for number in range(count)]


def jvms(both: JavaBesideOurs) -> tuple[psutil.Process, psutil.Process]:
    """Wait until both tasks have a JVM and one of them coordinates; return that one, then the other."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        hosts = sorted(both.hosts(JAR), key=coordinates, reverse=True)
        if [coordinates(host) for host in hosts] == [True, False]:
            return hosts[0], hosts[1]
        assert time.monotonic() < deadline, [(host.pid, coordinates(host)) for host in hosts]
        time.sleep(0.2)


def coordinates(jvm: psutil.Process) -> bool:
    """Return whether a JVM has the thread of Iceberg's coordinator."""
    names = Path(f"/proc/{jvm.pid}/task").glob("*/comm")
    with contextlib.suppress(OSError):
        return any(name.read_text().startswith("iceberg-coord") for name in names)
    return False


def test_rows_are_committed_by_an_elected_coordinator(both: JavaBesideOurs, tables: dict[str, IcebergTable]) -> None:
    for side in SIDES:
        await_rows(tables[side], ROWS)
        assert tables[side].snapshots() > 0
    jvms(both)


@pytest.mark.parametrize("victim", ["coordinator", "other"])
def test_a_killed_jvm_neither_loses_nor_repeats(
    victim: str, both: JavaBesideOurs, broker: EmbeddedKafka, tables: dict[str, IcebergTable]
) -> None:
    count = len(tables["ours"].rows())
    coordinator, other = jvms(both)
    send(broker, count, 500)
    killed, spared = (coordinator, other) if victim == "coordinator" else (other, coordinator)
    killed.kill()
    assert len(tables["ours"].rows()) < count + 500, "killed before all was committed"
    send(broker, count + 500, 500)
    for side in SIDES:
        await_rows(tables[side], count + 1_000)
    coordinates_now, other_now = jvms(both)
    assert killed not in (coordinates_now, other_now)
    assert spared in (coordinates_now, other_now), "the other task's JVM went on"


def test_a_coordinator_is_elected_after_a_restart_of_its_task_and_commits_every_row(
    both: JavaBesideOurs, broker: EmbeddedKafka, tables: dict[str, IcebergTable]
) -> None:
    count, log = len(tables["ours"].rows()), both.ours.log_file
    elected = re.compile(r"Committer iceberg-ours-(\d) received leader partition")
    before = elected.findall(log.read_text(errors="replace"))
    send(broker, count, 500)
    assert (
        both.ours.rest.settled("POST", f"/connectors/iceberg-ours/tasks/{before[-1]}/restart").status
        == HTTPStatus.NO_CONTENT
    )
    assert len(tables["ours"].rows()) < count + 500, "stopped before all was committed"
    send(broker, count + 500, 500)
    for side in SIDES:
        await_rows(tables[side], count + 1_000)
    jvms(both)
    after = elected.findall(log.read_text(errors="replace"))[len(before) :]
    print("elected:", before, after)
    assert after, "no task was elected"  # a task that is back at once may be elected again


def test_a_restart_neither_loses_nor_repeats(
    both: JavaBesideOurs, broker: EmbeddedKafka, tables: dict[str, IcebergTable]
) -> None:
    count = len(tables["ours"].rows())
    send(broker, count, 100)
    both.ours.rest.settled("POST", "/connectors/iceberg-ours/restart?includeTasks=true")
    send(broker, count + 100, 100)
    for side in SIDES:
        await_rows(tables[side], count + 200)

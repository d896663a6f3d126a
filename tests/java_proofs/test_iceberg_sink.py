"""Apache Iceberg's sink, unmodified: an elected coordinator commits; a killed JVM neither loses nor repeats."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from spark_connect_rt.embedded.kafka import EmbeddedKafka
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from tests.support.iceberg_table import IcebergTable
from tests.support.java_beside_ours import LIMIT_S, SIDES, JavaBesideOurs, whole
from tests.support.java_plugins import iceberg_folder

ROWS = 50_000 if whole() else 2_000
pytestmark = pytest.mark.timeout(3000)
TOPIC = "to-iceberg"


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
    for topic in (TOPIC, *(f"control-{one.name}" for one in tables.values())):
        admin.create_topic(TopicSpec(topic, 2 if topic == TOPIC else 1, 1, {}))
    admin.close()
    send(broker, 0, ROWS)
    both.create("iceberg", {side: tables[side].config(TOPIC, broker.bootstrap_servers) for side in SIDES})
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
    while len(table.column("id")) < count:
        assert time.monotonic() < deadline, f"{table.name}: {len(table.column('id'))} of {count} rows"
        time.sleep(0.5)
    assert sorted(table.column("id")) == list(range(count))


def test_rows_are_committed_by_an_elected_coordinator(tables: dict[str, IcebergTable]) -> None:
    for side in SIDES:
        await_rows(tables[side], ROWS)
        assert tables[side].snapshots() > 0


def test_a_killed_jvm_and_a_restart_neither_lose_nor_repeat(
    both: JavaBesideOurs, broker: EmbeddedKafka, tables: dict[str, IcebergTable]
) -> None:
    send(broker, ROWS, 500)
    both.kill_host("iceberg-kafka-connect")
    send(broker, ROWS + 500, 500)
    await_rows(tables["ours"], ROWS + 1_000)
    both.ours.rest.settled("POST", "/connectors/iceberg-ours/restart?includeTasks=true")
    send(broker, ROWS + 1_000, 100)
    await_rows(tables["ours"], ROWS + 1_100)

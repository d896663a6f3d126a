"""Errant records on a real Kafka and a real Spark: of sinks, sources, and tables that Spark writes."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.executor_clients import FACTORY
from spark_connect_rt.engine.spark_runner import SparkTaskRunner
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.engine.task_runner import Assign, BatchDurable, Start, TaskFailed
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.task_runner_contract import Worker
from tests.integration.spark.test_spark_sink import Sink, produce
from tests.topics import count_records, read_records, read_values

JAVA = "org.apache.kafka.connect.transforms"
CHAIN = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "hoist,stamp,drop,route",
    "transforms.hoist.type": f"{JAVA}.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.stamp.type": f"{JAVA}.InsertField$Value",
    "transforms.stamp.static.field": "by",
    "transforms.stamp.static.value": "spark",
    "transforms.drop.type": f"{JAVA}.Filter",
    "transforms.drop.predicate": "tombstone",
    "transforms.route.type": f"{JAVA}.RegexRouter",
    "transforms.route.regex": "numb(.*)",
    "predicates": "tombstone",
    "predicates.tombstone.type": f"{JAVA}.predicates.RecordIsTombstone",
}
LIMIT_S = 240.0


@pytest.fixture(scope="module")
def session(java: Java) -> Iterator[SparkSession]:
    os.environ["JAVA_HOME"] = str(java.home)
    session = build_session({"spark.master": "local[*]"})
    yield session
    session.stop()


@pytest.fixture(scope="module")
def worker(session: SparkSession, broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    runner = SparkTaskRunner(
        worker_settings(), FACTORY, session_factory=lambda: session, settings=EngineSettings(housekeeping_ms=100)
    )
    clients = {"bootstrap.servers": broker.bootstrap_servers}
    worker = Worker(runner, None, tmp_path_factory.mktemp("tasks"), clients, limit_s=LIMIT_S)  # type: ignore[arg-type]
    runner.open(worker.on_event, worker.read_offsets)
    yield worker
    runner.close(10_000)


@pytest.fixture
def name() -> str:
    return uuid.uuid4().hex[:8]


def context(dead: Message) -> dict[str, bytes | None]:
    prefix = "__connect.errors."
    return {key.removeprefix(prefix): value for key, value in dead.headers() or () if key.startswith(prefix)}


def test_one_bad_record_in_ten_thousand(worker: Worker, broker: EmbeddedKafka, name: str) -> None:
    """9,999 are delivered, in order; one is in the dead letter queue, with what was consumed."""
    topic, count, bad = f"in-{name}", 10_000, 7_777
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for number in range(count):
        producer.produce(topic, b"bad" if number == bad else b"%d" % number, b"key", headers=[("h", b"%d" % number)])
    assert producer.flush(60) == 0
    launch = worker.start_sink("s", bad="bad", tolerance="all", dlq=f"dead-{name}")
    worker.runner.do(Assign(launch.task, {TopicPartition(topic, 0): 0}))
    worker.until(lambda: sum(report.records + report.skipped for report in worker.of(launch, BatchDurable)) == count)
    durable = worker.of(launch, BatchDurable)
    assert durable[-1].sink_offsets == ((TopicPartition(topic, 0), count),)
    assert (
        sum(report.records for report in durable),
        sum(report.skipped for report in durable),
    ) == (count - 1, 1)
    put = [line.split()[1] for line in worker.notes("s") if line.startswith("put")]
    assert put == [f"{topic}-0@{number}" for number in range(count) if number != bad]
    (dead,) = read_records(broker.bootstrap_servers, f"dead-{name}", 1)
    assert (dead.key(), dead.value(), dead.partition()) == (b"key", b"bad", 0)
    assert (dead.headers() or [])[0] == ("h", b"7777")
    told = context(dead)
    assert (told["topic"], told["offset"], told["stage"]) == (topic.encode(), b"7777", b"TASK_PUT")
    assert not worker.of(launch, TaskFailed)
    assert worker.end(launch).drained


def test_source_writes_transformed_records_and_buries_unwritable_records(
    worker: Worker, broker: EmbeddedKafka, name: str
) -> None:
    launch = worker.launch("a", "CountingSource", count="12", fail="convert", tolerance="all", dlq=f"dead-{name}")
    chain = {**CHAIN, "transforms.route.replacement": f"m{name}$1"}
    worker.runner.do(Start(replace(launch, connector_config={**launch.connector_config.written(), **chain})))
    worker.until(lambda: worker.offsets.get(("a", "a")) == {"next": 12})
    values = read_values(broker.bootstrap_servers, f"m{name}ers", 11)
    assert [json.loads(value or b"") for value in values] == [
        {"line": f"a-{number}", "by": "spark"} for number in range(12) if number != 7
    ]
    (dead,) = read_records(broker.bootstrap_servers, f"dead-{name}", 1)
    told = context(dead)
    assert (told["topic"], told["source.offset"]) == (b"numbers", b'{"next":8}')
    assert (told["stage"], told["class.name"]) == (b"VALUE_CONVERTER", b"org.apache.kafka.connect.json.JsonConverter")
    durable = worker.of(launch, BatchDurable)
    assert (
        sum(report.records for report in durable),
        sum(report.skipped for report in durable),
    ) == (11, 1)
    assert {topic for report in durable for topic in report.topics} == {f"m{name}ers"}
    assert worker.end(launch).drained


def test_a_table_dead_letters_records_that_are_not_its_rows(
    session: SparkSession, broker: EmbeddedKafka, name: str, tmp_path: Path
) -> None:
    topic, queue = f"rows-{name}", f"dead-{name}"
    produce(broker, topic, [{"id": 1}, b"{oops", {"id": "text"}, {"id": 2}])
    settings = {
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": queue,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
        "table.schema": "id BIGINT",
    }
    sink = Sink(session, broker, topic, tmp_path / "table", **settings)
    clients = {"bootstrap.servers": broker.bootstrap_servers}
    sink.launch = replace(sink.launch, dead_letter_producer=clients, dead_letter_admin=clients)
    sink.start({0: 0})
    sink.until(lambda: sink.committed() == {0: 4} or bool(sink.failure()))
    assert sink.failure() == ""
    sink.stop()
    assert sorted(row.id for row in session.read.parquet(str(tmp_path / "table")).collect()) == [1, 2]
    assert count_records(broker.bootstrap_servers, queue) == 2
    dead = read_records(broker.bootstrap_servers, queue, 2)
    assert [(letter.value(), context(letter)["offset"], context(letter)["stage"]) for letter in dead] == [
        (b"{oops", b"1", b"VALUE_CONVERTER"),
        (b'{"id": "text"}', b"2", b"TASK_PUT"),
    ]

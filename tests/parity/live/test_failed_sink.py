"""A sink task that fails long before its next commit: what Java's worker and ours have committed by then."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Producer

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from tests.support.java_connect import JavaConnect
from tests.support.worker_process import SparkWorkerProcess, WorkerProcess

pytestmark = pytest.mark.timeout(600)
SINK = {
    "connector.class": "FileStreamSink",
    "file": "out.txt",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
NEVER = {"offset.flush.interval.ms": "3600000"}  # what is committed, the end of the task committed


def test_records_put_before_a_failure_are_committed(
    broker: EmbeddedKafka, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> None:
    servers, folder = broker.bootstrap_servers, tmp_path_factory.mktemp("failed")
    workers = [
        JavaConnect(folder / "java", servers, "failed-java", properties=NEVER, java=java),
        SparkWorkerProcess(folder / "ours", servers, "failed-ours", properties=NEVER),
    ]
    with ThreadPoolExecutor() as threads:
        from_java, from_ours = threads.map(lambda worker: _offset_of_the_failed(worker, servers), workers)
    assert from_java == from_ours == 2


def _offset_of_the_failed(worker: WorkerProcess, servers: str) -> Any:
    topic, out = f"in-of-{worker.group_id}", worker.directory / "out.txt"
    _produce(servers, topic, b'{"n":1}', b'{"n":2}')
    with worker:
        worker.rest.create("s", SINK | {"topics": topic})
        worker.rest.until(lambda: out.exists() and len(out.read_text().splitlines()), 2, 240.0, "the good records")
        _produce(servers, topic, b"{oops")
        worker.rest.await_states("s", "RUNNING", ["FAILED"])

        def offsets() -> list[int]:  # both workers' sinks are called s, so both commit in the group connect-s
            found = worker.rest.request("GET", "/connectors/s/offsets").json()["offsets"]
            return [entry["offset"]["kafka_offset"] for entry in found if entry["partition"]["kafka_topic"] == topic]

        worker.rest.until(lambda: len(offsets()), 1, 60.0, "it has committed")
        return offsets()[0]


def _produce(servers: str, topic: str, *values: bytes) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0

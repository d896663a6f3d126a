"""``tasks.max.auto`` on a real broker: tasks come while records wait, and go when none does."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.integration.kafka.scaled_worker import ScaledWorkerProcess

PROPERTIES = {
    "session.timeout.ms": "10000",
    "heartbeat.interval.ms": "300",
    "offset.flush.interval.ms": "500",
    "connectrt.plugins.modules": "tests.integration.kafka",
}
LIMIT_S = 60.0


@pytest.mark.timeout(4 * LIMIT_S)
def test_tasks_come_while_records_wait_and_go_when_none_does(broker: EmbeddedKafka, tmp_path: Path) -> None:
    group = f"scaled-{uuid.uuid4().hex[:8]}"
    servers = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(group, 6, 1)])[group].result(30)
    producer = Producer({"bootstrap.servers": servers})
    for number in range(3_000):
        producer.produce(group, str(number), partition=number % 6)
    producer.flush(30)
    with ScaledWorkerProcess(tmp_path / "worker", servers, group, properties=PROPERTIES) as worker:
        bad = {"name": "bad", "config": {**config(group), "tasks.max.auto": "3..1"}}
        refused = worker.rest.request("POST", "/connectors", bad)
        assert refused.status == 400
        assert "tasks.max.auto" in str(refused.json())
        assert worker.rest.create("slow", config(group)).status == 201

        def tasks() -> int:
            return len(worker.rest.states("slow")[1])

        def told() -> str:
            return worker.log_file.read_text(errors="replace")[-3000:]

        until(lambda: tasks() >= 2, LIMIT_S, "more tasks while records wait", told)
        until(lambda: tasks() == 1, LIMIT_S, "one task when none waits", told)
        assert worker.rest.request("GET", "/connectors/slow/config").json()["tasks.max"] == "1"
        assert "records wait" in worker.log_file.read_text()
        assert worker.stop() == 0


def config(topic: str) -> dict[str, str]:
    return {
        "connector.class": "tests.integration.kafka.scaled_worker.SlowSink",
        "topics": topic,
        "tasks.max.auto": "1..3",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "consumer.override.auto.offset.reset": "earliest",
    }

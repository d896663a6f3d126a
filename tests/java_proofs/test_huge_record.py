"""Records too large, of a gigabyte and of megabytes, from a Java source: the setting is named, neighbours go on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.java_test_plugins import SOURCE
from tests.topics import count_records

LIMIT_S = 600.0
SMALL = {"connectrt.java.heap": "96m"}
pytestmark = pytest.mark.timeout(3 * LIMIT_S)


@pytest.fixture(scope="module")
def worker(
    broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory, misbehaving_plugins: Path
) -> Iterator[OurWorkerProcess]:
    path = {"plugin.path": str(misbehaving_plugins)}
    group = f"huge-{uuid.uuid4().hex[:8]}"
    with OurWorkerProcess(
        tmp_path_factory.mktemp("worker"), broker.bootstrap_servers, group, properties=path
    ) as worker:
        yield worker


@pytest.mark.parametrize(
    ("bad", "huge", "words"),
    [
        ("gigabyte", {"misbehave": "poll:huge"}, ("out of memory: raise connectrt.java.heap",)),
        (
            "megabytes",
            {"record.bytes": "3000000", "batch": "1"},
            ("record of 3000", "max.request.size=1048576", "raise", "producer.override.max.request.size"),
        ),
    ],
)
def test_a_record_that_is_too_large_is_its_tasks_failure_alone(
    worker: OurWorkerProcess, broker: EmbeddedKafka, bad: str, huge: dict[str, str], words: tuple[str, ...]
) -> None:
    good = f"beside-{bad}"
    config = {"connector.class": SOURCE, "records": "-1", "pause.ms": "50", "batch": "10", **SMALL, "topic": good}
    worker.rest.create(good, config)
    until(lambda: count_records(broker.bootstrap_servers, good) > 0, LIMIT_S, "its neighbour's records")
    worker.rest.create(bad, config | huge | {"topic": bad})

    def trace() -> str:
        tasks = worker.rest.request("GET", f"/connectors/{bad}/status").json()["tasks"]
        return str(tasks[0].get("trace", "")) if tasks else ""

    until(lambda: bool(trace()), LIMIT_S, "it FAILED", lambda: worker.log_file.read_text(errors="replace")[-6000:])
    assert [word for word in words if word not in trace()] == [], trace()
    there = count_records(broker.bootstrap_servers, good)
    until(lambda: count_records(broker.bootstrap_servers, good) > there + 50, LIMIT_S, "its neighbour goes on")
    worker.rest.await_states(good, "RUNNING", ["RUNNING"])
    for name in (good, bad):
        worker.rest.request("DELETE", f"/connectors/{name}")

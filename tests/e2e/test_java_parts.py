"""A worker with Java's parts: transformations and converters of a Python source, a provider, logs and metrics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.support.java_test_plugins import LABEL, MARKED, SOURCE, TABLE
from tests.support.worker_process import SparkWorkerProcess
from tests.topics import count_records, read_records

LOOKED_UP = "${table:labels:mine}"
TASK_LOGGER = "org.sparkconnectrt.testplugins.MisbehavingSourceTask"


@pytest.fixture(scope="module")
def worker(
    tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedKafka, misbehaving_plugins: Path
) -> Iterator[SparkWorkerProcess]:
    settings = {
        "plugin.path": str(misbehaving_plugins),
        "connectrt.java.heap": "128m",
        "connectrt.java.options": "-XX:TieredStopAtLevel=1",
        "config.providers": "table",
        "config.providers.table.class": TABLE,
        "config.providers.table.param.labels.mine": "from Java",
    }
    folder = tmp_path_factory.mktemp("java-parts")
    with SparkWorkerProcess(folder, broker.bootstrap_servers, "e2e-java-parts", properties=settings) as process:
        yield process


def test_a_python_source_goes_through_javas_transformation_converter_and_provider(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    lines = [f"line {number}" for number in range(5_000)]
    (tmp_path / "in.txt").write_text("".join(f"{line}\n" for line in [*lines, "drop"]))
    config = {
        "connector.class": "FileStreamSource",
        "file": str(tmp_path / "in.txt"),
        "topic": "labelled",
        "value.converter": MARKED,
        "value.converter.mark": "M",
        "transforms": "label,route",
        "transforms.label.type": LABEL,
        "transforms.label.label": LOOKED_UP,
        "transforms.route.type": "RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "$1-on",
    }
    bad = {name: value for name, value in config.items() if name != "transforms.label.label"}
    refused = worker.rest.settled("POST", "/connectors", {"name": "bad", "config": bad})
    assert refused.status == 400
    assert 'Missing required configuration "transforms.label.label"' in refused.json()["message"]
    worker.rest.create("parts", config)
    until(
        lambda: count_records(broker.bootstrap_servers, "labelled-on") >= len(lines),
        90,
        "every line arrives",
        lambda: (worker.rest.request("GET", "/connectors/parts/status").json(), worker.log_file.read_text()[-6000:]),
    )
    records = read_records(broker.bootstrap_servers, "labelled-on", len(lines))
    assert sorted(record.value() or b"" for record in records) == sorted(b"M\xfe" + line.encode() for line in lines)
    labels = [record.headers() for record in records]
    assert labels == [[("labelled", b"from Java")]] * len(lines), "what Java's provider had for ${table:labels:mine}"
    assert worker.rest.request("GET", "/connectors/parts").json()["config"]["transforms.label.label"] == LOOKED_UP


def test_a_java_tasks_memory_mbeans_and_lines_are_the_workers(
    worker: SparkWorkerProcess, broker: EmbeddedKafka
) -> None:
    def metrics() -> str:
        return httpx.get(f"http://127.0.0.1:{worker.rest_port}/admin/metrics", timeout=30).text

    config = {"connector.class": SOURCE, "records": "-1", "pause.ms": "200", "batch": "1", "measured": "yes"}
    worker.rest.create("numbers", config)
    tags = 'connector="numbers"'
    until(lambda: f"kafka_connect_java_host_heap_bytes{{{tags}" in metrics(), 90, "memory of its JVM", metrics)
    until(lambda: "misbehaving_polled{" in metrics(), 30, "its MBean", metrics)
    started = 'kafka_connect_plugins_started{connector="numbers"} 1.0'
    until(lambda: started in metrics(), 30, "a metric of the connector, not of a task", metrics)
    log = worker.log_file
    assert worker.rest.request("PUT", f"/admin/loggers/{TASK_LOGGER}", {"level": "DEBUG"}).status == 200
    assert worker.rest.request("POST", "/connectors/numbers/restart?includeTasks=true").status == 202
    until(lambda: "[numbers|task-0] in detail: task 0" in log.read_text(), 60, "a line of level DEBUG")

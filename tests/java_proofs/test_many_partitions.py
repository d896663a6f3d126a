"""A Java source with 100,000 source partitions in a worker: all their offsets are stored, shown, and read back."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.support.java_beside_ours import FAST, LIMIT_S, START_S
from tests.support.java_test_plugins import SOURCE
from tests.support.topic_content import TopicReader
from tests.support.worker_process import SparkWorkerProcess

PARTITIONS = 100_000
NAME = "many"
CONFIG = {"connector.class": SOURCE, "topic": NAME, "partitions": str(PARTITIONS), "batch": "20000"}
pytestmark = pytest.mark.timeout(2 * START_S + 6 * LIMIT_S)


@pytest.fixture
def worker(broker: EmbeddedKafka, tmp_path: Path, misbehaving_plugins: Path) -> Iterator[SparkWorkerProcess]:
    properties = {"plugin.path": str(misbehaving_plugins), **FAST}
    group = f"many-{uuid.uuid4().hex[:8]}"
    worker = SparkWorkerProcess(tmp_path / "worker", broker.bootstrap_servers, group, properties=properties)
    yield worker
    worker.stop()
    worker.rest.close()


@pytest.fixture
def reader(broker: EmbeddedKafka) -> Iterator[TopicReader]:
    reader = TopicReader(broker.bootstrap_servers)
    yield reader
    reader.close()


def await_round(worker: SparkWorkerProcess, reader: TopicReader, rounds: int) -> None:
    """Wait until each partition has sent so many records, each once, and its offset is shown."""
    story = lambda: f"{worker.rest.states(NAME)} {reader.count(NAME)} {worker.log_file.read_text()[-3000:]}"  # noqa: E731
    until(lambda: reader.count(NAME) >= rounds * PARTITIONS, LIMIT_S, f"round {rounds}", story, every_s=0.5)
    until(lambda: stored(worker) == Counter({rounds: PARTITIONS}), LIMIT_S, "offsets are shown", story, every_s=1.0)
    values = Counter(content.value for content in reader.each(NAME))
    assert values == Counter(b"%d:%d" % (partition, turn) for turn in range(rounds) for partition in range(PARTITIONS))


def stored(worker: SparkWorkerProcess) -> Counter[int]:
    """Return how many partitions stand at which offset, as the worker shows them."""
    shown = worker.rest.request("GET", f"/connectors/{NAME}/offsets").json()["offsets"]
    partitions = {(entry["partition"]["task"], entry["partition"]["partition"]) for entry in shown}
    assert len(partitions) == len(shown)
    return Counter(entry["offset"]["n"] for entry in shown)


def test_a_hundred_thousand_offsets_are_read_back(worker: SparkWorkerProcess, reader: TopicReader) -> None:
    worker.start(START_S)
    worker.rest.create(NAME, CONFIG | {"records": "1"})
    await_round(worker, reader, 1)
    worker.stop()
    worker.start(START_S)
    worker.rest.settled("PUT", f"/connectors/{NAME}/config", CONFIG | {"records": "2"})
    await_round(worker, reader, 2)

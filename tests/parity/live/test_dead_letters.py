"""The same bad records through a file sink of Java's worker and of ours: the same dead letters."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.operations.dead_letters.letter_topics import QUEUE
from spark_connect_rt.operations.dead_letters.model import LetterQuery
from tests.integration.kafka.dead_letter_worker import DeadLetterWorker
from tests.support.consumed import consumed
from tests.support.java_connect import JavaConnect
from tests.support.worker_process import SparkWorkerProcess, WorkerProcess

pytestmark = pytest.mark.timeout(600)
IN = "dead-in"
KEY = (7).to_bytes(8, "big")
TIME_MS = int(time.time() * 1000) - 60_000  # an old one would be deleted by retention
Given = tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]  # partition, key, value, headers
RECORDS: tuple[Given, ...] = (
    (0, KEY, b'{"n":"1"}', []),
    (0, KEY, b"{oops", [("mine", b'"kept"')]),
    (1, b"short", b'{"n":"2"}', []),
    (1, None, b'{"n":"no number"}', [("none", None)]),
    (0, KEY, b'{"n":"3"}', [("bad", b"{")]),
    (1, None, b'"no map"', []),
    (0, None, '{"n":"\u00fc'.encode(), []),
    (1, KEY, b'{"n":"4"}', []),
)
BAD = 6
PREFIX = "__connect.errors."
TRACE, MESSAGE = f"{PREFIX}exception.stacktrace", f"{PREFIX}exception.message"
SINK = {
    "connector.class": "FileStreamSink",
    "file": "out.txt",
    "topics": IN,
    "key.converter": "org.apache.kafka.connect.converters.LongConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "header.converter": "org.apache.kafka.connect.json.JsonConverter",
    "header.converter.schemas.enable": "false",
    "transforms": "cast",
    "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
    "transforms.cast.spec": "n:int32",
    "errors.tolerance": "all",
    "errors.log.enable": "true",
    "errors.log.include.messages": "true",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


@dataclass(frozen=True)
class Seen:
    """What one worker made of RECORDS; dead letters in order of (partition, offset) of the bad record."""

    dead: list[dict[str, Any]]
    partitions: int
    lines: list[str]
    logged: list[str]


@pytest.fixture(scope="module")
def input_topic(broker: EmbeddedKafka) -> str:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(IN, 2, 1)])[IN].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    for partition, key, value, headers in RECORDS:
        producer.produce(IN, value, key, partition, timestamp=TIME_MS, headers=headers)
    assert producer.flush(30) == 0
    return IN


@pytest.fixture(scope="module")
def seen(broker: EmbeddedKafka, java: Java, input_topic: str, tmp_path_factory: pytest.TempPathFactory) -> list[Seen]:
    """What Java and ours make of it, both at once."""
    servers, folder = broker.bootstrap_servers, tmp_path_factory.mktemp("dead")
    workers = [
        JavaConnect(folder / "java", servers, "dead-java", java=java),
        SparkWorkerProcess(folder / "ours", servers, "dead-ours"),
    ]
    with ThreadPoolExecutor() as threads:
        return list(threads.map(lambda worker: _seen(worker, servers), workers))


def _seen(worker: WorkerProcess, servers: str) -> Seen:
    queue, out = f"queue-of-{worker.group_id}", worker.directory / "out.txt"
    own = {"errors.deadletterqueue.topic.name": queue, "consumer.override.group.id": f"readers-of-{worker.group_id}"}
    with worker:
        worker.rest.create("dead", SINK | own)
        dead, partitions = _read(servers, queue, BAD)
        good = len(RECORDS) - BAD
        worker.rest.until(lambda: out.exists() and len(out.read_text().splitlines()), good, 240.0, "the good records")
        lines = sorted(out.read_text().splitlines())
    log = worker.log_file.read_text("utf-8", "replace")
    logged = [line[line.index("Error encountered") :] for line in log.splitlines() if "Error encountered" in line]
    return Seen(dead, partitions, lines, sorted(set(logged)))


def _read(servers: str, topic: str, count: int, limit_s: float = 240.0) -> tuple[list[dict[str, Any]], int]:
    """Return the first ``count`` records of a topic that may not be there yet, and its number of partitions."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "read-dead", "enable.auto.commit": False, "log_level": 0}
    )
    deadline, found, partitions = time.monotonic() + limit_s, [], 0
    try:
        while len(found) < count and time.monotonic() < deadline:
            known = consumer.list_topics(timeout=10).topics
            partitions = len(known[topic].partitions) if topic in known else 0
            if not partitions:
                time.sleep(0.1)
                continue
            if not consumer.assignment():
                consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
            found += [_record(message) for message in consumed(consumer, 100, 0.5) if message.error() is None]
    finally:
        consumer.close()
    assert len(found) == count, f"{len(found)} records in {topic} after {limit_s} s"
    return sorted(found, key=lambda letter: (_context(letter)["partition"], _context(letter)["offset"])), partitions


def _record(message: Any) -> dict[str, Any]:
    return {
        "key": message.key(),
        "value": message.value(),
        "partition": message.partition(),
        "timestamp": message.timestamp(),
        "headers": message.headers(),
    }


def _comparable(dead: dict[str, Any]) -> dict[str, Any]:
    headers = [(name, None if name in (TRACE, MESSAGE) else value) for name, value in dead["headers"]]
    return {**dead, "headers": headers}


def test_the_dead_letters_are_javas(seen: list[Seen]) -> None:
    java, ours = seen
    assert list(map(_comparable, ours.dead)) == list(map(_comparable, java.dead))
    assert ours.partitions == java.partitions == 1
    assert ours.lines == java.lines
    assert ours.logged == java.logged
    assert len(java.logged) == BAD
    for theirs, own in zip(map(_context, java.dead), map(_context, ours.dead), strict=True):
        # Java's sentence first; ours may go on with what was wrong.
        assert own["exception.message"].startswith(theirs["exception.message"])
        named = b"%b: %b\n\tat " % (theirs["exception.class.name"], own["exception.message"])
        assert own["exception.stacktrace"].startswith(named)


def _context(dead: dict[str, Any]) -> dict[str, bytes]:
    return {name.removeprefix(PREFIX): value for name, value in dead["headers"]}


def test_both_are_shown_alike(seen: list[Seen], broker: EmbeddedKafka) -> None:
    """Java Connect's letters by our pages: what they were, decoded by the connector's converters."""
    desk = DeadLetterWorker(broker.bootstrap_servers, "dead-pages")
    shown = []
    for who in ("java", "ours"):
        queue = f"queue-of-dead-{who}"
        desk.views.configs = {"dead": SINK | {"name": "dead", QUEUE: queue}}
        letters = desk.desk.page(LetterQuery("dead")).letters
        ordered = sorted(letters, key=lambda letter: (letter.origin.partition or 0, letter.origin.offset or 0))
        shown.append([replace(letter, topic="", offset=0, message="", stacktrace="") for letter in ordered])
        values = [letter.value for letter in ordered]
    desk.close()
    assert shown[0] == shown[1]
    assert len(shown[0]) == len(seen[0].dead) == BAD
    assert {"json": {"n": "no number"}} in values
    broken = next(letter for letter in shown[0] if letter.value is not None and letter.value.get("text") == "{oops")
    assert (broken.stage, broken.connector_name, broken.task) == ("VALUE_CONVERTER", "dead", 0)
    assert (broken.key, [header.value for header in broken.headers]) == ({"json": 7}, [{"json": "kept"}])

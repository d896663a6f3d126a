"""What Apache Kafka's system tests for Connect do (tests/kafkatest/tests/connect), as one story on one group.

Short: two workers whose tasks are threads. ``CONNECTRT_SYSTEM_TESTS=whole``: three as ``spark-submit.sh`` starts them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.support.numbered_lines import duplicates
from tests.system.verifiable_group import SIZE, Numbers, VerifiableGroup, lost
from tests.topics import count_records, read_records, read_values

pytestmark = pytest.mark.timeout(1_800)
MOCK_DELAY_MS = 1_000
RUNNING_TASKS = ["RUNNING"] * SIZE.tasks
TOPICS_CREATION = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}


@pytest.fixture(scope="module")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedKafka) -> Iterator[VerifiableGroup]:
    made = VerifiableGroup(tmp_path_factory.mktemp("system"), broker.bootstrap_servers, "system")
    try:
        made.start()
        yield made
    finally:
        made.close()


def mock(kind: str, mode: str) -> dict[str, str]:
    topics = {"topics": "nothing-here"} if kind == "Sink" else {}
    return {"connector.class": f"Mock{kind}Connector", "mock_mode": mode, "delay_ms": str(MOCK_DELAY_MS)} | topics


@pytest.mark.parametrize("kind", ["Sink", "Source"])
def test_a_connector_that_failed_is_restarted(group: VerifiableGroup, kind: str) -> None:
    name = f"failing-{kind}"
    group.configure(name, mock(kind, "connector-failure"))
    group.await_states(name, "FAILED", ["RUNNING"])
    for path in ("restart", "restart?includeTasks=false&onlyFailed=true", "restart?includeTasks=true&onlyFailed=true"):
        assert group.rest.settled("POST", f"/connectors/{name}/{path}").status in (202, 204)
        group.until(lambda: group.rest.states(name)[0] == "RUNNING", f"{name} runs after {path}")
        group.await_states(name, "FAILED", ["RUNNING"])
    group.rest.delete(name)


@pytest.mark.parametrize("kind", ["Sink", "Source"])
def test_a_task_that_failed_is_restarted(group: VerifiableGroup, kind: str) -> None:
    name = f"failing-task-{kind}"
    # Else the worker would restart it by itself, before anybody asks.
    group.configure(name, mock(kind, "task-failure") | {"errors.restart.policy": "none"})
    group.await_states(name, "RUNNING", ["FAILED"])
    for path in ("tasks/0/restart", "restart?includeTasks=true&onlyFailed=true"):
        assert group.rest.settled("POST", f"/connectors/{name}/{path}").status in (202, 204)
        group.until(lambda: group.rest.states(name) == ("RUNNING", ["RUNNING"]), f"the task runs after {path}")
        group.await_states(name, "RUNNING", ["FAILED"])
    group.rest.delete(name)


def verifiable(group: VerifiableGroup, source: str, sink: str, topic: str) -> None:
    tasks = {"tasks.max": str(SIZE.tasks)}
    more = {"topic": topic, "throughput": "100"} | TOPICS_CREATION
    group.configure(source, {"connector.class": "VerifiableSourceConnector"} | tasks | more)
    group.configure(sink, {"connector.class": "VerifiableSinkConnector", "topics": topic} | tasks)
    for name in (source, sink):
        group.await_states(name, "RUNNING", RUNNING_TASKS)


def grows(group: VerifiableGroup, kind: str, source: str, sink: str) -> bool:
    before = group.numbers(source, sink).count(kind)
    time.sleep(1)
    return group.numbers(source, sink).count(kind) > before


def test_a_pause_ends_what_flows_and_survives_the_workers(group: VerifiableGroup) -> None:
    verifiable(group, "paused-source", "paused-sink", "paused")

    def numbers() -> Numbers:
        return group.numbers("paused-source", "paused-sink")

    group.until(lambda: numbers().count("put") > 0, "records flow")
    for name, kind in (("paused-source", "made"), ("paused-sink", "put")):
        assert group.rest.settled("PUT", f"/connectors/{name}/pause").status == 202
        group.await_states(name, "PAUSED", ["PAUSED"] * SIZE.tasks)
        group.until(lambda kind=kind: not grows(group, kind, "paused-source", "paused-sink"), f"nothing is {kind}")  # type: ignore[misc]
    group.stop()
    group.start()
    for name, kind in (("paused-source", "made"), ("paused-sink", "put")):
        group.await_states(name, "PAUSED", ["PAUSED"] * SIZE.tasks)
        assert not grows(group, kind, "paused-source", "paused-sink")
    for name in ("paused-source", "paused-sink"):
        assert group.rest.settled("PUT", f"/connectors/{name}/resume").status == 202
        group.await_states(name, "RUNNING", RUNNING_TASKS)
    for kind in ("made", "put"):
        group.until(lambda kind=kind: grows(group, kind, "paused-source", "paused-sink"), f"{kind} again")  # type: ignore[misc]
    # Stopped in order: what was acknowledged by the broker was told to the source, to the last record (KIP-779's rule).
    assert group.rest.settled("PUT", "/connectors/paused-source/stop").status == 204
    group.await_states("paused-source", "STOPPED", [])
    in_topic = count_records(group.bootstrap_servers, "paused")
    group.until(lambda: numbers().count("acknowledged") == in_topic, f"commit_record for each of {in_topic}")
    for name in ("paused-source", "paused-sink"):
        group.rest.delete(name)


def bounce(group: VerifiableGroup, number: int, clean: bool) -> None:
    worker = group.workers[number]
    if clean:
        worker.stop()
        worker.properties["rest.advertised.host.name"] = "localhost"  # a rolling restart changes something
    else:
        worker.kill()
    time.sleep(SIZE.flow_s)
    group.start()


def settled_numbers(group: VerifiableGroup, source: str, sink: str) -> Numbers:
    """Stop the source; return what was printed once the sink has all that was acknowledged."""
    assert group.rest.settled("PUT", f"/connectors/{source}/stop").status == 204
    group.await_states(source, "STOPPED", [])

    def arrived() -> bool:
        found = group.numbers(source, sink)
        return all(not lost(found.acknowledged[task], found.put[task]) for task in range(SIZE.tasks))

    group.until(arrived, "all that was acknowledged is put")
    return group.numbers(source, sink)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "unclean"])
def test_bounces_lose_nothing_and_clean_ones_repeat_nothing(group: VerifiableGroup, clean: bool) -> None:
    kind = "clean" if clean else "unclean"
    source, sink = f"{kind}-source", f"{kind}-sink"
    verifiable(group, source, sink, kind)
    group.until(lambda: group.numbers(source, sink).count("put") > 0, "records flow")
    for _ in range(SIZE.rounds):
        for number in range(SIZE.workers):
            bounce(group, number, clean)
            time.sleep(SIZE.flow_s)
    for name in (source, sink):
        group.await_states(name, "RUNNING", RUNNING_TASKS)
        at = {
            task["worker_id"].partition(":")[0]
            for task in group.rest.request("GET", f"/connectors/{name}/status").json()["tasks"]
        }
        assert at == {"localhost"} or not clean, "every worker came again with its new setting"
    found = settled_numbers(group, source, sink)
    for task in range(SIZE.tasks):
        assert found.acknowledged[task], "it moved something"
        assert lost(found.acknowledged[task], found.put[task]) == [], "what was acknowledged arrives"
        if clean:
            assert duplicates(found.acknowledged[task]) == 0, "work that moves in order sends nothing twice"
            assert duplicates(found.put[task]) == 0, "nor puts anything twice"
            assert lost(found.made[task], found.acknowledged[task]) == [], "commit_record for each that was made"
    for name in (source, sink):
        group.rest.delete(name)


def test_topics_that_are_references_and_lines_that_survive_bounces_of_all(group: VerifiableGroup) -> None:
    folder = group.folder
    (folder / "external.properties").write_text("topic.external=external-lines\npartitions=3\n")
    reference = f"${{file:{folder / 'external.properties'}:topic.external}}"
    lines, out = folder / "in.txt", folder / "out.txt"
    lines.write_text("one\ntwo\n")
    text = {f"{side}.converter": "org.apache.kafka.connect.storage.StringConverter" for side in ("key", "value")}
    partitions = {"topic.creation.default.partitions": f"${{file:{folder / 'external.properties'}:partitions}}"}
    source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": reference}
    group.configure("file-source", source | text | TOPICS_CREATION | partitions)
    group.configure("file-sink", {"connector.class": "FileStreamSink", "file": str(out), "topics": reference} | text)
    group.until(lambda: out.exists() and sorted(out.read_text().split()) == ["one", "two"], "two lines are there")
    group.stop()
    with lines.open("a") as more:
        more.write("three\nfour\n")
    group.start()
    group.until(lambda: sorted(out.read_text().split()) == ["four", "one", "three", "two"], "four lines are there")
    assert group.rest.request("GET", "/connectors/file-sink/config").json()["topics"] == reference
    for name in ("file-source", "file-sink"):
        group.rest.delete(name)


def test_transformations_of_a_source(group: VerifiableGroup) -> None:
    lines = group.folder / "transformed.txt"
    lines.write_text("a\nb\n")
    begun_ms = time.time() * 1000
    chain = {
        "transforms": "hoistToStruct,insertTimestampField",
        "transforms.hoistToStruct.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.hoistToStruct.field": "content",
        "transforms.insertTimestampField.type": "org.apache.kafka.connect.transforms.InsertField$Value",
        "transforms.insertTimestampField.timestamp.field": "ts",
    }
    schemas = {
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": "true",
    }
    source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "transformed"}
    group.configure("transformed", source | chain | schemas | TOPICS_CREATION)
    group.until(lambda: count_records(group.bootstrap_servers, "transformed") == 2, "both lines are there")
    values = [json.loads(value or b"null") for value in read_values(group.bootstrap_servers, "transformed", 2)]
    assert [value["payload"]["content"] for value in values] == ["a", "b"]
    for value in values:
        assert begun_ms - 60_000 < value["payload"]["ts"] < time.time() * 1000 + 60_000
        assert [part["field"] for part in value["schema"]["fields"]] == ["content", "ts"]
    group.rest.delete("transformed")


@pytest.mark.parametrize("tolerance", ["all", "none"])
def test_records_that_cannot_be_read_go_to_the_dead_letters_or_fail_the_task(
    group: VerifiableGroup, tolerance: str
) -> None:
    text = {f"{side}.converter": "org.apache.kafka.connect.storage.StringConverter" for side in ("key", "value")}
    topic, letters = f"bad-{tolerance}", f"letters-{tolerance}"
    lines, out = group.folder / f"{topic}.txt", group.folder / f"{topic}-out.txt"
    lines.write_text('{"good": 1}\nnot json\n{"good": 2}\n')
    source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": topic}
    group.configure(f"{topic}-source", source | text | TOPICS_CREATION)
    sink = {
        "connector.class": "FileStreamSink",
        "file": str(out),
        "topics": topic,
        "errors.tolerance": tolerance,
        "errors.restart.policy": "none",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    group.configure(f"{topic}-sink", sink)
    if tolerance == "all":
        group.until(lambda: out.exists() and len(out.read_text().splitlines()) == 2, "the good ones are there")
        group.until(lambda: count_records(group.bootstrap_servers, letters) == 1, "the bad one is a dead letter")
        (letter,) = read_records(group.bootstrap_servers, letters, 1)
        assert letter.value() == b"not json"
        headers = dict(letter.headers() or [])
        assert headers["__connect.errors.topic"] == topic.encode()
        assert headers["__connect.errors.stage"] == b"VALUE_CONVERTER"
        group.await_states(f"{topic}-sink", "RUNNING", ["RUNNING"])
    else:
        group.await_states(f"{topic}-sink", "RUNNING", ["FAILED"])
        assert not out.exists() or "not json" not in out.read_text()
        # As docs/howto/errant_records.md says: the record that fails the task is in the queue, too.
        group.until(lambda: count_records(group.bootstrap_servers, letters) == 1, "the bad one is a dead letter")
    for name in (f"{topic}-source", f"{topic}-sink"):
        group.rest.delete(name)


def test_levels_of_loggers_change_on_one_worker_or_on_all(group: VerifiableGroup) -> None:
    name = "org.apache.kafka.connect.runtime"

    def level(worker: Any) -> str | None:
        answer = worker.rest.request("GET", f"/admin/loggers/{name}")
        return answer.json()["level"] if answer.status == 200 else None

    first, *others = group.workers
    assert first.rest.request("PUT", f"/admin/loggers/{name}", {"level": "DEBUG"}).json() == [name]
    assert level(first) == "DEBUG"
    assert "DEBUG" not in map(level, others)
    assert first.rest.request("PUT", f"/admin/loggers/{name}?scope=cluster", {"level": "WARN"}).status == 204
    for worker in group.workers:
        group.until(lambda worker=worker: level(worker) == "WARN", "the level reaches every worker")  # type: ignore[misc]
    group.rest.request("PUT", f"/admin/loggers/{name}?scope=cluster", {"level": "INFO"})

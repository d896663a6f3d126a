"""One worker process on a real broker, driven by REST alone: a connector's whole life, bad input, kill -9."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from starlette.responses import Response

from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.connectors.samples.datagen_source import parse_fields, row_schema, rows
from tests.e2e.commands import until
from tests.e2e.conftest import Times
from tests.e2e.console_stories import the_console_shows_executors
from tests.e2e.example_stories import PLUGINS, Examples
from tests.e2e.java_stories import ON_JAVA, drivers_jvm, java_plugin_path
from tests.e2e.letter_stories import letters_reach_a_sink
from tests.e2e.log_stories import a_task_is_read_without_sparks_pages, chatty_plugin, logged_lines
from tests.e2e.page_stories import run_pages
from tests.e2e.preview_stories import (
    Previews,
    a_sink_is_previewed,
    a_source_is_previewed,
    hanging_plugin,
    one_that_hangs_is_ended,
)
from tests.e2e.program_stories import ROWS, ProgramConnectors
from tests.e2e.rest_clients import RestClients
from tests.integration.http_service import HttpService
from tests.integration.kafka.http_and_kafka import NO_JSON, REFUSED, FourConnectors, Inbox, Items
from tests.integration.programs.program_runs import KINDS
from tests.support.command_line import commands_at, lead_through_its_life
from tests.support.schema_registry import SchemaRegistry
from tests.support.worker_process import SparkWorkerProcess
from tests.topics import count_records, partition_count, read_values

JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedKafka) -> Iterator[SparkWorkerProcess]:
    java = java_plugin_path(tmp_path_factory.mktemp("java-plugins"))
    hanging = hanging_plugin(tmp_path_factory.mktemp("hanging-plugin"))
    chatty = chatty_plugin(tmp_path_factory.mktemp("chatty-plugin"))
    folder = tmp_path_factory.mktemp("worker")
    settings = {"plugin.path": f"{PLUGINS},{java},{hanging},{chatty}", "connectrt.programs": "*/sample-program"}
    settings |= {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    process = SparkWorkerProcess(folder, broker.bootstrap_servers, "e2e-worker", properties=settings)
    with process:
        yield process


def lines_of(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def trace_of(worker: SparkWorkerProcess, name: str) -> str:
    status = worker.rest.request("GET", f"/connectors/{name}/status").json()
    return str(status["tasks"][0].get("trace", "")) if status["tasks"] else ""


def test_lines_flow_through_kafka_into_a_file_and_the_connectors_obey(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    rest, source, target = worker.rest, tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("a\nb\n")
    rest.create("in", {"connector.class": "FileStreamSource", "file": str(source), "topic": "flow"})
    rest.create("out", {"connector.class": "FileStreamSink", "file": str(target), "topics": "flow"})
    until(lambda: lines_of(target) == ["a", "b"], 90, "two lines arrive", lambda: worker.log_file.read_text()[-2000:])

    assert rest.request("PUT", "/connectors/in/pause").status == 202
    rest.await_states("in", "PAUSED", ["PAUSED"])
    with source.open("a") as file:
        file.write("c\n")
    assert rest.request("PUT", "/connectors/in/resume").status == 202
    rest.await_states("in", "RUNNING", ["RUNNING"])
    until(lambda: lines_of(target) == ["a", "b", "c"], 30, "the line written during the pause arrives once resumed")

    assert rest.request("POST", "/connectors/in/restart?includeTasks=true").status == 202
    rest.await_states("in", "RUNNING", ["RUNNING"])
    assert rest.request("POST", "/connectors/out/tasks/0/restart").status == 204
    with source.open("a") as file:
        file.write("d\n")
    until(lambda: lines_of(target)[-1:] == ["d"], 60, "a line after the restarts arrives")
    assert lines_of(target) == ["a", "b", "c", "d"]

    def offsets(name: str) -> object:
        return rest.request("GET", f"/connectors/{name}/offsets").json()["offsets"]

    until(lambda: offsets("in")[0]["offset"] == {"position": 8}, 10, "the source's offset", lambda: offsets("in"))
    until(lambda: offsets("out")[0]["offset"] == {"kafka_offset": 4}, 10, "the sink's offset", lambda: offsets("out"))

    second = tmp_path / "second.txt"
    second.write_text("x\n")
    config = {"connector.class": "FileStreamSource", "file": str(second), "topic": "flow"}
    assert rest.settled("PUT", "/connectors/in/config", config).status == 200
    until(lambda: lines_of(target)[-1:] == ["x"], 60, "the reconfigured source reads the other file")

    lives = {
        name: "\n".join(line["message"] for line in logged_lines(worker, f"{name}/logs")) for name in ("in", "out")
    }
    assert all(words in lives["in"] for words in ("UNASSIGNED -> RUNNING", "RUNNING -> PAUSED")), lives
    assert "assigned flow-0@" in lives["out"]
    assert not [line for line in worker.log_file.read_text().splitlines() if line.startswith("Traceback")]
    for name in ("in", "out"):
        rest.delete(name)
    until(lambda: rest.request("GET", "/connectors").json() == [], 10, "no connector is left")
    assert rest.request("GET", "/connectors/in/status").status == 404
    assert count_records(broker.bootstrap_servers, "flow") == 5


def test_file_provider_values_apply_to_source_and_sink_and_are_never_shown(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    rest, source, target = worker.rest, tmp_path / "in.txt", tmp_path / "out.txt"
    settings = tmp_path / "external.properties"
    settings.write_text("topic=external\npartitions=3\ntasks=1\ngroup=external-group\n")
    source.write_text("a\nb\nc\n")

    def said(key: str) -> str:
        return f"${{file:{settings}:{key}}}"

    creation = "topic.creation.default."
    made = {f"{creation}partitions": said("partitions"), f"{creation}replication.factor": "1"}
    common = {"tasks.max": said("tasks")}
    reads = {"connector.class": "FileStreamSource", "file": str(source), "topic": said("topic"), **made, **common}
    writes = {"connector.class": "FileStreamSink", "file": str(target), "topics": said("topic"), **common}
    rest.create("refers-in", reads)
    arrived = partial(count_records, broker.bootstrap_servers, "external")
    until(lambda: arrived() == 3, 60, "the source's lines", lambda: trace_of(worker, "refers-in"))
    rest.create("refers-out", {**writes, "consumer.override.group.id": said("group")})
    until(lambda: sorted(lines_of(target)) == ["a", "b", "c"], 60, "lines", lambda: trace_of(worker, "refers-out"))
    assert partition_count(broker.bootstrap_servers, "external") == 3

    def committed() -> int:
        found = rest.request("GET", "/connectors/refers-out/offsets").json()["offsets"]
        return sum(entry["offset"]["kafka_offset"] for entry in found)

    until(lambda: committed() == 3, 30, "the sink's offsets are those of its group")
    shown = rest.request("GET", "/connectors/refers-out/config").json()
    (task,) = rest.request("GET", "/connectors/refers-out/tasks").json()
    assert (shown["topics"], task["config"]["topics"]) == (said("topic"), said("topic"))
    for name in ("refers-in", "refers-out"):
        rest.delete(name)


def test_javas_file_connectors_live_through_everything_that_pythons_do(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    rest, source, target = worker.rest, tmp_path / "in.txt", tmp_path / "out.txt"
    name = "org.apache.kafka.connect.file.FileStreamSourceConnector"
    assert {"class": name, "type": "source", "version": "4.1.1"} in rest.request("GET", "/connector-plugins").json()
    (broken,) = [
        plugin for plugin in rest.request("GET", "/admin/plugins").json()["broken"] if plugin["name"] == "broken.jar"
    ]
    assert "is not a valid jar" in broken["error"]
    lines = [f"line {number}" for number in range(20_000)]
    source.write_text("".join(f"{line}\n" for line in lines))
    reads = {"connector.class": "FileStreamSource", "file": str(source), "topic": "java-flow", **ON_JAVA}
    found = rest.settled("POST", "/connectors", {"name": "jin", "config": {**reads, "batch.size": "many"}})
    assert (found.status, "Not a number of type INT" in found.json()["message"]) == (400, True)
    levels = "/admin/loggers/org.apache.kafka.connect.file"
    assert rest.request("PUT", levels, {"level": "DEBUG"}).status == 200
    rest.create("jin", reads)
    rest.create("jout", {"connector.class": "FileStreamSink", "file": str(target), "topics": "java-flow", **ON_JAVA})

    def arrive(what: str) -> None:
        until(lambda: lines_of(target) == lines, 120, what, lambda: (trace_of(worker, "jin"), trace_of(worker, "jout")))

    def append(line: str) -> None:
        lines.append(line)
        with source.open("a") as file:
            file.write(f"{line}\n")

    arrive("every line arrives")
    assert rest.request("GET", "/connectors/jin/status").json()["connector"]["version"] == "4.1.1"
    (task,) = rest.request("GET", "/connectors/jin/tasks").json()
    assert task["config"]["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"

    def logged() -> list[str]:
        return [
            entry["logger"] for entry in logged_lines(worker, "jin/tasks/0/logs") if "[jin|task-0]" in entry["message"]
        ]

    own = "org.apache.kafka.connect.file.FileStreamSourceTask"
    until(lambda: own in logged(), 30, "the task's lines come from its executor", logged)
    assert rest.request("PUT", levels, {"level": "INFO"}).status == 200

    assert rest.request("PUT", "/connectors/jin/pause").status == 202
    rest.await_states("jin", "PAUSED", ["PAUSED"])
    append("while paused")
    assert rest.request("PUT", "/connectors/jin/resume").status == 202
    rest.await_states("jin", "RUNNING", ["RUNNING"])
    arrive("what was written during the pause arrives once resumed")

    killed = drivers_jvm(worker)
    assert killed is not None
    killed.kill()
    append("after the driver's JVM")
    arrive("tasks do not need the driver's JVM")
    until(lambda: (now := drivers_jvm(worker)) is not None and now.pid != killed.pid, 60, "another JVM is started")
    assert rest.request("POST", "/connectors/jin/restart?includeTasks=true").status == 202
    rest.await_states("jin", "RUNNING", ["RUNNING"])
    append("after a restart")
    arrive("a line after the restart arrives")

    read = len("".join(f"{line}\n" for line in lines))
    place = {"partition": {"filename": str(source)}, "offset": {"position": read}}
    offsets = partial(rest.request, "GET", "/connectors/jin/offsets")
    until(lambda: offsets().json() == {"offsets": [place]}, 30, "the offset", lambda: offsets().json())
    assert rest.request("PUT", "/connectors/jin/stop").status == 204
    until(lambda: rest.states("jin") == ("STOPPED", []), 60, "the source is stopped", lambda: rest.states("jin"))
    wrong = {"offsets": [{**place, "offset": {"position": -1}}]}
    assert rest.settled("PATCH", "/connectors/jin/offsets", wrong).status >= 400
    back = {"offsets": [{**place, "offset": {"position": read - len("after a restart\n")}}]}
    assert rest.settled("PATCH", "/connectors/jin/offsets", back).status == 200
    lines.append("after a restart")
    assert rest.request("PUT", "/connectors/jin/resume").status == 202
    arrive("the last line is read once more")
    assert rest.request("PUT", "/connectors/jin/stop").status == 204
    until(lambda: rest.states("jin") == ("STOPPED", []), 60, "the source is stopped again")
    assert rest.settled("DELETE", "/connectors/jin/offsets").status == 200
    assert offsets().json() == {"offsets": []}
    for connector in ("jin", "jout"):
        rest.delete(connector)


def test_the_examples_do_what_their_page_says(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    examples = Examples(worker.rest, broker.bootstrap_servers, tmp_path)
    names = examples.deploy()
    assert len(names) == 5
    assert examples.values("example-lines", 1) == [b"card 4111 1111 1111 1234"]
    assert examples.values("example-masked", 1) == [b"card **** **** **** 1234"]
    numbers = [json.loads(value)["number"] for value in examples.values("example-countdown", 1_000) if value]
    assert sorted(numbers) == list(range(1, 1_001))
    assert examples.values("example-csv", 3) == [b"3,False", b"2,True", b"1,False"]
    until(lambda: examples.table_rows() == 1_000, 120, "the table has every number", examples.states)
    for name in names:
        worker.rest.delete(name)


def test_generated_records_flow_as_avro_into_a_file_and_a_tombstone_passes(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    rest, target, count = worker.rest, tmp_path / "users.txt", 500
    with SchemaRegistry() as registry:
        avro = {
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": registry.url,
        }
        users = {"datagen.schema": "users", "datagen.key.field": "userid", "datagen.max.records": str(count)}
        rest.create("users", {"connector.class": "DatagenSource", "topic": "users", **users, **avro})
        until(lambda: count_records(broker.bootstrap_servers, "users") == count, 90, "every record is in the topic")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        producer.produce("users", None, "User_1")
        assert producer.flush(30) == 0
        rest.create("file", {"connector.class": "FileStreamSink", "file": str(target), "topics": "users", **avro})
        until(
            lambda: len(lines_of(target)) == count + 1,
            90,
            "every record is in the file",
            lambda: trace_of(worker, "file"),
        )
        fields = parse_fields("users")
        schema = row_schema(fields, None)
        # Datagen's task 0 with the default seed: record n is known.
        wanted = [repr(Struct.from_mapping(schema, row)) for row in rows(fields, 0, 0, count).to_pylist()]
        assert lines_of(target) == [*wanted, "null"]
        assert list(registry.shelf.subjects) == ["users-value"]
        offsets = partial(rest.request, "GET", "/connectors/users/offsets")
        stored = [{"partition": {"task": 0}, "offset": {"n": count}}]
        until(lambda: offsets().json()["offsets"] == stored, 60, "the source's offset", offsets)
        for name in ("users", "file"):
            rest.delete(name)


def test_previews_on_executors_leave_nothing_behind_and_one_that_hangs_is_ended(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path, times: Times
) -> None:
    topic = "to-be-previewed"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in ("1", "2", "3"):
        producer.produce(topic, value)
    assert producer.flush(30) == 0
    previews = Previews(worker, broker.bootstrap_servers)
    before = previews.world()
    for kind, seconds in a_source_is_previewed(previews, tmp_path).items():
        times.note("preview", f"two records of a {kind} source took", f"{seconds:.1f} s")
    a_sink_is_previewed(previews, topic, [1, 2, 3])
    took = one_that_hangs_is_ended(previews, tmp_path)
    assert previews.world() == before
    times.note("preview", "one that hangs, limit 5 s, was ended after", f"{took:.1f} s")


def test_dead_letters_are_edited_and_replayed_into_the_sink(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    letters_reach_a_sink(worker.rest, broker, tmp_path)


def test_task_log_of_an_executor_is_read_by_rest(worker: SparkWorkerProcess, times: Times) -> None:
    times.note("logs", "a task", a_task_is_read_without_sparks_pages(worker, 20_000))


def test_the_console_shows_what_runs_on_executors(worker: SparkWorkerProcess, tmp_path: Path) -> None:
    the_console_shows_executors(worker, tmp_path)


def test_an_unknown_connector_class_is_refused_naming_what_there_is(worker: SparkWorkerProcess) -> None:
    answer = worker.rest.settled("POST", "/connectors", {"name": "no", "config": {"connector.class": "NoSuch"}})
    assert answer.status in (400, 500)
    message = answer.json()["message"]
    assert "Failed to find any class that implements Connector" in message
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in message
    assert worker.rest.request("GET", "/connectors/no").status == 404


def test_every_wrong_setting_is_reported_at_once(worker: SparkWorkerProcess) -> None:
    config = {"connector.class": "FileStreamSink", "tasks.max": "0", "errors.tolerance": "some", "file": "x"}
    answer = worker.rest.settled("POST", "/connectors", {"name": "bad", "config": config})
    assert answer.status == 400
    message = answer.json()["message"]
    assert "tasks.max" in message
    assert "errors.tolerance" in message
    assert "topics" in message


def test_a_missing_csv_fails_its_task_and_no_other(worker: SparkWorkerProcess, tmp_path: Path) -> None:
    rest, good = worker.rest, tmp_path / "good.csv"
    good.write_text("id\n1\n")
    common = {"connector.class": "DelimitedFileSource", **JSON}
    rest.create("good", {**common, "file": str(good), "topic": "good"})
    rest.await_states("good", "RUNNING", ["RUNNING"])
    rest.create("gone", {**common, "file": str(tmp_path / "gone.csv"), "topic": "gone"})
    rest.await_states("gone", "RUNNING", ["FAILED"])
    assert f"{tmp_path / 'gone.csv'}" in trace_of(worker, "gone")
    assert "does not exist where the task runs" in trace_of(worker, "gone")
    with good.open("a") as file:
        file.write("2\n")
    until(lambda: rest.states("good") == ("RUNNING", ["RUNNING"]), 5, "the neighbour runs")
    rest.delete("gone")
    rest.delete("good")


def test_an_unreadable_row_fails_the_task_or_is_skipped_and_counted(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    rest, path = worker.rest, tmp_path / "rows.csv"
    path.write_text("id,n\n1,1\n2,two\n3,3\n")
    config = {"connector.class": "DelimitedFileSource", "file": str(path), "schema": "n:int32", **JSON}
    rest.create("strict", {**config, "topic": "strict"})
    rest.await_states("strict", "RUNNING", ["FAILED"])
    assert "line 3" in trace_of(worker, "strict")
    assert "offset 9" in trace_of(worker, "strict")
    assert str(path) in trace_of(worker, "strict")

    rest.create("lax", {**config, "topic": "lax", "errors.tolerance": "all"})
    until(lambda: count_records(broker.bootstrap_servers, "lax") == 2, 60, "the two good rows arrive")
    values = read_values(broker.bootstrap_servers, "lax", 2)
    assert sorted(values) == [b'{"id":"1","n":1}', b'{"id":"3","n":3}']

    def skipped() -> int:
        tasks = rest.request("GET", "/admin/progress").json()["tasks"]
        return next(task["skipped"] for task in tasks if task["task"]["connector"] == "lax")

    until(lambda: skipped() == 1, 10, "the skipped row is counted", skipped)
    rest.delete("strict")
    rest.delete("lax")


def test_files_of_a_directory_are_read_once_and_leave_when_their_offsets_are_stored(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    rest, folder = worker.rest, tmp_path / "in"
    folder.mkdir()
    for number in range(5):
        table = pa.table({"n": range(number * 1_000, (number + 1) * 1_000)})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=300)
    (folder / "bad.parquet").write_bytes(b"nothing of the kind")
    config = {
        "connector.class": "DirectorySource",
        "tasks.max": "2",
        "directory": str(folder),
        "format": "parquet",
        "topic": "directory",
        "file.done": "delete",
        "file.error.directory": str(tmp_path / "bad"),
        **JSON,
    }
    rest.create("directory", config)
    until(lambda: not list(folder.iterdir()), 120, "every file leaves", lambda: sorted(folder.iterdir()))
    assert [path.name for path in (tmp_path / "bad").iterdir()] == ["bad.parquet"]
    offsets = rest.request("GET", "/connectors/directory/offsets").json()["offsets"]
    read = {Path(offset["partition"]["file"]).name: offset["offset"]["row"] for offset in offsets}
    assert read == {f"{number}.parquet": 1_000 for number in range(5)}

    assert rest.request("POST", "/connectors/directory/restart?includeTasks=true").status == 202
    pq.write_table(pa.table({"n": range(5_000, 5_010)}), folder / "last.parquet")
    until(lambda: not list(folder.iterdir()), 120, "the last file leaves", lambda: sorted(folder.iterdir()))
    values = read_values(broker.bootstrap_servers, "directory", 5_010)
    assert sorted(json.loads(value or b"")["n"] for value in values) == list(range(5_010))
    assert count_records(broker.bootstrap_servers, "directory") == 5_010
    rest.delete("directory")


def test_a_sink_whose_disk_is_full_fails_clearly(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    rest, source = worker.rest, tmp_path / "full.txt"
    source.write_text("line\n")
    rest.create("full-in", {"connector.class": "FileStreamSource", "file": str(source), "topic": "full"})
    rest.create("full-out", {"connector.class": "FileStreamSink", "file": "/dev/full", "topics": "full"})
    rest.await_states("full-out", "RUNNING", ["FAILED"])
    assert "No space left on device" in trace_of(worker, "full-out")
    offsets = rest.request("GET", "/connectors/full-out/offsets").json()["offsets"]
    assert all(entry["offset"]["kafka_offset"] == 0 for entry in offsets)
    rest.delete("full-out")
    rest.delete("full-in")


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> RestClients:
    return RestClients(tmp_path_factory.mktemp("clients"))


@contextlib.contextmanager
def ended_afterwards(process: subprocess.Popen[str]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait(30)


def test_the_command_line_of_kafka_connect_py_leads_a_connector_through_its_life(
    worker: SparkWorkerProcess, clients: RestClients, tmp_path: Path
) -> None:
    rest, source, url = worker.rest, tmp_path / "in.txt", worker.rest.url
    source.write_text("a\n")
    config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "by-client"}
    assert clients.kc(url, "info").keys() == {"version", "commit", "kafka_cluster_id"}
    created = clients.kc(url, "create", "-d", json.dumps({"name": "by-client", "config": config}))
    assert created["config"] == {**config, "name": "by-client"}
    rest.await_states("by-client", "RUNNING", ["RUNNING"])
    assert clients.kc(url, "list", "-p", "by-.*", "-s", "running") == ["by-client"]
    assert clients.kc(url, "list", "-e", "status")["by-client"]["status"]["tasks"][0]["state"] == "RUNNING"
    assert clients.kc(url, "get", "by-client")["tasks"] == [{"connector": "by-client", "task": 0}]
    changed = clients.kc(url, "update", "by-client", "-d", json.dumps({**config, "batch.size": "5"}))
    assert changed["config"]["batch.size"] == "5"
    rest.await_states("by-client", "RUNNING", ["RUNNING"])
    assert clients.kc(url, "restart", "by-client", "--include-tasks")["name"] == "by-client"
    rest.await_states("by-client", "RUNNING", ["RUNNING"])
    clients.kc(url, "pause", "by-client")
    rest.await_states("by-client", "PAUSED", ["PAUSED"])
    clients.kc(url, "resume", "--all", "--pattern", "by-.*")
    rest.await_states("by-client", "RUNNING", ["RUNNING"])
    assert clients.kc(url, "list-tasks", "by-client")[0]["config"]["file"] == str(source)
    topics = {"by-client": {"topics": ["by-client"]}}
    until(lambda: clients.kc(url, "list-topics", "by-client") == topics, 60, "its topic is known")
    classes = {plugin["class"] for plugin in clients.kc(url, "list-plugins")}
    assert "org.apache.kafka.connect.file.FileStreamSourceConnector" in classes
    clients.kc(url, "delete", "by-client")
    assert "by-client" not in clients.kc(url, "list")


def test_our_command_line_leads_a_connector_through_its_life(worker: SparkWorkerProcess, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    connectrt = commands_at(worker.rest.url, tmp_path)
    lead_through_its_life(connectrt, folder, java=False)
    history = connectrt("history", "cli-lines").out
    assert "alter" in history
    assert "delete" in history
    assert "connector cli-lines is created" in connectrt("events", "cli-lines").out


def test_commands_of_the_pages_run(
    worker: SparkWorkerProcess,
    broker: EmbeddedKafka,
    tmp_path: Path,
    times: Times,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun_s, path = time.monotonic(), list(sys.path)
    monkeypatch.setattr(sys, "path", path)  # `connectrt dev` adds the folders of its projects
    ran = run_pages(worker, broker.bootstrap_servers, tmp_path, monkeypatch.chdir)
    times.note("pages", f"{ran} commands", f"{time.monotonic() - begun_s:.0f} s")
    assert ran >= 80


def test_health_check_and_watcher_see_a_failed_task_and_the_watcher_fixes_it(
    worker: SparkWorkerProcess, clients: RestClients, tmp_path: Path
) -> None:
    rest, late, port = worker.rest, tmp_path / "late.csv", free_ports(1)[0]

    def health() -> tuple[int, list[str]]:
        try:
            answer = httpx.get(f"http://127.0.0.1:{port}/", timeout=30, trust_env=False)
        except httpx.HTTPError:
            return 0, []
        return answer.status_code, [f"{failure['connector']}-{failure['id']}" for failure in answer.json()["failures"]]

    with ended_afterwards(clients.healthcheck(rest.url, port, tmp_path / "health.log")):
        until(lambda: health() == (200, []), 60, "no connector: healthy", health)
        rest.create("late", {"connector.class": "DelimitedFileSource", "file": str(late), "topic": "late", **JSON})
        rest.await_states("late", "RUNNING", ["FAILED"])
        until(lambda: health() == (503, ["late-0"]), 30, "the failed task is found", health)
        late.write_text("id\n1\n")
        rules = [{"include_regex": ["late"], "auto_correct_actions": [{"action": "cycle"}]}]
        cluster = {"hostname": "127.0.0.1", "port": worker.rest_port, "evaluation_rules": rules}
        config = tmp_path / "watcher.yaml"
        config.write_text(json.dumps({"clusters": [cluster], "watch_interval": "5s"}))
        log = tmp_path / "watcher.log"
        with ended_afterwards(clients.watcher(config, log)):
            until(lambda: "Applied corrective action 'cycle'" in log.read_text(), 60, "it acts", log.read_text)
            until(lambda: rest.states("late") == ("RUNNING", ["RUNNING"]), 90, "it runs", lambda: rest.states("late"))
        until(lambda: health() == (200, []), 30, "healthy again", health)
    rest.delete("late")


def test_kill_9_loses_no_line_and_duplicates_are_counted(broker: EmbeddedKafka, tmp_path: Path) -> None:
    source, target = tmp_path / "in.txt", tmp_path / "out.txt"
    total = 200_000
    source.write_text("".join(f"{number:08d}\n" for number in range(total)))
    table = tmp_path / "table"
    table.mkdir()
    pq.write_table(pa.table({"id": range(15_000)}), table / "a.parquet")
    from_spark = {
        "connector.class": "SparkFormatSource",
        "spark.format": "parquet",
        "path": str(table),
        "spark.mode": "incremental",
        "spark.incremental.column": "id",
        "batch.max.records": "3000",
        "topic": "kill-spark",
        "value.converter": "org.apache.kafka.connect.converters.LongConverter",
        "transforms": "id",
        "transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Value",
        "transforms.id.field": "id",
    }
    worker = SparkWorkerProcess(tmp_path / "worker", broker.bootstrap_servers, "e2e-kill")
    worker.start()
    try:
        rest = worker.rest
        rest.create("kill-in", {"connector.class": "FileStreamSource", "file": str(source), "topic": "kill"})
        rest.create("kill-out", {"connector.class": "FileStreamSink", "file": str(target), "topics": "kill"})
        rest.create("kill-spark", from_spark)
        until(lambda: len(lines_of(target)) > 0, 240, "the sink writes", lambda: worker.log_file.read_text()[-2000:])
        sent = partial(count_records, broker.bootstrap_servers, "kill-spark")
        until(lambda: sent() > 0, 240, "Spark's rows arrive", lambda: worker.log_file.read_text()[-2000:])
        worker.kill()
        worker.start()
        wanted = {f"{number:08d}" for number in range(total)}
        until(lambda: wanted <= set(lines_of(target)), 120, "every line", lambda: len(set(lines_of(target))))
        # The kill may have torn the last write: half a line, and behind it the first that is written again.
        lines = [line for line in lines_of(target) if len(line) == 8]
        assert len(lines_of(target)) - len(lines) <= 1
        assert set(lines) == {f"{number:08d}" for number in range(total)}
        in_topic = count_records(broker.bootstrap_servers, "kill")
        print(f"lines {total}, in the topic {in_topic}, in the file {len(lines)}")
        assert in_topic - total < total
        assert len(lines) - in_topic < total

        def offset() -> Any:
            answer = rest.request("GET", "/connectors/kill-spark/offsets")
            return [entry["offset"]["value"] for entry in answer.json().get("offsets", ())]

        until(lambda: offset() == [14_999], 240, "the offset of Spark's last row", offset)
        arrived = [
            int.from_bytes(value or b"") for value in read_values(broker.bootstrap_servers, "kill-spark", sent())
        ]
        assert set(arrived) == set(range(15_000))
        print(f"rows of Spark 15000, in the topic {len(arrived)}")
        assert len(arrived) <= 15_000 + 3_000
    finally:
        worker.stop()


def test_http_and_kafka_connectors_on_spark(worker: SparkWorkerProcess, broker: EmbeddedKafka) -> None:
    """The kill is in tests/integration/kafka, where a start is cheap."""
    bad = {1: Response(status_code=500), 2: Response(b"<html>no JSON</html>")}
    items, inbox, every = Items(60, bad.get), Inbox(), set(range(1, 61))
    with HttpService(items) as feed, HttpService(inbox) as target:
        four = FourConnectors("e2e-four", broker.bootstrap_servers, feed, target)
        four.create(worker.rest)
        four.add_what_is_no_json()

        def arrived() -> bool:
            at_the_end = set(inbox.taken) >= every - {REFUSED} and set(four.numbers(four.sunk)) >= every
            return at_the_end and NO_JSON in four.values(four.dead_records)

        until(arrived, 120, "every item at both ends", lambda: (len(inbox.taken), worker.log_file.read_text()[-2000:]))
        states = {name: worker.rest.states(name) for name in four.configs()}
        assert states == {name: ("RUNNING", ["RUNNING"]) for name in states}
        assert set(four.stages(four.dead_records)) == {b"VALUE_CONVERTER", b"TASK_PUT"}
        assert four.values(four.dead_items) == [b"<html>no JSON</html>"]
        for name in four.configs():
            worker.rest.delete(name)


def test_killed_singer_and_airbyte_programs_or_slots_lose_nothing(
    worker: SparkWorkerProcess, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    """Last: the slot that is killed is everybody's."""
    programs = ProgramConnectors(tmp_path, broker.bootstrap_servers)
    programs.create(worker.rest)

    def said() -> str:
        return worker.log_file.read_text()[-2000:]

    def flows(rows: int) -> bool:
        return all(programs.records(kind) > rows for kind in KINDS)

    until(partial(flows, 300), 90, "rows flow", said)
    programs.kill_programs()
    until(partial(flows, 1_000), 60, "they flow again", said)
    programs.kill_slots()
    until(programs.are_whole, 120, "every row of both", said)
    for kind in KINDS:
        (place,) = worker.rest.request("GET", f"/connectors/programs-{kind}/offsets").json()["offsets"]
        assert (place["partition"], json.loads(place["offset"]["state"])) == ({"stream": "orders"}, {"id": ROWS})
        again = programs.count(kind).total() - ROWS
        assert again < 2 * 1_000, again
    programs.delete(worker.rest)
    until(lambda: not programs.running(), 30, "no program is left")

"""A real JVM hosts Kafka's own file connectors: what crosses the socket, and what its end looks like."""

from __future__ import annotations

import os
import queue
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.base.cache import resolve_jars
from spark_connect_rt.engine.java_host.class_archive import HostProgram
from spark_connect_rt.engine.java_host.jar import connect_jars, host_jar
from spark_connect_rt.engine.java_host.process import JavaHostGoneError, JavaProcess, command_line
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava, consumed, produce_batches
from spark_connect_rt.engine.startup.java_home import find_java
from spark_connect_rt.records.pipeline.columns import HEADERS_TYPE, TOPIC
from tests.support.java_connect import COORDINATES

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
LIMIT_S = 60


class Host:
    """A JVM and what it said."""

    def __init__(self, plugin_path: Path) -> None:
        java, connect = find_java(), connect_jars()
        jars = [*connect, host_jar(java, connect)]
        self.frames: queue.Queue[Frame] = queue.Queue()
        self.gone: queue.Queue[str] = queue.Queue()
        worker = {
            "key.converter": STRING,
            "value.converter": STRING,
            "plugin.path": str(plugin_path),
            "plugin.discovery": "service_load",
        }
        fast = ("-XX:TieredStopAtLevel=1",)
        self.process = JavaProcess(
            lambda path: command_line(HostProgram(java.executable, tuple(jars)), path, "128m", fast),
            worker,
            self._take,
            self.gone.put,
        )

    def _take(self, frame: Frame) -> None:
        if frame.kind is not FromJava.HEARTBEAT:
            self.frames.put(frame)

    def next(self, *kinds: FromJava) -> Frame:
        """Return the next frame, which must be of these kinds."""
        frame = self.frames.get(timeout=LIMIT_S)
        while frame.kind is FromJava.QUIET and FromJava.QUIET not in kinds:  # comes when a poll brings nothing
            frame = self.frames.get(timeout=LIMIT_S)
        assert frame.kind in kinds, (frame.kind, frame.head)
        return frame

    def ask(self, op: str, config: dict[str, str], **more: Any) -> Any:
        self.process.send(ToJava.QUESTION, 0, {"op": op, "id": 7, "instance": "c", "config": config, **more})
        head = self.next(FromJava.ANSWER).head
        assert head["id"] == 7
        return head

    def start(self, host: int, connector: dict[str, str], task_class: str, *, sink: bool = False) -> None:
        task = connector | {"task.class": task_class}
        head = {"name": connector["name"], "number": 0, "sink": sink, "connector": connector, "task": task}
        self.process.send(ToJava.START, host, head)

    def call(self, host: int, kind: ToJava, head: Any, data: Any = ()) -> Any:
        self.process.send(kind, host, head, data)
        return self.next(FromJava.DONE).head


@pytest.fixture(scope="module")
def plugin_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "file").mkdir()
    for jar in resolve_jars(COORDINATES):
        if jar.name.startswith("connect-file-"):
            (folder / "file" / jar.name).symlink_to(jar)
    return folder


@pytest.fixture(scope="module")
def host(plugin_path: Path) -> Iterator[Host]:
    host = Host(plugin_path)
    yield host
    host.process.close()


def file_source(file: Path, **more: str) -> dict[str, str]:
    return {"name": "f", "connector.class": "FileStreamSource", "file": str(file), "topic": "lines"} | more


def read_lines(host: Host, number: int, config: dict[str, str], lines: int) -> tuple[list[Any], Any]:
    """Host a source until it has read so many lines; return its rows and its last offsets."""
    host.start(number, config, "org.apache.kafka.connect.file.FileStreamSourceTask")
    host.process.send(ToJava.ROOM, number, 2)
    rows: list[Any] = []
    offsets = None
    while len(rows) < lines:
        frame = host.next(FromJava.STARTED, FromJava.OFFSETS, FromJava.BATCH)
        if frame.kind is FromJava.OFFSETS:
            host.process.send(ToJava.OFFSETS, number, {"question": frame.head["question"], "offsets": [None]})
        elif frame.kind is FromJava.BATCH:
            for batch in produce_batches(frame.head["sections"], frame.data):
                assert batch.schema.metadata == {TOPIC: b"lines"}
                batch.validate(full=True)
                rows += batch.to_pylist()
            offsets = frame.head["offsets"]
            host.process.send(ToJava.ROOM, number, 1)
    host.process.send(ToJava.STOP, number)
    while host.next(FromJava.BATCH, FromJava.IDLE, FromJava.ENDED).kind is not FromJava.ENDED:
        pass
    return rows, offsets


def test_a_source_reads_a_file_as_columns_and_says_where_it_is(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    lines = [f"{number:06d}" + "é" * (number % 7) for number in range(10_000)]
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    rows, offsets = read_lines(host, 1, file_source(file), len(lines))
    assert [row["value"].decode() for row in rows] == lines
    assert all(row["timestamp"] > 0 and "key" not in row for row in rows)
    characters = len(file.read_text(encoding="utf-8"))  # which is what this connector counts
    assert offsets == [[{"filename": str(file)}, {"position": characters}]]


def test_javas_own_converters_and_transformations_run_inside(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n", encoding="utf-8")
    config = file_source(
        file,
        **{
            "value.converter": JSON,
            "transforms": "hoist,head",
            "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
            "transforms.hoist.field": "line",
            "transforms.head.type": "org.apache.kafka.connect.transforms.InsertHeader",
            "transforms.head.header": "from",
            "transforms.head.value.literal": "java",
        },
    )
    rows, _ = read_lines(host, 2, config, 2)
    schema = (
        '{"schema":{"type":"struct","fields":[{"type":"string","optional":false,"field":"line"}],"optional":false},'
        '"payload":{"line":"%s"}}'
    )
    assert [row["value"].decode() for row in rows] == [schema % "one", schema % "two"]
    assert rows[0]["headers"] == [{"key": "from", "value": b"java"}]


def test_a_sink_gets_records_and_answers_its_calls(host: Host, tmp_path: Path) -> None:
    file = tmp_path / "out.txt"
    config = {"name": "s", "connector.class": "FileStreamSink", "file": str(file), "topics": "t"}
    host.start(3, config, "org.apache.kafka.connect.file.FileStreamSinkTask", sink=True)
    host.next(FromJava.STARTED)
    assert host.call(3, ToJava.OPEN, [["t", 0]]) == {}
    batch = pa.record_batch(
        {
            "offset": pa.array([5, 6, 7], pa.int64()),
            "value": pa.array([b"a", None, b"c"], pa.binary()),
            "headers": pa.array([[{"key": "h", "value": b"1"}], None, []], HEADERS_TYPE),
        }
    ).replace_schema_metadata({TOPIC: b"t", b"connectrt.partition": b"0"})
    answer = host.call(3, ToJava.PUT, *consumed(batch))
    assert {name: answer[name] for name in ("records", "rows", "puts")} == {"records": 3, "rows": 3, "puts": 1}
    assert answer.keys() == {"records", "rows", "puts", "put_ms", "put_ms_max"}
    assert host.call(3, ToJava.PUT, *consumed(batch.slice(2, 1)))["rows"] == 1
    assert host.call(3, ToJava.SAFE, [["t", 0, 8]]) == {"offsets": [["t", 0, 8]]}
    assert host.call(3, ToJava.CLOSE, [["t", 0]]) == {}
    host.process.send(ToJava.STOP, 3)
    host.next(FromJava.ENDED)
    assert file.read_text(encoding="utf-8") == "a\nnull\nc\nc\n"


def test_a_connector_is_validated_started_and_asked_for_its_tasks(host: Host, tmp_path: Path) -> None:
    config = file_source(tmp_path / "x", **{"tasks.max": "3", "batch.size": "many"})
    found = host.ask("validate", config)["ok"]
    assert not found["sink"]
    assert found["task_class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"
    errors = {value["name"]: value["errors"] for value in found["values"] if value["errors"]}
    assert errors == {
        "batch.size": ["Invalid value many for configuration batch.size: Not a number of type INT"],
    }
    assert {key["name"]: key["type"] for key in found["keys"]} == {
        "file": "STRING",
        "topic": "STRING",
        "batch.size": "INT",
    }
    config["batch.size"] = "10"
    assert host.ask("start", config)["ok"]["version"] == "4.1.1"
    tasks = host.ask("task_configs", config, tasks_max=3)["ok"]
    assert [task["task.class"] for task in tasks] == ["org.apache.kafka.connect.file.FileStreamSourceTask"]
    assert host.ask("exactly_once", config)["ok"] == {"answer": "SUPPORTED"}
    assert host.ask("boundaries", config)["ok"] == {"answer": "UNSUPPORTED"}
    wrong = host.ask("alter_offsets", config, offsets=[[{"filename": "f"}, {"position": -1}]])["error"]
    assert "position" in wrong["message"]
    assert host.ask("stop", config)["ok"] is None


def test_bad_class_or_config_fails_its_task_alone(host: Host, tmp_path: Path) -> None:
    host.start(4, file_source(tmp_path / "x"), "no.such.Task")
    failed = host.next(FromJava.FAILED)
    assert (failed.host, failed.head["class"]) == (4, "java.lang.ClassNotFoundException")
    assert host.next(FromJava.ENDED).host == 4
    file = tmp_path / "lines.txt"
    file.write_text("still here\n", encoding="utf-8")
    rows, _ = read_lines(host, 5, file_source(file), 1)
    assert rows[0]["value"] == b"still here"


def test_a_killed_jvm_is_noticed_and_says_so(plugin_path: Path) -> None:
    host = Host(plugin_path)
    os.kill(host.process.pid, signal.SIGKILL)
    assert "exit code -9, killed" in host.gone.get(timeout=LIMIT_S)
    with pytest.raises(JavaHostGoneError, match="exit code -9"):
        host.process.send(ToJava.ROOM, 1, 1)


def test_a_jvm_that_does_not_start_says_what_it_printed() -> None:
    with pytest.raises(JavaHostGoneError, match="Unrecognized option: -Xnonsense"):
        JavaProcess(lambda path: [str(find_java().executable), "-Xnonsense"], {}, print, print)

"""What a plug-in does wrong is its task's loss and nothing else, where that is possible: real JVMs."""

from __future__ import annotations

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.base.loggers import JAVA_LOG_LEVELS
from spark_connect_rt.engine.java_host.class_archive import HostProgram
from spark_connect_rt.engine.java_host.process import JavaHostGoneError, command_line
from spark_connect_rt.engine.java_host.wire import FromJava, ToJava, consumed
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.records.pipeline.columns import TOPIC
from tests.support.hosted_java import LIMIT_S, HostedJava
from tests.support.java_test_plugins import LABEL, MARKED, SOURCE

NEIGHBOUR = 1


@pytest.fixture(scope="module")
def host(misbehaving_plugins: Path) -> Iterator[HostedJava]:
    """A JVM with a neighbour that behaves."""
    host = HostedJava(misbehaving_plugins, heap="256m")
    host.source(NEIGHBOUR, records="-1", batch="10")
    host.next(NEIGHBOUR, FromJava.BATCH)
    yield host
    host.process.close()


@pytest.fixture
def numbers(host: HostedJava) -> Iterator[int]:
    """A number of its own; afterwards the neighbour must still work."""
    number = max(host.frames) + 1
    host.frames[number]
    yield number
    assert len(host.poll(NEIGHBOUR)) == 10


def until(found: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    end_s = time.monotonic() + LIMIT_S
    while not found():
        assert time.monotonic() < end_s, "it does not happen"
        time.sleep(0.02)


THROWN = {
    "throw": "java.lang.IllegalStateException",
    "connect": "org.apache.kafka.connect.errors.ConnectException",
    "checked": "java.io.IOException",
    "error": "java.lang.AssertionError",
    "missing": "java.lang.NoClassDefFoundError",
    "overflow": "java.lang.StackOverflowError",
}


@pytest.mark.parametrize("method", ["start", "poll"])
@pytest.mark.parametrize("deed", THROWN)
def test_source_error_fails_that_source_alone(host: HostedJava, numbers: int, method: str, deed: str) -> None:
    host.source(numbers, f"{method}:{deed}")
    failed = host.failure(numbers)
    assert failed["class"] == THROWN[deed]
    assert "testplugins.Misbehav" in failed["trace"]


def test_a_source_that_throws_in_its_hooks_continues_and_in_stop_ends(
    host: HostedJava, numbers: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    host.source(numbers, "commitRecord:throw,commit:error,stop:throw", batch="3", records="-1")
    host.next(numbers, FromJava.BATCH)
    host.process.send(ToJava.DURABLE, numbers, {"batches": 1, "places": {"numbers": [[0, 0, 3, 1]]}})
    assert len(host.poll(numbers)) == 3
    host.process.send(ToJava.STOP, numbers)
    host.next(numbers, FromJava.ENDED)
    for wanted in ("commitRecord failed, ignored", "commit failed, ignored", "Could not stop task"):
        until(lambda text=wanted: any(text in line.getMessage() for line in caplog.records))  # type: ignore[misc]


def test_nothing_and_nonsense_are_taken_as_java_takes_them(host: HostedJava, numbers: int) -> None:
    host.source(numbers, "version:null,poll:retriable@2", batch="2", records="-1")
    assert host.next(numbers, FromJava.STARTED).head["version"] is None
    host.next(numbers, FromJava.BATCH)
    host.process.send(ToJava.ROOM, numbers, 1)  # polled again and again, as it asks for
    host.process.send(ToJava.STOP, numbers)
    host.next(numbers, FromJava.ENDED)
    host.source(numbers + 1, "poll:nulls", batch="2")
    sections = host.next(numbers + 1, FromJava.BATCH).head["sections"]
    assert [section["rows"] for section in sections] == [1]  # no record is a dropped record
    host.process.send(ToJava.STOP, numbers + 1)


def sink_batch(*values: bytes) -> pa.RecordBatch:
    batch = pa.record_batch(
        {"offset": pa.array(range(len(values)), pa.int64()), "value": pa.array(values, pa.binary())}
    )
    return batch.replace_schema_metadata({TOPIC: b"t", b"connectrt.partition": b"0"})


@pytest.mark.parametrize("deed", THROWN)
def test_sink_error_is_the_answer_of_that_call(host: HostedJava, numbers: int, deed: str) -> None:
    host.sink(numbers, f"open:{deed},put:{deed},preCommit:{deed},close:{deed}")
    host.next(numbers, FromJava.STARTED)
    answers = [
        host.call(numbers, ToJava.OPEN, [["t", 0]]),
        host.put(numbers, sink_batch(b"a")),
        host.call(numbers, ToJava.SAFE, [["t", 0, 1]]),
        host.call(numbers, ToJava.CLOSE, [["t", 0]]),
    ]
    put = answers.pop(1)["error"]
    assert put["message"] == "Exiting WorkerSinkTask due to unrecoverable exception."
    assert f"Caused by: {THROWN[deed]}" in put["trace"]
    assert [answer["error"]["class"] for answer in answers] == [THROWN[deed]] * 3
    host.process.send(ToJava.STOP, numbers)
    host.next(numbers, FromJava.ENDED)


def test_sink_errors_at_start_flush_and_stop_are_reported(
    host: HostedJava, numbers: int, caplog: pytest.LogCaptureFixture
) -> None:
    host.sink(numbers, "start:throw")
    assert host.failure(numbers)["class"] == THROWN["throw"]
    host.sink(numbers + 1, "flush:throw,stop:throw")
    host.next(numbers + 1, FromJava.STARTED)
    assert host.call(numbers + 1, ToJava.SAFE, [["t", 0, 1]])["error"]["class"] == THROWN["throw"]
    host.process.send(ToJava.STOP, numbers + 1)
    host.next(numbers + 1, FromJava.ENDED)
    until(lambda: any("Could not stop task" in line.getMessage() for line in caplog.records))


def test_a_sinks_call_that_hangs_is_shown_too(host: HostedJava, numbers: int) -> None:
    calls: dict[str, tuple[ToJava, Any, Any] | None] = {
        "start": None,
        "open": (ToJava.OPEN, [["t", 0]], ()),
        "put": (ToJava.PUT, *consumed(sink_batch(b"a"))),
        "preCommit": (ToJava.SAFE, [["t", 0, 1]], ()),
        "close": (ToJava.CLOSE, [["t", 0]], ()),
        "stop": (ToJava.STOP, None, ()),
    }
    for number, (method, call) in enumerate(calls.items(), numbers):
        host.sink(number, f"{method}:swallow")
        if call is not None:
            host.process.send(call[0], number, *call[1:])
    for number, method in enumerate(calls, numbers):
        while host.beat(number, "call")["call"] != method:
            pass


def test_static_state_is_shared_by_all_tasks_of_a_jvm_as_in_java(
    host: HostedJava, numbers: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.setLevel(logging.NOTSET)
    for number in (numbers, numbers + 1):
        host.source(number)
        host.next(number, FromJava.BATCH)
        host.process.send(ToJava.STOP, number)
    lines = [line.getMessage().split() for line in caplog.records if "started; instance" in line.getMessage()]
    instance, other = (int(words[words.index("instance") + 1]) for words in lines)
    assert other == instance + 1


def test_a_call_that_hangs_is_shown_with_its_name_its_time_and_its_stack(host: HostedJava, numbers: int) -> None:
    names = ("configure", "start", "version", "poll", "commit", "commitRecord", "stop", "convert", "close")
    methods = dict(enumerate(names, numbers))
    of_chain = {"configure": "configure", "convert": "apply", "close": "close"}
    for number, method in methods.items():
        deed, chain = f"{method}:swallow", {}
        if method in of_chain:
            deed = ""
            label = {"type": LABEL, "label": "l", "misbehave": f"{of_chain[method]}:swallow"}
            chain = {"transforms": "x"} | {f"transforms.x.{name}": value for name, value in label.items()}
        host.source(number, deed, records="-1", batch="1", **chain)
        if method in ("commit", "commitRecord", "stop", "close"):
            host.next(number, FromJava.BATCH)
            host.process.send(ToJava.DURABLE, number, {"batches": 1, "places": {"numbers": [[0, 0, 1, 1]]}})
        if method in ("stop", "close"):
            host.process.send(ToJava.STOP, number)
    for number, method in methods.items():
        first = host.beat(number, "call")
        while first["call"] != method:
            first = host.beat(number, "call")
        later = host.beat(number, "call")
        assert (later["call"], later["call_ms"] > first["call_ms"]) == (method, True)
        thread = "commit-" if method.startswith("commit") else "task-"
        host.process.send(ToJava.STACKS, 0, f"{thread}c{number}-")
        stacks = host.next(0, FromJava.STACKS).head
        assert any("Misbehaviour.sleepWhatever" in line for stack in stacks for line in stack["stack"]), (
            method,
            stacks,
        )


def test_task_that_ends_twice_is_stopped_and_closed_once(
    host: HostedJava, numbers: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    notes = {"value.converter": MARKED, "value.converter.notes": str(tmp_path / "notes")}
    host.source(numbers, **notes)
    host.next(numbers, FromJava.BATCH)
    host.sink(numbers + 1, **notes)
    host.next(numbers + 1, FromJava.STARTED)
    asked = {"instance": "twice", "config": {"name": "twice", "connector.class": SOURCE}}
    host.process.send(ToJava.QUESTION, 0, asked | {"op": "start", "id": 1})
    stage = {"kind": "converter", "class": MARKED, "config": {"notes": str(tmp_path / "stage")}, "key": False}
    host.process.send(ToJava.STAGE, numbers + 2, {"op": "make", "id": 1, **stage})
    for number in (2, 3):
        for task in (numbers, numbers + 1):
            host.process.send(ToJava.STOP, task)
        host.process.send(ToJava.QUESTION, 0, asked | {"op": "stop", "id": number})
        host.process.send(ToJava.STAGE, numbers + 2, {"op": "close", "id": number})
    assert [host.next(0, FromJava.ANSWER).head.get("error") for _ in range(3)] == [None] * 3
    assert [host.next(numbers + 2, FromJava.STAGE).head.get("error") for _ in range(3)] == [None] * 3
    for task in (numbers, numbers + 1):
        host.next(task, FromJava.ENDED)
    assert (tmp_path / "notes").read_text() == "closed true\n" * 2
    assert (tmp_path / "stage").read_text().count("closed") == 1
    assert "twice" not in "".join(line.getMessage() for line in caplog.records if "stop" in line.getMessage())


def test_a_hundred_thousand_source_partitions_are_requested_and_returned(host: HostedJava, numbers: int) -> None:
    host.source(numbers, partitions="100000", records="1", batch="100000")
    offsets = host.next(numbers, FromJava.BATCH).head["offsets"]
    assert len({pair[0]["partition"] for pair in offsets}) == len(offsets) == 100_000
    host.process.send(ToJava.STOP, numbers)


def test_lines_come_with_connector_and_task_and_levels_change_while_it_runs(
    host: HostedJava, numbers: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.setLevel(logging.NOTSET)  # the JVM's levels decide
    name = "org.sparkconnectrt.testplugins.MisbehavingSourceTask"
    host.source(numbers, "start:print")
    host.next(numbers, FromJava.BATCH)
    lines = [line.getMessage() for line in caplog.records if line.name == name]
    assert any(line.startswith(f"[c{numbers}|task-0] started; instance") for line in lines)
    assert not any("in detail" in line for line in lines)
    JAVA_LOG_LEVELS.set(name, "DEBUG")
    host.source(numbers + 100)
    host.next(numbers + 100, FromJava.BATCH)
    lines = [line.getMessage() for line in caplog.records if line.name == name]
    assert f"[c{numbers + 100}|task-0] in detail: task 0 of numbers" in lines
    JAVA_LOG_LEVELS.replace({})
    for number in (numbers, numbers + 100):
        host.process.send(ToJava.STOP, number)


def test_mbeans_and_own_metrics_are_reported_when_they_change(host: HostedJava, numbers: int) -> None:
    host.source(numbers, records="-1", batch="7")
    found: dict[tuple[str, str], Any] = {}
    while len(found) < 3:
        found |= {(bean["domain"], bean["attribute"]): bean for bean in host.beat(numbers, "beans")["beans"]}
    polled = found["misbehaving", "Polled"]
    assert polled["keys"] == {"type": "connector-metrics", "context": "streaming", "server": f"c{numbers}", "task": "0"}
    assert polled["value"] == 7
    assert found["misbehaving", "Share"]["value"] == 0.5
    assert found["kafka.connect", "polled"]["value"] == 7
    assert ("misbehaving", "State") not in found
    host.poll(numbers)
    again: dict[str, float] = {}
    while len(again) < 2:
        again |= {bean["attribute"]: bean["value"] for bean in host.beat(numbers, "beans")["beans"]}
    assert again == {"Polled": 14, "polled": 14}
    host.process.send(ToJava.STOP, numbers)
    host.next(numbers, FromJava.ENDED)
    host.source(numbers + 1, name=f"c{numbers}")  # hosted again, it registers the same names
    host.next(numbers + 1, FromJava.BATCH)
    host.process.send(ToJava.STOP, numbers + 1)


def test_a_connector_that_asks_for_tasks_in_a_loop_is_passed_on_ten_times_a_second(
    host: HostedJava,
) -> None:
    asked = {"name": "loop", "connector.class": SOURCE, "misbehave": "connector.start:reconfigure"}
    question = {"op": "start", "id": 1, "instance": "loop", "config": asked}
    host.process.send(ToJava.QUESTION, 0, question)
    assert "ok" in host.next(0, FromJava.ANSWER).head
    time.sleep(1.0)
    host.process.send(ToJava.QUESTION, 0, question | {"op": "stop", "id": 2})
    news = 0
    while (frame := host.frames[0].get(timeout=LIMIT_S)).kind is FromJava.NEWS:
        assert (frame.head["instance"], frame.head["event"]) == ("loop", "reconfigure")
        news += 1
    assert frame.head["id"] == 2
    assert 1 <= news <= 30


def ended(plugins: Path, misbehave: str, **config: str) -> str:
    """Return why the JVM of a misbehaving task is gone."""
    host = HostedJava(plugins, heap="48m", options=["-Dconnectrt.garbage.limit.ms=1000"])
    host.source(5, misbehave, **config)
    try:
        return host.gone.get(timeout=2 * LIMIT_S)
    finally:
        host.process.close()


@pytest.mark.parametrize(
    ("misbehave", "reason"),
    [
        ("poll:exit", "exit code 7, thread task-c5-0 called System.exit"),
        ("start:halt", "exit code 8"),
        ("poll:memory", "exit code 3, out of memory: raise connectrt.java.heap"),
        ("poll:huge", "exit code 3, out of memory: raise connectrt.java.heap"),
        ("poll:thrash", "exit code 3, out of memory: raise connectrt.java.heap"),
    ],
)
def test_end_of_the_jvm_is_reported_with_its_reason(misbehaving_plugins: Path, misbehave: str, reason: str) -> None:
    why = ended(misbehaving_plugins, misbehave)
    assert why.startswith(reason)
    for deed, words in (("exit", "testplugins.Misbehaviour"), ("thrash", "garbage collection took ")):
        assert deed not in misbehave or words in why


def test_direct_memory_has_an_end_and_fails_its_task_alone(misbehaving_plugins: Path) -> None:
    host = HostedJava(misbehaving_plugins, heap="48m")
    host.source(1, "poll:direct")
    assert "direct buffer memory" in host.failure(1)["message"]
    host.source(2)
    host.next(2, FromJava.BATCH)
    host.process.close()


def test_stopped_jvm_is_noticed_and_killed_with_the_threads_left_behind(
    misbehaving_plugins: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    host = HostedJava(misbehaving_plugins, silence_limit_s=4.0)
    host.source(1, "poll:leak", records="-1")
    host.next(1, FromJava.BATCH)
    while host.beat(1, "jvm")["jvm"]["threads"] <= 20:  # the first may be of before
        pass
    host.process.send(ToJava.STOP, 1)
    host.next(1, FromJava.ENDED)
    os.kill(host.process.pid, signal.SIGSTOP)
    began_s = time.monotonic()
    assert "it showed no sign of life for 4 s and was killed" in host.gone.get(timeout=LIMIT_S)
    assert 3 < time.monotonic() - began_s < 15
    assert any("has shown no sign of life for" in line.getMessage() for line in caplog.records)
    with pytest.raises(JavaHostGoneError, match="no sign of life"):
        host.process.send(ToJava.ROOM, 1, 1)


def test_a_heap_that_is_nonsense_is_refused_with_the_setting() -> None:
    for heap, why in (("lots", "is not a valid size"), ("8m", "too small"), ("9999t", "is not a valid size")):
        with pytest.raises(BadConfigError, match=f"connectrt.java.heap: .*{why}"):
            command_line(HostProgram(Path("java"), ()), Path("socket"), heap)
    with pytest.raises(BadConfigError, match=r"connectrt.java.options: .*-jar cannot be set"):
        command_line(HostProgram(Path("java"), ()), Path("socket"), "64m", ["-jar"])

"""Java sink tasks in a real JVM below the real engine, on threads: what they ask for happens, and nothing is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.api.transformation import Transformation
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.worker_config import FlushSettings
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.java_host import sink_task
from spark_connect_rt.engine.java_host.jvm_pool import slot_hosts
from spark_connect_rt.engine.java_host.sink_calls import SinkCalls
from spark_connect_rt.engine.java_host.wire import ToJava
from spark_connect_rt.engine.slot_losses import LossLimits
from spark_connect_rt.engine.task_runner import (
    Assign,
    BatchDurable,
    JavaCode,
    NoteGeneration,
    PartitionsReleased,
    Revoke,
    Start,
    TaskFailed,
    TaskKind,
    TaskLaunch,
)
from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.interfaces import GroupGeneration
from spark_connect_rt.plugins.bundled_plugins import BUNDLED
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.contract.task_runner_contract import Worker
from tests.support.java_test_plugins import OBEDIENT_SINK, OBEDIENT_TASK, PACKAGE, java_plugin_path

STRING = "org.apache.kafka.connect.storage.StringConverter"
HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
LIMIT_S = 60


BY_NAME = {plugin.java_class: plugin.target for plugin in BUNDLED}
BY_TARGET = {plugin.target: plugin.java_class for plugin in BUNDLED}


class Clients(MemoryExecutorClients):
    """Memory's, with the plug-ins that have a name in Java."""

    def plugin(self, name: str) -> type[Any]:
        return load_class(BY_NAME.get(name, name))

    def name_of(self, plugin: type[Any]) -> str:
        return BY_TARGET.get(f"{plugin.__module__}:{plugin.__qualname__}") or super().name_of(plugin)


class Sinks:
    """A worker that starts Java sinks."""

    def __init__(self, folder: Path) -> None:
        self.clients = clients = Clients()
        settings = EngineSettings(
            housekeeping_ms=20, losses=LossLimits(backoff_ms=10, guilty_after_ms=60), neighbour_grace_ms=100
        )
        self.worker = Worker(MemoryTaskRunner(clients, settings), clients.topics, folder, limit_s=LIMIT_S)
        self.worker.runner.open(self.worker.on_event, self.worker.read_offsets)
        self.file = folder / "notes"

    def start(self, most_records: int | None = None, flush_ms: int = 300, **config: str) -> TaskLaunch:
        launch = self.worker.launch("s", "x", TaskKind.SINK)
        connector = {
            "connector.class": OBEDIENT_SINK,
            "topics": "t",
            "file": str(self.file),
            **launch.connector_config.written(),
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        plugin = str(java_plugin_path() / "misbehaving")
        launch = replace(
            launch,
            task_class="spark_connect_rt.engine.java_host.sink_task:JavaSinkTask",
            config={**connector, "task.class": OBEDIENT_TASK},
            connector_config=connector,
            worker_config={"key.converter": STRING, "value.converter": STRING, "header.converter": HEADERS},
            flush=FlushSettings(flush_ms, 5_000),
            client_config={"group.id": "connect-s"}
            | ({} if most_records is None else {"max.poll.records": str(most_records)}),
            java=JavaCode((plugin,), heap="96m", options=("-XX:TieredStopAtLevel=1",)),
        )
        self.worker.runner.do(Start(launch))
        self.worker.runner.do(Assign(launch.task, {ZERO: 0, ONE: 0}))
        return launch

    def write(self, *values: str | bytes, partition: int = 0) -> None:
        self.worker.topics.append(
            [{"topic": "t", "partition": partition, "value": v if isinstance(v, bytes) else v.encode()} for v in values]
        )

    def notes(self) -> list[str]:
        return self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []

    def noted(self, line: str, times: int = 1) -> None:
        self.worker.until(lambda: self.notes().count(line) >= times)

    def committed(self, launch: TaskLaunch) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for report in self.worker.of(launch, BatchDurable):
            found.update(report.sink_offsets)
        return found

    def commits(self, launch: TaskLaunch, partition: TopicPartition, offset: int) -> None:
        self.worker.until(lambda: self.committed(launch).get(partition) == offset)


@pytest.fixture
def sinks(tmp_path: Path) -> Iterator[Sinks]:
    sinks = Sinks(tmp_path)
    yield sinks
    sinks.worker.runner.close(5_000)


def test_records_are_put_committed_and_the_task_ends_in_javas_order(sinks: Sinks) -> None:
    launch = sinks.start()
    sinks.write("a", "b")
    sinks.write("c", partition=1)
    sinks.commits(launch, ZERO, 2)
    sinks.commits(launch, ONE, 1)
    end = sinks.worker.end(launch)
    assert (end.drained, end.records) == (True, 3)
    notes = sinks.notes()
    assert notes[:2] == ["start true", "open [t-0, t-1]"]
    assert sorted(notes[2:5]) == ["t-0@0 a", "t-0@1 b", "t-1@0 c"]
    assert notes[5:] == ["close [t-0, t-1]", "stop"]
    assert TopicPartition("not-mine", 7) not in sinks.committed(launch)


def test_task_requests_are_carried_out(sinks: Sinks) -> None:
    launch = sinks.start()
    sinks.write("a", "!retry", "b", "!commit")
    sinks.commits(launch, ZERO, 4)
    sinks.write("!back")
    sinks.noted("t-0@2 b", 2)  # read again from 0, what it was put before it asked for the retry comes once more
    sinks.write("!pause")
    sinks.noted("!pause")
    sinks.write("later")
    sinks.noted("t-0@6 later")
    sinks.worker.end(launch)
    notes = sinks.notes()
    assert notes.count("t-0@0 a") == 3
    assert [note for note in notes if note.startswith(("!", "resume"))] == [
        "!retry",
        "!commit",
        "!back",
        "!pause",
        "resume",
    ]
    assert sinks.committed(launch)[ZERO] == 7


def test_a_task_that_overrides_pre_commit_is_asked_as_seldom_as_by_java(sinks: Sinks) -> None:
    launch = sinks.start(flush_ms=60_000)
    sinks.write("a")
    sinks.noted("t-0@0 a")
    time.sleep(2.5)  # other tasks are asked within a second
    assert not sinks.committed(launch)
    sinks.write("b", "!commit")
    sinks.commits(launch, ZERO, 3)
    sinks.write("c")
    sinks.noted("t-0@3 c")
    assert sinks.committed(launch) == {ZERO: 3}
    assert sinks.worker.end(launch).drained
    assert sinks.committed(launch) == {ZERO: 4}


Frames = list[tuple[ToJava, int, Mapping[str, Any]]]


@pytest.fixture
def frames(monkeypatch: pytest.MonkeyPatch) -> Frames:
    """Return what is noted of each call of puts: its kind, the rows of its frame, its answer."""
    noted: Frames = []
    ask = SinkCalls.ask

    def noting(self: SinkCalls, kind: ToJava, head: Any = None, data: Sequence[Any] = ()) -> Mapping[str, Any]:
        answer = ask(self, kind, head, data)
        if kind in (ToJava.PUT, ToJava.PUT_AGAIN) and (kind is ToJava.PUT_AGAIN or head["rows"]):
            noted.append((kind, head["rows"] if head else 0, answer))
        return answer

    monkeypatch.setattr(SinkCalls, "ask", noting)
    return noted


@pytest.fixture
def put_records(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return what sets the records of a put. By max.poll.records, as few are read at once: frames of any size."""
    return partial(monkeypatch.setattr, sink_task, "PUT_RECORDS")


def _values(count: int, **special: str) -> list[str]:
    asked = {int(at.removeprefix("at_")): what for at, what in special.items()}
    return [asked.get(at, f"v{at}") for at in range(count)]


def test_a_frame_of_several_puts_stops_where_the_task_asks_for_something(
    sinks: Sinks, frames: Frames, put_records: Callable[[int], None]
) -> None:
    put_records(2)
    sinks.write(*_values(40, at_11="!retry", at_20="!commit"))
    launch = sinks.start()
    sinks.commits(launch, ZERO, 40)
    sinks.worker.end(launch)
    notes = [note for note in sinks.notes() if note.startswith("t-0@")]
    assert [notes.count(f"t-0@{at} v{at}") for at in range(40) if at not in (11, 20)] == [1] * 10 + [2] + [1] * 27
    assert [note for note in notes if not note.endswith(" v10")] == [
        f"t-0@{at} v{at}" for at in range(40) if at not in (10, 11, 20)
    ]
    assert 22 in [dict(report.sink_offsets).get(ZERO) for report in sinks.worker.of(launch, BatchDurable)]
    assert sum(report.records for report in sinks.worker.of(launch, BatchDurable)) == 40
    assert any(rows > 2 and answer["puts"] > 1 for _, rows, answer in frames), "several puts of one frame"
    stopped = next(answer for _, _, answer in frames if "again" in answer)
    again = next(answer for kind, _, answer in frames if kind is ToJava.PUT_AGAIN)
    assert stopped.get("rows", 0) % 2 == 0
    assert (again["rows"], again["puts"]) == (2, 1), "only what it asked for again"
    assert next(answer for _, _, answer in frames if answer.get("commit"))["rows"] >= 2


def test_the_memory_of_large_frames_is_used_again_and_no_record_sees_another_ones(sinks: Sinks, frames: Frames) -> None:
    launch, sent = sinks.start(most_records=4), list[str]()
    for number, size in enumerate((300_000, 100_000, 400_000, 10, 300_000, 50_000)):  # 256 KiB and more are kept
        values = [f"{number}.{part} {chr(97 + number) * size}" for part in range(5)]
        sinks.write(*values)
        sent += values
        sinks.commits(launch, ZERO, len(sent))
    sinks.worker.end(launch)
    assert [note.partition(" ")[2] for note in sinks.notes() if note.startswith("t-0@")] == sent
    assert sum(rows > 0 for kind, rows, _ in frames if kind is ToJava.PUT) >= 6


def test_a_frame_continues_elsewhere_when_the_task_goes_back_in_the_middle(
    sinks: Sinks, frames: Frames, put_records: Callable[[int], None]
) -> None:
    put_records(3)
    sinks.write(*_values(30, at_9="!back", at_20="!pause"))
    launch = sinks.start()
    sinks.commits(launch, ZERO, 30)
    sinks.worker.end(launch)
    notes = [note for note in sinks.notes() if note.startswith(("t-0@", "!", "resume"))]
    at = notes.index("!back")
    assert notes[:at] == [f"t-0@{offset} v{offset}" for offset in range(9)]
    assert notes[at + 1 : at + 4] == ["t-0@10 v10", "t-0@11 v11", "t-0@0 v0"], "its put, then from where it went"
    paused = notes.index("!pause")
    assert notes[paused + 1] == "resume", "nothing more of the frame"
    assert notes[paused + 2 :] == [f"t-0@{offset} v{offset}" for offset in range(21, 30)]
    assert any(rows > 3 for _, rows, _ in frames)


def test_frame_put_before_its_task_failed_is_committed(
    sinks: Sinks, frames: Frames, put_records: Callable[[int], None]
) -> None:
    put_records(2)
    sinks.write(*_values(30, at_21="!fail"))
    launch = sinks.start()
    sinks.worker.until(lambda: sinks.worker.of(launch, TaskFailed))
    sinks.worker.ended(launch)
    assert sinks.committed(launch) == {ZERO: 20}
    assert any(rows > 2 and answer["rows"] for _, rows, answer in frames if "error" in answer)


def test_a_revocation_waits_for_one_put_of_a_frame(sinks: Sinks, frames: Frames) -> None:
    sinks.write(*_values(40))
    sinks.write("c", partition=1)
    launch = sinks.start(most_records=1, put_ms="150")
    sinks.noted("t-0@1 v1")
    sinks.worker.runner.do(Revoke(launch.task, (ZERO,), 60_000))
    sinks.worker.until(lambda: sinks.worker.of(launch, PartitionsReleased))
    put = sum(note.startswith("t-0@") for note in sinks.notes())
    assert sinks.committed(launch)[ZERO] == put < 40
    assert all(answer["puts"] == 1 for _, _, answer in frames), "a put of over 100 ms ends its frame"
    sinks.commits(launch, ONE, 1)
    assert sinks.worker.end(launch).drained


def test_the_context_shows_a_secret_that_has_changed(sinks: Sinks) -> None:
    sinks.clients.secrets["${vault:it}"] = "old"
    launch = sinks.start(label="${vault:it}")
    sinks.write("a")
    sinks.noted("t-0@0 a")
    sinks.clients.secrets["${vault:it}"] = "new"
    sinks.write("!label")
    sinks.noted("label new")
    assert sinks.worker.end(launch).drained


def test_errant_records_are_durable_letters_before_an_offset_is_committed(sinks: Sinks) -> None:
    launch = sinks.start(
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="dead",
        value_converter=JSON,
        errors_log_enable="true",
    )
    sinks.write(b'{"schema": null, "payload": "!await"}', b"no JSON", b'{"schema": null, "payload": "good"}')
    sinks.commits(launch, ZERO, 3)
    sinks.worker.end(launch)
    assert [note for note in sinks.notes() if note[0] not in "soc"] == ["!await", "durable", "t-0@2 good"]
    letters = sinks.worker.topics.read(TopicPartition("dead", 0), 0, 9)
    assert [letter["value"] for letter in letters] == [b"no JSON", b'{"schema": null, "payload": "!await"}']
    first, second = (
        {h["key"].removeprefix("__connect.errors."): h["value"] for h in letter["headers"]} for letter in letters
    )
    assert (first["stage"], first["class.name"]) == (b"VALUE_CONVERTER", JSON.encode())
    assert first["exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert first["exception.stacktrace"].startswith(b"org.apache.kafka.connect.errors.DataException: Converting byte[]")
    assert (second["stage"], second["exception.message"], second["offset"]) == (b"TASK_PUT", b"no good", b"0")
    assert second["class.name"] == b"org.apache.kafka.connect.sink.SinkTask"
    durable = sinks.worker.of(launch, BatchDurable)
    assert (
        sum(report.records for report in durable),
        sum(report.skipped for report in durable),
    ) == (1, 2)


def test_a_record_that_is_tried_again_and_again_holds_up_no_revocation_and_no_stop(sinks: Sinks) -> None:
    launch = sinks.start(
        errors_retry_timeout="-1",
        errors_retry_delay_max_ms="100",
        transforms="label",
        transforms_label_type=f"{PACKAGE}.Label",
        transforms_label_label="x",
        transforms_label_misbehave="apply:retriable@2",
    )
    sinks.write("a", "again and again")
    sinks.write("b", partition=1)
    sinks.noted("open [t-0, t-1]")
    time.sleep(0.5)  # in its retries, whichever partition came first
    sinks.worker.runner.do(Revoke(launch.task, (ZERO,), 60_000))
    sinks.worker.until(lambda: sinks.worker.of(launch, PartitionsReleased))
    sinks.write("c", partition=1)  # is tried again and again, too
    time.sleep(0.3)
    assert sinks.worker.end(launch, 30_000).drained
    assert not sinks.worker.of(launch, TaskFailed)
    assert sinks.committed(launch).get(ZERO, 0) < 2
    assert sinks.notes()[-1] == "stop"


class Loud(Transformation):
    """Python's alone: puts "?" behind a value; "no" is refused."""

    def apply(self, record: Any) -> Any:
        if record.value == "no":
            raise DataError("no is no value")
        return record if record.value in ("!errant", "refuse") else replace(record, value=f"{record.value}?")


def test_a_chain_with_a_part_of_pythons_crosses_once_behind_it(sinks: Sinks) -> None:
    launch = sinks.start(
        errors_tolerance="all",
        errors_deadletterqueue_topic_name="dead",
        errors_log_enable="true",
        transforms="loud,label",
        transforms_loud_type=f"{__name__}:Loud",
        transforms_label_type=f"{PACKAGE}.Label",
        transforms_label_label="x",
    )
    sinks.write("a", "no", "!errant", "refuse", "b")
    sinks.commits(launch, ZERO, 5)
    sinks.worker.end(launch)
    assert [note for note in sinks.notes() if note[0] in "t!"] == ["t-0@0 a?", "!errant", "t-0@4 b?"]
    letters = sinks.worker.topics.read(TopicPartition("dead", 0), 0, 9)
    assert sorted(letter["value"] for letter in letters) == [b"!errant", b"no", b"refuse"]  # as they were consumed
    durable = sinks.worker.of(launch, BatchDurable)
    assert (
        sum(report.records for report in durable),
        sum(report.skipped for report in durable),
    ) == (2, 3)


def test_a_task_finds_its_group_member_in_its_context(sinks: Sinks) -> None:
    launch = sinks.start()
    for generation in (3, 4):
        sinks.worker.runner.do(
            NoteGeneration(launch.task, GroupGeneration("connect-s", generation, "consumer-9", "static"))
        )
    sinks.write("a", "!member")
    sinks.worker.until(lambda: any(note.startswith("member") for note in sinks.notes()))
    assert "member connect-s 4 consumer-9 static [t-0, t-1]" in sinks.notes()
    sinks.worker.end(launch)


def test_put_error_fails_the_task_with_the_java_trace(sinks: Sinks) -> None:
    launch = sinks.start(errors_tolerance="all")
    sinks.write("a", "!fail")
    sinks.worker.until(lambda: sinks.worker.of(launch, TaskFailed))
    trace = sinks.worker.of(launch, TaskFailed)[0].trace
    first = "org.apache.kafka.connect.errors.ConnectException: Exiting WorkerSinkTask due to unrecoverable exception."
    assert trace.startswith(first)
    assert "Caused by: java.lang.IllegalStateException: as it was said\n\tat org.sparkconnectrt.testplugins" in trace
    sinks.worker.ended(launch)
    assert sinks.notes()[-2:] == ["close [t-0, t-1]", "stop"]
    assert sinks.committed(launch) == {}


def test_the_task_of_a_killed_jvm_resumes_from_committed_offsets(sinks: Sinks) -> None:
    launch = sinks.start()
    sinks.write("a")
    sinks.commits(launch, ZERO, 1)
    hosts = slot_hosts()
    apart = (host for some in hosts._apart.values() for host in some)  # as they are behind a test that killed two
    jvm = next(host for host in (*hosts._shared.values(), *apart) if not host.gone)
    os.kill(jvm.process.pid, signal.SIGKILL)
    sinks.write("b")
    sinks.commits(launch, ZERO, 2)
    assert not sinks.worker.of(launch, TaskFailed)
    assert sinks.worker.end(launch).drained
    notes = sinks.notes()
    assert (notes.count("start true"), notes.count("t-0@0 a"), notes.count("t-0@1 b")) == (2, 1, 1)


def test_a_hung_put_is_shown_and_its_jvm_is_killed_at_the_deadline(
    sinks: Sinks, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_connect_rt.engine.java_host.sink_calls.SHOW_AFTER_HURRIED_S", 0.3)
    launch = sinks.start()
    sinks.write("a", "!hang")
    sinks.write("c", partition=1)
    sinks.noted("!hang")
    sinks.worker.runner.do(Revoke(launch.task, (ZERO,), 1_500))
    sinks.worker.until(lambda: "ObedientSinkTask.hang" in caplog.text)
    sinks.commits(launch, ONE, 1)  # hosted again, without what was revoked
    assert sinks.committed(launch) == {ONE: 1}
    assert sinks.notes().count("start true") == 2
    assert sinks.worker.end(launch).drained

"""Java source tasks in a real JVM below the real engine, on threads: what they bring, and what their hooks learn."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
import psutil
import pytest

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.worker_config import FlushSettings
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.executor import transactional_task_writer
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.java_host import jvm_pool as jvms
from spark_connect_rt.engine.java_host import source_task as held_offsets
from spark_connect_rt.engine.process_plugins import plugins_in
from spark_connect_rt.engine.slot_losses import LossLimits
from spark_connect_rt.engine.task_runner import (
    BatchDurable,
    JavaCode,
    Pause,
    Resume,
    Start,
    Stop,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskLaunch,
    TaskPaused,
    TaskRunning,
)
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.contract.task_runner_contract import Worker
from tests.support.java_test_plugins import (
    OBEDIENT_SOURCE,
    OBEDIENT_SOURCE_TASK,
    SOURCE,
    SOURCE_TASK,
    java_plugin_path,
)

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"
FILE_TASK = "org.apache.kafka.connect.file.FileStreamSourceTask"
LIMIT_S = 60
SCHEMA = (
    '{"schema":{"type":"struct","fields":[{"type":"string","optional":false,"field":"f"}],"optional":false},'
    '"payload":{"f":"%s"}}'
)


class Offsets(Worker):
    """A worker that keeps offsets of any source partition."""

    def on_event(self, event: TaskEvent) -> None:
        with self.lock:
            self.events.append(event)
            if isinstance(event, BatchDurable):
                for partition, offset in event.source_offsets:
                    assert offset is not None
                    self.offsets[
                        event.task.connector, orjson.dumps(partition, option=orjson.OPT_SORT_KEYS).decode()
                    ] = offset
            self.lock.notify_all()

    def read_offsets(self, task: ConnectorTaskId, partitions: Sequence[Mapping[str, Any]]) -> list[Any]:
        with self.lock:
            return [
                self.offsets.get((task.connector, orjson.dumps(partition, option=orjson.OPT_SORT_KEYS).decode()))
                for partition in partitions
            ]


class Sources:
    """A worker that starts Java sources."""

    def __init__(self, folder: Path) -> None:
        self.clients = clients = MemoryExecutorClients(find_plugin=plugin)
        settings = EngineSettings(
            housekeeping_ms=20, losses=LossLimits(backoff_ms=10, guilty_after_ms=60), neighbour_grace_ms=100
        )
        self.topics: MemoryTopics = clients.topics
        self.worker = Offsets(MemoryTaskRunner(clients, settings), clients.topics, folder, limit_s=LIMIT_S)  # type: ignore[arg-type]
        self.worker.runner.open(self.worker.on_event, self.worker.read_offsets)
        self.file = folder / "notes"

    def launch(self, java: JavaCode, task_class: str, connector: Mapping[str, str], name: str = "s") -> TaskLaunch:
        launch = self.worker.launch(name, "x")
        config = {"name": name, **launch.connector_config.written(), **connector}
        return replace(
            launch,
            task_class="spark_connect_rt.engine.java_host.source_task:JavaSourceTask",
            config={**config, "task.class": task_class},
            connector_config=config,
            worker_config={"key.converter": STRING, "value.converter": STRING},
            java=java,
        )

    def obedient(self, *script: str, eos: bool = False, flush_ms: int = 60_000, **config: str) -> TaskLaunch:
        connector = {
            "connector.class": OBEDIENT_SOURCE,
            "script": "\n".join(script),
            "file": str(self.file),
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        launch = self.launch(java_code(java_plugin_path() / "misbehaving"), OBEDIENT_SOURCE_TASK, connector)
        launch = replace(launch, flush=FlushSettings.of({"offset.flush.interval.ms": str(flush_ms)}))
        if eos:
            client = {"transactional.id": "group-s-0"}
            launch = replace(launch, offsets_topic="offsets", client_config=client)
        return self.start(launch)

    def misbehaving(self, deeds: str, name: str = "m", **config: str) -> TaskLaunch:
        connector = {
            "connector.class": SOURCE,
            "topic": name,
            "misbehave": deeds,
            **{setting.replace("_", "."): value for setting, value in config.items()},
        }
        return self.start(self.launch(java_code(java_plugin_path() / "misbehaving"), SOURCE_TASK, connector, name))

    def start(self, launch: TaskLaunch) -> TaskLaunch:
        self.worker.runner.do(Start(launch))
        return launch

    def values(self, topic: str = "t") -> list[str]:
        return [value.decode() for value in self.topics.values(topic)]

    def has(self, *values: str, topic: str = "t") -> None:
        self.worker.until(lambda: self.values(topic) == list(values))

    def notes(self) -> list[str]:
        return self.file.read_text(encoding="utf-8").splitlines() if self.file.exists() else []

    def failed(self, launch: TaskLaunch) -> str:
        self.worker.until(lambda: self.worker.of(launch, TaskEnded))
        return self.worker.of(launch, TaskFailed)[0].trace


def plugin(name: str) -> type[Any]:
    return load_class(name) if ":" in name else plugins_in(()).class_of(name)


def java_code(plugin: Path) -> JavaCode:
    return JavaCode((str(plugin),), heap="96m", options=("-XX:TieredStopAtLevel=1",))


def pids() -> list[int]:
    """Return the JVMs of this process that live."""
    children = psutil.Process().children()
    return [child.pid for child in children if "org.sparkconnectrt.host.Host" in child.cmdline()]


@pytest.fixture
def sources(tmp_path: Path) -> Iterator[Sources]:
    sources = Sources(tmp_path)
    yield sources
    sources.worker.runner.close(5_000)


@pytest.fixture(scope="module", autouse=True)
def no_jvm_is_left() -> Iterator[None]:
    yield
    for shared in list(jvms.slot_hosts()._shared.values()):
        shared.end("the tests are over")
    jvms.slot_hosts()._losses.clear()  # what was killed here parts no JVM of the next tests


def test_hooks_learn_where_records_are_the_last_ones_before_the_stop(sources: Sources) -> None:
    launch = sources.obedient("a b>u c", "d")
    sources.has("a", "c", "d")
    end = sources.worker.end(launch)
    assert (end.drained, end.records) == (True, 4)
    notes = sources.notes()
    assert notes[0] == "start 0 false"
    assert [note for note in notes if "@" in note] == ["a t-0@0", "b u-0@0", "c t-0@1", "d t-0@2"]
    assert notes[-2:] == ["commit", "stop"]
    assert sources.worker.offsets["s", '{"name":"s"}'] == {"n": 2}


def test_a_task_reads_in_its_stop_what_became_durable(sources: Sources) -> None:
    """As in Java: Debezium commits where it is then."""
    launch = sources.obedient("a", "b", reads_at_stop="true")
    sources.has("a", "b")
    assert sources.worker.end(launch).drained
    assert sources.notes()[-1] == "stop 2"


def test_a_task_starts_at_its_offsets_pauses_and_resumes(sources: Sources, file_plugin: Path, tmp_path: Path) -> None:
    file = tmp_path / "lines"
    file.write_text("".join(f"{n}\n" for n in range(5_000)), encoding="utf-8")
    config = {"connector.class": "FileStreamSource", "file": str(file), "topic": "t"}
    worker = sources.worker
    launch = sources.start(sources.launch(java_code(file_plugin), FILE_TASK, config))
    worker.until(lambda: len(sources.values()) == 5_000)
    worker.runner.do(Pause(launch.task))
    worker.until(lambda: worker.of(launch, TaskPaused))
    with file.open("a", encoding="utf-8") as more:
        more.write("while paused\n")
    worker.runner.do(Resume(launch.task))
    worker.until(lambda: "while paused" in sources.values())
    assert [type(task_paused).__name__ for task_paused in worker.of(launch, TaskPaused | TaskRunning)] == [  # type: ignore[arg-type]
        "TaskRunning",
        "TaskPaused",
        "TaskRunning",
    ]
    assert worker.end(launch).drained
    with file.open("a", encoding="utf-8") as more:
        more.write("after a restart\n")
    again = sources.start(sources.launch(java_code(file_plugin), FILE_TASK, config))
    worker.until(lambda: "after a restart" in sources.values())
    assert worker.end(again).records == 1
    assert sources.values() == [*map(str, range(5_000)), "while paused", "after a restart"]


def again_one_batch(values: Sequence[str], count: int, batch: int = 100) -> None:
    """Each of ``count`` records came once and in order, but for the last batch before a kill, which came twice."""
    numbers = [int(value.removeprefix("0:")) for value in values]
    steps = [now - before for before, now in pairwise(numbers)]
    (back, *more) = [step for step in steps if step != 1] or [0]
    assert (sorted(set(numbers)), more) == (list(range(count)), [])
    assert -batch < back <= 0


def test_tasks_of_a_killed_jvm_resume_from_committed_offsets(sources: Sources) -> None:
    start = sources.misbehaving("", "one", records="3000", batch="10", pause_ms="1")
    two = sources.misbehaving("", "two", records="3000", batch="10", pause_ms="1")
    worker = sources.worker
    worker.until(lambda: len(sources.values("one")) > 300 and len(sources.values("two")) > 300)
    for pid in pids():
        os.kill(pid, signal.SIGKILL)
    for launch in (start, two):
        name = launch.task.connector
        worker.until(lambda name=name: "0:2999" in sources.values(name))  # type: ignore[misc]
        assert not worker.of(launch, TaskFailed)
        assert worker.end(launch).drained
        again_one_batch(sources.values(name), 3000)  # all that Python had was made durable first


def test_a_poll_is_repeated_if_a_kill_follows_it(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    """What shares its last record's offset, and was in the JVM still, would be lost."""
    monkeypatch.setattr(held_offsets, "HOLD_S", LIMIT_S)
    launch = sources.misbehaving("", "one", records="7")
    sources.worker.until(lambda: len(sources.values("one")) == 7)
    for pid in pids():
        os.kill(pid, signal.SIGKILL)
    sources.worker.until(lambda: len(sources.values("one")) == 14)
    assert sources.worker.end(launch).drained
    assert sources.values("one") == [f"0:{n}" for n in range(7)] * 2
    assert list(sources.worker.offsets.values()) == [{"n": 7}]  # a stop holds nothing back


def test_offsets_are_held_while_the_jvm_is_silent(sources: Sources) -> None:
    """A JVM that dies slowly or gets no processor may still have a record of the last offset."""
    launch = sources.misbehaving("poll:hang@2", "silent", records="7")
    sources.worker.until(lambda: len(sources.values("silent")) == 7)
    for pid in pids():
        os.kill(pid, signal.SIGSTOP)
    time.sleep(4 * held_offsets.HOLD_S)
    assert list(sources.worker.offsets.values()) == []
    for pid in pids():
        os.kill(pid, signal.SIGKILL)
    sources.worker.until(lambda: len(sources.values("silent")) == 14)
    assert not sources.worker.of(launch, TaskFailed)


def test_offsets_are_held_behind_a_poll_that_failed(sources: Sources) -> None:
    """What the connector had ready may be gone, and it may begin again from the offsets that are stored."""
    launch = sources.misbehaving("poll:retriable@2", "failed", records="7")
    sources.worker.until(lambda: len(sources.values("failed")) == 7)
    time.sleep(4 * held_offsets.HOLD_S)
    assert list(sources.worker.offsets.values()) == []
    assert sources.worker.end(launch).drained
    assert list(sources.worker.offsets.values()) == [{"n": 7}]


def test_a_task_starts_again_in_the_jvm_that_it_had_whatever_its_end_raised(sources: Sources) -> None:
    for number in range(3):
        launch = sources.misbehaving("stop:error,commit:throw", "again", records="100000", pause_ms="1")
        sources.worker.until(lambda number=number: len(sources.values("again")) > 50 * (number + 1))  # type: ignore[misc]
        assert sources.worker.end(launch).drained
    values = sources.values("again")
    assert values == [f"0:{n}" for n in range(len(values))]
    assert not sources.worker.of(launch, TaskFailed)


def test_a_plugin_that_ends_its_jvm_again_and_again_fails_with_what_is_known(sources: Sources) -> None:
    launch = sources.misbehaving("print:print,poll:exit")
    trace = sources.failed(launch)
    assert "the Java host was lost, the 4. time in a row" in trace
    assert "exit code 7" in trace
    assert "called System.exit" in trace
    assert "MisbehavingSourceTask.poll" in trace


def test_task_error_is_its_trace_and_a_retriable_poll_is_retried(sources: Sources) -> None:
    launch = sources.misbehaving("poll:throw")
    trace = sources.failed(launch)
    assert trace.startswith("java.lang.IllegalStateException: misbehaves on purpose")
    assert "at org.sparkconnectrt.testplugins.MisbehavingSourceTask.poll" in trace
    assert "Traceback" not in trace
    assert sources.failed(sources.misbehaving("start:missing", "n")).startswith("java.lang.NoClassDefFoundError")
    tried = sources.misbehaving("poll:retriable@3", "r", records="10")
    sources.worker.until(lambda: sources.values("r"))
    assert sources.worker.end(tried).drained


def test_secrets_are_hidden_in_javas_traces(sources: Sources) -> None:
    connector = {"connector.class": OBEDIENT_SOURCE, "script": "a", "file": str(sources.file / "s3cret-folder")}
    launch = sources.launch(java_code(java_plugin_path() / "misbehaving"), OBEDIENT_SOURCE_TASK, connector)
    trace = sources.failed(sources.start(replace(launch, secret_settings=("file",))))
    assert trace.startswith("java.io.UncheckedIOException")
    assert "s3cret" not in trace
    assert "[hidden]" in trace


def test_the_context_shows_a_secret_that_has_changed(sources: Sources) -> None:
    sources.clients.secrets["${vault:it}"] = "old"
    launch = sources.obedient(*[" $"] * 2_000, label="${vault:it}")
    sources.worker.until(lambda: "label old" in sources.notes())
    sources.clients.secrets["${vault:it}"] = "new"
    sources.worker.until(lambda: "label new" in sources.notes())
    assert sources.worker.end(launch).drained


def test_a_hung_poll_ends_with_its_jvm_and_says_where_it_was(
    sources: Sources, caplog: pytest.LogCaptureFixture
) -> None:
    worker = sources.worker
    neighbour = sources.misbehaving("", "neighbour", records="100000", pause_ms="5")
    hung = sources.misbehaving("poll:swallow@2", "hung", records="5")
    worker.until(lambda: sources.values("hung") and sources.values("neighbour"))
    worker.runner.do(Stop(hung.task, 3_000))
    worker.until(lambda: worker.of(hung, TaskEnded))
    assert not worker.of(hung, TaskEnded)[0].drained
    assert "Misbehaviour.sleepWhatever" in caplog.text
    before = len(sources.values("neighbour"))
    worker.until(lambda: len(sources.values("neighbour")) > before + 20)
    worker.end(neighbour)
    values = sources.values("neighbour")
    again_one_batch(values, len(set(values)))


def test_errant_records_are_tolerated_as_in_java_and_become_dead_letters(sources: Sources) -> None:
    launch = sources.obedient(
        "a b? c",
        "d?",
        errors_tolerance="all",
        value_converter=JSON,
        errors_deadletterqueue_topic_name="dead",
    )
    sources.worker.until(lambda: len(sources.values("dead")) == 2)
    end = sources.worker.end(launch)
    assert end.records == 2
    assert [orjson.loads(source)["payload"] for source in sources.values()] == ["a", "c"]
    assert sources.values("dead") == ['"b"', '"d"']
    (letter, _) = sources.topics.read(TopicPartition("dead", 0), 0, 9)
    headers = {
        header["key"].removeprefix("__connect.errors."): header["value"].decode() for header in letter["headers"]
    }
    assert (headers["stage"], headers["class.name"]) == ("VALUE_CONVERTER", JSON)
    assert headers["exception.class.name"] == "org.apache.kafka.connect.errors.DataException"
    assert (headers["topic"], headers["value.encoding"], headers["source.offset"]) == ("t", "json", '{"n":1}')
    assert sum(report.skipped for report in sources.worker.of(launch, BatchDurable)) == 2
    assert sources.worker.offsets["s", '{"name":"s"}'] == {"n": 1}  # as in Java: a dropped record's is not stored
    assert "b nowhere" in sources.notes()


def test_a_chain_with_a_part_in_python_crosses_once(sources: Sources) -> None:
    launch = sources.obedient(
        "a b>u",
        "c",
        transforms="hoist,python,route",
        transforms_hoist_type="org.apache.kafka.connect.transforms.HoistField$Value",
        transforms_hoist_field="f",
        transforms_python_type="spark_connect_rt.records.transforms.value_to_key:ValueToKey",
        transforms_python_fields="f",
        transforms_route_type="spark_connect_rt.records.transforms.routers:RegexRouter",
        transforms_route_regex="t",
        transforms_route_replacement="w",
        key_converter=JSON,
        key_converter_schemas_enable="false",
        value_converter="spark_connect_rt.records.converters.json:JsonConverter",
    )
    sources.has(*[SCHEMA % letter for letter in "ac"], topic="w")
    assert sources.worker.end(launch).drained
    assert sources.topics.read(TopicPartition("w", 0), 0, 9)[1]["key"] == b'{"f":"c"}'
    assert sources.values("u") == [SCHEMA % "b"]
    assert [note for note in sources.notes() if "@" in note] == ["a w-0@0", "b u-0@0", "c w-0@1"]
    assert sources.worker.offsets["s", '{"name":"s"}'] == {"n": 2}


def test_commit_is_called_again_though_nothing_comes_as_javas_worker_does(sources: Sources) -> None:
    """Mirror's task sends then what it owes of offset syncs, ten of which are under way at most."""
    launch = sources.obedient("a", flush_ms=1_000)
    sources.has("a")
    sources.worker.until(lambda: sources.notes().count("commit") >= 3)
    assert sources.worker.end(launch).records == 1


def test_an_errant_record_that_is_not_tolerated_fails_the_task_in_javas_words(sources: Sources) -> None:
    launch = sources.obedient("a", "b c? d", value_converter=JSON)
    trace = sources.failed(launch)
    assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler")
    assert "Caused by: org.apache.kafka.connect.errors.DataException" in trace
    assert [orjson.loads(source)["payload"] for source in sources.values()] == ["a"]


def test_a_connector_s_own_transactions_commit_and_abort(sources: Sources) -> None:
    launch = sources.obedient(
        "a b", "c+ d", "e", "f -", "g+ h- i", "j +", "open", eos=True, transaction_boundary="connector"
    )
    sources.worker.until(lambda: "j" in sources.values())
    end = sources.worker.end(launch)
    assert sources.values() == ["a", "b", "c", "g", "i", "j"]
    assert end.records == 6
    notes = sources.notes()
    assert notes[0] == "start 0 true"
    for line in ("a t-0@0", "d nowhere", "f nowhere", "h nowhere", "g t-0@3", "j t-0@5"):
        assert line in notes
    assert "open" not in " ".join(notes)
    stored = sources.topics.read(TopicPartition("offsets", 0), 0, 99)
    assert [orjson.loads(record["value"]) for record in stored][-1] == {"n": 6}
    assert orjson.loads(stored[0]["key"]) == ["s", {"name": "s"}]


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_transactions_of_polls_and_of_time(sources: Sources, boundary: str) -> None:
    launch = sources.obedient(
        "a b", "c", eos=True, transaction_boundary=boundary, transaction_boundary_interval_ms="200"
    )
    sources.has("a", "b", "c")
    assert sources.notes()[0] == "start 0 false"
    assert sources.worker.end(launch).records == 3
    stored = sources.topics.read(TopicPartition("offsets", 0), 0, 99)
    assert [orjson.loads(record["value"]) for record in stored][-1] == {"n": 2}


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_no_transaction_ends_within_a_moved_key(sources: Sources, boundary: str) -> None:
    """Debezium resumes behind all records of a changed key once one of them is committed."""
    limits = {"transaction_boundary": boundary, "transaction_boundary_interval_ms": "50"}
    launch = sources.obedient("a", *[""] * 50, "b{", "hang", eos=True, **limits)  # a second: "a" is committed
    sources.worker.until(lambda: "hang" in sources.notes())
    time.sleep(4 * transactional_task_writer.COMMIT_EACH_S)
    assert sources.values() == ["a"]
    for pid in pids():
        os.kill(pid, signal.SIGKILL)
    sources.worker.until(lambda: [note for note in sources.notes() if note.startswith("start")][-1] == "start 1 false")
    assert not sources.worker.of(launch, TaskFailed)


def test_moved_key_is_committed_whole_or_once_nothing_follows(
    sources: Sources, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional_task_writer, "COMMIT_EACH_S", 0.0)  # a transaction for each poll
    sources.obedient("a", "b{", "c}", "", "d{", eos=True, transaction_boundary="poll")
    sources.has("a", "b", "c", "d")
    stored = sources.topics.read(TopicPartition("offsets", 0), 0, 99)
    places = [orjson.loads(record["value"])["n"] for record in stored]
    assert 2 not in places
    assert places[-1] == 5


def test_stop_within_a_moved_key_commits_nothing_of_it(sources: Sources) -> None:
    launch = sources.obedient("a", *[""] * 50, "b{", *[""] * 500, eos=True, transaction_boundary="poll")
    sources.has("a")
    time.sleep(8 * transactional_task_writer.COMMIT_EACH_S)
    sources.worker.end(launch)
    assert sources.values() == ["a"]
    stored = sources.topics.read(TopicPartition("offsets", 0), 0, 99)
    assert [orjson.loads(record["value"])["n"] for record in stored] == [1]


def test_a_lost_jvm_leaves_no_part_of_a_transaction(sources: Sources) -> None:
    launch = sources.obedient("a+", "b", "!", "c+", eos=True, transaction_boundary="connector")
    trace = sources.failed(launch)
    assert "exit code 1" in trace
    assert sources.values() == ["a"]
    assert [note for note in sources.notes() if note.startswith("start")][1:] == ["start 1 true"] * 3

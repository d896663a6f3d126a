"""A task that Spark writes, from its start to its end, with files in place of Spark's jobs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.formats.spark_sink import SparkSinkRunner
from spark_connect_rt.engine.task_runner import (
    Assign,
    BatchDurable,
    Start,
    Stop,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskKind,
    TaskLaunch,
)
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, wait_until
from tests.unit.engine.local_hadoop import LocalFiles, local_session

P0 = TopicPartition("t", 0)
TASK = ConnectorTaskId("s", 0)
JSON = {
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}
CLIENTS = MemoryExecutorClients()


def clients() -> MemoryExecutorClients:
    """Return what hosts find by this function's name."""
    return CLIENTS


class Frame:
    """Stands for a DataFrame; each write is two files."""

    saved = 0

    def __init__(self) -> None:
        self.write = self

    def mapInArrow(self, *_: object) -> Frame:  # noqa: N802 - Spark's name
        return self

    def format(self, _: str) -> Frame:
        return self

    def options(self, **_: str) -> Frame:
        return self

    def mode(self, _: str) -> Frame:
        return self

    def save(self, path: str) -> None:
        Frame.saved += 1
        Path(path).mkdir(parents=True)
        for half in ("first", "second"):
            (Path(path) / f"part-{Frame.saved}-{half}").write_text("rows")


def spark_session() -> tuple[Any, LocalFiles]:
    """Return a session whose jobs write a file each, and its file system."""
    session, files = local_session()
    nothing = SimpleNamespace(setActiveSession=lambda _: None)
    session._jvm = SimpleNamespace(
        org=SimpleNamespace(apache=SimpleNamespace(spark=SimpleNamespace(sql=SimpleNamespace(SparkSession=nothing))))
    )
    session._jsparkSession = None
    session.conf = SimpleNamespace(set=lambda *_: None, get=lambda _, default: default)
    session.newSession = lambda: session
    session.range = lambda *_: Frame()
    context = session.sparkContext
    context.master = "local[2]"
    context.setJobGroup = lambda *_: None
    context.cancelJobGroup = lambda _: None
    context.accumulator = lambda value: SimpleNamespace(value=value)
    return session, files


class Sink:
    """Plays the worker around the task's runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.session, self.files = spark_session()
        self.runs = 0

    def start(self, offset: int) -> None:
        self.events: list[TaskEvent] = []
        self.runs += 1
        self.runner = SparkSinkRunner(f"{__name__}:clients")
        self.runner.open(self.events.append, lambda: self.session)
        config = {"topics": "t", "path": str(self.path), "flush.interval.ms": "1", **JSON}
        self.runner.do(Start(TaskLaunch(TASK, self.runs, 1, TaskKind.SPARK_SINK, "", config, config, {})))
        self.runner.do(Assign(TASK, {P0: offset}))

    def until(self, kind: type[Any]) -> Any:
        wait_until(lambda: any(isinstance(event, kind) for event in self.events), say=lambda: self.events)
        return next(event for event in self.events if isinstance(event, kind))

    def stop(self) -> TaskEnded:
        self.runner.do(Stop(TASK, 5_000))
        ended = self.until(TaskEnded)
        assert isinstance(ended, TaskEnded)
        return ended

    @property
    def appended(self) -> int:
        halves = [file.name.rpartition("-")[2] for file in self.path.glob("part-*")]
        assert halves.count("first") == halves.count("second")
        return len(halves) // 2

    @property
    def remembered(self) -> bool:
        return (self.path / "_connectrt" / "s" / "0" / "manifest.json").exists()


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    CLIENTS.topics.partitions.clear()
    CLIENTS.topics.append([{"topic": "t", "value": b'{"id": 1}'} for _ in range(10)])
    running = Sink(tmp_path / "table")
    yield running
    running.runner.close(5_000)


def test_a_batch_that_fails_behind_its_commit_point_is_not_repeated(sink: Sink) -> None:
    left = [OSError("the connection broke")]

    def broken(_: str, target: str) -> None:
        if target.endswith("second") and left:
            raise left.pop()

    sink.files.before_rename = broken
    sink.start(0)
    durable = sink.until(BatchDurable)
    assert (durable.records, durable.sink_offsets) == (0, ((P0, 10),))  # of no Spark job is anything counted here
    assert (left, sink.appended) == ([], 1)


def test_a_batch_that_fails_before_is_tried_again(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    left = [OSError("busy"), OSError("busy")]
    save = Frame.save

    def busy(frame: Frame, path: str) -> None:
        if left:
            raise left.pop()
        save(frame, path)

    monkeypatch.setattr(Frame, "save", busy)
    sink.start(0)
    sink.until(BatchDurable)
    assert (left, sink.appended) == ([], 1)


def test_batch_of_unknown_outcome_fails_the_task_instead_of_being_repeated(sink: Sink) -> None:
    def broken(*_: object) -> None:
        def gone(_: object) -> bool:
            raise ConnectionError("no answer")

        sink.files.exists = gone  # type: ignore[assignment, method-assign]
        raise ConnectionError("no answer")

    sink.files.after_rename = broken
    sink.start(0)
    assert "no answer" in sink.until(TaskFailed).trace
    sink.until(TaskEnded)
    assert sink.appended == 0
    sink.session, sink.files = spark_session()
    sink.start(0)  # it was declared: it is finished, and no record of it is read again
    assert sink.until(BatchDurable).sink_offsets == ((P0, 10),)
    assert sink.appended == 1


def test_batch_without_a_group_commit_is_remembered_after_an_orderly_stop(sink: Sink) -> None:
    sink.start(0)
    sink.until(BatchDurable)
    assert sink.stop().drained
    assert sink.remembered
    sink.start(0)  # contact was lost before the commit: the next run is told the old offset
    assert sink.until(BatchDurable).sink_offsets == ((P0, 10),)
    ended = sink.stop()
    assert sink.appended == 1
    assert ended.on_committed is not None
    ended.on_committed()
    assert not sink.remembered


def test_offsets_of_a_topic_that_was_created_again_are_not_those_of_the_present_one(sink: Sink) -> None:
    CLIENTS.topics.topic_ids["t"] = "first"
    sink.start(0)
    sink.until(BatchDurable)
    sink.stop()
    CLIENTS.topics.topic_ids["t"] = "second"  # as long as the first was: the ends of the logs do not tell
    sink.start(-1)
    sink.until(BatchDurable)
    sink.stop()
    assert sink.appended == 2
    CLIENTS.topics.topic_ids.clear()  # a broker that tells no ids
    CLIENTS.topics.partitions.clear()
    CLIENTS.topics.append([{"topic": "t", "value": b'{"id": 1}'}])
    sink.start(-1)
    assert sink.until(BatchDurable).sink_offsets == ((P0, 1),)
    sink.stop()
    assert sink.appended == 3


def test_a_run_that_was_given_nothing_forgets_nothing(sink: Sink) -> None:
    sink.start(0)
    sink.until(BatchDurable)
    sink.stop()
    sink.runner.open(sink.events.append, lambda: sink.session)
    sink.events.clear()
    config = {"topics": "t", "path": str(sink.path), **JSON}
    sink.runner.do(Start(TaskLaunch(TASK, 9, 1, TaskKind.SPARK_SINK, "", config, config, {})))
    assert sink.stop().on_committed is None
    assert sink.remembered

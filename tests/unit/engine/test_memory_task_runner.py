"""The in-memory task runner keeps the contract, and the engine's own promises that need no Spark."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.driver.model import EngineSettings, TaskRun
from spark_connect_rt.engine.driver.reports import calm_tasks, remember_moved
from spark_connect_rt.engine.driver.slot_jobs import SliceConnected, SliceGone, SliceMessage
from spark_connect_rt.engine.driver.slot_packing import Isolation, PackingLimits
from spark_connect_rt.engine.executor.control_wire import MessageSplitter, encode_message
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.executor.source_task import SourceTaskRunner
from spark_connect_rt.engine.executor.task_meter import MeteredPluginMetrics, TaskMeter
from spark_connect_rt.engine.executor.writer_side import WriterSide
from spark_connect_rt.engine.slot_losses import LossLimits
from spark_connect_rt.engine.task_runner import (
    Assign,
    BatchDurable,
    JavaCode,
    Start,
    Stop,
    TaskEnded,
    TaskFailed,
    TaskKind,
    TaskLaunch,
)
from spark_connect_rt.errors import ConnectError, DataError, RetriableError, ShuttingDownError
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics, wait_until
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner, ThreadSlice
from tests.contract.task_runner_contract import TaskRunnerContract, Worker
from tests.contract.task_samples import CountingSource


class _Clients(MemoryExecutorClients):
    """Memory clients that honour ``fail.value`` as the file clients do."""

    def producer(self, config: Any) -> Any:
        refused = config.get("fail.value", "").encode()
        producer = super().producer(config)
        if refused:
            producer._topics = _Refusing(self.topics, refused)
        return producer


class _Refusing:
    def __init__(self, topics: MemoryTopics, refused: bytes) -> None:
        self.append = topics.append
        self.fail_produce = lambda row: (
            ConnectError(f"delivery of {refused!r} was refused") if row["value"] == refused else None
        )


def new_worker(folder: Path, settings: EngineSettings) -> Worker:
    clients = _Clients(find_plugin=load_class)
    worker = Worker(MemoryTaskRunner(clients, settings), clients.topics, folder)
    worker.runner.open(worker.on_event, worker.read_offsets)
    return worker


class TestMemoryTaskRunner(TaskRunnerContract):
    """The contract on threads."""

    @pytest.fixture
    def worker(self, tmp_path: Path) -> Iterator[Worker]:
        settings = EngineSettings(housekeeping_ms=20, losses=LossLimits(backoff_ms=10), neighbour_grace_ms=100)
        worker = new_worker(tmp_path, settings)
        yield worker
        worker.runner.close(2_000)

    def lose_infrastructure(self, worker: Worker) -> None:
        assert isinstance(worker.runner, MemoryTaskRunner)
        worker.runner.lose_slices()


class TestFusedTasks(TestMemoryTaskRunner):
    """The contract, both halves of each task in the process that reads."""

    @pytest.fixture
    def worker(self, tmp_path: Path) -> Iterator[Worker]:
        settings = EngineSettings(housekeeping_ms=20, losses=LossLimits(backoff_ms=10), neighbour_grace_ms=100)
        worker = new_worker(tmp_path, settings)
        worker.fused = True
        yield worker
        worker.runner.close(2_000)


def test_tasks_share_a_slot_and_process_isolation_does_not(tmp_path: Path) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    for name in ("a", "b", "c"):
        worker.start(name, count="1")
    alone = worker.start("d", count="1", isolation="process")
    for name in ("a", "b", "c", "d"):
        worker.wait_sent(name, 1)
    assert isinstance(worker.runner, MemoryTaskRunner)
    assert len(worker.runner.launcher.slices) == 2
    assert worker.end(alone).drained
    worker.runner.close(2_000)


def test_a_slice_that_is_old_hands_its_tasks_to_a_new_one(tmp_path: Path) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20, slice_length_ms=150))
    launch = worker.start("a", count="1000000", per_poll="1", pause_s="0.002")
    assert isinstance(worker.runner, MemoryTaskRunner)
    slices = worker.runner.launcher.slices
    worker.until(lambda: len(slices) >= 4)
    end = worker.end(launch)
    assert end.drained
    sent = worker.sent("a")
    assert sent == list(range(len(sent)))
    assert end.records == len(sent)
    assert not worker.of(launch, TaskFailed)
    worker.runner.close(2_000)


def test_a_busy_task_leaves_a_shared_slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.engine.driver.reports.WINDOW_MS", 200.0)
    limits = PackingLimits(busy_bytes_per_s=1e12, busy_records_per_s=500)
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20, limits=limits))
    quiet = worker.start("quiet", count="1")
    worker.wait_sent("quiet", 1)
    busy = worker.start("busy", count="1000000", per_poll="20", pause_s="0.005")
    assert isinstance(worker.runner, MemoryTaskRunner)
    worker.until(lambda: len(worker.runner.launcher.slices) == 2)  # type: ignore[attr-defined]
    here = len(worker.sent("busy"))
    worker.wait_sent("busy", here + 200)
    assert worker.end(busy).drained
    assert worker.end(quiet).drained
    sent = worker.sent("busy")
    assert sent == list(range(len(sent)))
    assert [line.split()[0] for line in worker.notes("quiet")] == ["start", "stop"]
    worker.runner.close(2_000)


def test_a_task_that_is_not_busy_any_more_shares_a_slot_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.engine.driver.reports.WINDOW_MS", 200.0)
    limits = PackingLimits(busy_bytes_per_s=1e12, busy_records_per_s=500)
    settings = EngineSettings(housekeeping_ms=20, limits=limits, calm_ms=100, idle_linger_ms=20)
    worker = new_worker(tmp_path, settings)
    quiet = worker.start("quiet", count="1")
    worker.wait_sent("quiet", 1)
    busy = worker.start("busy", count="8000", per_poll="20", pause_s="0.005")
    assert isinstance(worker.runner, MemoryTaskRunner)
    slices = worker.runner.launcher.slices
    worker.until(lambda: len(slices) == 2)
    worker.wait_sent("busy", 8000)
    times = ["start", "stop", "start", "stop", "start"]  # shared, alone, shared
    worker.until(lambda: [line.split()[0] for line in worker.notes("busy")] == times)
    worker.until(lambda: [slice_._thread.is_alive() for slice_ in slices] == [True, False])
    assert worker.end(busy).drained
    assert worker.end(quiet).drained
    assert worker.sent("busy") == list(range(8000))
    worker.runner.close(2_000)


def test_each_time_a_task_was_busy_it_has_to_be_calm_for_longer() -> None:
    launch = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {})
    run = TaskRun(launch, Isolation.AUTO, paused=False, alone=True, outings=1)
    limits = PackingLimits(busy_bytes_per_s=1000)

    def calm_at(now_ms: float) -> bool:
        return list(calm_tasks([run], limits, now_ms, 100)) == [run]

    assert [calm_at(now) for now in (5_000, 5_099, 5_100)] == [False, False, True]
    run.outings, run.calm_since_ms = 3, None
    assert [calm_at(now) for now in (10_000, 10_399, 10_400)] == [False, False, True]
    remember_moved(run, 10_401, data_bytes=5000, records=1)  # 1000 bytes a second
    assert [calm_at(now) for now in (10_402, 15_401, 15_402, 15_801, 15_802)] == [False, False, False, False, True]
    run.launch = replace(launch, java=JavaCode(()))
    assert [calm_at(now) for now in (20_000, 99_999)] == [False, False]


def test_a_task_that_asks_is_notified_of_its_records_offsets(tmp_path: Path) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    launch = worker.start("a", "ToldSource", count="3", per_poll="3")
    worker.until(lambda: "at numbers-0: 0 and 3 in all" in worker.notes("a"))
    worker.end(launch)
    worker.runner.close(2_000)


def test_losses_without_progress_fail_the_task(tmp_path: Path) -> None:
    settings = EngineSettings(housekeeping_ms=20, losses=LossLimits(backoff_ms=1, guilty_after_ms=0, guilty_losses=3))
    worker = new_worker(tmp_path, settings)
    launch = worker.start("a", count="0")
    assert isinstance(worker.runner, MemoryTaskRunner)
    for starts in (1, 2, 3):
        worker.until(lambda starts=starts: sum("start" in n for n in worker.notes("a")) == starts)  # type: ignore[misc]
        worker.runner.lose_slices("executor 3 lost")
    end = worker.ended(launch)
    assert not end.drained
    assert "executor 3 lost" in worker.of(launch, TaskFailed)[0].trace
    worker.runner.close(2_000)


def test_an_aborted_slice_reports_why_even_if_a_half_of_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Event()

    def cut_off(self: WriterSide, rows: Iterator[Any]) -> Any:
        begun.set()
        wait_until(lambda: self._writers.abandoned)
        raise ShuttingDownError("the slice is over; nothing begins")

    monkeypatch.setattr(WriterSide, "run", cut_off)
    events: list[Any] = []
    lost = ThreadSlice(1, MemoryExecutorClients(), events.append)
    assert begun.wait(10)
    lost.abort("executor 3 lost")
    lost.join(10)
    assert events == [SliceConnected(1), SliceGone(1, "executor 3 lost")]


def test_reports_of_a_lost_slice_are_refused(tmp_path: Path) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    launch = worker.start("a", count="3")
    worker.wait_sent("a", 3)
    worker.until(lambda: worker.of(launch, BatchDurable))
    assert isinstance(worker.runner, MemoryTaskRunner)
    old = worker.runner.launcher.slices[0]
    worker.runner.lose_slices()
    worker.until(lambda: len(worker.runner.launcher.slices) == 2)  # type: ignore[attr-defined]
    before = len(worker.events)
    zombie = {"op": "durable", "host": 1, "n": 99, "bytes": 1, "skipped": 0, "topics": [], "rows": 1}
    old._on_event(SliceMessage(old.slice_id, zombie))
    worker.end(launch)
    assert not [b for b in worker.of(launch, BatchDurable) if b.records == 99]
    assert isinstance(worker.events[-1], TaskEnded)
    assert before
    worker.runner.close(2_000)


def test_offsets_that_cannot_be_read_for_a_moment_do_not_fail_the_task(tmp_path: Path) -> None:
    """Found with real brokers away: the first read after their return still told of a lost write."""
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    failures = iter([RetriableError("brokers were away"), RetriableError("still away")])
    answered = worker.read_offsets

    def read_offsets(*asked: Any) -> list[Any]:
        if (failure := next(failures, None)) is not None:
            raise failure
        return answered(*asked)

    assert isinstance(worker.runner, MemoryTaskRunner)
    worker.runner._read_offsets = read_offsets
    launch = worker.start("a", count="3")
    worker.wait_sent("a", 3)
    assert worker.of(launch, TaskFailed) == []
    assert worker.end(launch).drained
    worker.runner.close(2_000)


def failure(worker: Worker, launch: TaskLaunch) -> str:
    """Wait for a run to fail; return its trace."""
    worker.until(lambda: worker.of(launch, TaskFailed))
    return worker.of(launch, TaskFailed)[0].trace


@pytest.mark.parametrize("position", [2**64, "caf\ud800"], ids=["65 bits", "surrogate"])
def test_an_offset_that_cannot_be_sent_fails_who_asked_for_it_alone(tmp_path: Path, position: Any) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    good = worker.start("good", count="1000000", per_poll="1", pause_s="0.002")
    worker.wait_sent("good", 3)
    worker.offsets["bad", "bad"] = {"n": position}
    bad = worker.start("bad", count="1")
    trace = failure(worker, bad)
    assert "source offsets could not be read" in trace
    here = len(worker.sent("good"))
    worker.wait_sent("good", here + 3)
    assert worker.of(good, TaskFailed) == []
    worker.runner.close(2_000)


def test_a_configuration_that_cannot_be_sent_fails_its_task(tmp_path: Path) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    launch = worker.start("a", note="caf\ud800")
    trace = failure(worker, launch)
    assert "cannot be sent" in trace
    worker.ended(launch)
    worker.runner.close(2_000)


def test_a_task_whose_thread_cannot_start_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20, losses=LossLimits(backoff_ms=5)))
    good = worker.start("good", count="3")
    worker.wait_sent("good", 3)
    begun, refused = SourceTaskRunner.start, iter(range(3))

    def no_thread(host: SourceTaskRunner) -> None:
        if next(refused, None) is not None:
            raise RuntimeError("can't start new thread")
        begun(host)

    monkeypatch.setattr(SourceTaskRunner, "start", no_thread)
    late = worker.start("late", count="1")
    worker.wait_sent("late", 1)
    assert [*worker.of(good, TaskFailed), *worker.of(late, TaskFailed)] == []
    assert [worker.end(launch).drained for launch in (good, late)] == [True, True]
    worker.runner.close(2_000)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "two processes"])
def test_last_acknowledgement_reaches_the_hooks_of_the_task_before_its_stop(tmp_path: Path, fused: bool) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    worker.fused = fused
    launch = worker.start("a", "CommittedSource", count="100000", per_poll="1", pause_s="0.001")
    worker.wait_sent("a", 30)
    assert worker.end(launch).drained
    notes = worker.notes("a")
    committed = [line.split()[1] for line in notes if line.startswith("committed")]
    assert committed == [f"a-{number}" for number in worker.sent("a")]
    assert notes[-1] == "stop a"
    worker.runner.close(2_000)


def test_a_stop_waits_for_acknowledgements_only_for_a_part_of_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    launch = worker.start("a", "CommittedSource", count="3", per_poll="3")
    worker.wait_sent("a", 3)
    monkeypatch.setattr("spark_connect_rt.engine.executor.source_task.SourceTaskRunner.take_durable", lambda _: ())
    began_s = time.monotonic()
    worker.runner.do(Stop(launch.task, 1_000))
    assert worker.ended(launch).drained
    assert time.monotonic() - began_s < 1.0
    assert worker.notes("a")[-1] == "stop a"
    worker.runner.close(2_000)


def refusing(worker: Worker, error: Exception) -> None:
    """Have Kafka refuse record a-2."""
    worker.topics.fail_produce = lambda row: error if row["value"] == b"a-2" else None  # type: ignore[attr-defined]


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "two processes"])
def test_a_record_that_kafka_refuses_is_skipped_where_errors_are_tolerated(
    tmp_path: Path, fused: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Java ``WorkerSourceTask.producerSendFailed``; the record is given to commitRecord without a place."""
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    worker.fused = fused
    refusing(worker, DataError("producing to numbers-0: Broker: Message size too large (MSG_SIZE_TOO_LARGE)"))
    launch = worker.start("a", "CommittedSource", count="6", per_poll="6", tolerance="all")
    worker.until(lambda: sum(line.startswith("committed") for line in worker.notes("a")) == 6)
    assert worker.sent("a") == [0, 1, 3, 4, 5]
    assert "committed a-2 nowhere" in worker.notes("a")
    assert worker.end(launch).records == 5
    durable = worker.of(launch, BatchDurable)
    assert (
        sum(report.records for report in durable),
        sum(report.skipped for report in durable),
    ) == (5, 1)
    assert "stage KAFKA_PRODUCE" in caplog.text
    assert not worker.of(launch, TaskFailed)
    worker.runner.close(2_000)


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "two processes"])
def test_record_that_kafka_refuses_becomes_a_dead_letter(tmp_path: Path, fused: bool) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    worker.fused = fused
    error = DataError("producing to numbers-0: Broker: Broker failed to validate record (INVALID_RECORD)")
    worker.topics.fail_produce = lambda row: error if (row["topic"], row["value"]) == ("numbers", b"a-2") else None
    launch = worker.start("a", "CommittedSource", count="6", per_poll="6", tolerance="all", dlq="dead")
    worker.until(lambda: sum(line.startswith("committed") for line in worker.notes("a")) == 6)
    assert worker.sent("a") == [0, 1, 3, 4, 5]
    assert "committed a-2 nowhere" in worker.notes("a")
    assert worker.end(launch).records == 5
    (letter,) = [row for tp, rows in worker.topics.partitions.items() if tp.topic == "dead" for row in rows]
    headers = {header["key"].rpartition(".errors.")[2]: header["value"] for header in letter["headers"]}
    assert letter["value"] == b"a-2"
    assert (headers["stage"], headers["topic"], headers["connector.name"]) == (b"KAFKA_PRODUCE", b"numbers", b"a")
    assert not worker.of(launch, TaskFailed)
    worker.runner.close(2_000)


def test_dead_letter_queue_that_refuses_a_refused_record_fails_the_task(tmp_path: Path) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    worker.topics.fail_produce = lambda row: DataError("too large") if row["value"] == b"a-2" else None
    launch = worker.start("a", count="6", per_poll="6", tolerance="all", dlq="dead")
    assert "dead letter queue dead does not take a record" in failure(worker, launch)
    assert not worker.of(launch, BatchDurable)
    worker.runner.close(2_000)


@pytest.mark.parametrize(
    ("tolerance", "error"),
    [("none", DataError("too large")), ("all", ConnectError("not authorized"))],
    ids=["not tolerated", "not the record's fault"],
)
def test_a_delivery_that_fails_otherwise_fails_the_task(tmp_path: Path, tolerance: str, error: Exception) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    refusing(worker, error)
    launch = worker.start("a", count="6", per_poll="6", tolerance=tolerance)
    assert str(error) in failure(worker, launch)
    worker.ended(launch)
    worker.runner.close(2_000)


HOSTED = "spark_connect_rt.engine.executor"
BUILT = {
    "a launch that cannot be read": ("reader_side.decode_launch", TaskKind.SOURCE),
    "its secrets": ("reader_side.hide_secrets", TaskKind.SOURCE),
    "a source's host": ("source_task.SourceTaskRunner.__init__", TaskKind.SOURCE),
    "a source's lane": ("source_task_writer.SourceTaskWriter.__init__", TaskKind.SOURCE),
    "a source's new topics": ("source_task_writer.NewTopics.__init__", TaskKind.SOURCE),
    "a sink's feed": ("sink_feed.SinkFeed.__init__", TaskKind.SINK),
    "a sink's lane": ("sink_task.SinkTaskRunner.__init__", TaskKind.SINK),
    "the writer's launch": ("writer_side.decode_launch", TaskKind.SOURCE),
}


@pytest.mark.parametrize("fused", [True, False], ids=["fused", "two processes"])
@pytest.mark.parametrize("error", [ValueError("invalid literal for int()"), SystemExit(3)], ids=["error", "exit"])
@pytest.mark.parametrize(("name", "kind"), BUILT.values(), ids=BUILT)
def test_failure_while_building_a_task_fails_that_task_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    kind: TaskKind,
    error: BaseException,
    fused: bool,
) -> None:
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    worker.fused = fused
    good = worker.start("good", count="1000000", per_poll="1", pause_s="0.002")
    worker.wait_sent("good", 3)

    def fails(*_: Any, **__: Any) -> None:
        raise error

    with monkeypatch.context() as broken:
        broken.setattr(f"{HOSTED}.{name}", fails)
        bad = replace(worker.launch("bad", "CollectingSink" if kind is TaskKind.SINK else "CountingSource", kind))
        worker.runner.do(Start(bad))
        if fused and name == "writer_side.decode_launch":
            worker.wait_sent("bad", 1)  # there is one launch, and it was read
        else:
            assert str(error) in failure(worker, bad)
            worker.ended(bad)
    here = len(worker.sent("good"))
    worker.wait_sent("good", here + 3)
    assert worker.of(good, TaskFailed) == []
    assert isinstance(worker.runner, MemoryTaskRunner)
    assert len(worker.runner.launcher.slices) == 1  # nobody's process ended
    assert worker.end(good).drained
    worker.runner.close(2_000)


class _Untold(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


_UNTELLABLE = [ValueError("no such file: caf\udce9.csv"), SystemExit(3), _Untold()]


@pytest.mark.parametrize("error", _UNTELLABLE, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("sample", ["CountingSource", "CollectingSink"])
def test_task_error_reports_failure_and_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: str, error: BaseException
) -> None:
    def start(_: Any, config: Any) -> None:
        raise error

    monkeypatch.setattr(f"tests.contract.task_samples.{sample}.start", start)
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    kind = TaskKind.SINK if sample == "CollectingSink" else TaskKind.SOURCE
    launch = worker.launch("a", sample, kind)
    worker.runner.do(Start(launch))
    worker.runner.do(Assign(launch.task, {TopicPartition("t", 0): 0}))
    assert type(error).__name__ in failure(worker, launch)
    worker.ended(launch)
    worker.runner.close(2_000)


def test_a_metric_that_cannot_be_sent_costs_that_report_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def poll(task: CountingSource) -> Any:
        task.context.metrics._meter.set("weight", np.float64(1.5))  # type: ignore[attr-defined]
        return polled(task)

    polled = CountingSource.poll
    monkeypatch.setattr(CountingSource, "poll", poll)
    monkeypatch.setattr("spark_connect_rt.engine.executor.reader_side.TELL_EACH_S", 0.0)
    worker = new_worker(tmp_path, EngineSettings(housekeeping_ms=20))
    launch = worker.start("a", count="3")
    worker.wait_sent("a", 3)
    assert worker.end(launch).drained
    assert worker.of(launch, TaskFailed) == []
    assert isinstance(worker.runner, MemoryTaskRunner)
    assert len(worker.runner.launcher.slices) == 1
    worker.runner.close(2_000)


def test_a_metric_may_be_a_number_of_numpys() -> None:
    meter = TaskMeter("reader")
    metrics = MeteredPluginMetrics(meter)
    metrics.count("weight", np.float64(1.5))
    metrics.observe("size", [np.float32(2.5), np.float32(4.0)])
    (told,) = MessageSplitter().feed(encode_message({"op": "measures", **(meter.news(0, anyway=True) or {})}))
    assert sorted(told["totals"].values()) == [1.5, 2.0, 6.5]

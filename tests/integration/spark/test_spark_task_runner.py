"""The Spark task runner keeps the contract, and mends what only real processes can lose."""

from __future__ import annotations

import os
import signal
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_connect_rt.engine.driver.control_channel import SlotConnection
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.executor.reader_side import CALM_BEATS
from spark_connect_rt.engine.slot_losses import LossLimits
from spark_connect_rt.engine.spark_runner import SparkTaskRunner
from spark_connect_rt.engine.task_runner import BatchDurable, TaskFailed
from spark_connect_rt.testing.file_executor_clients import FileTopics
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.contract.task_runner_contract import TaskRunnerContract, Worker

CLIENTS = "spark_connect_rt.testing.file_executor_clients:factory"
SETTINGS = EngineSettings(housekeeping_ms=100, losses=LossLimits(backoff_ms=50))


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    session = build_session({"spark.master": "local[*]"})
    yield session
    session.stop()


def new_worker(session: SparkSession, folder: Path, settings: EngineSettings = SETTINGS) -> Worker:
    topics = FileTopics(folder / "topics")
    runner = SparkTaskRunner(worker_settings(), CLIENTS, session_factory=lambda: session, settings=settings)
    client_config = {"bootstrap.servers": f"file:{topics.folder}"}
    worker = Worker(runner, topics, folder, client_config, limit_s=240)
    runner.open(worker.on_event, worker.read_offsets)
    return worker


def pids(worker: Worker, name: str) -> list[int]:
    return [int(line.split()[-1]) for line in worker.notes(name) if line.startswith("start")]


class TestSparkTaskRunner(TaskRunnerContract):
    """The contract on a local SparkSession."""

    @pytest.fixture
    def worker(self, session: SparkSession, tmp_path: Path) -> Iterator[Worker]:
        worker = new_worker(session, tmp_path)
        worker.fused = True
        yield worker
        worker.runner.close(5_000)

    def lose_infrastructure(self, worker: Worker) -> None:
        """Kill the process that polls; the writer must go, too."""
        os.kill(pids(worker, "a")[-1], signal.SIGKILL)


def test_a_killed_writer_process_is_replaced(session: SparkSession, tmp_path: Path) -> None:
    worker = new_worker(session, tmp_path)
    source = worker.start("a", count="200", per_poll="1", pause_s="0.01")
    sink = worker.start_sink("s")
    worker.until(lambda: pids(worker, "s"))
    worker.wait_sent("a", 20)
    os.kill(pids(worker, "s")[0], signal.SIGKILL)  # a sink task runs in the writer
    worker.wait_sent("a", 200)
    worker.until(lambda: len(pids(worker, "s")) == 2)
    assert not worker.of(source, TaskFailed)
    assert worker.end(source).drained
    assert worker.end(sink).drained
    sent = worker.sent("a")
    assert set(sent) == set(range(200))
    repeated = len(sent) - 200
    # At least once: only what was polled and not yet reported durable comes again.
    assert repeated < 60
    worker.runner.close(5_000)


def test_a_task_that_ends_its_process_again_and_again_fails_alone(session: SparkSession, tmp_path: Path) -> None:
    losses = LossLimits(backoff_ms=50, guilty_after_ms=500, guilty_losses=2)
    worker = new_worker(session, tmp_path, EngineSettings(housekeeping_ms=100, losses=losses))
    quiet = [worker.start(name, count="0") for name in ("a", "b")]
    worker.until(lambda: all(pids(worker, name) for name in ("a", "b")))
    killer = worker.start("k", "KillingSource", count="0")
    worker.until(lambda: worker.of(killer, TaskFailed))
    trace = worker.of(killer, TaskFailed)[0].trace
    assert "task k-0 ends its process" in trace
    assert "shared a process with a-0, b-0" in trace
    assert not [failure for launch in quiet for failure in worker.of(launch, TaskFailed)]
    assert [worker.end(launch).drained for launch in quiet] == [True, True]
    worker.runner.close(5_000)


def test_a_cut_control_channel_stops_both_processes_before_the_task_runs_again(
    session: SparkSession, tmp_path: Path
) -> None:
    worker = new_worker(session, tmp_path)
    launch = worker.start("a", count="150", per_poll="1", pause_s="0.01")
    worker.wait_sent("a", 10)
    (pid,) = pids(worker, "a")
    assert isinstance(worker.runner, SparkTaskRunner)
    channel = worker.runner._engine._launcher.channel()  # type: ignore[attr-defined]
    for connection in list(channel._connections):
        channel.cut(connection)
    worker.until(lambda: len(pids(worker, "a")) == 2)
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    worker.wait_sent("a", 150)
    assert not worker.of(launch, TaskFailed)
    assert worker.end(launch).drained
    worker.runner.close(5_000)


@pytest.mark.parametrize(("ended", "within_s"), [("reader", 5.0), ("writer", 5.0), ("job", 7.0)])
def test_an_end_is_noticed_while_heartbeats_are_rare(
    session: SparkSession, tmp_path: Path, ended: str, within_s: float
) -> None:
    """Where all hosts are fused and nothing crosses, a row goes through the JVM each ten seconds only.

    Processes are noticed by their control connections, at once; a job that Spark ends by Spark's monitor of its Python
    workers, which looks each 2 s and gives them ``spark.python.task.killTimeout``, 2 s.
    """
    worker = new_worker(session, tmp_path)
    worker.fused = True
    launch = worker.start("a", count="10")
    worker.wait_sent("a", 10)
    calm_s = time.monotonic() + CALM_BEATS + 2  # the next heartbeat is 8 s away
    worker.until(lambda: time.monotonic() > calm_s)
    channel = worker.runner._engine._launcher.channel()  # type: ignore[attr-defined]
    halves = {connection.role: connection for connection in channel._connections}
    began_s = time.monotonic()
    if ended == "job":
        session.sparkContext.cancelAllJobs()
    else:
        os.kill(process_of(halves[ended]), signal.SIGKILL)
    worker.until(lambda: not channel._connections & set(halves.values()))
    assert time.monotonic() - began_s < within_s
    worker.until(lambda: len(pids(worker, "a")) == 2)
    assert not worker.of(launch, TaskFailed)
    assert worker.end(launch).drained
    worker.runner.close(5_000)


def process_of(connection: SlotConnection) -> int:
    """Return the process at the other end of a connection."""
    form = "3i"  # pid, uid, gid
    found = connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form))
    return int(struct.unpack(form, found)[0])


def test_a_silent_process_is_given_up_after_the_session_timeout(session: SparkSession, tmp_path: Path) -> None:
    topics = FileTopics(tmp_path / "topics")
    runner = SparkTaskRunner(
        worker_settings({"connectrt.channel.timeout.ms": "1500"}),
        CLIENTS,
        session_factory=lambda: session,
        settings=SETTINGS,
    )
    worker = Worker(runner, topics, tmp_path, {"bootstrap.servers": f"file:{topics.folder}"}, limit_s=240)
    runner.open(worker.on_event, worker.read_offsets)
    launch = worker.start("a", count="100000", per_poll="1", pause_s="0.01")
    worker.wait_sent("a", 10)
    (pid,) = pids(worker, "a")
    os.kill(pid, signal.SIGSTOP)
    try:
        worker.until(lambda: len(pids(worker, "a")) == 2)
    finally:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGCONT)
    repeated_from = worker.offsets["a", "a"]["next"]
    worker.wait_sent("a", repeated_from + 10)
    assert not worker.of(launch, TaskFailed)
    end = worker.end(launch)
    assert end.drained
    sent = worker.sent("a")
    assert set(sent) == set(range(max(sent) + 1))
    runner.close(5_000)


def test_slices_follow_one_another_and_their_books_balance(session: SparkSession, tmp_path: Path) -> None:
    settings = EngineSettings(housekeeping_ms=100, slice_length_ms=1_500)
    worker = new_worker(session, tmp_path, settings)
    worker.fused = True  # what its lane says comes from the reader's process, and its totals by the last row
    launch = worker.start("a", count="1000000", per_poll="2", pause_s="0.01")
    worker.until(lambda: len(pids(worker, "a")) == 3)
    here = len(worker.sent("a"))
    worker.wait_sent("a", here + 20)
    end = worker.end(launch)
    assert end.drained
    sent = worker.sent("a")
    assert sent == list(range(len(sent)))
    assert end.records == len(sent) == sum(b.records for b in worker.of(launch, BatchDurable))
    worker.runner.close(5_000)


def test_books_that_do_not_balance_are_an_error_of_the_job(
    session: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    worker = new_worker(session, tmp_path)
    launch = worker.start("a", count="3")
    worker.wait_sent("a", 3)
    assert isinstance(worker.runner, SparkTaskRunner)
    channel = worker.runner._engine._launcher.channel()  # type: ignore[attr-defined]
    (owner,) = channel._owners.values()
    owner._totals.count({"op": "durable", "host": 1, "n": 1})  # a report nobody wrote
    assert worker.end(launch).drained
    worker.runner.close(5_000)
    assert "counts do not match: host 1: writer says (3, 1)" in caplog.text
    assert "slot=1 was lost" in caplog.text
    assert owner._error is not None

"""Reader and writer in other processes than the driver's JVM, on a cluster of two executors: TCP, address, imports."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from pyspark.sql import SparkSession

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.driver.spark_session import build_session
from spark_connect_rt.engine.executor.reach import Obstacles
from spark_connect_rt.engine.previews.model import Ended, PreviewOrder
from spark_connect_rt.engine.task_runner import Assign, BatchDurable, TaskFailed
from tests.contract.task_runner_contract import Worker
from tests.integration.spark.test_spark_task_runner import new_worker, pids


@pytest.fixture
def session() -> Iterator[SparkSession]:
    session = build_session({"spark.master": "local-cluster[2,1,1024]"})
    yield session
    session.stop()


def executor_jvms() -> list[psutil.Process]:
    family = psutil.Process().children(recursive=True)
    return [process for process in family if "CoarseGrainedExecutorBackend" in " ".join(_command(process))]


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def test_tasks_run_on_executors_and_survive_the_loss_of_one(session: SparkSession, tmp_path: Path) -> None:
    worker: Worker = new_worker(session, tmp_path)
    worker.limit_s = 90
    worker.topics.append([{"topic": "t", "value": b"x"}])
    source = worker.start("a", count="100000", per_poll="1", pause_s="0.01")
    sink = worker.start_sink("s")
    worker.runner.do(Assign(sink.task, {TopicPartition("t", 0): 0}))
    worker.wait_sent("a", 10)
    worker.until(lambda: worker.of(sink, BatchDurable))
    (pid,) = pids(worker, "a")
    (jvm,) = [
        executor for executor in executor_jvms() if pid in {child.pid for child in executor.children(recursive=True)}
    ]
    os.kill(jvm.pid, signal.SIGKILL)
    worker.until(lambda: len(pids(worker, "a")) == 2)
    next_offset = worker.offsets["a", "a"]["next"]
    worker.wait_sent("a", next_offset + 20)
    assert not worker.of(source, TaskFailed)
    assert worker.end(source).drained
    assert worker.end(sink).drained
    sent = worker.sent("a")
    assert set(sent) == set(range(max(sent) + 1))
    a_preview_is_run_and_ended(worker)
    with socket.create_server(("127.0.0.1", 0)) as server:
        places = [("127.0.0.1", server.getsockname()[1]), ("no.such.invalid", 1)]
        seen = worker.runner.reach()(places, 60.0)
    assert seen == Obstacles(socket.gethostname(), ["", "unknown host"])
    worker.runner.close(10_000)


def a_preview_is_run_and_ended(worker: Worker) -> None:
    """On an executor that is reached by TCP and TLS; one that hangs is ended there when it is not wanted any more."""
    previews = worker.runner.previews()
    found = previews.run(PreviewOrder(worker.launch("p", "CountingSource", count="9"), 3, 30.0), threading.Event())
    assert (found.ended, found.error) == (Ended.RECORDS, None)
    assert [record[0]["record"]["value"] for record in found.records] == ["p-0", "p-1", "p-2"]
    cancelled = threading.Event()
    hangs = PreviewOrder(worker.launch("h", "CountingSource", count="1", fail="hang"), 3, 60.0)
    asking = threading.Thread(target=lambda: previews.run(hangs, cancelled))
    asking.start()
    worker.until(lambda: any(line.startswith("hangs") for line in worker.notes("h")))
    cancelled.set()
    asking.join(20)
    (pid,) = pids(worker, "h")
    worker.until(lambda: not psutil.pid_exists(pid))
    assert not worker.sent("p")

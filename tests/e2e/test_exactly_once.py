"""Exactly-once sources on real Spark: the worker is frozen past its session, the next one killed; every line is once.

The second worker has no Spark (tests.integration.kafka.mixed_worker), so only one start is paid.
"""

from __future__ import annotations

import contextlib
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import get_json, until
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.numbered_lines import Feeder, create_topics
from tests.support.worker_process import SparkWorkerProcess, WorkerProcess
from tests.topics import CommittedReader

LIMIT_S = 240.0
SETTINGS = {
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "1500",
}


class Pair:
    """A worker on Spark, another without; one connector whose file grows; what readers of committed data have of it."""

    def __init__(self, folder: Path, servers: str) -> None:
        name = uuid.uuid4().hex[:8]
        self.topic = f"lines-{name}"
        self.spark = SparkWorkerProcess(folder / "spark", servers, name, properties=SETTINGS)
        self.plain = OurWorkerProcess(folder / "plain", servers, name, properties=SETTINGS)
        self.feeder = Feeder(folder, 1)
        create_topics(servers, [self.topic])
        self.reader = CommittedReader(servers, self.topic)

    def numbers(self) -> list[int]:
        return [int(value.split()[1]) for _, value in self.reader.more()]

    def runs_on(self, worker: WorkerProcess, asked: WorkerProcess) -> bool:
        """Return whether the task is RUNNING on a worker, as another one says."""
        status = get_json(f"{asked.rest.url}/connectors/lines/status")
        tasks = status["tasks"] if isinstance(status, dict) and "tasks" in status else []
        return [(task["state"], task["worker_id"]) for task in tasks] == [("RUNNING", f"127.0.0.1:{worker.rest_port}")]

    def await_run(self, worker: WorkerProcess, asked: WorkerProcess) -> None:
        until(lambda: self.runs_on(worker, asked), LIMIT_S, f"the task runs on {worker.rest.url}", self.logs)

    def await_flow(self) -> None:
        """Wait until a line that is written from now on is committed; then none is missing, none twice."""
        number = self.feeder.written
        until(lambda: number in self.numbers(), LIMIT_S, f"line {number} is committed", self.logs)
        numbers = self.numbers()
        assert numbers == list(range(len(numbers)))

    def logs(self) -> str:
        files = [worker.log_file for worker in (self.spark, self.plain) if worker.log_file.exists()]
        return "\n".join(file.read_text(errors="replace")[-2500:] for file in files)

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):
            self.feeder.stop()
        send(self.spark.processes(), signal.SIGCONT)
        for worker in (self.spark, self.plain):
            worker.stop()
            worker.rest.close()
        self.reader.close()


def send(processes: list[psutil.Process], what: int) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(what)


@pytest.fixture
def pair(tmp_path: Path, broker: EmbeddedKafka) -> Iterator[Pair]:
    made = Pair(tmp_path, broker.bootstrap_servers)
    yield made
    made.close()


@pytest.mark.timeout(600)
def test_a_frozen_worker_and_a_killed_one_leave_every_line_once(pair: Pair) -> None:
    pair.spark.start(LIMIT_S)
    file = pair.feeder.files[0]
    file.touch()
    source = {"connector.class": "FileStreamSource", "file": str(file), "topic": pair.topic}
    pair.spark.rest.create("lines", {**source, "exactly.once.support": "required"})
    pair.feeder.start()
    pair.await_flow()
    pair.await_run(pair.spark, pair.spark)
    frozen = pair.spark.processes()
    send(frozen, signal.SIGSTOP)
    pair.plain.start(LIMIT_S)  # the frozen one's session runs out: this one fences it and has its task
    pair.await_run(pair.plain, pair.plain)
    pair.await_flow()
    send(frozen, signal.SIGCONT)
    until(lambda: pair.spark.rest.probe("/health"), LIMIT_S, "the frozen one is back in the group", pair.logs)
    pair.await_flow()
    pair.plain.kill()
    pair.await_run(pair.spark, pair.spark)
    pair.await_flow()
    pair.feeder.stop()
    until(lambda: len(pair.numbers()) >= pair.feeder.written, LIMIT_S, "every line is committed", pair.logs)
    assert pair.numbers() == list(range(pair.feeder.written))

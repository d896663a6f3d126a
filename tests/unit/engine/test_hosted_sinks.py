"""The seam of sinks: a lane over something that is no Python task, and what happens when what hosts it is lost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.driver.model import EngineSettings
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.executor.hosting import HostLostError, load_class
from spark_connect_rt.engine.executor.python_sink import HostedSink, PutOutcome
from spark_connect_rt.engine.slot_losses import LossLimits
from spark_connect_rt.engine.task_runner import Assign, BatchDurable, Start, TaskFailed, TaskKind, TaskLaunch
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from tests.contract.task_runner_contract import Worker

ZERO = TopicPartition("t", 0)


class Elsewhere(HostedSink):
    """Takes columns; refuses its first batch once, and is lost where ``lose_at`` says, for so many hostings."""

    calls: list[Any] = []
    losses = 0

    def start(self, reports: ErrantReports) -> None:
        self.refused = False
        self.counts_of_last = (0, 0)
        Elsewhere.calls.append("start")

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        Elsewhere.calls.append(("open", list(partitions)))

    def prepare(self, batch: pa.RecordBatch, *, as_records: bool) -> list[bytes]:
        return list(batch.column("value").to_pylist())

    def deliver(self, prepared: list[bytes]) -> PutOutcome:
        if not self.refused:
            self.refused = True
            return PutOutcome.RETRY
        if Elsewhere.losses:
            Elsewhere.losses -= 1
            raise HostLostError("exit code -9")
        Elsewhere.calls.append(prepared)
        self.counts_of_last = (len(prepared) - 1, 1)
        return PutOutcome.TAKEN

    @property
    def counts(self) -> tuple[int, int]:
        return self.counts_of_last

    def put_empty(self) -> None:
        pass

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        Elsewhere.calls.append(("close", list(partitions)))

    def stop(self) -> None:
        Elsewhere.calls.append("stop")


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    Elsewhere.calls, Elsewhere.losses = [], 0
    clients = MemoryExecutorClients(find_plugin=load_class)
    settings = EngineSettings(housekeeping_ms=20, losses=LossLimits(backoff_ms=10, guilty_after_ms=60))
    worker = Worker(MemoryTaskRunner(clients, settings), clients.topics, tmp_path)
    worker.runner.open(worker.on_event, worker.read_offsets)
    yield worker
    worker.runner.close(5_000)


def start(worker: Worker) -> TaskLaunch:
    launch = worker.launch("s", "x", TaskKind.SINK)
    launch = replace(launch, task_class=f"{__name__}:Elsewhere")
    worker.topics.append([{"topic": "t", "partition": 0, "value": value} for value in (b"a", b"b", b"c")])
    worker.runner.do(Start(launch))
    worker.runner.do(Assign(launch.task, {ZERO: 0}))
    return launch


def test_a_lane_gives_columns_to_what_is_behind_the_seam_and_counts_what_it_says(worker: Worker) -> None:
    launch = start(worker)
    worker.until(lambda: worker.of(launch, BatchDurable))
    durable = worker.of(launch, BatchDurable)[0]
    assert (durable.records, durable.skipped, durable.sink_offsets) == (2, 1, ((ZERO, 3),))
    assert worker.end(launch).drained
    assert Elsewhere.calls == ["start", ("open", [ZERO]), [b"a", b"b", b"c"], ("close", [ZERO]), "stop"]


def test_a_task_whose_host_is_lost_is_hosted_again_from_what_is_committed(worker: Worker) -> None:
    Elsewhere.losses = 2
    launch = start(worker)
    worker.until(lambda: worker.of(launch, BatchDurable))
    assert not worker.of(launch, TaskFailed)
    assert [call for call in Elsewhere.calls if isinstance(call, list)] == [[b"a", b"b", b"c"]]
    assert Elsewhere.calls.count("start") == 3
    assert worker.end(launch).drained


def test_a_task_whose_host_is_lost_again_and_again_fails_and_says_why(worker: Worker) -> None:
    Elsewhere.losses = 1_000
    launch = start(worker)
    worker.until(lambda: worker.of(launch, TaskFailed))
    trace = worker.of(launch, TaskFailed)[0].trace
    assert "its place was lost" in trace
    assert trace.endswith("without progress; last: exit code -9")
    assert not worker.ended(launch).drained

"""A sink that puts a batch in parts: what is left comes next, nothing is put twice, no offset is ahead of its put."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.executor import sink_task
from spark_connect_rt.engine.executor.control_wire import decode_offsets
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, encode_partitions, encode_records
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.executor.python_sink import HostedSink, PutOutcome
from spark_connect_rt.engine.executor.sink_task import SinkTaskRunner
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics, wait_until

ZERO = TopicPartition("t", 0)
Step = tuple[str, int]
"""What becomes of a delivery ("part", "again", "commit", "fail"), and how many first rows of it are put."""


class InParts(HostedSink):
    """Does what ``script`` says of each delivery, then takes all."""

    script: list[Step] = []
    put: list[int] = []  # offsets
    asked: list[int] = []  # next offsets, each time that was asked for

    def start(self, reports: ErrantReports) -> None:
        self._rows = 0
        self._left: list[int] = []

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def prepare(self, batch: pa.RecordBatch, *, as_records: bool) -> object:
        self._left = batch.column("offset").to_pylist()
        return self

    def deliver(self, prepared: object) -> PutOutcome:
        what, rows = InParts.script.pop(0) if InParts.script else ("take", len(self._left))
        self._rows = len(self._left) if what == "take" else min(rows, len(self._left) - 1)
        InParts.put += self._left[: self._rows]
        self._left = self._left[self._rows :]
        if what == "commit":
            self.parts.context.request_commit()
        if what == "fail":
            raise ValueError("as it was said")
        return {"again": PutOutcome.RETRY, "take": PutOutcome.TAKEN}.get(what, PutOutcome.PARTIAL)

    @property
    def rows_taken(self) -> int:
        return self._rows

    @property
    def counts(self) -> tuple[int, int]:
        return self._rows, 0

    def put_empty(self) -> None:
        pass

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        InParts.asked.append(offsets[ZERO])
        assert offsets[ZERO] == InParts.put[-1] + 1, "an offset that is not behind the last put"
        return offsets

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        pass

    def stop(self) -> None:
        pass


def _run(script: Sequence[Step], records: int) -> tuple[list[str], int, int]:
    """Have a lane put so many records; return its reports' kinds, the offset and the count that it reported."""
    InParts.script, InParts.put, InParts.asked = list(script), [], []
    reports: list[Mapping[str, object]] = []
    task = f"{__name__}:InParts"
    launch = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SINK, task, {}, {}, {}, {})
    lane = SinkTaskRunner(5, launch, reports.append, MemoryExecutorClients(MemoryTopics(), load_class))
    lane.give(Row(5, RowKind.ASSIGNED, encode_partitions([(ZERO.topic, ZERO.partition)])))
    columns = [pa.array(range(records), pa.int64()), pa.array([b"x"] * records, pa.binary())]
    batch = pa.RecordBatch.from_arrays(columns, names=["offset", "value"])
    batch = batch.replace_schema_metadata({TOPIC: b"t", PARTITION: b"0"})
    lane.give(Row(5, RowKind.BATCH, BatchHead(records).encode(), encode_records(batch)))
    lane.start()
    wait_until(lambda: len(InParts.put) == records or any(report["op"] == "failed" for report in reports))
    lane.give(Row(5, RowKind.ENDED))
    lane.join(30)
    assert not lane.is_alive()
    durable = [report for report in reports if report["op"] == "durable"]
    offsets = [offset for report in durable for offset in decode_offsets(report["sink_offsets"]).values()]  # type: ignore[arg-type]
    return (
        [str(report["op"]) for report in reports],
        max(offsets, default=0),
        sum(int(report["n"]) for report in durable),
    )  # type: ignore[call-overload]


@given(
    script=st.lists(st.tuples(st.sampled_from(["part", "again", "commit"]), st.integers(0, 7)), max_size=8),
    records=st.integers(1, 20),
)
@settings(max_examples=60, deadline=None)
def test_each_record_is_put_once_in_order_whatever_its_parts(script: list[Step], records: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sink_task, "RETRY_FIRST_S", 0.0)
        _, offset, count = _run(script, records)
    assert InParts.put == list(range(records))
    assert (offset, count) == (records, records)


def test_a_commit_that_is_asked_for_in_a_part_comes_before_the_next() -> None:
    _run([("part", 2), ("part", 3)], 10)
    assert 5 not in InParts.asked
    _run([("part", 2), ("commit", 3)], 10)
    assert 5 in InParts.asked


def test_records_put_before_a_failure_are_committed() -> None:
    ops, offset, count = _run([("part", 2), ("fail", 3)], 10)
    assert "failed" in ops
    assert (offset, count) == (5, 5)

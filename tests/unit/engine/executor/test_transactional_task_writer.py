"""The lane of an exactly-once source: what shares a transaction, what is dropped, when it is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor import transactional_task_writer
from spark_connect_rt.engine.executor.frames import EXACT, BatchHead, Row, RowKind, encode_records
from spark_connect_rt.engine.executor.transactional_task_writer import TransactionalTaskWriter
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.executor_clients import DeliveryReports
from spark_connect_rt.records.pipeline.columns import produce_batch
from spark_connect_rt.records.pipeline.delivery_runs import metadata_of
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, wait_until
from spark_connect_rt.topics.offset_records import decode_value

LAUNCH = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SOURCE, "m:C", {}, {}, {}, {"transactional.id": "g-a-0"})
LAUNCH = replace(LAUNCH, offsets_topic="offsets")


class Lane:
    """A lane that runs, and what it says."""

    def __init__(self, clients: MemoryExecutorClients, wanted: DeliveryReports = DeliveryReports.NOTHING) -> None:
        self.clients = clients
        self.reports: list[Mapping[str, Any]] = []
        self.lane = TransactionalTaskWriter(5, LAUNCH, self._hear, clients)
        self.lane.give(Row(5, RowKind.CLAIM, b"%d" % wanted))
        self.lane.start()
        wait_until(lambda: self.ops() == ["claimed"])

    def ops(self) -> list[str]:
        return [report["op"] for report in self.reports]

    def _hear(self, report: Mapping[str, Any]) -> None:
        if report["op"] != "measures":
            self.reports.append(report)

    def batch(self, *texts: str) -> None:
        data = encode_records(produce_batch("t", pa.array(texts)))
        head = BatchHead(len(texts), (({"p": 1}, {"o": texts[-1]}),), 0, ("t",))
        self.lane.give(Row(5, RowKind.BATCH, head.encode(), data))

    def row(self, kind: RowKind, head: bytes = b"") -> None:
        self.lane.give(Row(5, kind, head))

    def end(self) -> None:
        self.row(RowKind.ENDED)
        self.lane.join(10)
        assert not self.lane.is_alive()

    def values(self) -> list[str]:
        return [value.decode() for value in self.clients.topics.values("t")]

    def offsets(self) -> list[Any]:
        return [(decode_value(value) or {})["o"] for value in self.clients.topics.values("offsets")]


@pytest.fixture
def lane() -> Lane:
    return Lane(MemoryExecutorClients())


def test_polls_that_come_quickly_share_a_transaction_and_one_offset_record(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional_task_writer, "COMMIT_EACH_S", 60)
    lane.batch("w")
    lane.row(RowKind.COMMIT)
    wait_until(lambda: lane.ops() == ["claimed", "durable"])  # the first one waits for no other
    for text in ("x", "y", "z"):
        lane.batch(text)
        lane.row(RowKind.COMMIT)
    lane.lane.hint_idle()
    wait_until(lambda: lane.ops().count("durable") == 2)
    lane.end()
    assert (lane.values(), lane.offsets()) == (["w", "x", "y", "z"], ["w", "z"])
    durable = lane.reports[2]
    assert (durable["n"], durable["source_offsets"]) == (3, [({"p": 1}, {"o": "z"})])
    assert durable["delivered"] == [("t", 0, 1, 3), ("offsets", 0, 1, 1)]
    assert lane.ops() == ["claimed", "durable", "durable", "ended"]


def test_a_connectors_own_ends_are_never_shared(lane: Lane) -> None:
    for text in ("x", "y"):
        lane.batch(text)
        lane.row(RowKind.COMMIT, EXACT)
    lane.end()
    assert [report["n"] for report in lane.reports if report["op"] == "durable"] == [1, 1]
    assert lane.offsets() == ["x", "y"]


def test_rows_behind_the_last_commit_are_dropped_when_the_task_ends(lane: Lane) -> None:
    lane.batch("x")
    lane.row(RowKind.COMMIT, EXACT)
    lane.batch("half")
    lane.end()
    assert (lane.values(), lane.offsets()) == (["x"], ["x"])


@pytest.mark.parametrize("last", [RowKind.ENDED, RowKind.FAILED, RowKind.PAUSED])
def test_finished_transaction_is_committed_before_later_news_is_reported(lane: Lane, last: RowKind) -> None:
    lane.batch("x")
    lane.row(RowKind.COMMIT)
    if last is not RowKind.ENDED:
        lane.row(last, b"trace")
    lane.end()
    assert lane.values() == ["x"]
    news = [] if last is RowKind.ENDED else [last.name.lower()]
    assert lane.ops() == ["claimed", "durable", *news, "ended"]


def test_an_aborted_transaction_leaves_its_offsets_only(lane: Lane) -> None:
    lane.batch("bad", "worse")
    lane.row(RowKind.ABORT)
    lane.row(RowKind.COMMIT, EXACT)
    lane.batch("good")
    lane.row(RowKind.COMMIT, EXACT)
    lane.end()
    assert (lane.values(), lane.offsets()) == (["good"], ["worse", "good"])
    assert [report["n"] for report in lane.reports if report["op"] == "durable"] == [0, 1]


def test_a_task_is_notified_of_each_record_if_it_wants_and_not_of_offset_records() -> None:
    lane = Lane(MemoryExecutorClients(), DeliveryReports.RECORDS)
    lane.batch("bad", "worse")
    lane.row(RowKind.ABORT)
    lane.batch("good", "better")
    lane.row(RowKind.COMMIT, EXACT)
    lane.batch("best")
    lane.row(RowKind.COMMIT, EXACT)
    lane.end()
    told = [list(metadata_of(report["metadata"])) for report in lane.reports if report["op"] == "durable"]
    assert told == [[None, None, ("t", 0, 0, None), ("t", 0, 1, None)], [("t", 0, 2, None)]]


def test_offsets_alone_are_a_transaction_and_nothing_is_not(lane: Lane) -> None:
    lane.row(RowKind.COMMIT)
    head = BatchHead(0, (({"p": 1}, {"o": "filtered"}),))
    lane.lane.give(Row(5, RowKind.BATCH, head.encode()))
    lane.row(RowKind.COMMIT, EXACT)
    lane.row(RowKind.COMMIT, EXACT)
    lane.end()
    assert lane.offsets() == ["filtered"]
    assert lane.ops().count("durable") == 1


def test_a_transaction_that_is_due_ends_without_a_hint(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactional_task_writer, "COMMIT_EACH_S", 0.01)
    for count, text in enumerate("xy", start=1):  # the second one is due behind the first
        lane.batch(text)
        lane.row(RowKind.COMMIT)
        wait_until(lambda wanted=count: lane.ops().count("durable") == wanted)  # type: ignore[misc]
    lane.end()


def test_a_fenced_lane_fails_and_nothing_of_it_is_visible(lane: Lane) -> None:
    lane.batch("x")
    newer = Lane(lane.clients)
    lane.row(RowKind.COMMIT, EXACT)
    newer.batch("y")
    newer.row(RowKind.COMMIT, EXACT)
    lane.end()
    newer.end()
    assert (lane.values(), lane.offsets()) == (["y"], ["y"])
    assert lane.ops() == ["claimed", "failed", "ended"]
    assert "transactional id g-a-0" in lane.reports[1]["trace"]


def test_a_record_that_is_refused_takes_its_whole_transaction_along(lane: Lane) -> None:
    lane.clients.topics.fail_produce = lambda row: ConnectError("too large") if row["value"] == b"big" else None
    lane.batch("x")
    lane.batch("big")
    lane.row(RowKind.COMMIT, EXACT)
    lane.end()
    assert (lane.values(), lane.offsets()) == ([], [])
    assert lane.ops() == ["claimed", "failed", "ended"]

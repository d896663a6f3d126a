"""What waits is put as one lot, and the next lot is converted while a put waits: order, errors, stops, rewinds."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.executor import put_batcher
from spark_connect_rt.engine.executor.control_wire import decode_offsets
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, encode_partitions, encode_records
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.executor.put_batcher import PutBatcher, PutBatchQueue
from spark_connect_rt.engine.executor.sink_task import SinkTaskRunner
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import DataError, ExternalError, RetriableError
from spark_connect_rt.records.converters.primitive_converters import StringConverter
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics, wait_until

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)
DEAD = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
}


class Noting(StringConverter):
    """Notes which batches are converted on which thread; ``exit`` ends one that is not the lane's."""

    ahead: list[list[str]] = []
    here: list[list[str]] = []

    def column_to_connect_data(self, topic: str, data: pa.Array) -> tuple[Any, pa.Array] | None:
        values = data.cast(pa.string()).to_pylist()
        is_ahead = threading.current_thread().name.startswith("sink-ahead")
        (Noting.ahead if is_ahead else Noting.here).append(values)
        if is_ahead and "exit" in values:
            raise SystemExit
        if "rows" in values:
            return None
        return super().column_to_connect_data(topic, data)


class Waiting(SinkTask):
    """Waits in each put until the test says what becomes of it."""

    puts: list[list[str]] = []
    moods: list[str] = []
    rewinds: dict[TopicPartition, int] = {}
    in_put, go = threading.Event(), threading.Event()
    largest: int | None = None

    def start(self, config: Mapping[str, str]) -> None:
        """Nothing to open."""

    def stop(self) -> None:
        """Nothing to close."""

    def largest_put(self) -> int | None:
        return Waiting.largest

    def put_batch(self, batch: SinkBatch) -> bool:
        Waiting.in_put.set()
        assert Waiting.go.wait(30)
        Waiting.go.clear()
        self._take(batch.values.to_pylist())
        return True

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records:
            self._take([record.value for record in records])

    def _take(self, values: list[str]) -> None:
        mood = Waiting.moods.pop(0) if Waiting.moods else ""
        if mood == "again":
            raise RetriableError("later")
        if mood == "broken":
            raise ExternalError("the target is broken")
        if "bad" in values:
            raise DataError("bad")
        Waiting.puts.append(values)
        self.context.offset(Waiting.rewinds)
        Waiting.rewinds = {}


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_batcher, "MIN_RECORDS_AHEAD", 1)
    monkeypatch.setattr(put_batcher, "MIN_WAIT_S", -1.0)
    Noting.ahead, Noting.here = [], []
    Waiting.puts, Waiting.moods, Waiting.rewinds, Waiting.largest = [], [], {}, None
    Waiting.in_put.clear()
    Waiting.go.clear()


class _Lane:
    def __init__(self, client: Mapping[str, str], config: Mapping[str, str]) -> None:
        self.reports: list[Mapping[str, Any]] = []
        self.topics = MemoryTopics()
        text = f"{__name__}:Noting"
        worker = {
            "key.converter": "spark_connect_rt.records.converters.primitive_converters:StringConverter",
            "value.converter": text,
            "header.converter": "spark_connect_rt.records.converters.primitive_converters:SimpleHeaderConverter",
            "offset.flush.interval.ms": "60000",
        }
        task = f"{__name__}:Waiting"
        launch = TaskLaunch(
            ConnectorTaskId("a", 0), 1, 1, TaskKind.SINK, task, dict(config), dict(config), worker, dict(client)
        )
        self.lane = SinkTaskRunner(5, launch, self.reports.append, MemoryExecutorClients(self.topics, load_class))
        self.give(RowKind.ASSIGNED, ZERO, ONE)

    def give(self, kind: RowKind, *partitions: TopicPartition) -> None:
        self.lane.give(
            Row(5, kind, encode_partitions([(partition.topic, partition.partition) for partition in partitions]))
        )

    def batch(self, first: int, *values: str, partition: int = 0) -> None:
        columns = [
            pa.array(range(first, first + len(values)), pa.int64()),
            pa.array([value.encode() for value in values], pa.binary()),
        ]
        batch = pa.RecordBatch.from_arrays(columns, names=["offset", "value"])
        batch = batch.replace_schema_metadata({TOPIC: b"t", PARTITION: str(partition).encode()})
        self.lane.give(Row(5, RowKind.BATCH, BatchHead(len(values)).encode(), encode_records(batch)))

    def start(self) -> None:
        """Be in the first put, with the next lot made ready if it can be."""
        self.lane.start()
        self.await_put()

    def await_put(self) -> None:
        assert Waiting.in_put.wait(30)
        Waiting.in_put.clear()

    def go(self, mood: str = "") -> None:
        Waiting.moods = [mood] if mood else []
        Waiting.go.set()

    def committed(self) -> dict[TopicPartition, int]:
        told: dict[TopicPartition, int] = {}
        for report in self.reports:
            if report["op"] == "durable":
                told.update(decode_offsets(report["sink_offsets"]))
        return told

    def ops(self) -> list[str]:
        return [report["op"] for report in self.reports]

    def end(self) -> None:
        self.lane.give(Row(5, RowKind.ENDED))
        Waiting.go.set()
        self.lane.join(30)
        assert not self.lane.is_alive()


@pytest.fixture
def lanes() -> Iterator[Any]:
    made: list[_Lane] = []

    def lane(client: Mapping[str, str] | None = None, config: Mapping[str, str] | None = None) -> _Lane:
        made.append(_Lane(client or {}, config or {}))
        return made[-1]

    yield lane
    for started in made:
        if started.lane.is_alive():
            started.end()


def test_waiting_records_form_one_batch_per_partition_in_order(lanes: Any) -> None:
    Waiting.largest = 5
    lane = lanes()
    lane.batch(0, "a")
    lane.start()
    for first, values in ((1, "bc"), (3, "de"), (5, "fg")):
        lane.batch(first, *values)
    lane.batch(0, "h", partition=1)
    for _ in range(3):
        lane.go()
        lane.await_put()
    lane.go()
    wait_until(lambda: len(Waiting.puts) == 4)
    lane.end()
    assert Waiting.puts == [["a"], ["b", "c", "d", "e"], ["f", "g"], ["h"]]
    assert lane.committed() == {ZERO: 7, ONE: 1}
    assert sum(report["n"] for report in lane.reports if report["op"] == "durable") == 8


def test_records_arriving_during_a_put_are_also_converted_ahead(lanes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_batcher, "SECOND_PEEK_AFTER", 1e-9)
    looked = threading.Event()
    find_next = put_batcher.PutBatcher._find_next

    def waits(self: put_batcher.PutBatcher, stop: threading.Event) -> put_batcher.PutBatch | None:
        if self._rows.peek(0) is None:
            looked.set()
            wait_until(lambda: self._rows.peek(0) is not None)
        return find_next(self, stop)

    monkeypatch.setattr(put_batcher.PutBatcher, "_find_next", waits)
    lane = lanes()
    lane.batch(0, "a")
    lane.start()
    assert looked.wait(30), "nothing was there when the put began"
    lane.batch(1, "b")
    wait_until(lambda: Noting.ahead == [["b"]])
    lane.go()
    lane.await_put()
    lane.end()
    assert Waiting.puts == [["a"], ["b"]]
    assert Noting.here == [["a"]]


def test_a_put_ends_while_nothing_comes(lanes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(put_batcher, "SECOND_PEEK_AFTER", 1e6)
    lane = lanes()
    lane.batch(0, "a")
    lane.start()
    lane.go()
    wait_until(lambda: len(Waiting.puts) == 1)
    lane.batch(1, "b")
    lane.await_put()
    lane.end()
    assert Waiting.puts == [["a"], ["b"]]
    assert Noting.ahead == []


def test_a_lot_is_never_larger_than_the_user_says(lanes: Any) -> None:
    Waiting.largest = 5
    lane = lanes({"max.poll.records": "2"})
    lane.batch(0, "a")
    lane.start()
    for first, value in enumerate("bcd", 1):
        lane.batch(first, value)
    for _ in range(2):
        lane.go()
        lane.await_put()
    lane.end()
    assert Waiting.puts[:2] == [["a"], ["b", "c"]]


def test_a_put_that_fails_while_the_next_lot_is_converted_fails_by_itself(lanes: Any) -> None:
    lane = lanes()
    lane.batch(0, "a")
    lane.batch(1, "b")
    lane.batch(2, "c")
    lane.start()
    wait_until(lambda: Noting.ahead == [["b"]])
    lane.go()
    lane.await_put()  # of b
    wait_until(lambda: Noting.ahead == [["b"], ["c"]])
    lane.go("broken")
    wait_until(lambda: "failed" in lane.ops())
    lane.end()
    assert Waiting.puts == [["a"]]
    assert Noting.here == [["a"]], "what was made ready was not made twice"
    assert lane.committed() == {ZERO: 1}
    assert "the target is broken" in next(report["trace"] for report in lane.reports if report["op"] == "failed")


def test_retried_batch_comes_before_the_prepared_batch(lanes: Any) -> None:
    lane = lanes()
    lane.batch(0, "a")
    lane.batch(1, "b")
    lane.start()
    wait_until(lambda: Noting.ahead == [["b"]])
    lane.go("again")
    for _ in range(2):
        lane.await_put()
        lane.go()
    wait_until(lambda: len(Waiting.puts) == 2)
    lane.end()
    assert Waiting.puts == [["a"], ["b"]]
    assert Noting.ahead == [["b"]]


def test_a_stop_meanwhile_puts_nothing_more(lanes: Any) -> None:
    lane = lanes()
    lane.batch(0, "a")
    lane.batch(1, "b")
    lane.start()
    wait_until(lambda: Noting.ahead == [["b"]])
    lane.end()
    assert Waiting.puts == [["a"]]
    assert lane.committed() == {ZERO: 1}
    assert lane.ops()[-1] == "ended"


def test_a_rewind_meanwhile_gives_up_what_is_ready(lanes: Any) -> None:
    lane = lanes()
    lane.batch(0, "a")
    lane.batch(1, "b")
    lane.start()
    wait_until(lambda: Noting.ahead == [["b"]])
    Waiting.rewinds = {ZERO: 0}
    lane.go()
    wait_until(lambda: "steer" in lane.ops())
    lane.give(RowKind.ASSIGNED, ZERO)
    lane.batch(0, "a", "b")
    lane.await_put()
    lane.go()
    wait_until(lambda: len(Waiting.puts) == 2)
    lane.end()
    assert Waiting.puts == [["a"], ["a", "b"]]
    assert lane.committed() == {ZERO: 2}


def test_a_partition_that_leaves_meanwhile_takes_its_lot_with_it(lanes: Any) -> None:
    lane = lanes()
    lane.batch(0, "a")
    lane.batch(0, "b", partition=1)
    lane.batch(1, "c")
    lane.start()
    wait_until(lambda: Noting.ahead == [["b"]])
    lane.give(RowKind.REVOKED, ONE)
    lane.go()
    lane.await_put()
    lane.go()
    wait_until(lambda: len(Waiting.puts) == 2)
    lane.end()
    assert Waiting.puts == [["a"], ["c"]]
    assert lane.committed() == {ZERO: 2}
    assert "released" in lane.ops()


def test_a_refused_record_is_dead_lettered_while_the_next_lot_is_ready(lanes: Any) -> None:
    lane = lanes(config=DEAD)
    lane.batch(0, "a", "bad")
    lane.batch(2, "b")
    lane.start()
    wait_until(lambda: Noting.ahead == [["b"]])
    lane.go()
    wait_until(lambda: ["b"] in Waiting.puts or Waiting.in_put.is_set())
    lane.end()
    assert Waiting.puts[0] == ["a"]
    assert [row["value"] for row in lane.topics.read(TopicPartition("dead", 0), 0, 9)] == [b"bad"]
    assert lane.committed()[ZERO] >= 2


def test_batch_that_cannot_be_converted_ahead_is_converted_in_its_turn(lanes: Any) -> None:
    """By records, or because it ended its thread: then it fails, or does not, as without the thread."""
    lane = lanes()
    lane.batch(0, "a")
    lane.batch(1, "exit")
    lane.batch(2, "rows")
    lane.start()
    wait_until(lambda: Noting.ahead == [["exit"]])
    lane.go()
    lane.await_put()
    lane.go()
    wait_until(lambda: len(Waiting.puts) == 3)
    lane.end()
    assert Waiting.puts == [["a"], ["exit"], ["rows"]]
    assert Noting.here[:2] == [["a"], ["exit"]]
    assert lane.committed() == {ZERO: 3}


class _TakesTen:
    """A sink as PutBatcher sees it while it joins rows."""

    joins_partitions = True

    def max_put_records(self) -> int:
        return 10


def _row(*values: str) -> Row:
    columns = [pa.array(range(len(values)), pa.int64()), pa.array([value.encode() for value in values])]
    batch = pa.RecordBatch.from_arrays(columns, names=["offset", "value"])
    return Row.of_batch(5, BatchHead(len(values)).encode(), batch)


def _taken(monkeypatch: pytest.MonkeyPatch, gather_s: float, *later: Row | None) -> tuple[list[int], PutBatchQueue]:
    """Return the sizes of two calls in a row, when `later` comes while the second one is waited for."""
    monkeypatch.setattr(put_batcher, "GATHER_S", gather_s)
    rows = PutBatchQueue()
    batcher = PutBatcher(rows, ConnectorTaskId("a", 0))
    batcher.begin(_TakesTen())  # type: ignore[arg-type]
    first = batcher.take(_row("a", "b"))
    feeding = threading.Timer(0.05, lambda: [rows.put(row) for row in later])
    feeding.start()
    second = batcher.take(_row("c"))
    feeding.join()
    return [first.batch.num_rows, second.batch.num_rows], rows


def test_a_call_waits_for_rows_that_come_fast_until_it_has_half_of_what_it_may_get(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes, rows = _taken(monkeypatch, 30, _row("d", "e"), _row("f", "g"), None)
    assert sizes == [2, 5]
    assert rows.get() is None


@pytest.mark.parametrize("news", [None, Row(5, RowKind.PAUSED), Row(5, RowKind.ENDED)])
def test_a_wait_for_rows_ends_with_other_news(news: Row | None, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, rows = _taken(monkeypatch, 30, _row("d"), news, _row("e"))
    assert sizes == [2, 2]
    assert rows.get() is news


def test_a_wait_for_rows_is_short_and_none_follows_few_records(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _taken(monkeypatch, 0.01, _row("d"))[0] == [2, 1]
    monkeypatch.setattr(put_batcher, "MIN_RECORDS_AHEAD", 3)
    assert _taken(monkeypatch, 30, _row("d"))[0] == [2, 1]

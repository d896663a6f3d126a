"""Commits that fail while a batch is in hand, and what is asked of the task when partitions go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.engine.executor.control_wire import decode_offsets
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, encode_partitions, encode_records
from spark_connect_rt.engine.executor.hosting import load_class
from spark_connect_rt.engine.executor.sink_task import CommitSchedule, SinkOffsets, SinkTaskRunner
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, consume_batch, wait_until

STRING = "spark_connect_rt.records.converters.primitive_converters:StringConverter"
HEADERS = "spark_connect_rt.records.converters.primitive_converters:SimpleHeaderConverter"
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Losing(SinkTask):
    """Refuses its third batch and asks for a commit; that one fails, and the task forgets what it held."""

    puts: list[list[str]] = []
    asked: list[Mapping[TopicPartition, int]] = []

    def start(self, config: Mapping[str, str]) -> None:
        self.failures = 1

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        Losing.puts.append([record.value for record in records])
        if len(Losing.puts) == 3:
            self.context.request_commit()
            raise RetriableError("the target is away")

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        Losing.asked.append(offsets)
        if len(Losing.puts) == 3 and self.failures:
            self.failures -= 1
            raise ValueError("everything held is lost")
        return offsets

    def stop(self) -> None:
        pass


@pytest.fixture(autouse=True)
def _anew() -> None:
    Losing.puts, Losing.asked = [], []


class _Lane:
    def __init__(self, flush_interval_ms: int = 60_000, task: str = "Losing") -> None:
        self.reports: list[Mapping[str, Any]] = []
        worker = {
            "key.converter": STRING,
            "value.converter": STRING,
            "header.converter": HEADERS,
            "offset.flush.interval.ms": str(flush_interval_ms),
        }
        launch = TaskLaunch(ConnectorTaskId("a", 0), 1, 1, TaskKind.SINK, f"{__name__}:{task}", {}, {}, worker)
        self.lane = SinkTaskRunner(5, launch, self.reports.append, MemoryExecutorClients(find_plugin=load_class))
        self.give(RowKind.ASSIGNED, ZERO, ONE)

    def give(self, kind: RowKind, *partitions: TopicPartition) -> None:
        self.lane.give(
            Row(5, kind, encode_partitions([(partition.topic, partition.partition) for partition in partitions]))
        )

    def batch(self, place: TopicPartition, first: int, *values: str) -> None:
        rows = [
            {"topic": place.topic, "partition": place.partition, "offset": first + n, "value": value.encode()}
            for n, value in enumerate(values)
        ]
        self.lane.give(Row(5, RowKind.BATCH, BatchHead(len(rows)).encode(), encode_records(consume_batch(rows))))

    def seeks(self) -> list[Any]:
        return [list(map(tuple, report["seek"])) for report in self.reports if report["op"] == "steer"]

    def committed(self) -> list[dict[TopicPartition, int]]:
        return [dict(decode_offsets(report["sink_offsets"])) for report in self.reports if report["op"] == "durable"]

    def end(self) -> None:
        self.lane.give(Row(5, RowKind.ENDED))
        self.lane.join(10)
        assert not self.lane.is_alive()


def test_a_batch_in_hand_is_given_up_when_what_came_before_it_is_read_again() -> None:
    """Else its offsets would be committed past records that the task lost."""
    lane = _Lane()
    lane.batch(ONE, 0, "committed at once")
    lane.batch(ZERO, 7, "a", "b")
    lane.batch(ZERO, 9, "c")
    lane.lane.start()
    wait_until(lambda: bool(lane.seeks()))
    assert lane.seeks() == [[("t", 0, 7)]]
    lane.batch(ZERO, 10, "d")  # read before the reader heard of it
    lane.give(RowKind.ASSIGNED, ZERO)
    lane.batch(ZERO, 7, "a", "b", "c", "d")
    wait_until(lambda: len(Losing.puts) == 4)
    lane.end()
    assert Losing.puts == [["committed at once"], ["a", "b"], ["c"], ["a", "b", "c", "d"]]
    assert lane.committed() == [{ONE: 1}, {ZERO: 11}]
    assert [report["n"] for report in lane.reports if report["op"] == "durable"] == [1, 4]


def test_only_what_goes_is_asked_for_when_it_goes() -> None:
    lane = _Lane()
    lane.batch(ZERO, 0, "a")
    lane.lane.start()
    wait_until(lambda: len(Losing.puts) == 1)
    lane.batch(ONE, 4, "b")
    lane.give(RowKind.REVOKED, ZERO)
    wait_until(lambda: any(report["op"] == "released" for report in lane.reports))
    lane.end()
    assert not [offsets for offsets in Losing.asked if ZERO in offsets and ONE in offsets]
    assert lane.committed() == [{ZERO: 1}, {ONE: 5}]


def test_a_task_whose_commits_fail_is_asked_ever_more_seldom() -> None:
    times, waits, now_s = CommitSchedule(flush_interval_s=10), [], 100.0
    for _ in range(6):
        times.note_put(now_s)
        assert times.at_s is not None
        waits.append(times.at_s - now_s)
        now_s = times.at_s
        times.note_asked(now_s)
        times.note_failed(now_s)
        assert times.at_s is None
    assert waits == [0, 1, 2, 4, 8, 10]
    times.note_put(now_s)
    times.note_asked(now_s)
    times.note_answered(all_safe=False)
    times.note_failed(now_s)
    times.note_put(now_s)
    assert times.at_s == now_s + 1


def test_a_task_that_acts_when_it_is_asked_is_asked_at_the_interval() -> None:
    times = CommitSchedule(60.0, effects_since_s=100.0)
    times.note_put(101.0)
    assert not times.note_idle(102.0)
    assert not times.due_under_load(159.0)
    assert (times.at_s, times.due(159.0), times.due(160.0), times.due_under_load(160.0)) == (160.0, False, True, True)
    times.note_asked(160.0)
    times.note_answered(all_safe=True)
    assert times.at_s is None
    times.note_put(161.0)
    assert times.at_s == 220.0


def test_a_failure_goes_back_to_what_was_committed_else_to_where_it_began() -> None:
    offsets = SinkOffsets()
    batch = consume_batch([{"topic": "t", "partition": p, "offset": 5 + p, "value": b"x"} for p in (0, 1)])
    offsets.note_put(batch, {ZERO: 6, ONE: 7})
    assert offsets.rewind_positions() == {ZERO: 5, ONE: 6}
    assert offsets.note_reported(offsets.committable({ZERO: 99})) == {ZERO: 6}
    assert offsets.rewind_positions() == {ONE: 6}
    offsets.note_position({ONE: 2})
    assert offsets.rewind_positions() == {}
    offsets.note_put(batch, {ONE: 7})
    assert offsets.rewind_positions() == {ONE: 2}
    offsets.forget([ONE])
    assert offsets.are_all_safe({ZERO: 6})


class Refusing(SinkTask):
    """Takes nothing."""

    puts: list[str] = []

    def start(self, config: Mapping[str, str]) -> None:
        pass

    def put(self, records: Sequence[SinkRecord]) -> None:
        Refusing.puts.extend(record.value for record in records)
        if records:
            raise RetriableError("the target is away")

    def stop(self) -> None:
        pass


def test_a_second_revocation_of_a_partition_ends_its_retries_too() -> None:
    """The row of the first one must not take the mark of the second away."""
    lane = _Lane(task="Refusing")
    lane.batch(ZERO, 0, "first")
    lane.lane.start()
    wait_until(lambda: "first" in Refusing.puts)
    lane.give(RowKind.REVOKED, ZERO)
    lane.give(RowKind.ASSIGNED, ZERO)
    lane.batch(ZERO, 0, "second")
    lane.give(RowKind.REVOKED, ZERO)
    wait_until(lambda: [report["op"] for report in lane.reports].count("released") == 2)
    lane.end()


def test_partitions_opened_at_an_offset_are_asked_about_and_not_reported_again() -> None:
    offsets = SinkOffsets()
    offsets.note_position({ZERO: 5})
    assert offsets.put_of({ZERO, ONE}) == {ZERO: 5}
    assert (offsets.note_reported({ZERO: 5}), offsets.rewind_positions()) == ({}, {})


class Moving(SinkTask):
    """Wants a partition from offset 2 on: when the other one is closed, or when it refuses a record `refused`."""

    puts: list[str] = []

    def start(self, config: Mapping[str, str]) -> None:
        Moving.puts = []

    def put(self, records: Sequence[SinkRecord]) -> None:
        for record in records:
            Moving.puts.append(record.value)
            if record.value == "refused":
                self.context.offset({ZERO: 2})
                raise RetriableError("the target is away")

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        if ZERO not in partitions:
            self.context.offset({ZERO: 2})

    def stop(self) -> None:
        pass


def test_partition_that_is_moved_while_another_is_closed_gets_no_later_rows_first() -> None:
    lane = _Lane(task="Moving")
    lane.batch(ZERO, 0, "0", "1", "2")
    lane.lane.start()
    wait_until(lambda: len(Moving.puts) == 3)
    lane.give(RowKind.REVOKED, ONE)
    lane.batch(ZERO, 3, "3")  # read before the reader heard of the move
    lane.give(RowKind.ASSIGNED, ZERO)
    lane.batch(ZERO, 2, "2", "3")
    wait_until(lambda: len(Moving.puts) >= 5)
    lane.end()
    assert lane.seeks() == [[("t", 0, 2)]]
    assert Moving.puts == ["0", "1", "2", "2", "3"]


def test_batch_that_is_put_again_has_no_rows_of_partitions_that_were_moved() -> None:
    lane = _Lane(task="Moving")
    lane.batch(ZERO, 3, "refused", "4")
    lane.lane.start()
    wait_until(lambda: bool(lane.seeks()))
    lane.give(RowKind.ASSIGNED, ZERO)
    lane.batch(ZERO, 2, "2")
    wait_until(lambda: "2" in Moving.puts)
    lane.end()
    assert Moving.puts == ["refused", "2"]

"""Which records are told of when, and where they lie; runs of them on their way."""

from __future__ import annotations

import pyarrow as pa

from spark_connect_rt.api.records import RecordMetadata, SourceBatch, SourceRecord
from spark_connect_rt.engine.executor.python_source import SentRecords
from spark_connect_rt.records.pipeline.delivery_runs import metadata_of, metadata_runs


def record(number: int) -> SourceRecord:
    return SourceRecord({"p": 1}, {"o": number}, "t", value=number)


def place(offset: int) -> RecordMetadata:
    return RecordMetadata("t", 0, offset, 5)


def test_a_poll_is_reported_when_its_last_row_is_durable_without_dead_letters() -> None:
    sent, dead = SentRecords(), RecordMetadata("dead", 0, 0)
    first, second, third = record(1), record(2), record(3)
    sent.add([first, second], [1, 1], [(1, 2), (1, 1)])  # two rows, the first with a dead letter
    sent.add([third], [0], [(0, 0)])  # left out
    assert list(sent.durable(1, [place(0), dead])) == []
    assert list(sent.durable(2, [place(1)])) == [(first, place(0)), (second, place(1)), (third, None)]
    assert list(sent.durable(1, [])) == []


def test_columns_next_to_records_are_passed_over() -> None:
    sent, batch = SentRecords(), SourceBatch({"p": 1}, {"o": 9}, "t", pa.array(["a", "b", "c"]))
    sent.add([batch, record(1)], [2, 1], [(3, 3)])  # one of the batch was dropped
    assert list(sent.durable(1, map(place, range(3)))) == [(record(1), place(2))]


def test_neighbours_are_one_run_until_something_differs() -> None:
    other = RecordMetadata("t", 1, 2, 5)
    told = [place(0), place(1), other, None, None, place(2), place(4), place(5)._replace(timestamp_ms=None)]
    runs = metadata_runs(told)
    assert runs == [
        ("t", 0, 0, 5, 2),
        ("t", 1, 2, 5, 1),
        ("", -1, -1, None, 2),
        ("t", 0, 2, 5, 1),
        ("t", 0, 4, 5, 1),
        ("t", 0, 5, None, 1),
    ]
    assert list(metadata_of([list(run) for run in runs])) == told

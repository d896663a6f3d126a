"""What is received into buffers that are used again: taken apart where it lies, kept no longer than needed."""

from __future__ import annotations

import numpy as np
import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.buffered_connection import RESTS, BufferPool
from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer, fetched_rows
from spark_connect_rt.kafka.records import record_batches, record_columns
from tests.unit.kafka.records.test_record_batches import batch

PLACE = TopicPartition("t", 0)


def answer() -> memoryview:
    """Return the middle of a buffer: three batches, of which the second is of an aborted transaction."""
    many = [(b"k%d" % number, b"v" * number) for number in range(20)]
    batches = batch(5, *many) + batch(25, *many, producer=7, transactional=True) + batch(45, (None, b"last"))
    return memoryview(bytearray(b"before" + batches + b"behind"))[6:-6]


@pytest.mark.parametrize("least", [0, 2**62], ids=["columns", "rows"])
def test_batches_are_read_where_they_lie_and_nothing_holds_on_to_them(
    monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(record_batches, "LEAST_RECORDS", least)
    monkeypatch.setattr(record_batches, "LEAST_IN_BATCH", 0)
    received = answer()
    (found,) = fetched_rows(PLACE, 7, received, [(7, 25)])
    rows, behind = found
    assert behind == 46
    assert rows is not None
    received[:] = bytes(len(received))  # another answer is received
    assert rows.column("offset").to_pylist() == [*range(7, 25), 45]
    assert rows.column("value").to_pylist() == [*(b"v" * number for number in range(2, 20)), b"last"]
    assert rows.column("key").to_pylist()[-2:] == [b"k19", None]


def test_uncompressed_answer_is_not_copied_to_be_decoded() -> None:
    received = answer()
    ((records, _),) = record_columns.records_of(0, received, None)
    assert records is not None
    assert np.shares_memory(records.data, np.frombuffer(received, np.uint8))


def test_a_reader_that_has_caught_up_keeps_no_buffers() -> None:
    pool = BufferPool()
    first = pool.take(1 << 20).obj
    for _ in range(RESTS - 1):
        pool.rest()
    assert pool.take(1 << 20).obj is first  # it reads on: the rests before do not count
    for _ in range(RESTS - 1):
        pool.rest()
    assert pool._kept
    pool.rest()
    assert not pool._kept


def test_a_reader_that_waits_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = FetchConsumer({"bootstrap.servers": "127.0.0.1:1"})
    consumer._pool.take(1 << 20)
    for _ in range(RESTS):
        assert consumer.poll_apart(1, 0) == []
    assert not consumer._pool._kept
    consumer._pool.take(1 << 20)
    consumer.unassign([PLACE])  # nothing is read any more: a paused task
    assert not consumer._pool._kept
    consumer.close()

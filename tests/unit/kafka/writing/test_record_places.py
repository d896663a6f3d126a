"""RecordOffsets: numbers travel with rows, places come back in whatever order and pieces."""

from __future__ import annotations

import pyarrow as pa

from spark_connect_rt.api.records import RecordMetadata
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.writing.column_producer import NUMBER, RecordOffsets

HERE = TopicPartition("t", 1)


def rows(*stamps: int | None) -> pa.RecordBatch:
    return pa.record_batch({"value": [b"v"] * len(stamps), "timestamp": pa.array(stamps, pa.int64())})


def test_places_are_in_the_order_of_produce() -> None:
    places = RecordOffsets()
    first, second = places.numbered(rows(5, None, 7)), places.numbered(rows(None))
    places.note(HERE, 40, second, 99, None)
    places.note(HERE, 10, first.slice(1), 88, None)
    places.note(HERE, 30, first.slice(0, 1), 88, 1_000)
    assert places.take() == [("t", 1, 30, 1_000), ("t", 1, 10, 88), ("t", 1, 11, 7), ("t", 1, 40, 99)]
    assert places.take() == []


def test_those_of_the_next_ones_begin_behind_what_was_taken() -> None:
    places = RecordOffsets()
    places.numbered(rows(1, 2))
    assert places.take() == [None, None]  # never acknowledged
    batch = places.numbered(rows(3))
    assert batch.column(NUMBER).to_pylist() == [2]
    places.note(HERE, 0, batch, 0, None)
    assert places.take() == [RecordMetadata("t", 1, 0, 3)]

"""A poll of many partitions becomes few batches: same rows, same order within a partition, every source offset."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.records.pipeline import source_pipeline
from spark_connect_rt.records.pipeline.columns import TOPIC
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch, SourcePipeline

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
WORKER = {f"{part}.converter": BYTES for part in ("key", "value", "header")}


def polled(partition: int | None, *values: bytes, topic: str = "t", keys: bool = False) -> SourceBatch:
    column = pa.array(values, pa.binary())
    times = pa.array([7] * len(values), pa.int64())
    place = {"partition": partition, "topic": topic}
    return SourceBatch(
        place, {"offset": len(values)}, topic, column, None, column if keys else None, None, times, partition
    )


def convert(*batches: SourceBatch | SourceRecord) -> list[ConvertedBatch]:
    return SourcePipeline.from_config({}, WORKER, bundled_plugins().class_of).convert(batches)


def rows(converted: list[ConvertedBatch]) -> list[tuple[Any, ...]]:
    found = []
    for piece in converted:
        columns = piece.batch.to_pydict()
        count = piece.batch.num_rows
        topics = columns.get("topic") or [(piece.batch.schema.metadata or {})[TOPIC].decode()] * count
        absent = [None] * count
        partitions = columns.get("partition", absent)
        found += zip(topics, partitions, columns["value"], columns.get("timestamp", absent), strict=True)
    return found


def test_partitions_of_one_topic_are_one_batch() -> None:
    converted = convert(polled(0, b"a", b"b"), polled(1, b"c"), polled(0, b"d"))
    assert len(converted) == 1
    assert rows(converted) == [("t", 0, b"a", 7), ("t", 0, b"b", 7), ("t", 1, b"c", 7), ("t", 0, b"d", 7)]
    assert converted[0].records == 4
    assert [offset for _, offset in converted[0].source_offsets] == [{"offset": 2}, {"offset": 1}, {"offset": 1}]
    assert converted[0].topics == ("t",)


def test_other_topics_stay_apart() -> None:
    assert len(convert(polled(0, b"a"), polled(0, b"b", topic="u"))) == 2


def test_column_missing_in_a_partition_is_null_in_joined_rows() -> None:
    (piece,) = convert(polled(0, b"a"), polled(1, b"b", keys=True), polled(None, b"c"))
    assert piece.batch.to_pydict() == {
        "key": [None, b"b", None],
        "value": [b"a", b"b", b"c"],
        "timestamp": [7, 7, 7],
        "partition": [0, 1, None],
    }
    assert piece.batch.schema.metadata == {TOPIC: b"t"}
    assert piece.topics == ("t",)


def test_a_record_between_keeps_its_place() -> None:
    record = SourceRecord({"p": 1}, {"o": 1}, "t", b"r")
    converted = convert(polled(0, b"a"), record, polled(0, b"b"))
    assert [row[2] for row in rows(converted)] == [b"a", b"r", b"b"]
    assert sum(piece.records for piece in converted) == 3
    assert sum(len(piece.source_offsets) for piece in converted) == 3


def test_nothing_grows_beyond_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_pipeline, "JOINED_BYTES", 100)
    converted = convert(*(polled(number, b"x" * 30) for number in range(6)))
    assert len(converted) == 3
    assert [row[1] for row in rows(converted)] == list(range(6))

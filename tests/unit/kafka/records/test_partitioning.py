"""Rows of a batch by the partition they go to."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.records.partitioning import TopicPartitioning, rows_by_partition, topics_without_partition
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC
from tests.contract.batch_clients_contract import rows_batch

HASHED = 3321034988 & 0x7FFFFFFF  # Java's UtilsTest: murmur2("21") is -973932308
Placed = dict[tuple[str, int], list[bytes]]


def placed(rows: list[dict[str, Any]], metadata: dict[bytes, bytes] | None = None, **counts: int) -> Placed:
    batch = rows_batch([{"value": b"before", **rows[0]}, *rows], metadata).slice(1)
    found = rows_by_partition(batch, {topic: TopicPartitioning(count, count - 1) for topic, count in counts.items()})
    assert all(set(rows.schema.names) <= {"key", "value"} for _, rows in found)
    assert len({place for place, _ in found}) == len(found)
    return {(place.topic, place.partition): rows.column("value").to_pylist() for place, rows in found}


def test_a_place_for_all_rows() -> None:
    rows = [{"value": b"1"}, {"value": b"2"}]
    assert placed(rows, {TOPIC: b"t", PARTITION: b"3"}) == {("t", 3): [b"1", b"2"]}


@pytest.mark.parametrize("partitions", [[0, 0, 1, 1], [0, 1, 0, 1], [1, 1, 0, 1]])
def test_rows_keep_their_order_in_their_partition(partitions: list[int]) -> None:
    rows = [{"partition": number, "value": b"%d" % n} for n, number in enumerate(partitions)]
    expected = {("t", p): [b"%d" % n for n, number in enumerate(partitions) if number == p] for p in (0, 1)}
    assert placed(rows, {TOPIC: b"t"}) == expected


def test_topics_are_distinguished() -> None:
    rows = [
        {"topic": topic, "partition": 0, "value": value} for topic, value in (("a", b"1"), ("b", b"2"), ("a", b"3"))
    ]
    assert placed(rows) == {("a", 0): [b"1", b"3"], ("b", 0): [b"2"]}


def test_a_row_without_partition_goes_by_its_key_or_anywhere() -> None:
    rows: list[dict[str, Any]] = [
        {"topic": "a", "partition": 0, "key": b"k", "value": b"given"},
        {"topic": "a", "partition": None, "key": b"21", "value": b"hashed"},
        {"topic": "a", "partition": None, "key": None, "value": b"anywhere"},
        {"topic": "b", "partition": None, "key": b"21", "value": b"other count"},
    ]
    assert topics_without_partition(rows_batch(rows)) == ["a", "b"]
    assert placed(rows, a=7, b=3) == {
        ("a", 0): [b"given"],
        ("a", HASHED % 7): [b"hashed"],
        ("a", 6): [b"anywhere"],
        ("b", HASHED % 3): [b"other count"],
    }
    assert topics_without_partition(rows_batch(rows[:1])) == []
    assert TopicPartition("a", 0) in dict(rows_by_partition(rows_batch(rows[:1]), {}))


@pytest.mark.parametrize(
    ("row", "metadata", "place"),
    [
        ({"value": b"1"}, {TOPIC: b"t"}, ("t", 2)),
        ({"value": b"1", "key": None}, {TOPIC: b"t"}, ("t", 2)),
        ({"value": b"1", "key": b"21"}, {TOPIC: b"t"}, ("t", HASHED % 3)),
        ({"value": b"1", "key": b"21"}, {TOPIC: b"t", PARTITION: b"1"}, ("t", 1)),
        ({"value": b"1", "partition": 1}, {TOPIC: b"t"}, ("t", 1)),
        ({"value": b"1", "partition": None}, {TOPIC: b"t"}, ("t", 2)),
        ({"value": b"1", "topic": "t"}, None, ("t", 2)),
    ],
)
def test_rows_with_a_partition_go_there_in_every_form(
    row: dict[str, Any], metadata: dict[bytes, bytes] | None, place: tuple[str, int]
) -> None:
    batch = rows_batch([row], metadata)
    given = (metadata or {}).get(PARTITION) is not None or row.get("partition") is not None
    assert topics_without_partition(batch) == ([] if given else ["t"])
    assert placed([row], metadata, t=3) == {place: [b"1"]}

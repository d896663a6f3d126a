"""The contract of every BatchProducer and BatchConsumer.

Inherited by tests/unit/testing and tests/integration/kafka.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.executor_clients import (
    OFFSET_REPORTS,
    RECORD_REPORTS,
    BatchConsumer,
    BatchProducer,
    IdleNotifier,
)
from spark_connect_rt.records.pipeline.columns import PARTITION, PRODUCE_FIELDS, TOPIC, produce_batch
from tests.contract.compacted_log_contract import fresh_name, until

LIMIT_MS = 20_000
BEGINNING, END = -1, -2
Row = dict[str, Any]


def rows_batch(rows: Sequence[Row], metadata: dict[bytes, bytes] | None = None) -> pa.RecordBatch:
    """Return a produce-form batch with the columns that any row has."""
    names = [name for name in PRODUCE_FIELDS if any(name in row for row in rows)]
    schema = pa.schema([pa.field(name, PRODUCE_FIELDS[name]) for name in names], metadata=metadata)
    return pa.RecordBatch.from_pylist([{n: row.get(n) for n in names} for row in rows], schema=schema)


def rows_of(batch: pa.RecordBatch) -> list[Row]:
    """Return a consume-form batch as rows of every column, topic and partition filled in."""
    rows = batch.to_pylist()
    metadata = batch.schema.metadata or {}
    for row in rows:
        if TOPIC in metadata:
            row["topic"] = metadata[TOPIC].decode()
        if PARTITION in metadata:
            row["partition"] = int(metadata[PARTITION])
    return rows


class BatchClientsContract:
    """The subclass makes topics and clients."""

    def new_topic(self, name: str, partitions: int) -> None:
        raise NotImplementedError

    def new_producer(self, **properties: str) -> BatchProducer:
        raise NotImplementedError

    def new_consumer(self) -> BatchConsumer:
        raise NotImplementedError

    @pytest.fixture
    def topic(self) -> str:
        name = fresh_name("batch")
        self.new_topic(name, 2)
        return name

    def written(self, *batches: pa.RecordBatch) -> None:
        producer = self.new_producer()
        for batch in batches:
            producer.produce(batch)
        producer.flush(LIMIT_MS)
        producer.close()

    def read(self, consumer: BatchConsumer, count: int) -> list[Row]:
        rows: list[Row] = []

        def enough() -> bool:
            batch = consumer.poll(1_000, 200)
            rows.extend(rows_of(batch) if batch is not None else [])
            return len(rows) >= count

        until(enough)
        return rows

    def values(self, topic: str, count: int, partitions: int = 2) -> list[bytes | None]:
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, p): BEGINNING for p in range(partitions)})
        rows = self.read(consumer, count)
        consumer.close()
        return [row["value"] for row in rows]

    def test_values_arrive_in_order_in_one_partition(self, topic: str) -> None:
        values = [b"%d" % n for n in range(3_000)]
        batch = rows_batch([{"value": v} for v in values], {TOPIC: topic.encode(), PARTITION: b"1"})
        self.written(batch.slice(0, 2_000), batch.slice(2_000))
        assert self.values(topic, 3_000) == values

    def test_a_producer_reports_offsets_of_its_records_if_asked(self, topic: str) -> None:
        producer = self.new_producer(**OFFSET_REPORTS)
        for partition, count in ((1, 3), (0, 2), (1, 4)):
            place = {TOPIC: topic.encode(), PARTITION: b"%d" % partition}
            producer.produce(rows_batch([{"value": b"v"}] * count, place))
        producer.flush(LIMIT_MS)
        assert sorted(producer.delivered()) == [(topic, 0, 0, 2), (topic, 1, 0, 7)]
        assert producer.delivered() == []
        producer.close()

    def test_a_producer_reports_offsets_of_each_record_in_order(self, topic: str) -> None:
        producer = self.new_producer(**RECORD_REPORTS)
        producer.produce(rows_batch([{"value": b"v", "key": b"k", "timestamp": 7_000}] * 2, {TOPIC: topic.encode()}))
        given = [{"topic": topic, "partition": n % 2, "value": b"%d" % n, "timestamp": n} for n in range(1, 5)]
        producer.produce(rows_batch(given))
        producer.flush(LIMIT_MS)
        first, second, *others = producer.metadata()
        assert producer.metadata() == []
        producer.close()
        assert first is not None
        assert second == first._replace(offset=1)
        assert (first.topic, first.offset, first.timestamp_ms) == (topic, 0, 7_000)
        before = {first.partition: 2}
        offsets = [before.get(1, 0), before.get(0, 0), before.get(1, 0) + 1, before.get(0, 0) + 1]
        assert others == [(topic, n % 2, offset, n) for n, offset in enumerate(offsets, 1)]

    def test_a_producer_that_says_it_is_empty_has_everything_acknowledged(self, topic: str) -> None:
        producer, said = self.new_producer(**OFFSET_REPORTS), threading.Event()
        for count in (2_000, 1):
            producer.produce(rows_batch([{"value": b"v"}] * count, {TOPIC: topic.encode(), PARTITION: b"1"}))
            if isinstance(producer, IdleNotifier):
                assert producer.is_empty(said.set) or said.wait(LIMIT_MS / 1000)
                said.clear()
                producer.flush(0)
            else:
                producer.flush(LIMIT_MS)
            assert sum(delivered.records for delivered in producer.delivered()) == count
        producer.close()

    def test_a_batch_of_one_topic_without_partition_arrives_whole(self, topic: str) -> None:
        self.written(produce_batch(topic, pa.array(["a", "b", "c"])))
        assert sorted(self.values(topic, 3)) == [b"a", b"b", b"c"]

    def test_a_key_always_goes_to_the_same_partition(self, topic: str) -> None:
        keys = pa.array([f"k{n % 5}" for n in range(50)])
        self.written(produce_batch(topic, pa.array([str(n) for n in range(50)]), keys))
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, p): BEGINNING for p in range(2)})
        rows = self.read(consumer, 50)
        consumer.close()
        for key in {row["key"] for row in rows}:
            mine = [row for row in rows if row["key"] == key]
            assert len({row["partition"] for row in mine}) == 1
            assert [int(row["value"]) for row in mine] == sorted(int(row["value"]) for row in mine)

    def test_nulls_and_empties_are_distinguished_everywhere(self, topic: str) -> None:
        row: Row = {"topic": topic, "partition": 0, "timestamp": 5}
        headers = [{"key": "h", "value": None}, {"key": "h", "value": b""}, {"key": "g", "value": b"1"}]
        self.written(
            rows_batch(
                [
                    {**row, "key": b"", "value": b"", "headers": headers},
                    {**row, "key": None, "value": None, "headers": None},
                ]
            )
        )
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): BEGINNING})
        first, second = self.read(consumer, 2)
        consumer.close()
        assert (first["key"], first["value"], first["headers"]) == (b"", b"", headers)
        assert (second["key"], second["value"]) == (None, None)
        assert not second.get("headers")
        assert [(r["offset"], r["timestamp"], r["partition"], r["topic"]) for r in (first, second)] == [
            (0, 5, 0, topic),
            (1, 5, 0, topic),
        ]

    def test_a_batch_may_hold_several_topics(self, topic: str) -> None:
        other = fresh_name("batch")
        self.new_topic(other, 1)
        self.written(rows_batch([{"topic": topic, "value": b"1"}, {"topic": other, "value": b"2"}]))
        consumer = self.new_consumer()
        consumer.assign(
            {TopicPartition(topic, 0): BEGINNING, TopicPartition(topic, 1): -1, TopicPartition(other, 0): -1}
        )
        rows = self.read(consumer, 2)
        consumer.close()
        assert {(row["topic"], row["value"]) for row in rows} == {(topic, b"1"), (other, b"2")}

    def test_reading_starts_at_the_given_offset(self, topic: str) -> None:
        batch = rows_batch([{"value": b"%d" % n} for n in range(10)], {TOPIC: topic.encode(), PARTITION: b"0"})
        self.written(batch)
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): 7})
        assert [row["offset"] for row in self.read(consumer, 3)] == [7, 8, 9]
        consumer.assign({TopicPartition(topic, 0): 9})  # a rewind
        assert [row["offset"] for row in self.read(consumer, 1)] == [9]
        consumer.close()

    def test_position_and_end_are_known_before_the_first_read_and_after(self, topic: str) -> None:
        partition = TopicPartition(topic, 0)
        self.written(rows_batch([{"value": b"%d" % n} for n in range(5)], {TOPIC: topic.encode(), PARTITION: b"0"}))
        consumer = self.new_consumer()
        assert consumer.end_offsets([partition]) == {partition: 5}
        consumer.assign({partition: BEGINNING})
        assert consumer.position(partition) == 0
        self.read(consumer, 5)
        assert consumer.position(partition) == 5
        consumer.close()

    def test_reading_from_the_end_shows_only_what_comes(self, topic: str) -> None:
        place = {TOPIC: topic.encode(), PARTITION: b"0"}
        self.written(rows_batch([{"value": b"old"}], place))
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): END})
        assert consumer.poll(10, 100) is None
        self.written(rows_batch([{"value": b"new"}], place))
        assert [row["value"] for row in self.read(consumer, 1)] == [b"new"]
        consumer.close()

    def test_partitions_are_added_and_taken_away_while_reading(self, topic: str) -> None:
        both = [{"topic": topic, "partition": p, "value": b"%d" % p} for p in (0, 1)]
        self.written(rows_batch(both))
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): BEGINNING})
        assert [row["value"] for row in self.read(consumer, 1)] == [b"0"]
        consumer.assign({TopicPartition(topic, 1): BEGINNING})
        assert [row["value"] for row in self.read(consumer, 1)] == [b"1"]
        consumer.unassign([TopicPartition(topic, 0)])
        self.written(rows_batch(both))
        assert [row["partition"] for row in self.read(consumer, 1)] == [1]
        assert consumer.poll(10, 300) is None
        consumer.close()

    def test_no_poll_returns_more_than_asked(self, topic: str) -> None:
        batch = rows_batch([{"value": b"x"}] * 25, {TOPIC: topic.encode(), PARTITION: b"0"})
        self.written(batch)
        consumer = self.new_consumer()
        consumer.assign({TopicPartition(topic, 0): BEGINNING})
        sizes: list[int] = []

        def all_read() -> bool:
            got = consumer.poll(10, 200)
            sizes.append(got.num_rows if got is not None else 0)
            return sum(sizes) == 25

        until(all_read)
        consumer.close()
        assert max(sizes) <= 10

    def test_an_idle_consumer_returns_nothing(self, topic: str) -> None:
        consumer = self.new_consumer()
        assert consumer.poll(10, 10) is None
        consumer.assign({TopicPartition(topic, 0): BEGINNING})
        assert consumer.poll(10, 50) is None
        consumer.unassign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        consumer.close()

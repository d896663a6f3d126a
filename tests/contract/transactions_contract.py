"""The contract of every TransactionalProducer. Inherited by tests/unit/testing and tests/integration/kafka."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import FencedError
from spark_connect_rt.kafka.executor_clients import RECORD_REPORTS, BatchConsumer, TransactionalProducer
from spark_connect_rt.records.pipeline.columns import produce_batch
from tests.contract.compacted_log_contract import fresh_name, until

LIMIT_MS = 60_000


class TransactionsContract:
    """The subclass makes topics of one partition and clients; consumers read committed data only."""

    def new_topic(self, name: str) -> None:
        raise NotImplementedError

    def new_producer(self, transactional_id: str, **properties: str) -> TransactionalProducer:
        raise NotImplementedError

    def new_consumer(self) -> BatchConsumer:
        raise NotImplementedError

    @pytest.fixture
    def topic(self) -> str:
        name = fresh_name("txn")
        self.new_topic(name)
        return name

    def claimed(self, transactional_id: str, **properties: str) -> TransactionalProducer:
        producer = self.new_producer(transactional_id, **properties)
        producer.claim(LIMIT_MS)
        return producer

    def read(self, topic: str, last: str) -> list[str]:
        """Return the committed values up to ``last``, which is awaited."""
        consumer, values = self.new_consumer(), list[str]()
        consumer.assign({TopicPartition(topic, 0): 0})

        def there() -> bool:
            batch = consumer.poll(1_000, 200)
            rows = [] if batch is None else batch.column("value").to_pylist()
            values.extend(value.decode() for value in rows)
            return last in values

        until(there)
        consumer.close()
        return values

    def written(self, producer: TransactionalProducer, topic: str, *values: str) -> None:
        producer.begin()
        producer.produce(produce_batch(topic, pa.array(values)))
        producer.commit(LIMIT_MS)

    def test_several_topics_are_committed_at_once_and_again(self, topic: str) -> None:
        other = fresh_name("txn")
        self.new_topic(other)
        producer = self.claimed(topic)
        for number in ("1", "2"):
            producer.begin()
            producer.produce(produce_batch(topic, pa.array([f"a{number}", f"b{number}"])))
            producer.produce(produce_batch(other, pa.array([f"o{number}"]), pa.array(["k"])))
            producer.commit(LIMIT_MS)
        producer.close()
        assert self.read(topic, "b2") == ["a1", "b1", "a2", "b2"]
        assert self.read(other, "o2") == ["o1", "o2"]

    def test_aborted_records_are_never_visible(self, topic: str) -> None:
        producer = self.claimed(topic)
        producer.begin()
        producer.produce(produce_batch(topic, pa.array(["dropped"])))
        producer.abort(LIMIT_MS)
        self.written(producer, topic, "kept")
        producer.close()
        assert self.read(topic, "kept") == ["kept"]

    def test_dropped_records_are_reported_without_an_offset(self, topic: str) -> None:
        producer = self.claimed(topic, **RECORD_REPORTS)
        told = []
        for values, end in ((["a", "b"], producer.commit), (["dropped"], producer.abort), (["c"], producer.commit)):
            producer.begin()
            producer.produce(produce_batch(topic, pa.array(values)))
            end(LIMIT_MS)
            told.append(
                [
                    None if record_metadata is None else (record_metadata.topic, record_metadata.partition)
                    for record_metadata in producer.metadata()
                ]
            )
        producer.close()
        assert told == [[(topic, 0), (topic, 0)], [None], [(topic, 0)]]

    def test_metadata_of_several_transactions_follows_how_each_ended(self, topic: str) -> None:
        producer = self.claimed(topic, **RECORD_REPORTS)
        for values, end in ((["a", "b"], producer.commit), (["dropped"], producer.abort), (["c"], producer.commit)):
            producer.begin()
            producer.produce(produce_batch(topic, pa.array(values)))
            end(LIMIT_MS)
        found = producer.metadata()
        producer.close()
        assert [
            record_metadata and (record_metadata.topic, record_metadata.partition) for record_metadata in found
        ] == [(topic, 0), (topic, 0), None, (topic, 0)]

    def test_abort_between_commits_leaves_no_gap(self, topic: str) -> None:
        """The broker decides: it rejected the transaction although an abort had dropped the queued records itself."""
        producer = self.claimed(topic)
        for number in range(3):
            self.written(producer, topic, f"kept {number}")
            producer.begin()
            producer.produce(produce_batch(topic, pa.array(["dropped"])))
            producer.abort(LIMIT_MS)
        self.written(producer, topic, "last")
        producer.close()
        assert self.read(topic, "last") == ["kept 0", "kept 1", "kept 2", "last"]

    def test_a_newer_claim_drops_what_is_open_and_fences_for_good(self, topic: str) -> None:
        older = self.claimed(topic)
        self.written(older, topic, "before")
        older.begin()
        older.produce(produce_batch(topic, pa.array(["open"])))
        newer = self.claimed(topic)
        self.written(newer, topic, "after")
        with pytest.raises(FencedError):
            older.commit(LIMIT_MS)
        with pytest.raises(FencedError):
            older.produce(produce_batch(topic, pa.array(["zombie"])))
        older.close()
        self.written(newer, topic, "last")
        newer.close()
        assert self.read(topic, "last") == ["before", "after", "last"]

    def test_ids_do_not_disturb_each_other(self, topic: str) -> None:
        producer, other = self.claimed(f"{topic}-1"), self.claimed(f"{topic}-2")
        self.written(producer, topic, "one")
        self.written(other, topic, "other")
        producer.close()
        other.close()
        assert self.read(topic, "other") == ["one", "other"]

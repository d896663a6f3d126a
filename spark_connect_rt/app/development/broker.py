"""A real broker for ``connectrt dev``: takes a source's records, gives a sink's. Joins no group, commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.records import RecordMetadata
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.executor_clients import KafkaExecutorClients
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.kafka.executor_clients import RECORD_REPORTS, BatchConsumer, BatchProducer
from spark_connect_rt.records.pipeline.columns import ProduceRows
from spark_connect_rt.testing.connector_harness import ProducedRecord
from spark_connect_rt.testing.memory_executor_clients import rows_of

_CHECK_MS = 5_000
_FLUSH_MS = 30_000
_BEGINNING = -1
_MOST_RECORDS = 500
_POLL_MS = 200


class Broker:
    """Clients of one cluster, made when they are needed. One thread."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        """Take client settings: ``bootstrap.servers``, and what security asks for."""
        self._settings = dict(settings)
        self._clients = KafkaExecutorClients()
        self._producer: BatchProducer | None = None
        self._consumer: BatchConsumer | None = None
        self._ends: dict[TopicPartition, int] = {}

    def check(self) -> None:
        """Return when a broker answers. Raises ConnectError: none does within 5 seconds."""
        admin = KafkaAdmin(self._settings)
        try:
            admin.check_reachable(_CHECK_MS)
        finally:
            admin.close()

    def send(self, records: Sequence[ProducedRecord]) -> list[RecordMetadata | None]:
        """Send records and return where they lie. Raises ConnectError: the broker refuses one, or does not answer.

        A topic that is missing is created by the broker, if it does that.
        """
        if self._producer is None:
            self._producer = self._clients.producer({**self._settings, **RECORD_REPORTS})
        rows = ProduceRows()
        for record in records:
            headers = list(record.headers) or None
            rows.append((record.topic, record.partition, record.key, record.value, headers, record.timestamp_ms))
        self._producer.produce(rows.take())
        self._producer.flush(_FLUSH_MS)
        return self._producer.metadata()

    def subscribe(self, topics: Sequence[str], reads: Callable[[str], bool]) -> list[str]:
        """Read the partitions of topics from their beginnings; return the topics that do not exist.

        Args:
            topics: the names of the topics. Empty: all topics there are now for which ``reads`` returns True.

        Raises ConnectError: no broker answers.
        """
        admin = KafkaAdmin(self._settings)
        try:
            wanted = topics or sorted(filter(reads, admin.topics()))
            counts = {topic: admin.partition_count(topic) for topic in wanted}
        finally:
            admin.close()
        places = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count or 0)]
        if places:
            self._consumer = self._clients.consumer(self._settings)
            self._ends = self._consumer.end_offsets(places)
            self._consumer.assign(dict.fromkeys(places, _BEGINNING))
        return [topic for topic, count in counts.items() if count is None]

    def read(self) -> list[dict[str, Any]]:
        """Return rows in consume form, at most 500; waits up to 200 ms for the first. Raises ConnectError."""
        if self._consumer is None:
            return []
        batch = self._consumer.poll(_MOST_RECORDS, _POLL_MS)
        return [] if batch is None else rows_of(batch)

    def is_read(self) -> bool:
        """Return whether everything was read that was there at ``subscribe``."""
        if self._consumer is None:
            return True
        return all(end == 0 or self._consumer.position(place) >= end for place, end in self._ends.items())

    def close(self) -> None:
        """Close the producer and the consumer, if they were opened."""
        producer, self._producer = self._producer, None
        consumer, self._consumer = self._consumer, None
        for client in (producer, consumer):
            if client is not None:
                client.close()

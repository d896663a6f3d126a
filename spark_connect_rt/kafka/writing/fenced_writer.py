"""The leader's way to write the config topic: transactions under the group's own id (KIP-618).

Java: the fencable producer of ``KafkaConfigBackingStore``. Owns: one transactional producer while claimed. Must not:
read, or decide who leads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import KafkaException

from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.client_factory import make_producer
from spark_connect_rt.kafka.client_lifetime import close_producer
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.interfaces import ProducerProperties
from spark_connect_rt.topics.key_places import BY_KEY

_SETTINGS = {"linger.ms": "0", "queue.buffering.max.kbytes": "16384"}


class KafkaFencedWriter:
    """A FencedWriter on Kafka, with a transactional producer for each claim."""

    def __init__(self, topic: str, properties: Mapping[str, str], partition: int = BY_KEY) -> None:
        """Take the topic, the producer's properties, ``transactional.id`` among them, and where all records go."""
        self._topic = topic
        self._partition = partition
        self._properties = dict(properties)
        self._producer: Any = None

    def claim(self, timeout_ms: int) -> None:
        """Fence any earlier claimant by a new producer, unless claimed. Raises ConnectError and its kinds."""
        if self._producer is not None:
            return
        producer = make_producer(self._properties, _SETTINGS)
        try:
            producer.init_transactions(timeout_ms / 1000)
        except KafkaException as error:
            close_producer(producer)
            raise connect_error(error, f"claiming {self._properties['transactional.id']}") from error
        self._producer = producer

    def is_claimed(self) -> bool:
        """Return whether ``write`` may be called: claimed, and no write has failed since."""
        return self._producer is not None

    def write(self, records: Sequence[tuple[bytes, bytes | None]], timeout_ms: int) -> None:
        """Append all records or none in one transaction. Any error gives the claim up."""
        # A failed write gives the claim up; the next claim aborts what it may have left open.
        producer, self._producer = self._producer, None
        if producer is None:
            raise RetriableError(f"topic {self._topic}: {self._properties['transactional.id']} is not claimed")
        refused: list[ConnectError] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                refused.append(connect_error(error, f"appending to {self._topic}"))

        end_s = time.monotonic() + timeout_ms / 1000
        try:
            producer.begin_transaction()
            for key, value in records:
                producer.produce(self._topic, value, key, self._partition, on_delivery=delivered)
            producer.commit_transaction(max(0.001, end_s - time.monotonic()))
        except KafkaException as error:
            problem = _worst(refused) or connect_error(error, f"appending to {self._topic}")
            close_producer(producer)  # refuses what is left, without a reason
            raise problem from error
        self._producer = producer

    def release(self) -> None:
        """Give the claim up and close the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            close_producer(producer)


def _worst(refused: Sequence[ConnectError]) -> ConnectError | None:
    """Return why the broker refused the records: the commit's own error only says that it did."""
    return refused[0] if refused else None


# Transactions of the driver's side on Kafka (kafka.interfaces): initTransactions is what shuts a producer out.


AT_ONCE = 8  # producers that are being fenced at the same time; each is a client with its own connections


class KafkaTransactions:
    """The port Transactions, on confluent-kafka."""

    def fence(self, producers: Sequence[ProducerProperties], timeout_ms: int) -> None:
        """Claim each transactional id and release it, several in parallel. Raises the first failure."""
        end_s = time.monotonic() + timeout_ms / 1000

        def fence_one(producer: ProducerProperties) -> None:
            writer = KafkaFencedWriter("", producer)
            writer.claim(max(1, int((end_s - time.monotonic()) * 1000)))
            writer.release()

        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="fence") as pool:
            for _ in pool.map(fence_one, producers):
                pass  # the first failure is raised here

    def write(
        self,
        producer: ProducerProperties,
        topic: str,
        records: Sequence[tuple[bytes, bytes | None]],
        timeout_ms: int,
    ) -> None:
        """Claim the id, append all records in one transaction, and release it."""
        writer = KafkaFencedWriter(topic, producer)
        writer.claim(timeout_ms)
        try:
            writer.write(records, timeout_ms)
        finally:
            writer.release()

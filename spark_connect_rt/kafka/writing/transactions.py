"""Transactions of the driver's side on Kafka (kafka.transactions): initTransactions is what shuts a producer out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from spark_connect_rt.kafka.transactions import ProducerProperties
from spark_connect_rt.kafka.writing.fenced_writer import KafkaFencedWriter

AT_ONCE = 8  # producers that are being shut out at the same time; each is a client with its own connections


class KafkaTransactions:
    """Transactions on confluent-kafka."""

    def fence(self, producers: Sequence[ProducerProperties], timeout_ms: int) -> None:
        """See ``kafka.transactions.Transactions.fence``."""
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
        """See ``kafka.transactions.Transactions.write``."""
        writer = KafkaFencedWriter(topic, producer)
        writer.claim(timeout_ms)
        try:
            writer.write(records, timeout_ms)
        finally:
            writer.release()

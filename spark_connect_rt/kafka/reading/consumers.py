"""Which BatchConsumer reads with a set of properties: whole record batches where every one of them is honoured."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.executor_clients import BatchConsumer
from spark_connect_rt.kafka.reading.fetch_settings import not_honoured
from spark_connect_rt.kafka.reading.log_moves import LogWatch
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC

log = logging.getLogger(__name__)


def batch_consumer(config: Mapping[str, str], watch: LogWatch | None = None) -> BatchConsumer:
    """Return a new consumer for Java client properties; ``watch`` decides about moved logs. Raises BadConfigError."""
    others = not_honoured(config)
    if others:
        from spark_connect_rt.kafka.reading.batch_consumer import KafkaBatchConsumer

        log.info("read by librdkafka, record by record, because of %s", ", ".join(others))
        return KafkaBatchConsumer(config, watch)
    from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer

    return FetchConsumer(config, watch)


def polled_apart(
    consumer: BatchConsumer, max_records: int, timeout_ms: int
) -> list[tuple[TopicPartition, pa.RecordBatch]]:
    """Poll, and return the rows of each partition, in order. Raises as ``BatchConsumer.poll``."""
    poll_apart = getattr(consumer, "poll_apart", None)
    if poll_apart is not None:  # to join them and cut them again would cost as much as their columns did
        return [(_place(rows), rows) for rows in poll_apart(max_records, timeout_ms)]
    batch = consumer.poll(max_records, timeout_ms)
    return [] if batch is None else list(_by_partition(batch))


def polled_views(consumer: BatchConsumer, max_records: int, timeout_ms: int) -> pa.RecordBatch | None:
    """Poll; values may be views (``records.pipeline.columns``). Raises as ``BatchConsumer.poll``."""
    poll: Callable[[int, int], pa.RecordBatch | None] = getattr(consumer, "poll_views", consumer.poll)
    return poll(max_records, timeout_ms)


def _place(rows: pa.RecordBatch) -> TopicPartition:
    return TopicPartition(rows.schema.metadata[TOPIC].decode(), int(rows.schema.metadata[PARTITION]))


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Yield the rows of each topic partition of a batch in consume form, in order."""
    import pyarrow.compute as pc  # only behind librdkafka

    metadata = batch.schema.metadata or {}
    topics = [metadata[TOPIC].decode()] if TOPIC in metadata else pc.unique(batch.column("topic")).to_pylist()
    for topic in topics:
        of_topic = batch if TOPIC in metadata else batch.filter(pc.equal(batch.column("topic"), topic))
        if PARTITION in metadata:
            yield TopicPartition(topic, int(metadata[PARTITION])), of_topic
            continue
        numbers = of_topic.column("partition")
        for number in pc.unique(numbers).to_pylist():
            yield TopicPartition(topic, number), of_topic.filter(pc.equal(numbers, number))

"""The table ``dlq:<connector>``: the letters in a deployed connector's dead letter queue, and their errors.

Owns what its columns hold: the record as it was, the headers it had, and Connect's own ``__connect.errors.*`` headers
as a map without that prefix (Java ``DeadLetterQueueReporter``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.engine.datasource.pushed_filters import Comparison, bounds_of, since_ms
from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.kafka.internal_topics import admin_of
from spark_connect_rt.kafka.logs.topic_records import HeadedRecord, TopicPart, read_with_headers
from spark_connect_rt.records.pipeline.dead_letters import split_headers

_QUEUE = "errors.deadletterqueue.topic.name"
_PLACES = {"topic": 0, "partition": 1, "offset": 2, "timestamp": 3}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def dead_letters(
    connector: Mapping[str, str], settings: Mapping[str, str], conditions: Sequence[Comparison] = ()
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a connector's queue that keep to the conditions, as of now; none while the topic is not there.

    Raises NotFoundError: the connector has no queue; ConnectError: the brokers cannot be asked.
    """
    topic = connector.get(_QUEUE, "").strip()
    if not topic:
        raise NotFoundError(f"connector {connector.get('name')} has no dead letter queue: {_QUEUE} is not set")
    config = distributed_config(settings)
    admin = admin_of(config)
    try:
        count = admin.partition_count(topic) or 0
        consumer = log_client_properties(config, "dead-letters").consumer
        for header in read_with_headers(consumer, topic, part_of(topic, count, conditions)):
            row = _row(topic, header)
            if all(condition.lets(row[_PLACES[condition.column]]) for condition in conditions):
                yield row
    finally:
        admin.close()


def part_of(topic: str, count: int, conditions: Sequence[Comparison]) -> TopicPart:
    """Return what has to be read of a topic of ``count`` partitions for rows that keep to the conditions."""
    places = [{"topic": topic, "partition": number} for number in range(count)]
    partitions = [
        number
        for number, place in enumerate(places)
        if all(condition.lets(place[condition.column]) for condition in conditions if condition.column in place)
    ]
    return TopicPart(partitions, *bounds_of(conditions, "offset"), since_ms(conditions))


def _row(topic: str, letter: HeadedRecord) -> tuple[Any, ...]:
    partition, offset, key, value, timestamp_ms = letter.record
    own, errors = split_headers(letter.headers)
    return topic, partition, offset, _EPOCH + timedelta(milliseconds=timestamp_ms), key, value, list(own), errors

"""The table ``dlq:<connector>``: what lies in a deployed connector's dead letter queue, and why.

Owns what its columns hold: the record as it was, the headers it had, and Connect's own ``__connect.errors.*`` headers
as a map without that prefix (Java ``DeadLetterQueueReporter``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from spark_connect_rt.app.wiring import admin_of
from spark_connect_rt.config.client_properties import log_client_properties
from spark_connect_rt.config.distributed_config import parse_distributed
from spark_connect_rt.errors import NotFoundError
from spark_connect_rt.kafka.topic_records import HeadedRecord, read_with_headers
from spark_connect_rt.pipeline.dead_letters import PREFIX

TABLE = "dlq:"
DDL = (
    "topic string, partition int, offset bigint, timestamp timestamp, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, errors map<string,string>"
)
_QUEUE = "errors.deadletterqueue.topic.name"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def dead_letters(connector: Mapping[str, str], settings: Mapping[str, str]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a connector's queue, as of now; none while the topic is not there.

    Raises NotFoundError: the connector has no queue; ConnectError: the brokers cannot be asked.
    """
    topic = connector.get(_QUEUE, "").strip()
    if not topic:
        raise NotFoundError(f"connector {connector.get('name')} has no dead letter queue: {_QUEUE} is not set")
    config = parse_distributed(settings)
    admin = admin_of(config.raw)
    try:
        count = admin.partition_count(topic) or 0
        consumer = log_client_properties(config.raw, "dead-letters").consumer
        for one in read_with_headers(admin, consumer, topic, count):
            yield _row(topic, one)
    finally:
        admin.close()


def _row(topic: str, one: HeadedRecord) -> tuple[Any, ...]:
    partition, offset, key, value, timestamp_ms = one.record
    errors = {
        name[len(PREFIX) :]: None if data is None else data.decode("utf-8", errors="replace")
        for name, data in one.headers
        if name.startswith(PREFIX)
    }
    own = [(name, data) for name, data in one.headers if not name.startswith(PREFIX)]
    return topic, partition, offset, _EPOCH + timedelta(milliseconds=timestamp_ms), key, value, own, errors

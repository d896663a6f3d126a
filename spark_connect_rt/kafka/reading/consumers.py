"""Which BatchConsumer reads with a set of properties: whole record batches where every one of them is honoured."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from spark_connect_rt.kafka.reading.fetch_settings import not_honoured
from spark_connect_rt.ports.executor_clients import BatchConsumer

log = logging.getLogger(__name__)


def batch_consumer(config: Mapping[str, str]) -> BatchConsumer:
    """Return a new consumer for Java client properties. Raises BadConfigError."""
    others = not_honoured(config)
    if others:
        from spark_connect_rt.kafka.reading.batch_consumer import KafkaBatchConsumer

        log.info("read by librdkafka, record by record, for the sake of %s", ", ".join(others))
        return KafkaBatchConsumer(config)
    from spark_connect_rt.kafka.reading.fetch_consumer import FetchConsumer

    return FetchConsumer(config)

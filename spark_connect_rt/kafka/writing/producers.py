"""Which BatchProducer writes with a set of properties: whole record batches where every one of them is honoured."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from spark_connect_rt.kafka.writing.column_settings import column_settings, not_honoured
from spark_connect_rt.ports.executor_clients import BatchProducer, TransactionalProducer

log = logging.getLogger(__name__)


def batch_producer(config: Mapping[str, str]) -> BatchProducer:
    """Return a new producer for Java client properties. Raises BadConfigError."""
    settings = column_settings(config)
    if settings is None:
        from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer

        log.info("written by librdkafka, record by record, for the sake of %s", ", ".join(not_honoured(config)))
        return KafkaBatchProducer(config)
    from spark_connect_rt.kafka.writing.column_producer import ColumnProducer

    return ColumnProducer(settings)


def transactional_producer(config: Mapping[str, str]) -> TransactionalProducer:
    """Return a new producer of transactions for Java client properties, their id among them. Raises BadConfigError."""
    settings = column_settings(config)
    if settings is None:
        from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer

        log.info("transactions written by librdkafka, record by record, for %s", ", ".join(not_honoured(config)))
        return KafkaTransactionalProducer(config)
    from spark_connect_rt.kafka.writing.column_transactions import ColumnTransactionalProducer

    return ColumnTransactionalProducer(settings)

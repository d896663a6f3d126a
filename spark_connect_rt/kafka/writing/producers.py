"""Which BatchProducer writes with a set of properties: whole record batches where every one of them is honoured."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from spark_connect_rt.config.client_properties import SHARED_CLIENT
from spark_connect_rt.kafka.executor_clients import BatchProducer, TransactionalProducer
from spark_connect_rt.kafka.writing.column_settings import column_settings, not_honoured, settings_of

log = logging.getLogger(__name__)


def batch_producer(config: Mapping[str, str]) -> BatchProducer:
    """Return a new producer for Java client properties; SHARED_CLIENT: by a shared client. Raises BadConfigError."""
    own = {name: value for name, value in config.items() if name not in SHARED_CLIENT}
    refused = not_honoured(own)
    if refused:
        from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer

        log.info("written by librdkafka, record by record, because of %s", ", ".join(refused))
        return KafkaBatchProducer(own)
    from spark_connect_rt.kafka.writing.column_producer import ColumnProducer
    from spark_connect_rt.kafka.writing.shared_clients import SHARED_CLIENTS, SharedColumnProducer

    if SHARED_CLIENT.items() <= config.items():
        return SharedColumnProducer(*SHARED_CLIENTS.take(own), SHARED_CLIENTS.give_back)
    return ColumnProducer(settings_of(own))


def transactional_producer(config: Mapping[str, str]) -> TransactionalProducer:
    """Return a new producer of transactions for Java client properties, their id among them. Raises BadConfigError."""
    settings = column_settings(config)
    if settings is None:
        from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer

        log.info("transactions written by librdkafka, record by record, because of %s", ", ".join(not_honoured(config)))
        return KafkaTransactionalProducer(config)
    from spark_connect_rt.kafka.writing.column_transactions import ColumnTransactionalProducer

    return ColumnTransactionalProducer(settings)

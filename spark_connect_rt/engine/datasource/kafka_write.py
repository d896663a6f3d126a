"""Rows written to Kafka inside one Spark task: records as they stand, values through a connector's converters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from spark_connect_rt.config.client_properties import SOURCE_PRODUCER_DEFAULTS
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.engine.datasource.row_form import RecordForm, ValueForm, form_of
from spark_connect_rt.engine.executor.hosting import load_clients
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

PREFIX = "kafka."


@dataclass(frozen=True, slots=True)
class KafkaPlan:
    """What every Spark task of a write needs; settings are raw, secrets are looked up where it runs."""

    config: Mapping[str, str]  # converters, transforms; ``kafka.*`` for the producer
    clients: str
    topic: str | None
    patience_ms: int  # of the last flush


def write_to_kafka(plan: KafkaPlan, batches: Iterable[pa.RecordBatch]) -> int:
    """Produce every row and return their count when all are acknowledged.

    Raises DataError (a row that cannot be converted), ConnectError (one that Kafka refuses), TimedOutError.
    """
    clients = load_clients(plan.clients)
    config = clients.resolve(plan.config, plan.config)
    producer = clients.producer({**SOURCE_PRODUCER_DEFAULTS, **prefixed(config, PREFIX)})
    pipeline = SourcePipeline.from_config(config, config, clients.plugin)
    form: RecordForm | ValueForm | None = None
    count = 0
    try:
        for batch in batches:
            form = form or form_of(batch.schema, plan.topic)
            if isinstance(form, RecordForm):
                producer.produce(form.produced(batch))
            else:
                for converted in pipeline.convert([form.as_batch(batch)]):
                    producer.produce(converted.batch)
            count += batch.num_rows
        producer.flush(plan.patience_ms)
    finally:
        producer.close()
        pipeline.close()
    return count

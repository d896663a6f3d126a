"""Records to another Kafka cluster, byte for byte: keys, values, headers, timestamps and, where wanted, partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.client_settings import client_setting
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.topics import kafka_settings as settings
from spark_connect_rt.errors import DataError, RetriableError
from spark_connect_rt.kafka.writing.batch_producer import KafkaBatchProducer
from spark_connect_rt.records.pipeline.columns import ProduceRows, columns_batch


class KafkaSinkConnector(SinkConnector):
    """Copies records to topics of another Kafka cluster, byte for byte."""

    def config_def(self) -> ConfigDef:
        """Declare the settings; ``target.producer.*`` go to the producers as they are."""
        return settings.SINK

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return KafkaSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task."""
        return [dict(self.config) for _ in range(max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Reject a configuration that does not set the converters."""
        return settings.converter_problems(config)

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Return True: no offsets are kept but the group's."""
        return True


class KafkaSinkTask(SinkTask):
    """Writes with one producer; offsets are committed after its flush."""

    def start(self, config: Mapping[str, str]) -> None:
        """Make the producer. Raises BadConfigError."""
        self._values = settings.SINK.parse(config)
        properties = settings.client_properties(config, "target", "producer")
        self._timeout_ms = client_setting("producer", "delivery.timeout.ms", properties)
        self._properties = properties
        self._producer = KafkaBatchProducer(properties)

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Queue the records.

        Raises DataError: the result of a converter is not bytes. Raises ConnectError: a delivery failed.
        """
        rows = ProduceRows()
        for record in records:
            headers = [(header.key, _bytes(header.value, record, f"header {header.key}")) for header in record.headers]
            rows.append(
                (
                    settings.target_topic(self._values["topic.format"], record.topic),
                    record.partition if self._values["partition.keep"] else None,
                    _bytes(record.key, record, "key"),
                    _bytes(record.value, record, "value"),
                    headers or None,
                    record.timestamp_ms,
                )
            )
        if len(rows):
            self._produce(rows.take())

    def put_batch(self, batch: SinkBatch) -> bool:
        """Queue columns of bytes; others go by records. Raises ConnectError: a delivery failed."""
        kinds = [column.type for column in (batch.keys, batch.values) if column is not None]
        if not all(pa.types.is_binary(kind) or pa.types.is_null(kind) for kind in kinds):
            return False
        topic = settings.target_topic(self._values["topic.format"], batch.topic)
        partition = batch.partition if self._values["partition.keep"] else None
        self._produce(columns_batch(topic, batch.values, batch.keys, batch.timestamps_ms, partition, batch.headers))
        return True

    def takes_headers(self) -> bool:
        """Write headers in columns, too."""
        return True

    def _produce(self, batch: pa.RecordBatch) -> None:
        try:
            self._producer.produce(batch)
        except RetriableError:
            self.context.request_commit()  # an earlier record may have failed: all of them are put again
            raise

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Return when everything put so far is acknowledged; else all since the last commit goes to a new producer."""
        try:
            self._producer.flush(self._timeout_ms)
        except RetriableError:
            self._producer.close()
            self._producer = KafkaBatchProducer(self._properties)
            raise

    def may_put_halves(self) -> bool:
        """Return False: a rejected delivery may concern any earlier record, so it is unknown which of them arrived."""
        return False

    def stop(self) -> None:
        """Close the producer. Records that are not flushed are put again."""
        if hasattr(self, "_producer"):
            self._producer.close()


def _bytes(value: Any, record: SinkRecord, what: str) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    raise DataError(
        f"{record.topic}-{record.partition}@{record.offset}: the {what} is {type(value).__name__}, not bytes. Use "
        f"{settings.BYTES}"
    )

"""Sends the rows of a DataFrame to Kafka from the Spark tasks that read them; runs inside ``mapInArrow``.

Owns: rows -> the connector's transformations and converters -> one producer a Spark task. A task ends well only after
its flush, so a job that succeeded has every record acknowledged. Imports nothing of the driver side.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.data.schema import Schema, struct_of
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.config.client_settings import client_setting
from spark_connect_rt.engine.executor.errant_reports import ErrantLog
from spark_connect_rt.engine.executor.hosting import load_clients, monotonic_ms
from spark_connect_rt.engine.executor.new_topics import NewTopics
from spark_connect_rt.engine.executor.task_logs import hide_secrets, mask_logs
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.kafka.executor_clients import BatchProducer, ExecutorClients
from spark_connect_rt.records.pipeline.arrow_values import RowColumns
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters, ReportSettings
from spark_connect_rt.records.pipeline.errant_records import RetryWait
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch, SourcePipeline

SENT_DDL = "records BIGINT, skipped BIGINT, bytes BIGINT, topics ARRAY<STRING>"


@dataclass(frozen=True, slots=True)
class FrameJob:
    """Input of a Spark task that sends rows. Pickles; secrets unresolved."""

    clients: str  # "package.module:factory" of ExecutorClients
    launch: TaskLaunch
    topic: str
    key_columns: tuple[str, ...]
    partition: Mapping[str, Any]  # the source partition, and the offset behind all rows: errors name them
    offset: Mapping[str, Any]


def send_rows(job: FrameJob, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Send every row; yield one row of SENT_DDL when all are acknowledged.

    Raises DataError: a record failed and ``errors.tolerance=none``; ConnectError: a delivery failed.
    """
    sender = _Sender(job, load_clients(job.clients))
    try:
        for batch in batches:
            sender.send(batch)
        yield sender.finish()
    finally:
        sender.close()


class _Sender:
    """Converts and sends the records of one Spark task."""

    def __init__(self, job: FrameJob, clients: ExecutorClients) -> None:
        self._job = job
        self._clients = clients
        launch = job.launch
        hide_secrets(launch)
        mask_logs()
        worker_config = clients.resolve(launch.worker_config, launch.worker_config)
        config = clients.resolve(launch.connector_config, launch.worker_config)
        reporting = ReportSettings.from_config(config)
        letters = DeadLetters(reporting, launch.task, clients.name_of, without_secrets) if reporting.topic else None
        waiting = RetryWait(monotonic_ms, _sleep)
        self._pipeline = SourcePipeline.from_config(config, worker_config, clients.plugin, waiting, letters)
        self._errant_log = ErrantLog(launch.task, reporting, clients)
        self._new_topics = NewTopics(launch, clients)
        self._rows: RowColumns | None = None
        self._producer: BatchProducer | None = None
        self._timeout_ms: int = client_setting("producer", "delivery.timeout.ms")
        self._records = self._skipped = self._bytes = 0
        self._topics: set[str] = set()

    def send(self, batch: pa.RecordBatch) -> None:
        """Convert and produce one batch."""
        self._rows = self._rows or RowColumns(batch.schema)
        job, values, schema = self._job, self._rows.structs(batch), self._rows.schema
        keys, key_schema = key_column(values, schema, job.key_columns)
        piece = SourceBatch(job.partition, job.offset, job.topic, values, schema, keys, key_schema)
        try:
            converted = self._pipeline.convert([piece])
        except DataError:
            last = self._pipeline.give_up()
            if last is not None:  # as Java: also the record that fails the task is reported
                self._produce(last)
                self._flush()
            raise
        for part in converted:
            self._produce(part)

    def _produce(self, converted: ConvertedBatch) -> None:
        self._errant_log.write(converted.errants)
        self._records += converted.records
        self._skipped += converted.skipped
        self._bytes += int(converted.batch.nbytes)
        self._topics.update(converted.topics)
        if converted.batch.num_rows:
            self._new_topics.ensure(converted.topics)
            self._open().produce(converted.batch)

    def _open(self) -> BatchProducer:
        if self._producer is None:
            launch = self._job.launch
            config = self._clients.resolve(launch.client_config, launch.worker_config)
            self._timeout_ms = client_setting("producer", "delivery.timeout.ms", config)
            self._producer = self._clients.producer(config)
        return self._producer

    def _flush(self) -> None:
        if self._producer is not None:
            self._producer.flush(self._timeout_ms)

    def finish(self) -> pa.RecordBatch:
        """Return what was sent, once it is acknowledged."""
        self._flush()
        names = ("records", "skipped", "bytes")
        columns = [pa.array([count], pa.int64()) for count in (self._records, self._skipped, self._bytes)]
        topics = pa.array([sorted(self._topics)], pa.list_(pa.string()))
        return pa.RecordBatch.from_arrays([*columns, topics], names=[*names, "topics"])

    def close(self) -> None:
        """Give up what is not acknowledged, and close."""
        self._pipeline.close()
        if self._producer is not None:
            self._producer.close()


def key_column(values: pa.StructArray, schema: Schema, names: Sequence[str]) -> tuple[pa.Array | None, Schema | None]:
    """Return the keys of rows and their schema: one column's values, a struct of several, or none.

    Raises ConnectError: there is no such column.
    """
    if not names:
        return None, None
    schemas: dict[str, Schema] = {}
    for name in names:
        member = schema.field(name)
        if member is None:
            raise ConnectError(f"column {name} does not exist (setting 'key.columns')")
        schemas[name] = member.schema
    columns = [values.field(name) for name in names]
    if len(names) == 1:
        return columns[0], schemas[names[0]]
    return pa.StructArray.from_arrays(columns, names=list(names)), struct_of(schemas)


def _sleep(wait_ms: int) -> bool:
    time.sleep(wait_ms / 1000)  # a cancelled job kills the process
    return True

"""``df.write.format("connectrt")`` and ``writeStream``: rows into a sink connector, or into Kafka through converters.

Owns what the options name and where rows seem to come from: partition n of a write is partition n of the topic, the
offsets of micro-batch b begin at b * 2**32. So a repeated batch has the offsets it had, and a sink connector that
recognizes records by topic, partition and offset writes it once. Other sinks, and Kafka, get a repeated batch again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SinkRecord, SourceBatch
from spark_connect_rt.api.task import NoPluginMetrics, SinkTask
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.client_properties import SOURCE_PRODUCER_DEFAULTS
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.config.connector_config import SINK
from spark_connect_rt.config.connectrt_config import OF_SINKS_ONLY, REFUSALS_MAX
from spark_connect_rt.engine.datasource.named_connector import planned_tasks, plugin_for_spark
from spark_connect_rt.engine.datasource.read_options import (
    DEFAULTS,
    GivenOptions,
    connector_config,
    count_of,
    whole_config,
)
from spark_connect_rt.engine.executor.errant_reports import ErrantReports, SinkErrantReporter
from spark_connect_rt.engine.executor.hosting import load_class, load_clients, monotonic_ms
from spark_connect_rt.engine.executor.python_sink import PutDelivery
from spark_connect_rt.engine.executor.sink_context import WorkerSinkTaskContext
from spark_connect_rt.engine.startup.spark_version import STREAM_ARROW_WRITERS, has
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, TimedOutError
from spark_connect_rt.records.pipeline.arrow_values import RowColumns
from spark_connect_rt.records.pipeline.columns import CONSUME_FIELDS, PRODUCE_FIELDS
from spark_connect_rt.records.pipeline.connect_values import row_values
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.errant_records import RetryWait
from spark_connect_rt.records.pipeline.sink_pipeline import SinkConverted, SinkPipeline
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

# How rows of a DataFrame are written: as records unchanged, or as values with a schema.
#
# Rows that have only the columns of the read (``topic``, ``partition``, ``key``, ``value``, ``headers``, ``timestamp``)
# and a ``value`` of bytes or text are records. Any other row is the value of a record: a struct of its columns. Pure.


RECORD_COLUMNS = (*PRODUCE_FIELDS, "source_partition", "source_offset")  # the last two are of a read, and left out
_TEXTS = (pa.types.is_binary, pa.types.is_string, pa.types.is_large_binary, pa.types.is_large_string)


def is_record_form(names: Collection[str], texts: Collection[str]) -> bool:
    """Return whether rows are records as they stand; ``texts``: the columns of text or bytes among ``names``."""
    return "value" in texts and set(names) <= set(RECORD_COLUMNS)


class RecordForm:
    """Rows in record form: topic, key, value, headers ... as columns."""

    def __init__(self, columns: pa.Schema, topic: str | None) -> None:
        """Take the columns and the topic of rows that name none. Raises DataError: neither names one."""
        if topic is None and "topic" not in columns.names:
            raise DataError("no topic is given. Set the option topic, or add a column topic")
        self._topic = topic

    def produced(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch in produce form. Raises DataError: a column is of another type, a topic is missing."""
        return pa.RecordBatch.from_pydict({name: self._column(batch, name) for name in PRODUCE_FIELDS})

    def consumed(self, batch: pa.RecordBatch, partition: int, first_offset: int) -> pa.RecordBatch:
        """Return the batch in consume form, as if read from ``partition`` at ``first_offset``.

        Raises DataError as ``produced``.
        """
        columns = {name: self._column(batch, name) for name in PRODUCE_FIELDS}
        count = batch.num_rows
        columns["partition"] = pa.repeat(pa.scalar(partition, pa.int32()), count)
        columns["offset"] = pa.array(range(first_offset, first_offset + count), pa.int64())
        return pa.RecordBatch.from_pydict({name: columns[name] for name in CONSUME_FIELDS})

    def _column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        kind = PRODUCE_FIELDS[name]
        if name == "topic":
            return self._topics(batch)
        if name not in batch.schema.names:
            return pa.nulls(batch.num_rows, kind)
        column = batch.column(name)
        try:
            if name == "timestamp" and pa.types.is_timestamp(column.type):
                return column.cast(pa.timestamp("ms", column.type.tz), safe=False).cast(kind)
            return column.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DataError(f"column {name}: expected {kind}, not {column.type}: {error}") from None

    def _topics(self, batch: pa.RecordBatch) -> pa.Array:
        given = batch.column("topic").cast(pa.string()) if "topic" in batch.schema.names else None
        fixed = pa.repeat(pa.scalar(self._topic, pa.string()), batch.num_rows)
        topics = fixed if given is None else pc.coalesce(given, fixed)
        if topics.null_count:
            raise DataError("a row has no topic. Set the option topic")
        return topics


class ValueForm:
    """Rows that are values: structs of their columns."""

    def __init__(self, columns: pa.Schema, topic: str | None) -> None:
        """Take the columns and the topic. Raises DataError: no topic, or a column that has no Connect form."""
        if topic is None:
            raise DataError("no topic is given. Set the option topic")
        self._topic = topic
        self._columns = RowColumns(columns)

    @property
    def schema(self) -> Schema:
        """Return the schema of every value."""
        return self._columns.schema

    def as_batch(self, batch: pa.RecordBatch) -> SourceBatch:
        """Return rows as what a source polls. Raises DataError: a value does not fit."""
        return SourceBatch({}, {}, self._topic, self._columns.structs(batch), self.schema)

    def as_records(
        self, batch: pa.RecordBatch, partition: int, first_offset: int
    ) -> Iterator[tuple[SinkRecord, DataError | None]]:
        """Yield rows as records of ``partition`` from ``first_offset`` on, as a sink task in a worker gets them.

        The second part says why a row has no value, where Python cannot hold it. Raises DataError: a value does not fit
        its column's Connect type.
        """
        for offset, value in enumerate(row_values(self._columns.structs(batch), self.schema), first_offset):
            unreadable = value if isinstance(value, DataError) else None
            yield SinkRecord(self._topic, partition, offset, None if unreadable else value, self.schema), unreadable


def form_of(columns: pa.Schema, topic: str | None) -> RecordForm | ValueForm:
    """Return the form of rows. Raises DataError: no topic, or a column that has no Connect form."""
    texts = [field.name for field in columns if any(is_text(field.type) for is_text in _TEXTS)]
    return RecordForm(columns, topic) if is_record_form(columns.names, texts) else ValueForm(columns, topic)


# Rows written to Kafka inside one Spark task: records as they stand, values through a connector's converters.


PREFIX = "kafka."


@dataclass(frozen=True, slots=True)
class KafkaPlan:
    """Input of a Spark task that writes to Kafka. Settings are raw; secrets are resolved where the task runs."""

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


# Rows handed to a sink connector's task inside one Spark task.
#
# Owns the life of the task for one partition of the write: started, opened, given everything, flushed, closed. As in a
# worker a put that asks for it is repeated, and refused records are looked for and reported (``errors.*``). The end of
# the Spark task is the commit: it ends well only when the task says that everything is safe.


RETRY_FIRST_S, RETRY_LAST_S = 0.1, 5.0
FLUSH_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """Input of a Spark task that writes to a sink. Settings are raw; secrets are resolved where the task runs."""

    task_class: str
    task_config: Mapping[str, str]
    config: Mapping[str, str]
    clients: str
    topic: str | None
    patience_ms: int  # of a put that asks to be repeated, and of the last flush


class SinkWrite:
    """One partition of a write."""

    def __init__(self, plan: SinkPlan, partition: int, first_offset: int) -> None:
        """Start a task. ``partition`` and ``first_offset``: where its records seem to come from.

        Raises what the task does.
        """
        clients = load_clients(plan.clients)
        config = clients.resolve(plan.config, plan.config)
        settings = ReportSettings.from_config(config)
        self._plan, self._partition, self._next = plan, partition, first_offset
        self._form: RecordForm | ValueForm | None = None
        self._pipeline = SinkPipeline.from_config(
            config, config, clients.plugin, RetryWait(monotonic_ms, _wait), keeps_originals=settings.reports
        )
        task_id = ConnectorTaskId(config["name"], partition)
        self._reports = ErrantReports(task_id, settings, clients, dead_letter_producer(config))
        self._context = WorkerSinkTaskContext(NoPluginMetrics())
        self._context.reporter = SinkErrantReporter(self._reports, self._pipeline) if settings.reports else None
        task_config = clients.resolve(plan.task_config, plan.config)
        self._context.set_config(task_config)
        self._task: SinkTask = load_class(plan.task_class)()
        self._task.context = self._context
        most: int = OF_SINKS_ONLY.parse(config)[REFUSALS_MAX]
        self._delivery = PutDelivery(task_id, self._task, self._pipeline, self._reports, most, lambda: False)
        self._offsets: dict[TopicPartition, int] = {}
        self.refused = 0
        try:
            self._task.start(task_config)
        except BaseException:
            self._end()
            raise

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Deliver everything and return the count of rows, refused ones too. Raises what fails a task in a worker."""
        begin = self._next
        try:
            for batch in batches:
                if batch.num_rows:
                    self._put(self._converted(batch))
                    self._next += batch.num_rows
            self._commit()
        finally:
            self._end()
        return self._next - begin

    def _converted(self, batch: pa.RecordBatch) -> SinkConverted:
        self._form = self._form or form_of(batch.schema, self._plan.topic)
        if isinstance(self._form, RecordForm):
            return self._pipeline.convert(self._form.consumed(batch, self._partition, self._next))
        return self._pipeline.transform(self._form.as_records(batch, self._partition, self._next))

    def _put(self, converted: SinkConverted) -> None:
        new = frozenset(converted.next_offsets) - self._context.partitions
        self._context.partitions |= new
        if new:
            self._task.open(sorted(new))
        self._reports.tell(converted.errants)
        self._delivery.start_over()
        wait_s, end_s = RETRY_FIRST_S, time.monotonic() + self._plan.patience_ms / 1000
        while not self._delivery.put(converted.records):
            if time.monotonic() > end_s:
                raise TimedOutError(
                    f"the sink kept asking for the same records for {self._plan.patience_ms} ms. Its target seems "
                    "to be unavailable"
                )
            time.sleep(wait_s)
            wait_s = min(RETRY_LAST_S, wait_s * 2)
        self.refused += self._delivery.rejected + converted.skipped
        self._offsets.update(converted.next_offsets)

    def _commit(self) -> None:
        """Return when the task says that all of it is safe."""
        end_s = time.monotonic() + self._plan.patience_ms / 1000
        while self._offsets:
            flushed = self._reports.flush(FLUSH_TIMEOUT_MS)
            safe = self._task.pre_commit(dict(self._offsets)) if flushed else {}
            if flushed and all(safe.get(partition, -1) >= offset for partition, offset in self._offsets.items()):
                return
            if time.monotonic() > end_s:
                raise ConnectError(f"the sink did not make all records durable within {self._plan.patience_ms} ms")
            self._task.put([])  # tasks that write by time expect to be called
            time.sleep(RETRY_FIRST_S)

    def _end(self) -> None:
        try:
            if self._context.partitions:
                self._task.close(sorted(self._context.partitions))
        finally:
            try:
                self._task.stop()
            finally:
                self._pipeline.close()
                self._reports.close(FLUSH_TIMEOUT_MS)


def dead_letter_producer(config: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a dead letter queue's producer: there is no worker to take them from."""
    return prefixed(config, "producer.override.")


def _wait(wait_ms: int) -> bool:
    time.sleep(wait_ms / 1000)
    return True


if has(STREAM_ARROW_WRITERS):
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
else:
    from pyspark.sql.datasource import DataSourceStreamWriter

    class DataSourceStreamArrowWriter(DataSourceStreamWriter, DataSourceArrowWriter):  # type: ignore[no-redef, misc]
        """Spark 4.0 hands Arrow batches to every DataSourceArrowWriter, to a stream's too."""


log = logging.getLogger(__name__)

OWN = ("config", "topic", "patienceMs", "path")
PATIENCE_MS = 120_000
OFFSETS_OF_A_BATCH = 2**32
STRING = "org.apache.kafka.connect.storage.StringConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@dataclass
class WrittenRows(WriterCommitMessage):  # type: ignore[misc]
    """The counts of rows that one Spark task wrote and refused."""

    rows: int
    refused: int


def write_plan(options: Mapping[str, str], schema: StructType, clients: str) -> SinkPlan | KafkaPlan:
    """Return what the options name. Raises BadConfigError naming every wrong one, NotFoundError."""
    reading = GivenOptions(options)
    given, problems, take = reading.given, reading.problems, reading.take
    patience_ms = take("patienceMs", count_of, PATIENCE_MS)
    whole = take("config", whole_config, {})
    topic = given.get("topic")
    texts = [field.name for field in schema if isinstance(field.dataType, StringType | BinaryType)]
    are_records = is_record_form(schema.names, texts)
    if topic is None and not (are_records and "topic" in schema.names):
        problems["topic"] = ["is missing: name one by this option" + (", or in a column topic" if are_records else "")]
    own = {name.lower() for name in OWN}
    config = {name: value for name, value in given.items() if name not in own} | whole
    if "connector.class" not in config and "kafka.bootstrap.servers" not in config:
        problems["connector.class"] = [
            "is missing. Set the class of a sink connector, or kafka.bootstrap.servers to write to Kafka"
        ]
    reading.refuse()
    if are_records:  # read as they stand; of values JsonConverter is the default
        config = {
            f"{name}.converter": STRING if isinstance(schema[name].dataType, StringType) else BYTES
            for name in ("key", "value")
            if name in schema.names
        } | config
    if "connector.class" not in config:
        return KafkaPlan({**DEFAULTS, "name": "connectrt", **config}, clients, topic, patience_ms)
    return _sink_plan(config, clients, topic, patience_ms)


def _sink_plan(config: Mapping[str, str], clients: str, topic: str | None, patience_ms: int) -> SinkPlan:
    made = load_clients(clients)
    name = config["connector.class"]
    found = plugin_for_spark(made.plugin, name)
    if not issubclass(found, SinkConnector):
        raise BadConfigError({"connector.class": [f"{name} is not a sink connector"]})
    connector: SinkConnector = found()
    if not issubclass(connector.task_class(), SinkTask):  # SparkTableSink: no task takes rows
        why = f"{name} is written by Spark, in a worker. Write this DataFrame with the format of the table itself"
        raise BadConfigError({"connector.class": [why]})
    if connector.stores_offsets:  # it would leave out rows of a second write as written before
        why = f"{name} stores offsets of topics with its data. Write this DataFrame with the format of the data itself"
        raise BadConfigError({"connector.class": [why]})
    cased = connector_config({"topics": topic or "topics of the rows", **config}, connector, made.plugin, SINK)
    class_name, (task_config, *_) = planned_tasks(connector, cased, made, 1)
    return SinkPlan(class_name, task_config, cased, clients, topic, patience_ms)


def write_rows(plan: SinkPlan | KafkaPlan, batches: Iterator[pa.RecordBatch]) -> WrittenRows:
    """Write one partition inside a Spark task."""
    if isinstance(plan, KafkaPlan):
        return WrittenRows(write_to_kafka(plan, batches), 0)
    context = TaskContext.get()
    partition, batch = (
        (0, None)
        if context is None
        else (
            context.partitionId(),
            context.getLocalProperty("streaming.sql.batchId"),
        )
    )
    sink = SinkWrite(plan, partition, int(batch or 0) * OFFSETS_OF_A_BATCH)
    rows = sink.write(batches)
    return WrittenRows(rows, sink.refused)


class RowWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """A batch write. Rows of Spark tasks that ended well are written. Rows that a failed write left are not removed."""

    def __init__(self, plan: SinkPlan | KafkaPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """Write the rows of one Spark task and return their counts."""
        return write_rows(self._plan, iterator)

    def commit(self, messages: list[Any]) -> None:
        """Log the counts of all Spark tasks."""
        _log_counts(messages)


class RowStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """A stream's write, micro-batch by micro-batch."""

    def __init__(self, plan: SinkPlan | KafkaPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """Write one Spark task's rows of a micro-batch and return their counts."""
        return write_rows(self._plan, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Log the counts of one micro-batch."""
        _log_counts(messages, f"batch {batchId}: ")


def _log_counts(messages: list[Any], which: str = "") -> None:
    written = [message for message in messages if isinstance(message, WrittenRows)]
    rows, refused = (
        sum(part.rows for part in written),
        sum(part.refused for part in written),
    )
    log.info("%s%d rows written, %d of them rejected and skipped", which, rows, refused)

"""``df.write.format("connectrt")`` and ``writeStream``: rows into a sink connector, or into Kafka through converters.

Owns what the options name and where rows seem to come from: partition n of a write is partition n of the topic, the
offsets of micro-batch b begin at b * 2**32. So a repeated batch has the offsets it had, and a sink connector that tells
records by topic, partition and offset writes it once. Other sinks, and Kafka, get a repeated batch again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import BinaryType, StringType, StructType

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.config.connector_config import SINK
from spark_connect_rt.engine.datasource.kafka_write import KafkaPlan, write_to_kafka
from spark_connect_rt.engine.datasource.named_connector import planned_tasks
from spark_connect_rt.engine.datasource.read_options import (
    DEFAULTS,
    GivenOptions,
    connector_config,
    count_of,
    whole_config,
)
from spark_connect_rt.engine.datasource.row_form import is_record_form
from spark_connect_rt.engine.datasource.sink_write import SinkPlan, SinkWrite
from spark_connect_rt.engine.executor.hosting import load_clients
from spark_connect_rt.engine.startup.spark_version import STREAM_ARROW_WRITERS, has
from spark_connect_rt.errors import BadConfigError

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
    """What one Spark task wrote."""

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
    found: type[Any] = made.plugin(name)
    if not issubclass(found, SinkConnector):
        raise BadConfigError({"connector.class": [f"{name} is not a sink connector"]})
    connector: SinkConnector = found()
    if not issubclass(connector.task_class(), SinkTask):  # SparkTableSink: no task takes rows
        why = f"{name} is written by Spark, in a worker. Write this DataFrame with the format of the table itself"
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
    """A batch write. Spark tasks that end well have written; what a failed write left is not taken back."""

    def __init__(self, plan: SinkPlan | KafkaPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """See DataSourceArrowWriter."""
        return write_rows(self._plan, iterator)

    def commit(self, messages: list[Any]) -> None:
        """Log the counts."""
        _log_counts(messages)


class RowStreamWriter(DataSourceStreamArrowWriter):  # type: ignore[misc]
    """A stream's write, micro-batch by micro-batch."""

    def __init__(self, plan: SinkPlan | KafkaPlan) -> None:
        self._plan = plan

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenRows:
        """See DataSourceStreamArrowWriter."""
        return write_rows(self._plan, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Log the counts."""
        _log_counts(messages, f"batch {batchId}: ")


def _log_counts(messages: list[Any], which: str = "") -> None:
    written = [message for message in messages if isinstance(message, WrittenRows)]
    rows, refused = (
        sum(part.rows for part in written),
        sum(part.refused for part in written),
    )
    log.info("%s%d rows written, %d of them rejected and skipped", which, rows, refused)

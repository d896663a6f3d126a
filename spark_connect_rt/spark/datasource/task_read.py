"""What a source task polls as rows in the format's columns, and the context of a task that no worker runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.records import Polled, SourceBatch, SourceRecord
from spark_connect_rt.api.task import NoPluginMetrics, OffsetReader, OwnWrites, PluginMetrics, TransactionContext
from spark_connect_rt.errors import DataError
from spark_connect_rt.pipeline.columns import PARTITION, PRODUCE_FIELDS, TOPIC
from spark_connect_rt.pipeline.errant_records import Errant
from spark_connect_rt.pipeline.source_pipeline import SourcePipeline
from spark_connect_rt.protocol.json_text import encode_json
from spark_connect_rt.spark.datasource.read_options import SourceOffset

log = logging.getLogger(__name__)

COLUMNS = {
    "topic": "string",
    "partition": "int",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
    "timestamp": "timestamp",
    "source_partition": "string",
    "source_offset": "string",
}
"""Spark's types, as DDL."""
_SPARK_TYPES = {
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", "UTC"): "timestamp",
}


def ddl_of(kind: pa.DataType) -> str:
    """Return Spark's words for the type of a column. Raises DataError: Spark has none."""
    if pa.types.is_struct(kind):
        fields = (kind.field(at) for at in range(kind.num_fields))
        return f"struct<{', '.join(f'{_quoted(one.name)}: {ddl_of(one.type)}' for one in fields)}>"
    if pa.types.is_map(kind):
        return f"map<{ddl_of(kind.key_type)}, {ddl_of(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"array<{ddl_of(kind.value_type)}>"
    if pa.types.is_decimal(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if kind not in _SPARK_TYPES:
        raise DataError(f"Spark has no column of {kind}: say its type")
    return _SPARK_TYPES[kind]


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class StartingOffsets:
    """The offset reader of a task: where the read was asked to start."""

    def __init__(self, starting: Sequence[SourceOffset]) -> None:
        self._stored = {encode_json(partition): offset for partition, offset in starting}

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """See api.task.OffsetReader."""
        return [self._stored.get(encode_json(partition)) for partition in partitions]


class ReadContext:
    """The SourceTaskContext of a read."""

    transaction_context: TransactionContext | None = None
    metrics: PluginMetrics = NoPluginMetrics()
    own_writes = OwnWrites()

    def __init__(self, starting: Sequence[SourceOffset]) -> None:
        self.offset_reader: OffsetReader = StartingOffsets(starting)
        self.pipeline: SourcePipeline | None = None

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        """See api.task.SourceTaskContext."""
        assert self.pipeline is not None
        self.pipeline.report_errant(place, error, data)


def convert(pipeline: SourcePipeline, polled: Sequence[Polled]) -> Iterator[pa.RecordBatch]:
    """Yield what was polled in the format's columns; rows of a SourceBatch all have the offset behind the batch."""
    for is_batch, pieces in groupby(polled, lambda piece: isinstance(piece, SourceBatch)):
        if not is_batch:
            records = [piece for piece in pieces if isinstance(piece, SourceRecord)]
            rows, places, errants = pipeline.convert_rows(records)
            _tell(errants)
            yield _columns(rows, [_text(partition) for partition, _ in places], [_text(off) for _, off in places])
            continue
        for piece in pieces:
            assert isinstance(piece, SourceBatch)
            place = _text(piece.source_partition), _text(piece.source_offset)
            for converted in pipeline.convert([piece]):
                _tell(converted.errants)
                count = converted.batch.num_rows
                yield _columns(converted.batch, *(pa.repeat(pa.scalar(text, pa.string()), count) for text in place))


def _tell(errants: Sequence[Errant]) -> None:
    for errant in errants:
        log.warning("skipped %s, stage %s: %s", errant.place, errant.stage.value, errant.error)


def _text(tree: Mapping[str, Any] | None) -> str | None:
    return None if tree is None else encode_json(tree).decode()


def _columns(rows: pa.RecordBatch, partitions: Any, offsets: Any) -> pa.RecordBatch:
    """Return a batch in produce form as the format's columns."""
    count = rows.num_rows
    metadata = rows.schema.metadata or {}
    topic, partition = metadata.get(TOPIC), metadata.get(PARTITION)
    columns = {name: pa.nulls(count, kind) for name, kind in PRODUCE_FIELDS.items()}
    columns |= {name: rows.column(name) for name in rows.schema.names}
    if topic is not None:
        columns["topic"] = pa.repeat(pa.scalar(topic.decode(), pa.string()), count)
    if partition is not None:
        columns["partition"] = pa.repeat(pa.scalar(int(partition), pa.int32()), count)
    at_us = pc.multiply(columns["timestamp"], 1000)
    columns["timestamp"] = at_us.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    columns["source_partition"] = pa.array(partitions, pa.string())
    columns["source_offset"] = pa.array(offsets, pa.string())
    return pa.RecordBatch.from_pydict(columns)

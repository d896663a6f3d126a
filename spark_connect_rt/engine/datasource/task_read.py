"""What a source task polls as rows in the format's columns, and the context of a task that no worker runs."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.records import Polled, SourceBatch, SourceRecord
from spark_connect_rt.api.task import NoPluginMetrics, OffsetReader, OwnWrites, PluginMetrics, TransactionContext
from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.engine.datasource.read_options import COLUMNS, SourceOffset
from spark_connect_rt.records.pipeline.columns import PARTITION, PRODUCE_FIELDS, TOPIC
from spark_connect_rt.records.pipeline.errant_records import Errant
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

log = logging.getLogger(__name__)


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
    previewed = False

    def __init__(self, starting: Sequence[SourceOffset]) -> None:
        self.offset_reader: OffsetReader = StartingOffsets(starting)
        self.pipeline: SourcePipeline | None = None

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        """See api.task.SourceTaskContext."""
        assert self.pipeline is not None
        self.pipeline.report_errant(place, error, data)


def convert(
    pipeline: SourcePipeline, polled: Sequence[Polled], columns: Collection[str] = tuple(COLUMNS)
) -> Iterator[pa.RecordBatch]:
    """Yield what was polled in columns of the format; rows of a SourceBatch all have the offset behind the batch."""
    for is_batch, pieces in groupby(polled, lambda piece: isinstance(piece, SourceBatch)):
        if not is_batch:
            records = [piece for piece in pieces if isinstance(piece, SourceRecord)]
            rows, places, errants = pipeline.convert_rows(records)
            _tell(errants)
            texts = [[_text(value) for value in some] for some in zip(*places, strict=True)] or [[], []]
            yield _columns(rows, [pa.array(some, pa.string()) for some in texts], columns)
            continue
        for piece in pieces:
            assert isinstance(piece, SourceBatch)
            place = _text(piece.source_partition), _text(piece.source_offset)
            for converted in pipeline.convert([piece]):
                _tell(converted.errants)
                yield _columns(converted.batch, [pa.scalar(text, pa.string()) for text in place], columns)


def _tell(errants: Sequence[Errant]) -> None:
    for errant in errants:
        log.warning("skipped %s, stage %s: %s", errant.place, errant.stage.value, errant.error)


def _text(tree: Mapping[str, Any] | None) -> str | None:
    return None if tree is None else encode_json(tree).decode()


def _columns(rows: pa.RecordBatch, places: Sequence[pa.Array | pa.Scalar], wanted: Collection[str]) -> pa.RecordBatch:
    """Return a batch in produce form as columns of the format; a scalar of ``places`` is of each row."""
    metadata = rows.schema.metadata or {}
    topic, partition = metadata.get(TOPIC), metadata.get(PARTITION)
    own: dict[str, Any] = {name: rows.column(name) for name in rows.schema.names}
    if topic is not None:
        own["topic"] = pa.scalar(topic.decode(), pa.string())
    if partition is not None:
        own["partition"] = pa.scalar(int(partition), pa.int32())
    own["source_partition"], own["source_offset"] = places
    made = {name: _made(own.get(name), PRODUCE_FIELDS.get(name), rows.num_rows) for name in COLUMNS if name in wanted}
    if "timestamp" in made:
        at_us = pc.multiply(made["timestamp"], 1000)
        made["timestamp"] = at_us.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_pydict(made)


def _made(column: pa.Array | pa.Scalar | None, kind: pa.DataType | None, count: int) -> pa.Array:
    if column is None:
        return pa.nulls(count, kind)
    return pa.repeat(column, count) if isinstance(column, pa.Scalar) else column

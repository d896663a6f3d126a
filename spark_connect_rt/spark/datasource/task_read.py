"""What a source task polls as rows in the format's columns, and the context of a task that no worker runs."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import OffsetReader, TransactionContext
from spark_connect_rt.pipeline.columns import PRODUCE_FIELDS, TOPIC
from spark_connect_rt.pipeline.errant_records import Errant
from spark_connect_rt.pipeline.source_pipeline import SourcePipeline
from spark_connect_rt.protocol.json_text import encode_json
from spark_connect_rt.spark.datasource.read_options import SourceOffset

log = logging.getLogger(__name__)

DDL = (
    "topic string, partition int, key binary, value binary, headers array<struct<key: string, value: binary>>, "
    "timestamp timestamp, source_partition string, source_offset string"
)


class StartingOffsets:
    """The offset reader of a task: what the read was told to start from."""

    def __init__(self, starting: Sequence[SourceOffset]) -> None:
        self._stored = {encode_json(partition): offset for partition, offset in starting}

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """See api.task.OffsetReader."""
        return [self._stored.get(encode_json(partition)) for partition in partitions]


class ReadContext:
    """The SourceTaskContext of a read."""

    transaction_context: TransactionContext | None = None

    def __init__(self, starting: Sequence[SourceOffset]) -> None:
        self.offset_reader: OffsetReader = StartingOffsets(starting)
        self.pipeline: SourcePipeline | None = None

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        """See api.task.SourceTaskContext."""
        assert self.pipeline is not None
        self.pipeline.report_errant(place, error, data)


def convert(pipeline: SourcePipeline, polled: Sequence[SourceRecord | SourceBatch]) -> Iterator[pa.RecordBatch]:
    """Yield what was polled in DDL's columns; rows of a SourceBatch all have the offset behind the batch."""
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
    """Return a batch in produce form as DDL's columns."""
    count = rows.num_rows
    topic = (rows.schema.metadata or {}).get(TOPIC)
    columns = {name: pa.nulls(count, kind) for name, kind in PRODUCE_FIELDS.items()}
    columns |= {name: rows.column(name) for name in rows.schema.names}
    if topic is not None:
        columns["topic"] = pa.repeat(pa.scalar(topic.decode(), pa.string()), count)
    at_us = pc.multiply(columns["timestamp"], 1000)
    columns["timestamp"] = at_us.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    columns["source_partition"] = pa.array(partitions, pa.string())
    columns["source_offset"] = pa.array(offsets, pa.string())
    return pa.RecordBatch.from_pydict(columns)

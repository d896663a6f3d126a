"""One source task polled inside a Spark task until its limits: rows in the documented columns."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import OffsetReader, SourceTask, TransactionContext
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.pipeline.columns import PRODUCE_FIELDS, TOPIC
from spark_connect_rt.pipeline.errant_records import Errant
from spark_connect_rt.pipeline.source_pipeline import SourcePipeline
from spark_connect_rt.protocol.json_text import encode_json
from spark_connect_rt.spark.datasource.read_options import LATEST, ReadLimits, SourceOffset

log = logging.getLogger(__name__)

DDL = (
    "topic string, partition int, key binary, value binary, headers array<struct<key: string, value: binary>>, "
    "timestamp timestamp, source_partition string, source_offset string"
)
_RETRY_S = 0.1


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


def poll_rows(task: SourceTask, pipeline: SourcePipeline, limits: ReadLimits) -> Iterator[pa.RecordBatch]:
    """Yield batches of DDL's columns until the limits. Raises DataError: a record failed and is not tolerated."""
    records_left, bytes_left = limits.max_records, limits.max_bytes
    idle_since_s = time.monotonic()
    while records_left != 0 and bytes_left != 0:
        polled = _poll(task)
        if not polled:
            idle_ms = (time.monotonic() - idle_since_s) * 1000
            if limits.until == LATEST or idle_ms >= limits.idle_ms:
                return
            time.sleep(min(task.idle_wait_ms(), max(1.0, limits.idle_ms - idle_ms)) / 1000)
            continue
        for batch in convert(pipeline, polled):
            kept, size = _within(batch, records_left, bytes_left)
            records_left = None if records_left is None else records_left - kept.num_rows
            bytes_left = None if bytes_left is None else max(0, bytes_left - size)
            if kept.num_rows:
                yield kept
            if kept.num_rows < batch.num_rows or records_left == 0 or bytes_left == 0:
                return
        idle_since_s = time.monotonic()


def _poll(task: SourceTask) -> Sequence[SourceRecord | SourceBatch]:
    try:
        return task.poll() or ()
    except RetriableError as error:
        log.warning("poll will be tried again: %s", error)
        time.sleep(_RETRY_S)
        return ()


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


def _within(batch: pa.RecordBatch, records: int | None, size: int | None) -> tuple[pa.RecordBatch, int]:
    """Return the rows within both limits, at least one of them while there is room at all, and their bytes."""
    kept = batch if records is None else batch.slice(0, records)
    if size is None or not kept.num_rows:
        return kept, 0
    lengths = [pc.fill_null(pc.binary_length(kept.column(name)), 0) for name in ("key", "value")]
    sums = pc.cumulative_sum(pc.add(*lengths)).to_pylist()
    fitting = sum(total <= size for total in sums)
    kept = kept.slice(0, max(1, fitting))
    return kept, sums[kept.num_rows - 1]

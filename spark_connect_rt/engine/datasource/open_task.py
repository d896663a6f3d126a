"""One task of a source connector, started and polled outside any worker."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.records import Polled, SourceBatch, SourceRecord
from spark_connect_rt.api.task import (
    NoPluginMetrics,
    OffsetReader,
    OwnWrites,
    PluginMetrics,
    SourceTask,
    TransactionContext,
)
from spark_connect_rt.base.json_text import encode_json
from spark_connect_rt.engine.datasource.read_options import COLUMNS, LATEST, ReadLimits, SourceOffset
from spark_connect_rt.engine.datasource.stream_position import TaskPartition, made_columns
from spark_connect_rt.engine.datasource.value_readers import SCHEMA, Decoder, HeldValues, Readers, value_reader
from spark_connect_rt.engine.executor.hosting import load_class, load_clients
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.records.pipeline.columns import PARTITION, PRODUCE_FIELDS, TOPIC
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.errant_records import FailedRecord
from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline

# Polled records as rows in the format's columns, and the context of a task that no worker runs.


log = logging.getLogger(__name__)


class StartingOffsets:
    """The offset reader of a task: where the read was asked to start."""

    def __init__(self, starting: Sequence[SourceOffset]) -> None:
        self._stored = {encode_json(partition): offset for partition, offset in starting}

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        """Return the given starting offset of each source partition, in order; None where there is none."""
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
        """Pass an unreadable piece of input to the pipeline, which skips it or raises DataError."""
        assert self.pipeline is not None
        self.pipeline.report_errant(place, error, data)

    def record_event(self, summary: str, **details: str | int) -> None:
        """Do nothing: a read has no group."""


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


def _tell(errants: Sequence[FailedRecord]) -> None:
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


_RETRY_S = 0.1

BatchStep = Callable[[pa.RecordBatch], pa.RecordBatch]
MakeStep = Callable[[Readers], BatchStep]


class OpenTask:
    """A task that runs until ``close``, and the pipeline behind it."""

    def __init__(
        self,
        task: SourceTask,
        pipeline: SourcePipeline,
        decode: BatchStep = lambda batch: batch,
        held: Sequence[HeldValues] = (),
        columns: Collection[str] = tuple(COLUMNS),
    ) -> None:
        self._task = task
        self._pipeline = pipeline
        self._decode = decode
        self._held = held
        self._columns = columns

    def poll(self) -> list[pa.RecordBatch] | None:
        """Return what one poll brings, converted and decoded, without empty batches; None: it brought nothing.

        Raises DataError: a record failed and is not tolerated.
        """
        polled = self._polled()
        for held in self._held:
            held.forget()
        return [batch for batch in self._converted(polled) if batch.num_rows] if polled else None

    def has_more(self) -> bool:
        """Return whether there is more, though a poll brought nothing."""
        return bool(self._task.has_more())

    def idle_wait_ms(self) -> int:
        """Return how long the task wants to be left alone after a poll that brought nothing."""
        return self._task.idle_wait_ms()

    def close(self) -> None:
        """Stop the task and close its pipeline."""
        self._task.stop()
        self._pipeline.close()

    def _converted(self, polled: Sequence[Polled]) -> Iterator[pa.RecordBatch]:
        return map(self._decode, convert(self._pipeline, polled, self._columns))

    def _polled(self) -> Sequence[Polled]:
        try:
            return self._task.poll() or ()
        except RetriableError as error:
            log.warning("poll will be retried: %s", error)
            time.sleep(_RETRY_S)
            return ()


def open_task(partition: TaskPartition, batch_step: MakeStep | None = None, *, also: Sequence[str] = ()) -> OpenTask:
    """Start a task. Its records are decoded as the partition defines, or passed to ``batch_step``. Raises what it does.

    ``also``: columns that its batches have to have, whether the read has them or not.
    """
    clients = load_clients(partition.clients)
    config = clients.resolve(partition.config, partition.config)
    held: dict[str, Any] = {rule.column: HeldValues() for rule in partition.decodes if rule.format == SCHEMA}
    readers = {rule.column: value_reader(rule, config, clients, held.get(rule.column)) for rule in partition.decodes}
    converters = replace(ConnectorConverters.from_config(config, config, clients.plugin), **held)
    task: SourceTask = load_class(partition.task_class)()
    context = task.context = ReadContext(partition.starting)
    pipeline = context.pipeline = SourcePipeline.from_config(config, config, clients.plugin, converters=converters)
    tolerate = config.get("errors.tolerance", "").lower() == "all"
    step = batch_step(readers) if batch_step else Decoder(readers, partition.kinds, tolerate=tolerate).decode
    opened = OpenTask(task, pipeline, step, tuple(held.values()), made_columns(partition, also))
    try:
        task.start(clients.resolve(partition.task_config, partition.config))
    except BaseException:
        opened.close()
        raise
    return opened


# A batch read of one task: polled until its limits.


def task_rows(partition: TaskPartition) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a task that lives for this read. Raises DataError, and what its start does."""
    task = open_task(partition)
    try:
        for batch in poll_rows(task, partition.limits):
            yield batch.select(partition.columns)
    finally:
        task.close()
        keep_imports()


@cache
def keep_imports() -> None:
    """Have the collector leave alone what this process has imported by now; once.

    Spark's Python collects behind each task, and 1,100 modules take 0.05 CPU seconds to scan.
    """
    gc.collect()  # before the freeze, which would keep existing garbage
    gc.freeze()


def poll_rows(task: OpenTask, limits: ReadLimits) -> Iterator[pa.RecordBatch]:
    """Yield batches until the limits. Raises DataError: a record failed and is not tolerated."""
    records_left, bytes_left = limits.max_records, limits.max_bytes
    idle_since_s = time.monotonic()
    while records_left != 0 and bytes_left != 0:
        polled = task.poll()
        if polled is None:
            idle_ms = (time.monotonic() - idle_since_s) * 1000
            if not task.has_more() and (limits.until == LATEST or idle_ms >= limits.idle_ms):
                return
            time.sleep(min(task.idle_wait_ms(), max(1.0, limits.idle_ms - idle_ms)) / 1000)
            continue
        for batch in polled:
            kept, size = _within(batch, records_left, bytes_left)
            records_left = None if records_left is None else records_left - kept.num_rows
            bytes_left = None if bytes_left is None else max(0, bytes_left - size)
            yield kept
            if kept.num_rows < batch.num_rows or records_left == 0 or bytes_left == 0:
                return
        idle_since_s = time.monotonic()


def _within(batch: pa.RecordBatch, records: int | None, size: int | None) -> tuple[pa.RecordBatch, int]:
    """Return the rows within both limits, at least one of them while there is room at all, and their bytes."""
    kept = batch if records is None else batch.slice(0, records)
    if size is None or not kept.num_rows:
        return kept, 0
    lengths = [_lengths(kept.column(name)) for name in ("key", "value")]
    sums = pc.cumulative_sum(pc.add(*lengths)).to_pylist()
    fitting = sum(total <= size for total in sums)
    kept = kept.slice(0, max(1, fitting))
    return kept, sums[kept.num_rows - 1]


def _lengths(column: pa.Array) -> pa.Array:
    """Return the bytes of each element; of decoded ones, on average."""
    if pa.types.is_binary(column.type) or pa.types.is_string(column.type):
        return pc.fill_null(pc.cast(pc.binary_length(column), pa.int64()), 0)
    return pa.repeat(pa.scalar(-(-column.nbytes // len(column)), pa.int64()), len(column))

"""Reads bounded ranges of topic partitions on executors and decodes them into a table's columns.

Owns: range -> record batches of one table schema. Runs inside ``mapInArrow``; imports nothing of the driver side.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from spark_connect_rt.api.records import ConsumedRecord, SinkRecord
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_config import worker_converter
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.executor.hosting import load_clients
from spark_connect_rt.errors import DataError, RetriableError
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.errant_records import FailedRecord, errant_put
from spark_connect_rt.records.pipeline.sink_pipeline import SinkPipeline, place_of_record

# From Kafka records to the columns of a table, for every batch of a Spark table sink.
#
# Whole columns at once where converter and transformations have a column form and the columns fit the table's, or the
# values are plain JSON objects and nothing transforms them; else record by record, as any sink.


JSON_CONVERTER = "JsonConverter"


@dataclass(frozen=True, slots=True)
class DecodedRows:
    """Rows in the table's schema, and how many records were skipped as errant."""

    rows: pa.RecordBatch
    skipped: int


class TableDecoder:
    """Decodes batches in consume form for one table schema."""

    def __init__(self, pipeline: SinkPipeline, schema: pa.Schema, *, columnar: bool, tolerate: bool) -> None:
        self._pipeline = pipeline
        self._schema = schema
        self._columnar = columnar
        self._tolerate = tolerate
        self._errants: list[FailedRecord] = []

    @classmethod
    def from_config(
        cls,
        connector_config: Mapping[str, str],
        worker_config: Mapping[str, str],
        plugin: Callable[[str], type[Any]],
        schema: pa.Schema,
    ) -> TableDecoder:
        """Return the decoder a connector's configuration asks for."""
        reporting = ReportSettings.from_config(connector_config)
        return cls(
            SinkPipeline.from_config(connector_config, worker_config, plugin, keeps_originals=reporting.reports),
            schema,
            columnar=is_plain_json(connector_config, worker_config),
            tolerate=reporting.tolerates_all,
        )

    def decode(self, batch: pa.RecordBatch) -> DecodedRows:
        """Return the rows of a consume-form batch. Raises DataError naming topic, partition and offset."""
        if self._columnar:
            rows = json_columns(batch, self._schema)
            if rows is not None:
                return DecodedRows(rows, 0)
        found = self._pipeline.columns(batch, headers_matter=False)
        rows = None if found is None or found.columns is None else table_columns(found.columns.values, self._schema)
        return self._by_record(batch) if rows is None else DecodedRows(rows, 0)

    def take_errants(self) -> tuple[FailedRecord, ...]:
        """Return what was given up since the last call, also by a ``decode`` that raised."""
        errants, self._errants = (*self._errants, *self._pipeline.take_errants()), []
        return errants

    def _by_record(self, batch: pa.RecordBatch) -> DecodedRows:
        converted = self._pipeline.convert(batch)
        self._errants += converted.errants
        rows, skipped = [], converted.skipped
        for record in converted.records:
            try:
                rows.append(row_of(record, self._schema))
            except DataError as error:
                original = record.original if isinstance(record, ConsumedRecord) else None
                self._errants.append(errant_put(place_of_record(record), error, original))
                if not self._tolerate:
                    raise
                skipped += 1
        return DecodedRows(_from_rows(rows, self._schema), skipped)


def is_plain_json(connector_config: Mapping[str, str], worker_config: Mapping[str, str]) -> bool:
    """Return whether values are schemaless JSON that nothing transforms: then whole columns can be parsed."""
    if connector_config.get("transforms"):
        return False
    source = connector_config if connector_config.get("value.converter") else worker_config
    return (worker_converter(source, "value.converter") or "").endswith(JSON_CONVERTER) and source.get(
        "value.converter.schemas.enable", "true"
    ).lower() == "false"


def json_columns(batch: pa.RecordBatch, schema: pa.Schema | None) -> pa.RecordBatch | None:
    """Parse a batch of JSON objects into columns; None when it must go record by record.

    That is so for tombstones, text that is not one object a record, or a value that does not fit its column.
    ``schema`` None: infer it.
    """
    values = batch.column("value")
    if values.null_count or batch.num_rows == 0:
        return None
    text = b"\n".join(values.to_pylist())
    options = pyarrow.json.ParseOptions(
        explicit_schema=schema,
        newlines_in_values=False,
        unexpected_field_behavior="infer" if schema is None else "ignore",
    )
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(text),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=max(len(text) + 1, 1 << 16)),
            parse_options=options,
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != batch.num_rows:
        return None  # some value held a line break: rows and records no longer pair up
    if schema is not None:
        table = table.select(schema.names)
    return table.combine_chunks().to_batches()[0]


def table_columns(values: pa.Array, schema: pa.Schema) -> pa.RecordBatch | None:
    """Return a column of values as rows of a table; None: they are not flat objects, or ``row_of`` must read each."""
    if values.null_count or pa.types.is_null(values.type):
        return None
    if pa.types.is_struct(values.type):
        names = [part.name for part in values.type]
        given = dict(zip(names, values.flatten(), strict=True))
        if len(given) < len(names):
            return None
    elif schema.names == ["value"]:
        given = {"value": values}
    else:
        return None
    columns = []
    for part in schema:
        column = given.get(part.name, pa.nulls(len(values), part.type))
        if column.type != part.type and not _is_wider(column.type, part.type):
            return None
        try:
            columns.append(column.cast(part.type))
        except pa.ArrowInvalid:
            return None
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _is_wider(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a cast, where it succeeds, gives what Arrow makes of the Python values."""
    if pa.types.is_signed_integer(given):
        return bool(pa.types.is_signed_integer(wanted) or wanted == pa.float64())
    if pa.types.is_timestamp(given):
        return bool(given.unit == "ms" and wanted == pa.timestamp("us", given.tz))
    return bool(given == pa.float32() and wanted == pa.float64())


def infer_schema(
    sample: pa.RecordBatch,
    connector_config: Mapping[str, str],
    worker_config: Mapping[str, str],
    plugin: Callable[[str], type[Any]],
) -> pa.Schema:
    """Return the columns that a first batch shows; every column is nullable. Raises DataError if it shows none.

    Integers are bigint and fractions double, so that later, larger numbers fit; a column of nulls is text.
    """
    if is_plain_json(connector_config, worker_config):
        rows = json_columns(sample, None)
        if rows is not None:
            return _widened(rows.schema)
    converted = SinkPipeline.from_config(connector_config, worker_config, plugin).convert(sample)
    values = [r.value.to_dict() if hasattr(r.value, "to_dict") else r.value for r in converted.records]
    objects = [value for value in values if isinstance(value, Mapping)]
    if objects:
        return _widened(pa.RecordBatch.from_pylist([dict(value) for value in objects]).schema)
    if any(value is not None for value in values):
        return pa.schema([pa.field("value", pa.array([v for v in values if v is not None]).type)])
    raise DataError("no record of the first batch has a value. Set table.schema")


def _widened(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_type(pa.string()) if pa.types.is_null(field.type) else field for field in schema])


def row_of(record: SinkRecord, schema: pa.Schema) -> dict[str, Any]:
    """Return the record's value as a row of ``schema``. Raises DataError when it does not fit."""
    place = f"{record.topic}-{record.partition}@{record.offset}"
    value = record.value
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, str | bytes | int | float) and schema.names == ["value"]:
        value = {"value": value}
    if not isinstance(value, Mapping):
        raise DataError(f"{place}: a table row needs a JSON object or a struct, not {type(value).__name__}")
    row = {name: value.get(name) for name in schema.names}
    for name in schema.names:
        try:
            pa.scalar(row[name], type=schema.field(name).type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError, OverflowError) as error:
            raise DataError(f"{place}: column {name} ({schema.field(name).type}): {error}") from error
    return row


def _from_rows(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=schema)


POLL_RECORDS = 50_000
POLL_TIMEOUT_MS = 1_000
DEAD_LETTERS_TIMEOUT_MS = 60_000
EMPTY_POLLS_LIMIT = 60  # a minute without one record of a range that must hold some


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets ``start`` (included) to ``end`` (excluded) of one topic partition."""

    partition: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class RangeJob:
    """Input of an executor partition that reads its ranges. Pickles; secrets unresolved."""

    clients: str  # "package.module:factory" of ExecutorClients
    consumer_config: Mapping[str, str]
    connector_config: StoredConfig
    worker_config: Mapping[str, str]
    ranges: tuple[OffsetRange, ...]
    schema: pa.Schema = field(repr=False)
    task: ConnectorTaskId
    dead_letter_producer: Mapping[str, str]


def read_ranges(
    job: RangeJob, ranges: Sequence[OffsetRange], count: Callable[[int, int], None]
) -> Iterator[pa.RecordBatch]:
    """Yield the decoded rows of ``ranges``; ``count(records, skipped)`` is called for every batch.

    Errant records are in the dead letter queue before the rows behind them are yielded; when the batch is written
    again (a lost executor), they are there again.
    Raises RetriableError when a range's records stop coming for a minute, ConnectError when the queue refuses.
    """
    clients = load_clients(job.clients)
    connector_config = clients.resolve(job.connector_config, job.worker_config)
    decoder = TableDecoder.from_config(connector_config, job.worker_config, clients.plugin, job.schema)
    producer_config = clients.resolve(job.dead_letter_producer, job.worker_config)
    reports = ErrantReports(job.task, ReportSettings.from_config(connector_config), clients, producer_config)
    consumer = clients.consumer(clients.resolve(job.consumer_config, job.worker_config))
    try:
        for raw in _raw_batches(consumer, ranges):
            try:
                decoded = decoder.decode(raw)
            finally:
                _tell(reports, decoder.take_errants())
            count(raw.num_rows, decoded.skipped)
            if decoded.rows.num_rows:
                yield decoded.rows
    finally:
        consumer.close()
        reports.close(0)


def _tell(reports: ErrantReports, errants: Sequence[FailedRecord]) -> None:
    if errants:
        reports.tell(errants)
        if not reports.flush(DEAD_LETTERS_TIMEOUT_MS):
            raise RetriableError(f"dead letter queue {reports.settings.topic}: no acknowledgement in time")


def _raw_batches(consumer: Any, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
    for range_ in ranges:
        consumer.assign({range_.partition: range_.start})
        yield from _one_range(consumer, range_)
        consumer.unassign([range_.partition])


def _one_range(consumer: Any, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    position, empty_polls = wanted.start, 0
    while position < wanted.end:
        batch = consumer.poll(POLL_RECORDS, POLL_TIMEOUT_MS)
        if batch is None or batch.num_rows == 0:
            empty_polls += 1
            if consumer.position(wanted.partition) >= wanted.end:
                return  # the rest of the range is transaction markers or compacted away
            if empty_polls >= EMPTY_POLLS_LIMIT:
                raise RetriableError(
                    f"{wanted.partition}: no record between offsets {position} and {wanted.end} for "
                    f"{EMPTY_POLLS_LIMIT} s. Is the partition's leader up?"
                )
            continue
        empty_polls = 0
        offsets = batch.column("offset")
        position = offsets[-1].as_py() + 1
        yield batch if position <= wanted.end else batch.filter(pc.less(offsets, wanted.end))

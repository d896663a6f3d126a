"""From polled records of a source task to batches for the producer: transform, headers, key, value (Java's order).

A SourceBatch stays in columns if nothing transforms it and the converters have a column form; otherwise it goes row by
row. An errant record is skipped, but its source offset is taken. Everything before it in the batch is durable when the
batch is, so nothing is lost and nothing is read twice. With a dead letter queue, the dead letter is part of the same
batch, so that offset is not taken before the dead letter is durable either.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.converter import HeaderConverter
from spark_connect_rt.api.data.schema import BYTES, Schema
from spark_connect_rt.api.records import BatchHeader, Header, HeaderColumn, Polled, SourceBatch, SourceRecord, Written
from spark_connect_rt.base.json_text import canonical
from spark_connect_rt.errors import DataError, ExternalError
from spark_connect_rt.records.converters.primitive_converters import (
    ByteArrayConverter,
    HeaderAndValueConverter,
    SimpleHeaderConverter,
)
from spark_connect_rt.records.pipeline.columns import (
    HEADERS_TYPE,
    TOPIC,
    ProduceRow,
    ProduceRows,
    columns_batch,
    joined,
)
from spark_connect_rt.records.pipeline.connect_values import row_values
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters
from spark_connect_rt.records.pipeline.errant_records import (
    JAVA_SOURCE_TASK,
    FailedRecord,
    RetryTolerance,
    RetryWait,
    Stage,
    StageError,
)
from spark_connect_rt.records.pipeline.transformation_chain import TransformationChain

# From the headers of a whole batch to those of its rows in produce form, with the same bytes as record by record.
#
# The converter is called once for each different value, not for each record, if it is known to return the same bytes
# for the same value.


_ENTRY_TYPE = HEADERS_TYPE.value_type
_AS_TEXT = (pa.types.is_string, pa.types.is_signed_integer, pa.types.is_boolean)


def written_headers(batch: SourceBatch, converter: HeaderConverter) -> pa.Array:
    """Return lists of {key, value}, one a record. Raises the converter's error at a value."""
    own = batch.headers
    if own is not None and not isinstance(converter, ByteArrayConverter):
        own = _own(batch.topic, own, converter)
    if not batch.more_headers:
        return own
    added = [_entries(batch, header, converter) for header in batch.more_headers]
    return _joined(own, added, len(batch.values))


def _own(topic: str, headers: pa.Array, converter: HeaderConverter) -> pa.Array:
    """Return headers of bytes as the converter writes bytes."""
    entries, lengths = pc.list_flatten(headers), pc.fill_null(pc.list_value_length(headers), 0)
    names = pc.struct_field(entries, "key")
    written: dict[Any, bytes | None] = {}
    values = []
    for entry in zip(names.to_pylist(), pc.struct_field(entries, "value").to_pylist(), strict=True):
        if entry not in written or not _gives_the_same(converter):
            written[entry] = converter.from_connect_header(topic, entry[0], BYTES, entry[1])
        values.append(written[entry])
    made = _entry_column(names, pa.array(values, pa.binary()))
    return pa.ListArray.from_arrays(pa.array(_ends(lengths), pa.int32()), made)


def _entries(batch: SourceBatch, header: BatchHeader, converter: HeaderConverter) -> pa.Array:
    """Return one header of each record."""
    count = len(batch.values)
    if isinstance(header, HeaderColumn):
        values = _column(batch.topic, header, converter)
    else:
        calls = min(count, 1) if _gives_the_same(converter) else count
        written = [
            converter.from_connect_header(batch.topic, header.key, header.schema, header.value) for _ in range(calls)
        ]
        values = pa.array(written * (count if calls == 1 else 1), pa.binary())
    return _entry_column(pa.repeat(pa.scalar(header.key, pa.string()), count), values)


def _column(topic: str, header: HeaderColumn, converter: HeaderConverter) -> pa.Array:
    """Return the bytes of a header's values."""
    values, schema = header.values, header.schema
    made = _column_form(topic, schema, values, converter)
    if made is not None:
        return made.cast(pa.binary())

    def write(some: Sequence[Any]) -> pa.Array:
        return pa.array(
            [converter.from_connect_header(topic, header.key, schema, value) for value in some], pa.binary()
        )

    if not _gives_the_same(converter) or pa.types.is_floating(values.type):  # 0.0 and -0.0 are equal, and are not
        return write(values.to_pylist())
    found = pc.dictionary_encode(values, null_encoding="encode")
    return write(found.dictionary.to_pylist()).take(found.indices)


def _column_form(topic: str, schema: Schema | None, values: pa.Array, converter: HeaderConverter) -> pa.Array | None:
    if type(converter) is SimpleHeaderConverter:
        plain = schema is None or schema.name is None
        return pc.cast(values, pa.string()) if plain and any(test(values.type) for test in _AS_TEXT) else None
    if not isinstance(converter, HeaderAndValueConverter):
        return None
    same = type(converter).from_connect_header is HeaderAndValueConverter.from_connect_header
    return converter.column_from_connect_data(topic, schema, values) if same else None


def _gives_the_same(converter: HeaderConverter) -> bool:
    return isinstance(converter, HeaderAndValueConverter | SimpleHeaderConverter)


def _entry_column(names: pa.Array, values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([names.cast(pa.string()), values], fields=list(_ENTRY_TYPE))


def _ends(lengths: pa.Array) -> Any:
    return np.concatenate(([0], np.cumsum(lengths.to_numpy(zero_copy_only=False))))


def _joined(own: pa.Array | None, added: Sequence[pa.Array], count: int) -> pa.Array:
    """Return for each record its own headers, then one of each of ``added``."""
    entries = pa.array([], _ENTRY_TYPE) if own is None else pc.list_flatten(own).cast(_ENTRY_TYPE)
    lengths = np.zeros(count, np.int64)
    if own is not None:
        lengths = pc.fill_null(pc.list_value_length(own), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.concatenate(([0], np.cumsum(lengths + len(added))))
    places = np.empty(ends[-1], np.int64)  # of each header made, among the records' own and then the added ones
    records = np.arange(count)
    places[np.arange(len(entries)) + np.repeat(records, lengths) * len(added)] = np.arange(len(entries))
    for number in range(len(added)):
        places[ends[:-1] + lengths + number] = len(entries) + number * count + records
    made = pa.concat_arrays([entries, *added]).take(pa.array(places))
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), made)


SourceOffsets = tuple[tuple[Mapping[str, Any], Mapping[str, Any]], ...]

RowPlace = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""(source partition, source offset) of one record."""

_Row = tuple[SourceRecord, Mapping[str, Any] | None, DataError | None]
"""A record, the offset to take after it, and why its key or value cannot be read where that is so."""

BATCH_BYTES = 2 << 20  # rows are returned when they are this large
JOINED_BYTES = 256 << 10  # batches below it cost more on their way than their bytes do


@dataclass(frozen=True, slots=True)
class ConvertedBatch:
    """Rows in produce form, and where their source may resume once they are durable.

    After ``records`` rows ``batch`` may hold dead letters; ``topics`` does not name their queue.
    """

    batch: pa.RecordBatch
    source_offsets: SourceOffsets
    records: int
    skipped: int
    topics: tuple[str, ...]
    errants: tuple[FailedRecord, ...] = ()
    written: int | None = None
    """Bytes of the ``records``, which the task has written itself: ``batch`` is empty."""


class _Offsets:
    """The newest source offset of each source partition, in order of first sight."""

    def __init__(self) -> None:
        self._newest: dict[Hashable, tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._partition: Mapping[str, Any] = {}
        self._key = canonical(self._partition)

    def note(self, partition: Mapping[str, Any], offset: Mapping[str, Any]) -> None:
        if partition is not self._partition:  # most records of a task share one
            # The offset store compares partitions in the same form.
            self._partition, self._key = partition, canonical(partition or {})
        self._newest[self._key] = (partition, offset)

    def take(self) -> SourceOffsets:
        newest = tuple(self._newest.values())
        self._newest.clear()
        return newest


class SourcePipeline:
    """One connector's path from record to bytes. One thread."""

    def __init__(
        self,
        chain: TransformationChain,
        converters: ConnectorConverters,
        tolerance: RetryTolerance[SourceRecord],
        dead_letters: DeadLetters | None = None,
    ) -> None:
        """Take the parts; ``from_config`` makes them."""
        self._chain = chain
        self._converters = converters
        self._tolerance = tolerance
        self._dead_letters = dead_letters
        self._many = bool(chain.parts) or converters.takes_many  # records are wanted many at once
        self._rows = ProduceRows()
        self._offsets = _Offsets()
        self.rows_of_each: list[int] = []
        """How many records of a topic each piece of the last ``convert`` became."""

    @classmethod
    def from_config(
        cls,
        connector_config: Mapping[str, str],
        worker_config: Mapping[str, str],
        plugin: Callable[[str], type[Any]],
        waiting: RetryWait | None = None,
        dead_letters: DeadLetters | None = None,
        converters: ConnectorConverters | None = None,
    ) -> SourcePipeline:
        """Return the path a configuration asks for, or one with these converters. Raises BadConfigError."""
        chain = TransformationChain.from_config(connector_config, plugin)
        chain.get_ready(sink=False)
        return cls(
            chain,
            converters or ConnectorConverters.from_config(connector_config, worker_config, plugin),
            RetryTolerance(connector_config, place_of, waiting),
            dead_letters,
        )

    def close(self) -> None:
        """Close the transformations and predicates."""
        self._chain.close()

    def onlookers(self) -> list[str]:
        """Return the settings whose plug-ins inspect records; none if bytes are passed through unchanged."""
        converters = {f"{part}.converter": getattr(self._converters, part) for part in ("key", "value", "header")}
        looking = [name for name, converter in converters.items() if type(converter) is not ByteArrayConverter]
        return [*(["transforms"] if self._chain.parts else []), *looking]

    def convert(self, polled: Sequence[Polled]) -> list[ConvertedBatch]:
        """Return the batches of one poll, in order; the last one's offsets cover everything polled.

        Raises:
            DataError: a record failed and ``errors.tolerance`` is none; names stage, topic, source partition, offset.
        """
        converted: list[ConvertedBatch] = []
        self.rows_of_each = rows_of_each = []
        if self._many:
            self._prepare([piece for piece in polled if isinstance(piece, SourceRecord)])
        for piece in polled:
            if isinstance(piece, Written):
                converted.extend(self._take_rows())
                moved = ((piece.source_partition, piece.source_offset),)
                batch = self._rows.take()  # no row
                converted.append(ConvertedBatch(batch, moved, piece.records, 0, (piece.topic,), written=piece.size))
                rows_of_each.append(0)
                continue
            if isinstance(piece, SourceBatch) and not len(piece.values):  # it moves the offset only
                self._offsets.note(piece.source_partition, piece.source_offset)
                rows_of_each.append(0)
                continue
            columns = self._columns(piece) if isinstance(piece, SourceBatch) else None
            if columns is not None and isinstance(piece, SourceBatch):
                converted.extend(self._take_rows())
                offsets: SourceOffsets = ((piece.source_partition, piece.source_offset),)
                topics = _topics_of(columns)
                converted.append(ConvertedBatch(columns, offsets, columns.num_rows, 0, topics))
                rows_of_each.append(columns.num_rows)
                continue
            count = 0
            rows = rows_of_piece(piece)
            if self._many and isinstance(piece, SourceBatch):
                rows = self._prepared(rows)
            for record, offset, unreadable in rows:
                count += self._convert_row(record, offset, unreadable)
                if self._rows.bytes >= BATCH_BYTES:
                    converted.extend(self._take_rows())
            rows_of_each.append(count)
        converted.extend(self._take_rows())
        return list(_fewer(converted)) if len(converted) > 1 else converted

    def _prepared(self, rows: Iterator[_Row]) -> Iterator[_Row]:
        listed = list(rows)
        self._prepare([record for record, _, unreadable in listed if unreadable is None])
        return iter(listed)

    def _prepare(self, records: Sequence[SourceRecord]) -> None:
        """Pass records to plug-ins that prepare many at once; each then goes through the steps alone."""
        transformed = self._chain.prepare(records) if self._chain.steps else records
        self._converters.prepare_from(transformed)

    def convert_rows(
        self, records: Sequence[SourceRecord]
    ) -> tuple[pa.RecordBatch, list[RowPlace], tuple[FailedRecord, ...]]:
        """Return records in produce form, for each row the origin of its record, and the records left out.

        Raises DataError as ``convert``.
        """
        places: list[RowPlace] = []
        if self._many:
            self._prepare(records)
        for record in records:
            before = len(self._rows)
            self._convert_row(record, None)
            if len(self._rows) > before:
                places.append((record.source_partition, record.source_offset))
        return self._rows.take(), places, self._tolerance.take_errants()

    def _take_rows(self) -> Iterator[ConvertedBatch]:
        offsets, errants = self._offsets.take(), self._tolerance.take_errants()
        if offsets or errants or len(self._rows):
            records, topics = len(self._rows), self._rows.topics()
            self._bury(errants)
            yield ConvertedBatch(self._rows.take(), offsets, records, len(errants), topics, errants)

    def _bury(self, errants: Sequence[FailedRecord]) -> None:
        if self._dead_letters is None:
            return
        for errant in errants:
            row = self._dead_letters.of_source(errant, self._converters)
            if row is not None:
                self._rows.append(row)

    def report_errant(self, place: str, error: Exception, data: bytes | None) -> None:
        """Skip input that never became a record. The next ``convert`` reports it. Raises DataError: not tolerated."""
        self._tolerance.give_up(FailedRecord(place, Stage.TASK_POLL, error, JAVA_SOURCE_TASK, None, data))

    def give_up(self) -> ConvertedBatch | None:
        """Return the pending dead letters after an error, without any offset."""
        errants = self._tolerance.take_errants()
        self._offsets.take()
        self._rows.take()
        self._bury(errants)
        skipped = len(errants) if self._tolerance.tolerates_all else 0  # else the task fails: nothing is skipped
        return ConvertedBatch(self._rows.take(), (), 0, skipped, (), errants) if errants else None

    def _columns(self, piece: SourceBatch) -> pa.RecordBatch | None:
        """Return the batch in produce form, None when it has to go row by row."""
        key, value = self._converters.key, self._converters.value
        try:
            if self._chain.steps:
                transformed = self._chain.apply_batch(piece)
                if transformed is None:
                    return None
                piece = transformed
            values = value.column_from_connect_data(piece.topic, piece.value_schema, piece.values)
            if values is None:
                return None
            if piece.keys is not None:
                keys = key.column_from_connect_data(piece.topic, piece.key_schema, piece.keys)
                if keys is None:
                    return None
            else:
                same = key.from_connect_data(piece.topic, piece.key_schema, None)
                keys = None if same is None else pa.repeat(pa.scalar(same, pa.binary()), len(values))
            headers = None
            if piece.headers is not None or piece.more_headers:
                if self._converters.header.takes_many:
                    return None
                headers = written_headers(piece, self._converters.header)
        except Exception:  # noqa: BLE001 - plug-in code: row by row finds the record to blame
            return None
        return columns_batch(piece.topic, values, keys, piece.timestamps_ms, piece.partition, headers)

    def _convert_row(
        self, record: SourceRecord, offset: Mapping[str, Any] | None, unreadable: DataError | None = None
    ) -> bool:
        """Append a record's row; return whether there is one."""
        row = None
        if unreadable is None:
            row = self._tolerance.run(self._path, record)
        else:
            self._tolerance.give_up(errant_polled(record, unreadable))
        if row is not None:
            self._rows.append(row)
        if offset is not None:
            self._offsets.note(record.source_partition, offset)
        return row is not None

    def _path(self, record: SourceRecord) -> ProduceRow | None:
        """Return one record in produce form, None when a transformation dropped it. Raises StageError."""
        transformed = self._chain.apply(record) if self._chain.steps else record
        if transformed is None:
            return None
        topic, converters = transformed.topic, self._converters
        plugin: type[Any] = type(converters.header)
        stage = Stage.HEADER_CONVERTER
        try:
            write = converters.header.from_connect_header
            headers = [(h.key, write(topic, h.key, h.schema, h.value)) for h in transformed.headers]
            stage, plugin = Stage.KEY_CONVERTER, type(converters.key)
            key = converters.key.from_connect_data(topic, transformed.key_schema, transformed.key)
            stage, plugin = Stage.VALUE_CONVERTER, type(converters.value)
            value = converters.value.from_connect_data(topic, transformed.value_schema, transformed.value)
        except ExternalError:
            raise  # no record is to blame
        except Exception as error:  # plug-in code: an error of any class fails only this record
            raise StageError(stage, plugin) from error
        return topic, transformed.partition, key, value, headers or None, transformed.timestamp_ms


def place_of(record: SourceRecord) -> str:
    """Name a source record: topic, partition if it has one, source partition and offset."""
    partition = "" if record.partition is None else f"-{record.partition}"
    source = f"source partition {dict(record.source_partition or {})} offset {dict(record.source_offset or {})}"
    return f"record for topic {record.topic}{partition} of {source}"


def errant_polled(record: SourceRecord, unreadable: DataError) -> FailedRecord:
    """Return a record of a batch whose key or value has no Python form."""
    return FailedRecord(place_of(record), Stage.TASK_POLL, unreadable, JAVA_SOURCE_TASK, record)


def _fewer(converted: Sequence[ConvertedBatch]) -> Iterator[ConvertedBatch]:
    """Join small neighbours of one topic, as a poll of many partitions brings them: each batch has its price."""
    group: list[ConvertedBatch] = []
    held_bytes = 0
    for piece in converted:
        size = int(piece.batch.nbytes)
        alike = (
            not group or (piece.topics == group[0].topics and not piece.written) or (piece.written and group[0].written)
        )
        if group and (not alike or held_bytes + size > JOINED_BYTES):
            yield from _as_one(group)
            group, held_bytes = [], 0
        group.append(piece)
        held_bytes += size
    yield from _as_one(group)


def _as_one(group: Sequence[ConvertedBatch]) -> Sequence[ConvertedBatch]:
    offsets = tuple(pair for piece in group for pair in piece.source_offsets)
    if all(piece.written for piece in group):
        topics = tuple(sorted({topic for piece in group for topic in piece.topics}))
        records, size = (
            sum(piece.records for piece in group),
            sum(piece.written or 0 for piece in group),
        )
        return [ConvertedBatch(group[0].batch, offsets, records, 0, topics, written=size)] if group else group
    whole = all(piece.records and piece.batch.num_rows == piece.records and not piece.skipped for piece in group)
    batch = joined([piece.batch for piece in group]) if len(group) > 1 and whole else None
    if batch is None:
        return group
    return [ConvertedBatch(batch, offsets, batch.num_rows, 0, group[0].topics)]


def _topics_of(batch: pa.RecordBatch) -> tuple[str, ...]:
    """Return the topic of a batch in produce form; none where every record was dropped."""
    return ((batch.schema.metadata or {})[TOPIC].decode(),) if batch.num_rows else ()


def rows_of_piece(piece: Polled) -> Iterator[_Row]:
    """Yield the rows of polled records; of a SourceBatch only the last record ends at its offset.

    A key or value that cannot be read is None in its record.
    """
    if isinstance(piece, SourceRecord):
        yield piece, piece.source_offset, None
    if not isinstance(piece, SourceBatch):
        return
    count = len(piece.values)
    keys = [None] * count if piece.keys is None else row_values(piece.keys, piece.key_schema, "key")
    times = [None] * count if piece.timestamps_ms is None else piece.timestamps_ms.to_pylist()
    headers = [None] * count if piece.headers is None else piece.headers.to_pylist()
    for index, value in enumerate(row_values(piece.values, piece.value_schema)):
        unreadable = next((part for part in (keys[index], value) if isinstance(part, DataError)), None)
        record = SourceRecord(
            piece.source_partition,
            piece.source_offset,
            piece.topic,
            value=None if isinstance(value, DataError) else value,
            value_schema=piece.value_schema,
            key=None if isinstance(keys[index], DataError) else keys[index],
            key_schema=piece.key_schema,
            partition=piece.partition,
            timestamp_ms=times[index],
            headers=tuple(Header(header["key"], header["value"], BYTES) for header in headers[index] or ()),
        )
        yield record, piece.source_offset if index == count - 1 else None, unreadable

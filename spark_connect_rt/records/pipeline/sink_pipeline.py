"""From consumed records to records for a sink task: key, value, headers, transform (Java's order)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.converter import Converter
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import ConsumedRecord, ConsumeRow, Header, SinkBatch, SinkRecord
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import DataError, ExternalError
from spark_connect_rt.records.converters.primitive_converters import ByteArrayConverter
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC
from spark_connect_rt.records.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.records.pipeline.errant_records import (
    JAVA_SINK_TASK,
    FailedRecord,
    RetryTolerance,
    RetryWait,
    Stage,
    StageError,
)
from spark_connect_rt.records.pipeline.transformation_chain import TransformationChain

# Sink records of one partition by the batch, at less than half the price of making each by its constructor. Pure.
#
# A frozen dataclass sets each field through ``object.__setattr__``: 1.9 us a record of nine fields, and a sink task has
# half a million a second. These are filled as plain objects of the same slots and become SinkRecords after that.


class _Filled:
    """A SinkRecord to be: its slots in its order, nothing else."""

    __slots__ = SinkRecord.__slots__  # type: ignore[attr-defined]  # made by the dataclass

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        value: Any,
        value_schema: Schema | None,
        key: Any,
        key_schema: Schema | None,
        timestamp_ms: int | None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.value = value
        self.value_schema = value_schema
        self.key = key
        self.key_schema = key_schema
        self.timestamp_ms = timestamp_ms
        self.headers = ()


def build_sink_records(
    topic: str,
    partition: int,
    key_schema: Schema | None,
    key: Any,
    rows: Iterable[tuple[int, int | None, tuple[Schema | None, Any]]],
) -> list[SinkRecord]:
    """Return a record without headers for each (offset, timestamp, (value's schema, value)); all have the one key."""
    filled: list[Any] = [
        _Filled(topic, partition, offset, value, schema, key, key_schema, time_ms)
        for offset, time_ms, (schema, value) in rows
    ]
    for record in filled:
        record.__class__ = SinkRecord
    return cast(list[SinkRecord], filled)


_EXTRAS = ("key", "headers")


@dataclass(frozen=True, slots=True)
class SinkConverted:
    """Records in order per partition, and the next offset of every partition once they are put.

    Skipped and dropped records count as put: ``next_offsets`` passes them.
    """

    records: list[SinkRecord]
    next_offsets: dict[TopicPartition, int]
    skipped: int
    errants: tuple[FailedRecord, ...] = ()
    columns: SinkBatch | None = None  # instead of records

    @property
    def count(self) -> int:
        """Return how many records there are."""
        return len(self.records) if self.columns is None else len(self.columns.values)


class SinkPipeline:
    """One connector's path from bytes to record. One thread, or several with a ``guard`` that lets one in."""

    def __init__(
        self,
        chain: TransformationChain,
        converters: ConnectorConverters,
        tolerance: RetryTolerance[ConsumeRow],
        *,
        keeps_originals: bool = False,
        guard: AbstractContextManager[Any] | None = None,
    ) -> None:
        """Take the parts; ``from_config`` makes them.

        Args:
            keeps_originals: records are ConsumedRecord.
            guard: held while plug-in code runs; its holder may enter it again.
        """
        self._chain = chain
        self._converters = converters
        self._tolerance = tolerance
        self._keeps_originals = keeps_originals
        self._guard = guard or contextlib.nullcontext()
        self._many = bool(chain.parts) or converters.takes_many  # records are wanted many at once

    @classmethod
    def from_config(
        cls,
        connector_config: Mapping[str, str],
        worker_config: Mapping[str, str],
        plugin: Callable[[str], type[Any]],
        waiting: RetryWait | None = None,
        *,
        keeps_originals: bool = False,
        guard: AbstractContextManager[Any] | None = None,
    ) -> SinkPipeline:
        """Return the path a connector's configuration asks for. Raises BadConfigError."""
        chain = TransformationChain.from_config(connector_config, plugin)
        chain.get_ready(sink=True)
        return cls(
            chain,
            ConnectorConverters.from_config(connector_config, worker_config, plugin),
            RetryTolerance(connector_config, place_of, waiting),
            keeps_originals=keeps_originals,
            guard=guard,
        )

    def close(self) -> None:
        """Close the transformations and predicates."""
        self._chain.close()

    def convert(self, batch: pa.RecordBatch) -> SinkConverted:
        """Return the records of a batch in consume form.

        Raises:
            DataError: a record failed and ``errors.tolerance`` is none; names stage, topic, partition, offset.
        """
        with self._guard:
            records = self._plain(batch)
            if records is None:
                if self._many:
                    passed: Iterable[SinkRecord | None] = self._many_at_once(list(rows_of(batch)))
                else:
                    passed = (self._tolerance.run(self._path, row) for row in rows_of(batch))
                records = [record for record in passed if record is not None]
            errants = self._tolerance.take_errants()
        return SinkConverted(records, next_offsets(batch), len(errants), errants)

    def columns(
        self,
        batch: pa.RecordBatch,
        *,
        absent_values: bool = False,
        nested_structs: bool = False,
        headers_matter: bool = True,
        with_headers: bool = False,
    ) -> SinkConverted | None:
        """Return a batch of one partition in consume form as columns; None: it has to go by records, for any reason.

        ``absent_values``: records without a value may be among others; transformations do not see such.
        ``nested_structs``: structs may have structs as members; transformations do not see such, either. If headers do
        not matter, they are left out after the transformations. ``with_headers``: they are passed as bytes.
        """
        topic, number = _constant(batch, "topic"), _constant(batch, "partition")
        has_headers = _has(batch, "headers")
        as_bytes = with_headers and type(self._converters.header) is ByteArrayConverter
        if topic is None or number is None or (has_headers and headers_matter and not as_bytes):
            return None
        with self._guard, contextlib.suppress(Exception):  # plug-in code: by records finds the one to blame
            if has_headers and type(self._converters.header) is not ByteArrayConverter:  # only whether each can be read
                _ = [self._headers(topic, given) for given in batch.column("headers").to_pylist() if given]
            read = self._with_absent if absent_values and not self._chain.steps else self._column
            value = read(self._converters.value, topic, batch, "value")
            key = self._column(self._converters.key, topic, batch, "key")
            if value is None or key is None:
                return None
            (value_schema, values), (key_schema, keys) = value, key
            if (self._chain.steps or not nested_structs) and (_is_nested(values) or _is_nested(keys)):
                return None
            times = batch.column("timestamp") if _has(batch, "timestamp") else None
            offsets = batch.column("offset")
            headers = batch.column("headers") if has_headers else None
            made = SinkBatch(topic, int(number), offsets, values, value_schema, keys, key_schema, times, headers)
            transformed = self._chain.apply_batch(made) if self._chain.steps else made
            if transformed is None or (headers_matter and transformed.more_headers):
                return None
            if not headers_matter:
                transformed = replace(transformed, headers=None, more_headers=())
            return SinkConverted([], next_offsets(batch), 0, columns=transformed)
        return None

    def _column(
        self, converter: Converter, topic: str, batch: pa.RecordBatch, name: str
    ) -> tuple[Schema | None, pa.Array | None] | None:
        if _has(batch, name):
            return converter.column_to_connect_data(topic, batch.column(name))
        schema, same = converter.to_connect_data(topic, None)
        if same is not None:
            return None
        return schema, pa.nulls(batch.num_rows) if name == "value" else None

    def _with_absent(
        self, converter: Converter, topic: str, batch: pa.RecordBatch, name: str
    ) -> tuple[Schema | None, pa.Array | None] | None:
        """Return a column as ``_column``, of which some may be null: the others decide about the schema."""
        column = batch.column(name) if _has(batch, name) else None
        if column is None or not column.null_count:
            return self._column(converter, topic, batch, name)
        found = converter.column_to_connect_data(topic, column.drop_null())
        if found is None or converter.to_connect_data(topic, None)[1] is not None:
            return None
        places = pc.cumulative_sum(column.is_valid().cast(pa.int64()))
        return found[0], found[1].take(pc.if_else(column.is_valid(), pc.subtract(places, 1), None))

    def transform(self, records: Iterable[tuple[SinkRecord, DataError | None]]) -> SinkConverted:
        """Return records that need no converter, transformed; those with an error are errant.

        Raises DataError as ``convert``.
        """
        if self._chain.parts:
            records = list(records)
            self._chain.prepare([record for record, unreadable in records if unreadable is None])
        kept: list[SinkRecord] = []
        offsets: dict[TopicPartition, int] = {}
        for record, unreadable in records:
            origin: ConsumeRow = (record.topic, record.partition, record.offset, record.timestamp_ms, None, None, None)
            if unreadable is None:
                passed = self._tolerance.run(lambda _, bound=record: self._chain.apply(bound), origin)  # type: ignore[misc]
                if passed is not None:
                    kept.append(passed)
            else:
                errant = FailedRecord(place_of(origin), Stage.VALUE_CONVERTER, unreadable, JAVA_SINK_TASK, origin)
                self._tolerance.give_up(errant)
            offsets[TopicPartition(record.topic, record.partition)] = record.offset + 1
        errants = self._tolerance.take_errants()
        return SinkConverted(kept, offsets, len(errants), errants)

    def take_errants(self) -> tuple[FailedRecord, ...]:
        """Return the errant records of a ``convert`` that raised."""
        return self._tolerance.take_errants()

    def original_of(self, record: SinkRecord) -> ConsumeRow:
        """Return the consumed record of a record. For one that a task made, return the output of the converters.

        Raises the errors of the converters.
        """
        if isinstance(record, ConsumedRecord) and record.original is not None:
            return record.original
        with self._guard:
            return self._written(record)

    def _written(self, record: SinkRecord) -> ConsumeRow:
        topic, write = record.topic, self._converters.header.from_connect_header
        key = self._converters.key.from_connect_data(topic, record.key_schema, record.key)
        value = self._converters.value.from_connect_data(topic, record.value_schema, record.value)
        headers = [{"key": h.key, "value": write(topic, h.key, h.schema, h.value)} for h in record.headers]
        return topic, record.partition, record.offset, record.timestamp_ms, key, value, headers or None

    def _plain(self, batch: pa.RecordBatch) -> list[SinkRecord] | None:
        """Return the records of one partition that have no keys, headers or transformations. None: use the general way.

        The most common batch, without the costs per record of others. An error is left to the general way as well.
        """
        topic, number = _constant(batch, "topic"), _constant(batch, "partition")
        has_more = self._many or any(_has(batch, name) for name in _EXTRAS)
        if topic is None or number is None or has_more or self._chain.steps:
            return None
        partition = int(number)
        _, _, offsets, times, _, values, _ = _columns(batch)
        with contextlib.suppress(Exception):  # plug-in code: the long way finds the record and asks errors.tolerance
            key_schema, key = self._converters.key.to_connect_data(topic, None)
            rows = zip(offsets, times, self._values(topic, values), strict=True)
            records = build_sink_records(topic, partition, key_schema, key, rows)
            return self._with_originals(records, batch) if self._keeps_originals else records
        return None

    def _values(self, topic: str, data: Sequence[bytes | None]) -> Iterable[tuple[Schema | None, Any]]:
        """Return schema and value of each record, all at once where the converter can. Raises its errors."""
        at_once = self._converters.value.values_to_connect_data(topic, data)
        if at_once is None:
            read = self._converters.value.to_connect_data
            return (read(topic, value) for value in data)
        schema, values = at_once
        return zip(itertools.repeat(schema), values, strict=False)

    def _with_originals(self, records: list[SinkRecord], batch: pa.RecordBatch) -> list[SinkRecord]:
        return [_remembering(record, row) for record, row in zip(records, rows_of(batch), strict=True)]

    def _many_at_once(self, rows: Sequence[ConsumeRow]) -> Iterator[SinkRecord | None]:
        """Yield the result of ``_path`` for each row; converters and transformations see all of them before."""
        self._converters.prepare_to(rows)
        read = [self._tolerance.run(self._read, row) for row in rows]
        if self._chain.steps:
            self._chain.prepare([record for record in read if record is not None])
        for row, record in zip(rows, read, strict=True):
            if record is not None:
                yield self._tolerance.run(lambda row, bound=record: self._transformed(bound, row), row)  # type: ignore[misc]

    def _path(self, row: ConsumeRow) -> SinkRecord | None:
        """Return one record, None when a transformation dropped it. Raises StageError."""
        return self._transformed(self._read(row), row)

    def _transformed(self, record: SinkRecord, row: ConsumeRow) -> SinkRecord | None:
        transformed = self._chain.apply(record) if self._chain.steps else record
        return _remembering(transformed, row) if transformed is not None and self._keeps_originals else transformed

    def _read(self, row: ConsumeRow) -> SinkRecord:
        topic, partition, offset, timestamp_ms, key_data, value_data, header_data = row
        converters = self._converters
        plugin: type[Any] = type(converters.key)
        stage = Stage.KEY_CONVERTER
        try:
            key_schema, key = converters.key.to_connect_data(topic, key_data)
            stage, plugin = Stage.VALUE_CONVERTER, type(converters.value)
            value_schema, value = converters.value.to_connect_data(topic, value_data)
            stage, plugin = Stage.HEADER_CONVERTER, type(converters.header)
            headers = self._headers(topic, header_data) if header_data else ()
        except ExternalError:
            raise  # no record is to blame
        except Exception as error:  # plug-in code: an error of any class fails only this record
            raise StageError(stage, plugin) from error
        return SinkRecord(topic, partition, offset, value, value_schema, key, key_schema, timestamp_ms, headers)

    def _headers(self, topic: str, given: list[dict[str, Any]]) -> tuple[Header, ...]:
        read = self._converters.header.to_connect_header
        headers = []
        for header in given:
            schema, value = read(topic, header["key"], header["value"])
            headers.append(Header(header["key"], value, schema))
        return tuple(headers)


def _remembering(record: SinkRecord, original: ConsumeRow) -> ConsumedRecord:
    r = record
    return ConsumedRecord(
        r.topic,
        r.partition,
        r.offset,
        r.value,
        r.value_schema,
        r.key,
        r.key_schema,
        r.timestamp_ms,
        r.headers,
        original,
    )


def place_of(row: ConsumeRow) -> str:
    """Name a consumed record: topic, partition and offset."""
    return _place(*row[:3])


def place_of_record(record: SinkRecord) -> str:
    """Name the consumed origin of a record, as ``place_of`` does."""
    return _place(record.topic, record.partition, record.offset)


def _place(topic: str, partition: int, offset: int) -> str:
    return f"record {topic}-{partition}@{offset}"


def next_offsets(batch: pa.RecordBatch) -> dict[TopicPartition, int]:
    """Return the offset after the last record of each partition in a consume-form batch."""
    if batch.num_rows == 0:
        return {}
    topic, partition = _constant(batch, "topic"), _constant(batch, "partition")
    if topic is not None and partition is not None:
        return {TopicPartition(topic, int(partition)): pc.max(batch.column("offset")).as_py() + 1}
    grouped: dict[TopicPartition, int] = {}
    topics, partitions, offsets = _columns(batch)[:3]
    for one_topic, one_partition, offset in zip(topics, partitions, offsets, strict=True):
        key = TopicPartition(one_topic, one_partition)
        grouped[key] = max(grouped.get(key, 0), offset + 1)
    return grouped


def _constant(batch: pa.RecordBatch, name: str) -> str | None:
    """Return the topic or partition that the whole batch shares, None when it is a column."""
    metadata = batch.schema.metadata or {}
    stored = metadata.get(TOPIC if name == "topic" else PARTITION)
    return None if name in batch.schema.names or stored is None else stored.decode()


def _is_nested(column: pa.Array | None) -> bool:
    """Return whether a column has structs with members that are structs."""
    if column is None or not pa.types.is_struct(column.type):
        return False
    return any(pa.types.is_struct(member.type) for member in column.type)


def _has(batch: pa.RecordBatch, name: str) -> bool:
    """Return whether any row has something in a column."""
    return name in batch.schema.names and batch.column(name).null_count < batch.num_rows


def rows_of(batch: pa.RecordBatch) -> Iterator[ConsumeRow]:
    """Yield the rows of a batch in consume form."""
    return zip(*_columns(batch), strict=True)  # type: ignore[return-value]  # the columns are ConsumeRow's


def _columns(batch: pa.RecordBatch) -> list[list[Any]]:
    """Return the columns of ConsumeRow as lists."""
    columns = []
    for name in ("topic", "partition", "offset", "timestamp", "key", "value", "headers"):
        if name in batch.schema.names:
            columns.append(batch.column(name).to_pylist())
            continue
        stands = _constant(batch, name) if name in ("topic", "partition") else None
        columns.append([int(stands) if stands and name == "partition" else stands] * batch.num_rows)
    return columns


# Rows of a consumed batch by their topic partition: apart, and a batch without some of them. Pure.


def without_partitions(batch: pa.RecordBatch, leaving: AbstractSet[TopicPartition]) -> pa.RecordBatch:
    """Drop the rows of ``leaving`` from a batch in consume form: their next owner reads them again."""
    if not leaving:
        return batch
    kept = [place not in leaving for place in _places(batch)]
    return batch if all(kept) else batch.filter(pa.array(kept))


def is_of_one_partition(batch: pa.RecordBatch) -> bool:
    """Return whether topic and partition of a batch in consume form are in its metadata."""
    return not {"topic", "partition"} & set(batch.schema.names)


def by_partition(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Return a batch in consume form as one of each partition, topic and partition in the metadata."""
    if is_of_one_partition(batch):
        return [batch]
    rows: dict[TopicPartition, list[int]] = {}
    for row, place in enumerate(_places(batch)):
        rows.setdefault(place, []).append(row)
    plain = batch.select([name for name in batch.schema.names if name not in ("topic", "partition")])
    return [
        plain.take(pa.array(chosen)).replace_schema_metadata(
            {TOPIC: place.topic.encode(), PARTITION: str(place.partition).encode()}
        )
        for place, chosen in rows.items()
    ]


def first_offsets(batch: pa.RecordBatch, partitions: AbstractSet[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the least offset of each of ``partitions`` that has rows in a batch in consume form."""
    found: dict[TopicPartition, int] = {}
    if partitions:
        for place, offset in zip(_places(batch), batch.column("offset").to_pylist(), strict=True):
            if place in partitions:
                found[place] = min(offset, found.get(place, offset))
    return found


def _places(batch: pa.RecordBatch) -> list[TopicPartition]:
    metadata = batch.schema.metadata or {}
    columns = []
    for name, key, read in (("topic", TOPIC, bytes.decode), ("partition", PARTITION, int)):
        stands = metadata.get(key)
        fixed = None if stands is None or name in batch.schema.names else read(stands)
        columns.append(batch.column(name).to_pylist() if fixed is None else [fixed] * batch.num_rows)
    return [TopicPartition(*pair) for pair in zip(*columns, strict=True)]

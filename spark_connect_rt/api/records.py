"""Records on their way from a source task or to a sink task (Java ``ConnectRecord`` and its two kinds)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from spark_connect_rt.api.data.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa


R = TypeVar("R", "SourceRecord", "SinkRecord")
B = TypeVar("B", "SourceBatch", "SinkBatch")
_set = object.__setattr__

ConsumeRow = tuple[str, int, int, int | None, bytes | None, bytes | None, list[dict[str, Any]] | None]
"""A consumed record: (topic, partition, offset, timestamp in ms, key, value, headers)."""


def altered(record: R, **changes: Any) -> R:
    """Return a record with some parts replaced: ``dataclasses.replace``, three times as fast."""
    copy = object.__new__(type(record))
    for name in record.__dataclass_fields__:
        _set(copy, name, changes[name] if name in changes else getattr(record, name))
    return copy


@dataclass(frozen=True, slots=True)
class Header:
    """One header: a name, a value, and the value's schema (None: schemaless)."""

    key: str
    value: Any
    schema: Schema | None = None


@dataclass(frozen=True, slots=True)
class HeaderColumn:
    """One header that every record of a batch has. ``values`` holds one element a record; ``schema`` applies to all."""

    key: str
    values: pa.Array
    schema: Schema | None = None


BatchHeader = Header | HeaderColumn
"""A header of a batch: one that is equal for all records, or a column with one value a record."""


class Delivered(NamedTuple):
    """A number of consecutive acknowledged records of a task. The first of them is at ``offset`` of the partition."""

    topic: str
    partition: int
    offset: int
    records: int


class RecordMetadata(NamedTuple):
    """The place of an acknowledged record in Kafka (Java ``RecordMetadata``)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None = None
    """The record's own, or the broker's where the topic has ``message.timestamp.type=LogAppendTime``."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One record a source task read; ``source_offset`` is where to resume *after* it."""

    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any]
    topic: str
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Many records of ONE source partition and ONE topic in Arrow columns, as a fast ``poll()`` returns them.

    ``values`` holds one element a record (string, binary, struct ...). ``keys``, ``timestamps_ms`` (int64) and
    ``headers`` (lists of {key, value} with values of bytes) are as long or None. Transformations of the batch add
    ``more_headers``, which follow ``headers`` in each record. ``partition`` None: the key decides.
    ``source_offset`` is where to resume after the LAST record. A batch without records moves it once everything before
    the batch is durable. ``value_schema`` is the Connect schema of every value, None for schemaless.
    """

    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any]
    topic: str
    values: pa.Array
    value_schema: Schema | None = None
    keys: pa.Array | None = None
    key_schema: Schema | None = None
    timestamps_ms: pa.Array | None = None
    partition: int | None = None
    headers: pa.Array | None = None
    more_headers: tuple[BatchHeader, ...] = ()

    def slice(self, start: int, count: int) -> SourceBatch:
        """Return some of the records; the offset stays where all of them end."""
        return self._each(lambda column: column.slice(start, count))

    def where(self, mask: pa.BooleanArray) -> SourceBatch:
        """Return the records for which ``mask`` is true; the offset stays where all of them end."""
        return self._each(lambda column: column.filter(mask))

    def _each(self, change: Callable[[pa.Array], pa.Array]) -> SourceBatch:
        return _each_column(self, change)


def _each_column(batch: B, change: Callable[[pa.Array], pa.Array]) -> B:
    keys, times, headers = batch.keys, batch.timestamps_ms, batch.headers
    more = (replace(h, values=change(h.values)) if isinstance(h, HeaderColumn) else h for h in batch.more_headers)
    return replace(
        batch,
        values=change(batch.values),
        headers=None if headers is None else change(headers),
        more_headers=tuple(more),
        keys=None if keys is None else change(keys),
        timestamps_ms=None if times is None else change(times),
    )


@dataclass(frozen=True, slots=True)
class Written:
    """Records of ONE source partition that the task has written to ``topic`` itself, and the brokers acknowledged.

    See ``SourceTaskContext.own_writes``. The worker sends nothing for them; it only commits ``source_offset``, where to
    resume after the last of them. ``size`` is their number of bytes on the network.
    """

    source_partition: Mapping[str, Any]
    source_offset: Mapping[str, Any]
    topic: str
    records: int
    size: int


Polled = SourceRecord | SourceBatch | Written
"""An element of the sequence that a source task's ``poll`` returns."""


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """One record for a sink task; ``offset`` is its offset in (topic, partition)."""

    topic: str
    partition: int
    offset: int
    value: Any = None
    value_schema: Schema | None = None
    key: Any = None
    key_schema: Schema | None = None
    timestamp_ms: int | None = None
    headers: tuple[Header, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """Many records of ONE topic partition in Arrow columns, as ``SinkTask.put_batch`` gets them.

    ``values`` and ``offsets`` (int64, ascending) hold one element a record. ``keys`` and ``timestamps_ms`` (int64) are
    as long, or None where every record has null there. The schemas apply to every value and key; None: schemaless.
    Schemaless numbers of which some are whole and some are not are a sparse union of int64 and float64.
    ``headers`` (lists of {key, value} as consumed) and ``more_headers`` (which transformations gave each record) are
    for transformations and predicates. A task gets ``headers`` only if ``SinkTask.takes_headers``.
    """

    topic: str
    partition: int
    offsets: pa.Array
    values: pa.Array
    value_schema: Schema | None = None
    keys: pa.Array | None = None
    key_schema: Schema | None = None
    timestamps_ms: pa.Array | None = None
    headers: pa.Array | None = None
    more_headers: tuple[BatchHeader, ...] = ()

    def slice(self, start: int, count: int) -> SinkBatch:
        """Return some of the records."""
        return self._each(lambda column: column.slice(start, count))

    def where(self, mask: pa.BooleanArray) -> SinkBatch:
        """Return the records for which ``mask`` is true."""
        return self._each(lambda column: column.filter(mask))

    def _each(self, change: Callable[[pa.Array], pa.Array]) -> SinkBatch:
        return replace(_each_column(self, change), offsets=change(self.offsets))


@dataclass(frozen=True, slots=True)
class ConsumedRecord(SinkRecord):
    """A sink record that keeps the consumed record it was made from, through transformations too.

    Java: ``InternalSinkRecord``. Tasks get these if errant records are reported to a dead letter queue or a log.
    """

    original: ConsumeRow | None = field(default=None, repr=False, compare=False)

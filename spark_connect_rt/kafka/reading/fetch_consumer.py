"""Kafka records as consume-form Arrow batches, from whole record batches: no object is made of a record.

Owns: the order in which answers become rows, and the position of each partition. Its loop runs only inside its
methods. Must not: decode, commit, start threads.
"""

from __future__ import annotations

import asyncio
import math
import selectors
import time
from collections.abc import Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.buffered_connection import BufferPool, connect_buffered
from spark_connect_rt.kafka.reading.broker_links import BrokerLinks
from spark_connect_rt.kafka.reading.fetch_settings import fetch_settings
from spark_connect_rt.kafka.reading.fetcher import TICK_S, Fetcher, PartitionAnswer, PartitionReading, has_steps_left
from spark_connect_rt.kafka.reading.log_moves import LogWatch
from spark_connect_rt.kafka.reading.offset_lookup import FIRST, NEXT
from spark_connect_rt.kafka.records.record_batches import pay_as_columns
from spark_connect_rt.kafka.records.record_rows import RecordRows
from spark_connect_rt.records.pipeline.columns import CONSUME_FIELDS, PARTITION, TOPIC, without_views

if TYPE_CHECKING:
    from spark_connect_rt.kafka.records.record_columns import Records


# Record batches of one partition -> consume-form Arrow batches (records.pipeline.columns), by the cheaper way. Pure.


Fetched = tuple[pa.RecordBatch | None, int]  # the rows and the offset to resume at after them


def fetched_rows(
    partition: TopicPartition,
    position: int,
    batches: bytes,
    aborted: Iterable[tuple[int, int]] | None,
    check_crcs: bool = True,
) -> Iterator[Fetched]:
    """Yield the rows from ``position`` on, chunk by chunk; arguments and errors as of ``record_columns.records_of``.

    The last batch may be truncated. Key and headers have no columns where they are null in every row. Values may be
    views of ``batches``.
    """
    if not pay_as_columns(batches):
        found = RecordRows(position, batches, aborted, check_crcs)
        rows = list(found)
        if found.behind > position:
            yield (_of_rows(partition, rows) if rows else None), found.behind
        return
    # Imported when needed: a task of few records does without this library.
    from spark_connect_rt.kafka.records.record_columns import records_of

    for records, behind in records_of(position, batches, aborted, check_crcs):
        yield (_of_columns(partition, records) if records and len(records.offsets) else None), behind


def _of_columns(partition: TopicPartition, records: Records) -> pa.RecordBatch:
    return _batch(
        partition,
        {
            "offset": pa.array(records.offsets),
            "timestamp": pa.array(records.timestamps),
            "key": records.key_column(),
            "value": records.value_column(),
            "headers": records.headers_column(),
        },
    )


def _of_rows(partition: TopicPartition, rows: list[Any]) -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {
        name: [getattr(row, name) for row in rows] for name in ("offset", "timestamp", "key", "value")
    }
    try:
        headers = [[{"key": key, "value": value} for key, value in row.headers] or None for row in rows]
    except UnicodeDecodeError as error:
        raise DataError(f"a header name of {partition} is not valid UTF-8") from error
    columns["headers"] = headers
    return _batch(partition, {name: pa.array(values, CONSUME_FIELDS[name]) for name, values in columns.items()})


def _batch(partition: TopicPartition, columns: dict[str, pa.Array | None]) -> pa.RecordBatch:
    kept = {
        name: column
        for name, column in columns.items()
        if column is not None and (name not in ("key", "headers") or column.null_count < len(column))
    }
    metadata = {TOPIC: partition.topic.encode(), PARTITION: str(partition.partition).encode()}
    schema = pa.schema([pa.field(name, column.type) for name, column in kept.items()], metadata=metadata)
    return pa.RecordBatch.from_arrays(list(kept.values()), schema=schema)


def as_one(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of several partitions as one batch; topic and partition are columns where they differ.

    The values of one partition may still be views.
    """
    if len(batches) == 1:
        return batches[0]
    batches = list(map(without_views, batches))
    topics = {batch.schema.metadata[TOPIC] for batch in batches}
    places = {(batch.schema.metadata[TOPIC], batch.schema.metadata[PARTITION]) for batch in batches}
    metadata = {
        **({TOPIC: topics.pop()} if len(topics) == 1 else {}),
        **({PARTITION: next(iter(places))[1]} if len(places) == 1 else {}),
    }
    tables = []
    for batch in batches:
        for name, place in (("topic", TOPIC), ("partition", PARTITION)):
            if place not in metadata:
                kind = CONSUME_FIELDS[name]
                said = pa.scalar(batch.schema.metadata[place].decode()).cast(kind)
                batch = batch.append_column(name, pa.repeat(said, batch.num_rows))
        tables.append(pa.Table.from_batches([batch.replace_schema_metadata(None)]))
    whole = pa.concat_tables(tables, promote_options="default").combine_chunks()
    return whole.replace_schema_metadata(metadata).to_batches()[0]


LOOKUP_TIMEOUT_S = 30.0
LOOP_EACH_S = 0.3  # its timers want to be seen to
ENOUGH_ROWS = 500  # fewer are passed on together with the next partition's
_END_OF = {-1: FIRST, -2: NEXT}  # the port's words for the beginning and the end
_T = TypeVar("_T")


class FetchConsumer:
    """A BatchConsumer on connections that receive into its own buffers. One thread."""

    def __init__(self, config: Mapping[str, str], watch: LogWatch | None = None) -> None:
        """Take Java's properties, all of which ``fetch_settings`` honours, and who decides about moved logs.

        Raises BadConfigError.
        """
        self._settings = fetch_settings(config)
        self._selector = selectors.DefaultSelector()
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._ran_s = 0.0
        self._pool = BufferPool()
        opened = partial(connect_buffered, self._pool)
        self._fetcher = Fetcher(self._settings, BrokerLinks(self._settings, opened), watch)
        self._rows: _Rows | None = None  # of the answer that is being returned

    def assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Assign partitions, as the port says. A partition already read continues from the new offset."""
        self.unassign(list(offsets))
        ends = {partition: _END_OF[offset] for partition, offset in offsets.items() if offset in _END_OF}
        found = {**offsets, **(self._run(self._fetcher.look_up(ends, LOOKUP_TIMEOUT_S)) if ends else {})}
        self._fetcher.readings.update(
            {partition: PartitionReading(found[partition], found[partition]) for partition in offsets}
        )

    def unassign(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop reading these partitions and drop their answers. Without any partition left, free the buffers."""
        self._fetcher.forget(partitions)
        if self._rows is not None and not self._is_read(self._rows.answer):
            self._rows = None
        if not self._fetcher.readings:
            self._pool.forget()

    def poll(self, max_records: int, timeout_ms: int) -> pa.RecordBatch | None:
        """See the port. Returns as soon as there is one record, with what else is there."""
        rows = self.poll_views(max_records, timeout_ms)
        return None if rows is None else without_views(rows)

    def poll_views(self, max_records: int, timeout_ms: int) -> pa.RecordBatch | None:
        """Return what ``poll`` does; values may be views, which keep in memory what was received with them."""
        rows = self._polled(max_records, timeout_ms)
        return as_one(rows) if rows else None

    def poll_apart(self, max_records: int, timeout_ms: int) -> list[pa.RecordBatch]:
        """Return what ``poll`` does, the rows of each partition apart; a batch's metadata names its partition."""
        return list(map(without_views, self._polled(max_records, timeout_ms)))

    def _polled(self, max_records: int, timeout_ms: int) -> list[pa.RecordBatch]:
        until_s = time.monotonic() + timeout_ms / 1000
        while True:
            rows = self._taken(max_records)
            if rows:
                return rows
            self._pool.rest()
            if self._is_quiet(until_s):
                return []
            self._run(self._fetcher.fill(max(0.0, until_s - time.monotonic())))
            if not self._fetcher.answers and until_s - time.monotonic() < TICK_S:
                return []

    def position(self, partition: TopicPartition) -> int:
        """Return the next offset that this consumer will read, past markers and compacted records."""
        return self._fetcher.readings[partition].position

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the log end of each partition (the last stable offset under read_committed)."""
        return self._run(self._fetcher.look_up(dict.fromkeys(partitions, NEXT), LOOKUP_TIMEOUT_S))

    def topic_ids(self, topics: Collection[str]) -> dict[str, str]:
        """Return the ids of topics (KIP-516), as far as brokers report them. Raises ConnectError."""
        return self._run(self._fetcher.ask_topic_ids(topics))

    def partition_counts(self, topics: Collection[str]) -> dict[str, int]:
        """Return how many partitions topics have now. Raises RetriableError if no broker answers."""
        return self._run(self._fetcher.ask_partition_counts(topics))

    def close(self) -> None:
        """Close the connections and the loop. May be called twice."""
        if not self._loop.is_closed():
            self._run(self._fetcher.close())
            self._loop.close()

    def _is_quiet(self, until_s: float) -> bool:
        """Wait for a sign from a broker without the loop, which costs several times as much; False: run the loop."""
        if has_steps_left(self._loop) or not self._fetcher.only_waits() or until_s - self._ran_s > LOOP_EACH_S:
            return False
        return not self._selector.select(max(0.0, until_s - time.monotonic()))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        self._ran_s = time.monotonic()
        return self._loop.run_until_complete(work)

    def _taken(self, max_records: int) -> list[pa.RecordBatch]:
        """Return the next rows of answers that are there."""
        taken: list[pa.RecordBatch] = []
        room = max_records
        while room > 0 and max_records - room < ENOUGH_ROWS:
            rows = self._next_rows()
            if rows is None:
                break
            try:
                batch = rows.next(room)
            except DataError:  # never skipped: rows before it are returned first, then the next call meets it again
                self._ask_again(rows.answer)
                if taken:
                    break
                raise
            if batch is None:
                self._rows = None
            else:
                taken.append(batch)
                room -= batch.num_rows
        return taken

    def _next_rows(self) -> _Rows | None:
        """Return rows of a partition that is still read as it was when they were asked for."""
        while self._rows is None or not self._is_read(self._rows.answer):
            if not self._fetcher.answers:
                self._rows = None
                break
            self._rows = _Rows(self._fetcher.answers.popleft(), self._settings.check_crcs)
        return self._rows

    def _ask_again(self, answer: PartitionAnswer) -> None:
        position = answer.reading.position
        self._fetcher.readings[answer.partition] = PartitionReading(position, position)

    def _is_read(self, answer: PartitionAnswer) -> bool:
        return self._fetcher.readings.get(answer.partition) is answer.reading


class _Rows:
    """The rows of one answer, taken apart chunk by chunk."""

    def __init__(self, answer: PartitionAnswer, check_crcs: bool) -> None:
        self.answer = answer
        self._chunks = fetched_rows(
            answer.partition, answer.reading.position, answer.batches, answer.aborted, check_crcs
        )
        self._rows: pa.RecordBatch | None = None
        self._behind = 0  # it

    def next(self, limit: int) -> pa.RecordBatch | None:
        """Return the next rows and move the partition's position behind them; None: that was all. Raises DataError."""
        reading = self.answer.reading
        while self._rows is None:
            chunk = next(self._chunks, None)
            if chunk is None:
                reading.fetch_at = reading.position if reading.fetch_at is None else reading.fetch_at
                return None
            self._rows, self._behind = chunk
            if self._rows is None:
                reading.position = self._behind
        rest = self._rows.num_rows
        size = math.ceil(rest / math.ceil(rest / limit))  # no small remainder
        rows, self._rows = self._rows.slice(0, size), self._rows.slice(size) if size < rest else None
        reading.position = self._behind if self._rows is None else self._rows.column("offset")[0].as_py()
        return rows

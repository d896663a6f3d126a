"""Kafka records by the Arrow batch, laid out as record batches without a loop over records.

Read it downward, in the order of a record: ``ColumnProducer.produce``, the inbox on the event loop, the deal to
partitions and the sending (``ColumnSender``), the record's place in Kafka.

Every producer uses it whose settings ``column_settings`` understands. librdkafka takes one call for each record, and
one report for each record whose offset is wanted. That costs several times as much as the layout of columns.

The task's thread produces and waits. A second thread runs the event loop, which deals, lays out and sends. Nothing in
between is called for each record.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from aiokafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    UnknownTopicOrPartitionError,
)
from confluent_kafka import KafkaError as NamedError

from spark_connect_rt.api.records import Delivered, RecordMetadata
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, DataError, TimedOutError
from spark_connect_rt.kafka import cluster_contact
from spark_connect_rt.kafka.aiokafka_parts import ReadyBatch
from spark_connect_rt.kafka.error_mapping import client_error, connect_error, gone, is_retriable
from spark_connect_rt.kafka.records.partitioning import TopicPartitioning, rows_by_partition, topics_without_partition
from spark_connect_rt.kafka.records.record_batch_columns import BATCH_OVERHEAD, record_batch, record_bytes
from spark_connect_rt.kafka.records.varint_columns import Numbers
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings
from spark_connect_rt.kafka.writing.producer_client import (
    BatchPosition,
    PartitionRows,
    ProducerClient,
    joined,
)
from spark_connect_rt.records.pipeline.columns import PARTITION, TOPIC
from spark_connect_rt.records.pipeline.delivery_runs import DeliveryRuns
from spark_connect_rt.records.pipeline.errant_records import RefusedRecord

CLOSE_LIMIT_S = 5.0
CONTACT_EACH_S = 2.0
log = logging.getLogger(__name__)


class ColumnProducer:
    """A BatchProducer on aiokafka's client. One thread calls it, and it starts a second for the event loop.

    It raises what ``KafkaBatchProducer`` raises, with one exception: a row whose partition does not exist fails the
    delivery and not the call of ``produce``.
    """

    def __init__(self, settings: ColumnSettings, clock_s: Callable[[], float] = time.time) -> None:
        """Start the event loop and connect.

        Args:
            settings: of ``column_settings``.
            clock_s: returns the seconds since the epoch, for records without a timestamp.
        """
        self._settings = settings
        self._clock_s = clock_s
        self._changed = threading.Condition()  # of the following
        self._records = self._bytes = 0  # in flight
        self._runs = DeliveryRuns()
        self._places = RecordOffsets()
        self._failure: ConnectError | None = None
        self._skips = False
        self._refused: list[RefusedRecord] = []
        self._end_by_s = math.inf
        self._is_watched = self._gets_on = False
        self._on_empty: Callable[[], None] | None = None
        self._start(self._new_sender(settings))

    def _new_sender(self, settings: ColumnSettings) -> ColumnSender:
        return ColumnSender(settings, self._delivered)

    def _start(self, sender: ColumnSender) -> None:
        self._sender = sender
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._sending = self._loop.create_task(sender.run())
        self._thread = threading.Thread(target=self._run, name="column-producer", daemon=True)
        self._thread.start()

    def produce(self, batch: pa.RecordBatch) -> None:
        """Queue every row of a batch in produce form, and wait while the buffer is full.

        Raises the first failure so far, DataError for a record above ``max.request.size``, and TimedOutError after
        ``max.block.ms`` without room in the buffer.
        """
        if not batch.num_rows:
            return
        sizes = record_bytes(batch)
        fits = sizes + BATCH_OVERHEAD <= self._settings.request_bytes
        too_large = [self._too_large(int(size)) for size in sizes[~fits]]
        if too_large and not self._skips:
            raise too_large[0]
        size, limit_ms = int(sizes[fits].sum()), self._settings.max_block_ms
        if not self._wait(lambda: self._bytes + size <= max(self._settings.buffer_bytes, size), limit_ms):
            raise TimedOutError(f"no room in the producer's buffer for max.block.ms={limit_ms}{self._why()}")
        until_s = self._loop.time() + self._settings.delivery_timeout_ms / 1000
        with self._changed:
            if self._failure is not None:
                raise self._failure
            if self._settings.reports_records:
                batch = self._places.numbered(batch)
            if too_large:
                for row, error in zip(np.flatnonzero(~fits), too_large, strict=True):
                    self._refused.append(refused_record(batch.slice(int(row), 1), error))
                batch, sizes = batch.filter(pa.array(fits)), sizes[fits]
            if not batch.num_rows:
                return
            self._records += batch.num_rows
            self._bytes += size
            # The loop is closed only behind a failure.
            self._hand_over(Produced(batch, int(self._clock_s() * 1000), until_s, sizes))
            if not self._is_watched:
                self._is_watched = True
                self._loop.call_soon_threadsafe(self._watch_contact)  # in the context of this thread

    def _too_large(self, size: int) -> ConnectError:
        doing = f"producing a record of {size} bytes with max.request.size={self._settings.request_bytes}"
        return connect_error(NamedError(NamedError.MSG_SIZE_TOO_LARGE), doing)

    def skip_refused(self) -> None:
        """Leave refused records out from now on, as ``kafka.executor_clients.SkipsRefused`` describes."""
        self._skips, self._sender.on_refused = True, self._left_out

    def refused(self) -> list[RefusedRecord]:
        """Return the records that were left out since the last call, each with its error."""
        with self._changed:
            taken, self._refused = self._refused, []
            return taken

    def _hand_over(self, produced: Produced) -> None:
        self._loop.call_soon_threadsafe(self._sender.put, produced)

    def flush(self, timeout_ms: int) -> None:
        """Return when every queued record is acknowledged. Raises the first failure, and TimedOutError."""
        if not self._wait(lambda: not self._records, timeout_ms):
            raise TimedOutError(f"{self._records} records not acknowledged in {timeout_ms} ms{self._why()}")

    def is_empty(self, otherwise: Callable[[], None]) -> bool:
        """Return whether ``flush`` would not wait. If it would, call ``otherwise`` once when it no longer does."""
        with self._changed:
            if not self._records or self._failure is not None:
                return True
            self._on_empty = otherwise
            return False

    def hurry(self, end_by_s: float) -> None:
        """Bound the waits of ``produce`` and ``flush`` by this time of the monotonic clock. Any thread."""
        with self._changed:
            self._end_by_s = end_by_s
            self._changed.notify_all()

    def delivered(self) -> list[Delivered]:
        """Return where records are that were acknowledged since the last call, in order for each partition."""
        with self._changed:
            return self._runs.take()

    def metadata(self) -> list[RecordMetadata | None]:
        """Return the place of each record that was queued since the last call, in that order."""
        with self._changed:
            return self._places.take()

    def close(self) -> None:
        """Drop the queued records, end the event loop and wait for its thread."""
        if self._thread.is_alive():
            with suppress(RuntimeError):  # the loop was closed meanwhile
                self._loop.call_soon_threadsafe(self._sending.cancel)
            self._thread.join(CLOSE_LIMIT_S)
            if self._thread.is_alive():
                log.warning("a producer's thread continues although it was closed %d s ago", CLOSE_LIMIT_S)

    def _wait(self, fact: Callable[[], bool], limit_ms: int, *, hurried: bool = True) -> bool:
        """Wait for a fact and return whether it came. Raises the first failure.

        ``hurried``: whether the time that ``hurry`` set bounds the wait, too.
        """
        latest_s = time.monotonic() + limit_ms / 1000
        with self._changed:
            while self._failure is None and not fact():
                left_s = (min(latest_s, self._end_by_s) if hurried else latest_s) - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(min(left_s, threading.TIMEOUT_MAX))
            if self._failure is not None:
                raise self._failure
            return True

    def _why(self) -> str:
        return f"; the client's last error: {self._sender.last_error}" if self._sender.last_error else ""

    # -- the loop's thread

    def _run(self) -> None:
        with self._runner:
            try:
                self._runner.run(_outcome(self._sending))
            except asyncio.CancelledError:
                pass  # closed
            except Exception as error:  # noqa: BLE001 - the top of the thread
                self._fail(error)

    def _left_out(self, place: TopicPartition, rows: PartitionRows, refusal: ConnectError) -> None:
        with self._changed:
            self._refused.append(refused_record(rows.columns, refusal, place))
            self._settle(rows)

    def _settle(self, rows: PartitionRows) -> None:
        self._records -= len(rows.sizes)
        self._bytes -= int(rows.sizes.sum())
        self._changed.notify_all()
        if not self._records:
            self._say_empty()

    def _watch_contact(self) -> None:
        """Report every ``CONTACT_EACH_S`` whether the brokers take the records in flight."""
        servers = self._settings.client["bootstrap_servers"]
        with self._changed:
            gets_on, self._gets_on = self._gets_on or not self._records, False
            self._is_watched = self._records > 0 and self._failure is None
        if gets_on:
            cluster_contact.found(servers)
        elif self._sender.last_error:
            cluster_contact.lost(servers, self._sender.last_error)
        if self._is_watched:
            self._loop.call_later(CONTACT_EACH_S, self._watch_contact)

    def _delivered(self, place: TopicPartition, written: BatchPosition, rows: PartitionRows) -> None:
        records = len(rows.sizes)
        with self._changed:
            if self._settings.reports_offsets:
                self._runs.note(place.topic, place.partition, written.offset, records)
            if self._settings.reports_records:
                self._places.note(place, written.offset, rows.columns, rows.now_ms, written.appended_ms)
            self._gets_on = True
            self._settle(rows)

    def _fail(self, error: Exception) -> None:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, ConnectError):
            log.exception("the producer has ended", exc_info=error)
        with self._changed:
            self._failure = error if isinstance(error, ConnectError) else ConnectError(f"producing: {error!r}")
            self._changed.notify_all()
            self._say_empty()

    def _say_empty(self) -> None:
        on_empty, self._on_empty = self._on_empty, None
        if on_empty is not None:
            on_empty()


async def _outcome(task: asyncio.Task[None]) -> None:
    await task


# The inbox holds, in order, the batches that were produced and are not dealt to their partitions yet.
# Dealing has a price for each batch and each partition in it, so small batches that piled up leave together.


JOINED_BYTES = 256 << 10  # above it the price of a batch is small against that of its bytes


@dataclass(frozen=True, slots=True)
class Produced:
    """The batch of one ``produce`` in produce form, and its times."""

    batch: pa.RecordBatch
    now_ms: int
    until_s: float  # of the loop's clock: the latest time of its acknowledgement
    sizes: Numbers | None = None  # ``record_bytes`` of the batch, where they are known


class Inbox:
    """The batches of one producer that wait to be dealt. The event loop's thread."""

    def __init__(self) -> None:
        """Start the inbox without a batch."""
        self._waiting: deque[Produced] = deque()
        self._some = asyncio.Event()

    def put(self, produced: Produced) -> None:
        """Add a batch behind all others."""
        self._waiting.append(produced)
        self._some.set()

    async def take(self) -> Produced:
        """Wait for a batch, and return it joined with the small ones behind it that have the same columns and topic.

        The result has the times of the first batch.
        """
        await self._some.wait()
        first = self._waiting.popleft()
        taken, size = [first.batch], int(first.batch.nbytes)
        while self._waiting and size < JOINED_BYTES:
            following = self._waiting[0].batch
            size += int(following.nbytes)
            if size > JOINED_BYTES or not following.schema.equals(first.batch.schema, check_metadata=True):
                break
            taken.append(self._waiting.popleft().batch)
        if not self._waiting:
            self._some.clear()
        if len(taken) == 1:
            return first
        return replace(first, batch=joined(taken), sizes=None)


# The sender deals rows to partitions, lays them out, sends them and retries. aiokafka owns connections, leaders and
# requests. It drops a batch after request.timeout.ms, and the sender sends it once more.
#
# A partition has at most one batch in flight. The next one is laid out of all rows that came meanwhile, so the order
# within a partition holds.


def refused_record(row: pa.RecordBatch, error: ConnectError, place: TopicPartition | None = None) -> RefusedRecord:
    """Return what is kept of a batch of one row in produce form. ``place``: where it was to go, if that is known."""
    metadata = row.schema.metadata or {}
    values = {name: column[0].as_py() for name, column in zip(row.schema.names, row.columns, strict=True)}
    topic = values.get("topic") or (metadata[TOPIC].decode() if TOPIC in metadata else "")
    partition = values.get("partition", int(metadata[PARTITION]) if PARTITION in metadata else None)
    headers = [(header["key"], header["value"]) for header in values.get("headers") or ()]
    return RefusedRecord.of(
        error,
        (topic, partition) if place is None else (place.topic, place.partition),
        (values.get("key"), values.get("value")),
        headers,
        values.get("timestamp"),
    )


SMALL_BYTES = 64 << 10  # of a lone batch: rows that come while it is in flight are laid out behind it
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)
OnDelivered = Callable[[TopicPartition, BatchPosition, PartitionRows], None]
OnRefused = Callable[[TopicPartition, PartitionRows, DataError], None]
_Ready = tuple[PartitionRows, ReadyBatch]


class ColumnSender:
    """The half of ``ColumnProducer`` on the event loop. Only the constructor may run on another thread."""

    def __init__(
        self, settings: ColumnSettings, on_delivered: OnDelivered, client: ProducerClient | None = None
    ) -> None:
        """Connect nothing yet; ``run`` does.

        Args:
            settings: of ``column_settings``.
            on_delivered: is called with the partition, the position of the first row there, and the rows.
            client: a client that other producers use, too. None makes a separate client.
        """
        self._last_error = ""
        self._client = client or ProducerClient(settings)
        self._is_shared = client is not None
        self._topics = set[str]()
        self._under_way = set[ReadyBatch]()
        self._settings = settings
        self._on_delivered = on_delivered
        self.on_refused: OnRefused | None = None  # takes one record that is left out; None: its refusal is a failure
        self._produced = Inbox()
        self._waiting: dict[TopicPartition, deque[PartitionRows]] = {}
        self._producer: Any = None

    @property
    def last_error(self) -> str:
        """Return the text of the last error that was retried; empty if there was none."""
        return self._last_error or self._client.last_error

    @last_error.setter
    def last_error(self, text: str) -> None:
        self._last_error = text

    def put(self, produced: Produced) -> None:
        """Send these rows behind all before them."""
        self._produced.put(produced)

    async def run(self) -> None:
        """Send until cancelled. Raises ExceptionGroup of the first ConnectError."""
        try:
            self._producer = await self._connected()
            async with asyncio.TaskGroup() as partitions:
                while True:
                    for place in await self._arrived(await self._produced.take()):
                        partitions.create_task(self._send_waiting(place))
        finally:
            if self._is_shared:
                await self._client.leave(self._topics, self._under_way)
            else:
                await self._client.close()

    async def _connected(self) -> Any:
        return await self._client.connected()

    async def _arrived(self, produced: Produced) -> list[TopicPartition]:
        """Deal rows to their partitions, and return the partitions that had no waiting row and no batch in flight."""
        unplaced = {topic: await self._places(topic) for topic in topics_without_partition(produced.batch)}
        idle = []
        for place, columns in rows_by_partition(produced.batch, unplaced):
            if place not in self._waiting:
                self._waiting[place] = deque()
                idle.append(place)
            sizes = produced.sizes
            if sizes is None or columns.num_rows < len(sizes):  # else all of them, in their order
                sizes = record_bytes(columns)
            rows = PartitionRows(columns, sizes, produced.now_ms, produced.until_s)
            self._waiting[place].append(rows)
        return idle

    async def _places(self, topic: str) -> TopicPartitioning:
        """Return the partitions of a topic, and the one for rows without a key: one with a leader, if any has one."""
        partitions = await self._partitions(topic)
        led = self._producer.client.cluster.available_partitions_for_topic(topic)
        return TopicPartitioning(len(partitions), random.choice(sorted(led or partitions)))

    async def _send_waiting(self, place: TopicPartition) -> None:
        """Send a partition's rows until none are left."""
        waiting = self._waiting[place]
        ready: _Ready | None = None
        while waiting or ready:
            rows = None if ready else _taken(waiting, self._settings.batch_bytes)
            if rows is not None and not waiting and self._is_shared and rows.size < SMALL_BYTES:
                await self._send(place, rows, None)
                continue
            under_way = self._laid_out(rows) if rows is not None else ready
            assert under_way is not None
            if not waiting and under_way[1].size() < SMALL_BYTES:
                ready = None
                await self._send(place, *under_way)  # nothing to make meanwhile: without a task and its turns
                continue
            async with asyncio.TaskGroup() as group:
                sending = group.create_task(self._send(place, *under_way))
                await asyncio.wait((sending, under_way[1].requested), return_when=asyncio.FIRST_COMPLETED)
                # The broker has work now: the next batch is made meanwhile, unless more rows may still join it.
                ready = self._full_batch(waiting)
        del self._waiting[place]

    def _full_batch(self, waiting: deque[PartitionRows]) -> _Ready | None:
        limit = self._settings.batch_bytes
        return self._laid_out(_taken(waiting, limit)) if _fill(waiting, limit) else None

    def _laid_out(self, rows: PartitionRows) -> _Ready:
        content = record_batch(rows.columns, rows.now_ms, self._settings.compression)
        return rows, ReadyBatch(content, len(rows.sizes))

    async def _send(self, place: TopicPartition, rows: PartitionRows, batch: ReadyBatch | None) -> None:
        """Send rows until they are acknowledged. Without ``batch``, rows of other producers may share theirs."""
        doing = f"producing to {place}"
        try:
            async with asyncio.timeout_at(rows.until_s):
                written = await self._acknowledged(place, rows, batch)
        except TimeoutError as error:
            limit = f"delivery.timeout.ms={self._settings.delivery_timeout_ms}"
            raise TimedOutError(f"{doing}: no answer in {limit}; last error: {self.last_error or None}") from error
        except (KafkaError, DataError) as error:
            refusal = error if isinstance(error, DataError) else client_error(error, doing)
            await self._without_refused(place, rows, refusal, halved=isinstance(error, _TOO_LARGE))
        else:
            self._on_delivered(place, written, rows)

    async def _without_refused(
        self, place: TopicPartition, rows: PartitionRows, refusal: ConnectError, *, halved: bool
    ) -> None:
        """Send refused rows in halves, until each refused record stands alone, and leave these out.

        Raises the refusal if no record may be left out. ``halved`` sends halves in that case, too, because the limit of
        the topic may be lower than the producer's.
        """
        skips = self.on_refused is not None and isinstance(refusal, DataError)
        count = len(rows.sizes)
        if count > 1 and (halved or skips):
            for half in (rows.slice(0, count // 2), rows.slice(count // 2)):
                await self._send(place, *self._laid_out(half))
        elif skips:
            assert self.on_refused is not None
            assert isinstance(refusal, DataError)
            self.on_refused(place, rows, refusal)
        else:
            raise refusal

    async def _acknowledged(
        self, place: TopicPartition, rows: PartitionRows, batch: ReadyBatch | None
    ) -> BatchPosition:
        """Return the position of the first record. Raises KafkaError if no retry helps, and ConnectError."""
        while True:
            await self._check(place)
            try:
                if batch is None:
                    return await self._client.joint.written(place, rows, self._under_way)
                self._under_way.add(batch)
                written = await self._client.send(place, batch)
                self._under_way.discard(batch)
                return written
            except KafkaError as error:
                if not (is_retriable(error) or isinstance(error, KafkaTimeoutError)):
                    raise
                self.last_error = repr(error)
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)

    async def _check(self, place: TopicPartition) -> None:
        """Raise DataError if the newest metadata has no such partition."""
        if place.partition not in await self._partitions(place.topic):
            await self._refreshed()
            if place.partition not in await self._partitions(place.topic):
                raise connect_error(NamedError(NamedError._UNKNOWN_PARTITION), f"producing to {place}")

    async def _partitions(self, topic: str) -> set[int]:
        """Return the numbers of the topic's partitions. Waits while no broker answers.

        Raises NotFoundError and ConnectError.
        """
        if topic not in self._topics:
            self._topics.add(topic)
            self._client.writes_to(topic)
        while True:
            try:
                partitions: set[int] = await self._producer.partitions_for(topic)
                return partitions
            except KafkaError as error:
                unreachable = isinstance(error, UnknownTopicOrPartitionError) and not await self._refreshed(1)
                if not unreachable:
                    raise gone(client_error(error, f"producing to {topic}")) from error

    async def _refreshed(self, most: int | None = None) -> bool:
        """Request the metadata until a broker answers, at most ``most`` times. Returns whether a broker answered."""
        while not await self._producer.client.force_metadata_update():
            most = None if most is None else most - 1
            if most == 0:
                return False
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
        return True


def _fill(waiting: Iterable[PartitionRows], batch_bytes: int) -> bool:
    """Return whether the rows fill a batch."""
    size = 0
    return any((size := size + rows.size) >= batch_bytes for rows in waiting)


def _taken(waiting: deque[PartitionRows], most_bytes: int) -> PartitionRows:
    """Take rows with the same columns from the front: a batch of them, and at least one row."""
    taken, size = list[PartitionRows](), 0
    while waiting and (not taken or waiting[0].columns.schema.equals(taken[0].columns.schema)):
        first = waiting.popleft()
        fit = int(np.searchsorted(np.cumsum(first.sizes), most_bytes - size, side="right"))
        fit = fit if taken else max(fit, 1)
        if fit < len(first.sizes):
            waiting.appendleft(first.slice(fit))
            taken += [first.slice(0, fit)] if fit else []
            break
        taken.append(first)
        size += first.size
    if len(taken) == 1:
        return taken[0]
    columns, sizes = joined([rows.columns for rows in taken]), np.concatenate([rows.sizes for rows in taken])
    return PartitionRows(columns, sizes, taken[0].now_ms, taken[0].until_s)


# The place of each record, in the order of ``produce``, for tasks with commitRecord. Each row carries its number in an
# additional column, which the layout ignores. Acknowledged rows come back as columns, so nothing is called for each
# record. Not thread-safe: the producer holds its lock.

NUMBER = "connectrt.number"


class RecordOffsets:
    """The offsets of the records of one producer."""

    def __init__(self) -> None:
        """Start without a record, at number 0."""
        self._first = self._next = 0  # numbers that are not taken yet
        self._places: list[RecordMetadata | None] = []

    def numbered(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch in produce form with a column of the next numbers, one for each row."""
        numbers = np.arange(self._next, self._next + batch.num_rows, dtype=np.int64)
        self._next += batch.num_rows
        self._places.extend([None] * batch.num_rows)
        fields = [*batch.schema, pa.field(NUMBER, pa.int64())]
        return pa.RecordBatch.from_arrays(
            [*batch.columns, pa.array(numbers)], schema=pa.schema(fields, batch.schema.metadata)
        )

    def note(
        self, place: TopicPartition, offset: int, rows: pa.RecordBatch, now_ms: int, appended_ms: int | None
    ) -> None:
        """Note the places of records that a partition holds from this offset on.

        Args:
            place: the partition.
            offset: of the first row.
            rows: numbered, as they were laid out.
            now_ms: the timestamp of records without one.
            appended_ms: the broker's timestamp for all of them. None: the topic keeps those of the records.
        """
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        stamps = columns["timestamp"].to_pylist() if "timestamp" in columns else [None] * rows.num_rows
        topic, partition = place.topic, place.partition
        numbers = columns[NUMBER].to_pylist()
        for index, (number, stamp) in enumerate(zip(numbers, stamps, strict=True)):
            own_ms = now_ms if stamp is None else stamp
            metadata = RecordMetadata(topic, partition, offset + index, own_ms if appended_ms is None else appended_ms)
            self._places[number - self._first] = metadata

    def take(self) -> list[RecordMetadata | None]:
        """Return and forget the places of all records since the last call. None: not acknowledged."""
        taken, self._places = self._places, []
        self._first = self._next
        return taken

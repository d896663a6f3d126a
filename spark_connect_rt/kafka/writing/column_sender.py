"""Sends columns as record batches through aiokafka's producer: the half of ``ColumnProducer`` on the event loop.

Owns: rows that wait for their partition, one batch of each partition under way, trying again. aiokafka owns the
connections, the leaders and the requests; it gives a batch up after request.timeout.ms, then it is sent from here once
more. Order within a partition holds: its next batch is laid out when the one before is acknowledged, of all the
rows that came meanwhile.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from aiokafka.errors import (
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    UnknownTopicOrPartitionError,
)
from confluent_kafka import KafkaError as NamedError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, DataError, TimedOutError
from spark_connect_rt.kafka.aiokafka_parts import ReadyBatch
from spark_connect_rt.kafka.error_mapping import connect_error, gone, is_retriable
from spark_connect_rt.kafka.records.partitioning import TopicPartitioning, rows_by_partition, topics_without_partition
from spark_connect_rt.kafka.records.record_batch_columns import record_batch, record_bytes
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings
from spark_connect_rt.kafka.writing.column_values import (
    BatchPosition,
    Inbox,
    PartitionRows,
    Produced,
    client_error,
    joined,
)
from spark_connect_rt.kafka.writing.producer_client import ProducerClient

SMALL_BYTES = 64 << 10  # of a lone batch: what comes while it is under way is laid out behind it
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


OnDelivered = Callable[[TopicPartition, BatchPosition, PartitionRows], None]
OnRefused = Callable[[TopicPartition, PartitionRows, DataError], None]
_Ready = tuple[PartitionRows, ReadyBatch]


class ColumnSender:
    """See the module. Everything but the making on the loop's thread."""

    def __init__(
        self, settings: ColumnSettings, on_delivered: OnDelivered, client: ProducerClient | None = None
    ) -> None:
        """Take what to call with the partition, where the rows begin there, and these rows.

        ``client``: one that others use, too; None: one of its own.
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
        """Return what went wrong last and was tried again."""
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
        """Have rows wait for their partition; return the partitions for which none waited and none is under way."""
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
        """Return where rows of a topic may go; those without a key to a partition with a leader, if any has one."""
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
        """Send rows until they are acknowledged; ``batch`` None: perhaps in one batch with those of others."""
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
        """Send refused rows in halves, until those are left that are refused alone. Raises what fails the delivery.

        ``halved``: also where no record may be left out, as the topic's limit may be less than ours.
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
        """Return where the first record lies. Raises KafkaError: to try again is no use; ConnectError."""
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
        """Raise DataError when there is no such partition, also by the newest metadata."""
        if place.partition not in await self._partitions(place.topic):
            await self._refreshed()
            if place.partition not in await self._partitions(place.topic):
                raise connect_error(NamedError(NamedError._UNKNOWN_PARTITION), f"producing to {place}")

    async def _partitions(self, topic: str) -> set[int]:
        """Return the topic's partitions; waits while no broker answers. Raises NotFoundError, ConnectError."""
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
        """Ask a broker for the metadata until one answers, or so many times."""
        while not await self._producer.client.force_metadata_update():
            most = None if most is None else most - 1
            if most == 0:
                return False
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
        return True


def _fill(waiting: Iterable[PartitionRows], batch_bytes: int) -> bool:
    """Tell whether rows make a batch, or more."""
    size = 0
    return any((size := size + rows.size) >= batch_bytes for rows in waiting)


def _taken(waiting: deque[PartitionRows], most_bytes: int) -> PartitionRows:
    """Take rows with the same columns from the front, a batch of them, at least one."""
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

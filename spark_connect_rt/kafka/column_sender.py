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
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from aiokafka import AIOKafkaProducer
from aiokafka.errors import (
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    RecordListTooLargeError,
    UnknownTopicOrPartitionError,
)
from confluent_kafka import KafkaError as NamedError

from spark_connect_rt.errors import TimedOutError
from spark_connect_rt.kafka.column_requests import ReadyBatch, Requests, client_error, close
from spark_connect_rt.kafka.column_settings import ColumnSettings
from spark_connect_rt.kafka.error_mapping import connect_error
from spark_connect_rt.kafka.record_batch_columns import Numbers, record_batch, record_bytes
from spark_connect_rt.kafka.record_places import by_place, unplaced_topics
from spark_connect_rt.protocol.ids import TopicPartition

RECONNECT_S = 1.0
_TOO_LARGE = (MessageSizeTooLargeError, RecordListTooLargeError)


@dataclass(frozen=True, slots=True)
class Produced:
    """One ``produce``: a batch in produce form, and when."""

    batch: pa.RecordBatch
    now_ms: int
    until_s: float  # of the loop's clock: no later it is acknowledged


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of one partition."""

    columns: pa.RecordBatch
    sizes: Numbers
    now_ms: int
    until_s: float

    def slice(self, first: int, end: int | None = None) -> _Rows:
        columns = self.columns.slice(first, None if end is None else end - first)
        return _Rows(columns, self.sizes[first:end], self.now_ms, self.until_s)


class ColumnSender:
    """See the module. Everything but the making on the loop's thread."""

    def __init__(self, settings: ColumnSettings, on_delivered: Callable[[TopicPartition, int, int, int], None]) -> None:
        """Take what to call with (partition, first offset, records, their size as ``record_bytes`` says)."""
        self.last_error = ""
        self._settings = settings
        self._on_delivered = on_delivered
        self._produced: asyncio.Queue[Produced] = asyncio.Queue()
        self._waiting: dict[TopicPartition, deque[_Rows]] = {}
        self._requests = Requests(settings.request_bytes)
        self._producer: Any = None

    def put(self, produced: Produced) -> None:
        """Send these rows behind all before them."""
        self._produced.put_nowait(produced)

    async def run(self) -> None:
        """Send until cancelled. Raises ExceptionGroup of the first ConnectError."""
        try:
            self._producer = await self._connected()
            async with asyncio.TaskGroup() as partitions:
                while True:
                    for place in await self._arrived(await self._produced.get()):
                        partitions.create_task(self._send_waiting(place))
        finally:
            if self._producer is not None:
                await close(self._producer)

    async def _connected(self) -> Any:
        while True:
            producer = AIOKafkaProducer(**self._settings.client)
            try:
                await producer.start()
            except BaseException as error:
                await close(producer)
                if not isinstance(error, KafkaConnectionError):
                    raise
                self.last_error = repr(error)
                await asyncio.sleep(RECONNECT_S)
            else:
                return producer

    async def _arrived(self, produced: Produced) -> list[TopicPartition]:
        """Have rows wait for their partition; return the partitions for which none waited and none is under way."""
        counts = {topic: len(await self._partitions(topic)) for topic in unplaced_topics(produced.batch)}
        idle = []
        for place, columns in by_place(produced.batch, counts, random.randrange):
            if place not in self._waiting:
                self._waiting[place] = deque()
                idle.append(place)
            rows = _Rows(columns, record_bytes(columns), produced.now_ms, produced.until_s)
            self._waiting[place].append(rows)
        return idle

    async def _send_waiting(self, place: TopicPartition) -> None:
        while self._waiting[place]:
            await self._send(place, _taken(self._waiting[place], self._settings.batch_bytes))
        del self._waiting[place]

    async def _send(self, place: TopicPartition, rows: _Rows) -> None:
        count, doing = len(rows.sizes), f"producing to {place}"
        batch = ReadyBatch(record_batch(rows.columns, rows.now_ms, self._settings.compression), count)
        try:
            async with asyncio.timeout_at(rows.until_s):
                offset = await self._acknowledged(place, batch)
        except TimeoutError as error:
            limit = f"delivery.timeout.ms={self._settings.delivery_timeout_ms}"
            raise TimedOutError(f"{doing}: no answer in {limit}; last error: {self.last_error or None}") from error
        except _TOO_LARGE as error:
            if count == 1:
                raise client_error(error, doing) from error
            for half in (rows.slice(0, count // 2), rows.slice(count // 2)):  # the topic's limit is less than ours
                await self._send(place, half)
        except KafkaError as error:
            raise client_error(error, doing) from error
        else:
            self._on_delivered(place, offset, count, int(rows.sizes.sum()))

    async def _acknowledged(self, place: TopicPartition, batch: ReadyBatch) -> int:
        """Return the offset of the first record. Raises KafkaError: to try again is no use; ConnectError."""
        while True:
            await self._check(place)
            leader = self._producer.client.cluster.leader_for_partition(place)
            try:
                async with self._requests.room(leader, batch.size()):
                    sent = await self._producer.send_batch(batch, place.topic, partition=place.partition)
                    sent.add_done_callback(_heard)  # also when nobody waits for it any more
                    return int((await asyncio.shield(sent)).offset)
            except KafkaError as error:
                if not (error.retriable or isinstance(error, KafkaTimeoutError)):
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
        while True:
            try:
                partitions: set[int] = await self._producer.partitions_for(topic)
                return partitions
            except KafkaError as error:
                unreachable = isinstance(error, UnknownTopicOrPartitionError) and not await self._refreshed(1)
                if not unreachable:
                    raise client_error(error, f"producing to {topic}") from error

    async def _refreshed(self, most: int | None = None) -> bool:
        """Ask a broker for the metadata until one answers, or so many times."""
        while not await self._producer.client.force_metadata_update():
            most = None if most is None else most - 1
            if most == 0:
                return False
            await asyncio.sleep(self._settings.retry_backoff_ms / 1000)
        return True


def _heard(sent: asyncio.Future[Any]) -> None:
    if not sent.cancelled():
        sent.exception()


def _taken(waiting: deque[_Rows], most_bytes: int) -> _Rows:
    """Take rows with the same columns from the front, a batch of them, at least one."""
    first = waiting.popleft()
    fit = max(int(np.searchsorted(np.cumsum(first.sizes), most_bytes, side="right")), 1)
    if fit < len(first.sizes):
        waiting.appendleft(first.slice(fit))
        return first.slice(0, fit)
    taken, size = [first], int(first.sizes.sum())
    while waiting and waiting[0].columns.schema.equals(first.columns.schema):
        size += int(waiting[0].sizes.sum())
        if size > most_bytes:
            break
        taken.append(waiting.popleft())
    if len(taken) == 1:
        return first
    table = pa.Table.from_batches([one.columns for one in taken]).combine_chunks()
    sizes = np.concatenate([one.sizes for one in taken])
    return _Rows(table.to_batches()[0], sizes, first.now_ms, first.until_s)

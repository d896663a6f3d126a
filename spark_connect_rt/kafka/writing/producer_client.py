"""One client of aiokafka for one producer or several: its connections, its metadata, the bound of its requests.

Everything runs on one event loop. The client connects and reconnects, follows the topics that its producers write to,
and takes back the batches of a producer that closes. ``ColumnSender`` lays out and retries batches.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence, Set
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, ProducerClosed

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.kafka.aiokafka_parts import ReadyBatch, sends_no_more, withdraw
from spark_connect_rt.kafka.records.record_batch_columns import record_batch
from spark_connect_rt.kafka.records.varint_columns import Numbers
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows for one partition, the bytes of each, and their times."""

    columns: pa.RecordBatch
    sizes: Numbers
    now_ms: int
    until_s: float

    @property
    def size(self) -> int:
        """Return the most bytes that the rows take in a batch."""
        return int(self.sizes.sum())

    def slice(self, first: int, end: int | None = None) -> PartitionRows:
        """Return the rows from ``first`` to before ``end``."""
        columns = self.columns.slice(first, None if end is None else end - first)
        return PartitionRows(columns, self.sizes[first:end], self.now_ms, self.until_s)


class BatchPosition(NamedTuple):
    """The place of the first record of a batch in its partition."""

    offset: int
    appended_ms: int | None = None  # the broker's timestamp for all records. None: the topic keeps theirs


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of batches with the same columns, at least one row, as one batch."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


# Small batches of several producers for one partition, sent as one record batch: a request costs more than its rows.
#
# A broker takes one batch of a partition in a request, so ten tasks that write a few rows each to one partition are
# ten requests, one after the other. There is one attempt only, and each producer retries by itself (``ColumnSender``).
#
# A producer must not disturb its neighbours. If the broker refuses a joint batch, the parts are sent again alone, each
# with its own outcome, and so are the partition's next batches for a while. Rows of a producer that closes leave with
# it: a joint batch that is not in a request yet is laid out again without them.


SAME_TIME_MS = 100  # rows without a timestamp get the first one's: not when it is older
ALONE_S = 60.0  # after a joint batch was refused
GATHER_S, OFTEN_S = 0.002, 1.5  # where others came so recently more are on their way
Send = Callable[[TopicPartition, ReadyBatch], Coroutine[Any, Any, BatchPosition]]
"""Makes one attempt at a batch. Raises KafkaError."""
Withdraw = Callable[[ReadyBatch], bool]
"""Takes a batch out of what is to be sent; returns False where it is in a request by now, whose outcome comes."""


@dataclass(eq=False, slots=True)
class _Entry:
    """A batch of one producer."""

    rows: PartitionRows
    under_way: set[ReadyBatch]  # batches in flight of its producer
    written: asyncio.Future[BatchPosition] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def given_up(self) -> bool:
        return self.written.done()


class BatchCoalescer:
    """Joins small batches of several producers for one partition. The event loop's thread."""

    def __init__(self, settings: ColumnSettings, send: Send, withdraw: Withdraw) -> None:
        """``settings`` bound and compress a batch, ``send`` sends it, and ``withdraw`` takes it back."""
        self._settings = settings
        self._send = send
        self._withdraw = withdraw
        self._waiting: dict[TopicPartition, deque[_Entry]] = {}
        self._alone_until_s: dict[TopicPartition, float] = {}
        self._met_s: dict[TopicPartition, float] = {}  # when batches of several were there together
        self._tasks: set[asyncio.Task[None]] = set()

    async def written(self, place: TopicPartition, rows: PartitionRows, under_way: set[ReadyBatch]) -> BatchPosition:
        """Send rows, perhaps together with rows of other producers, and return the position of the first.

        ``under_way`` is kept up to date: the batches that hold rows of this producer. Raises KafkaError of the one
        attempt.
        """
        entry = _Entry(rows, under_way)
        if place in self._waiting:
            self._waiting[place].append(entry)
            self._met_s[place] = asyncio.get_running_loop().time()
        else:
            self._waiting[place] = deque([entry])
            task = asyncio.create_task(self._send_waiting(place))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await entry.written

    async def _send_waiting(self, place: TopicPartition) -> None:
        waiting, entries = self._waiting[place], list[_Entry]()
        try:
            if asyncio.get_running_loop().time() - self._met_s.get(place, -OFTEN_S) < OFTEN_S:
                await asyncio.sleep(GATHER_S)
            while waiting:
                entries = self._taken(place, waiting)
                await self._attempt(place, entries)
        finally:
            del self._waiting[place]
            for entry in (*entries, *waiting):  # of an attempt that was cancelled, or that failed by a fault of ours
                if not entry.given_up:
                    entry.written.set_exception(KafkaError("sending has ended"))

    def _taken(self, place: TopicPartition, waiting: deque[_Entry]) -> list[_Entry]:
        """Take what goes together from the front."""
        taken, size = [waiting.popleft()], 0
        first = taken[0].rows
        if asyncio.get_running_loop().time() < self._alone_until_s.get(place, 0.0):
            return taken
        size = first.size
        while waiting and _alike(first, waiting[0].rows):
            size += waiting[0].rows.size
            if size > self._settings.batch_bytes:
                break
            taken.append(waiting.popleft())
        return taken

    async def _attempt(self, place: TopicPartition, entries: Sequence[_Entry]) -> None:
        """Give each entry its outcome."""
        while left := [entry for entry in entries if not entry.given_up]:
            try:
                written = await self._sent(place, left)
            except Exception as error:  # noqa: BLE001 - an error of the layout must not fail a neighbour, either
                if isinstance(error, ProducerClosed) and any(entry.given_up for entry in left):
                    continue  # taken back for the sake of one that closed
                if len(left) > 1 and not _worth_another(error):
                    self._alone_until_s[place] = asyncio.get_running_loop().time() + ALONE_S
                    for entry in left:
                        await self._attempt(place, [entry])
                    return
                _fail(left, error)
            else:
                _settle(left, written)
            return

    async def _sent(self, place: TopicPartition, entries: Sequence[_Entry]) -> BatchPosition:
        rows = entries[0].rows if len(entries) == 1 else _joint([entry.rows for entry in entries])
        batch = ReadyBatch(record_batch(rows.columns, rows.now_ms, self._settings.compression), len(rows.sizes))
        sending = asyncio.create_task(self._send(place, batch))

        def take_back(written: asyncio.Future[BatchPosition]) -> None:
            if written.cancelled() and self._withdraw(batch):
                sending.cancel()

        for entry in entries:
            entry.under_way.add(batch)
            entry.written.add_done_callback(take_back)
        try:
            await asyncio.wait([sending])
        except asyncio.CancelledError:
            sending.cancel()
            raise
        finally:
            for entry in entries:
                entry.under_way.discard(batch)
                entry.written.remove_done_callback(take_back)
        if sending.cancelled():
            raise ProducerClosed
        return sending.result()


def _alike(first: PartitionRows, other: PartitionRows) -> bool:
    return abs(other.now_ms - first.now_ms) <= SAME_TIME_MS and first.columns.schema.equals(
        other.columns.schema, check_metadata=True
    )


def _joint(several: Sequence[PartitionRows]) -> PartitionRows:
    sizes = np.concatenate([rows.sizes for rows in several])
    return replace(several[0], columns=joined([rows.columns for rows in several]), sizes=sizes)


def _worth_another(error: Exception) -> bool:
    return isinstance(error, KafkaTimeoutError) or bool(getattr(error, "retriable", False))


def _settle(entries: Sequence[_Entry], written: BatchPosition) -> None:
    offset = written.offset
    for entry in entries:
        if not entry.given_up:
            entry.written.set_result(written._replace(offset=offset))
        offset += len(entry.rows.sizes) if written.offset >= 0 else 0


def _fail(entries: Sequence[_Entry], error: Exception) -> None:
    for entry in entries:
        if not entry.given_up:
            entry.written.set_exception(error)


RECONNECT_S = 1.0
LAST_WAIT_S = 1.0  # for batches in flight when the producer is closed


class ProducerClient:
    """Connects for the first producer. Only the constructor and ``users`` may be used outside of the loop's thread."""

    def __init__(self, settings: ColumnSettings) -> None:
        """``settings`` are those of ``column_settings``. It does not connect yet."""
        self.last_error = ""
        self.joint = BatchCoalescer(settings, self.send, self.withdrawn)
        self._requests = Requests(settings.request_bytes)
        self.users = 0  # producers that share it; under the lock of ``SharedClients``
        self._settings = settings
        self._producer: Any = None
        self._connecting: asyncio.Task[Any] | None = None
        self._closing = False
        self._topics: Counter[str] = Counter()

    @property
    def broken(self) -> bool:
        """Return whether aiokafka's sender has ended, so that it sends nothing any more. Any thread."""
        return self._producer is not None and sends_no_more(self._producer)

    async def connected(self) -> Any:
        """Return aiokafka's producer. Waits while no broker answers."""
        if self._producer is None:
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.create_task(self._connect())
            self._producer = await asyncio.shield(self._connecting)  # others may wait for it, too
        return self._producer

    async def _connect(self) -> Any:
        # aiokafka's close() suppresses a cancellation that arrives while it waits, so the loop has to look by itself.
        while not self._closing:
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
        raise asyncio.CancelledError

    async def send(self, place: TopicPartition, batch: ReadyBatch) -> BatchPosition:
        """Make one attempt at a batch, and return the position of its first record. Raises KafkaError."""
        leader = self._producer.client.cluster.leader_for_partition(place)
        async with self._requests.room(leader, batch.size()):
            sent = await self._producer.send_batch(batch, place.topic, partition=place.partition)
            sent.add_done_callback(_retrieve_outcome)  # also if nothing waits for it any more
            done = await asyncio.shield(sent)
            return BatchPosition(int(done.offset), None if done.timestamp in (None, -1) else int(done.timestamp))

    def withdrawn(self, batch: ReadyBatch) -> bool:
        """Take a batch back. Returns False if it is already in a request, which is the last one then."""
        return not withdraw(self._producer, {batch})

    def writes_to(self, topic: str) -> None:
        """Note that one more producer writes to a topic."""
        self._topics[topic] += 1

    async def leave(self, topics: Set[str], batches: Set[ReadyBatch]) -> None:
        """Take back the batches of a producer that closes, and the topics that no other producer writes to."""
        self._topics -= Counter(topics)
        if self._producer is None:
            return
        if under_way := withdraw(self._producer, batches):
            await asyncio.wait(under_way, timeout=LAST_WAIT_S)
            withdraw(self._producer, batches)  # those that went back to be sent once more
        if self._topics:
            self._producer.client.set_topics(list(self._topics))

    async def close(self) -> None:
        """Close it, and drop the batches in flight."""
        self._closing = True
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        connecting = self._connecting
        if connecting is not None and not connecting.cancelled() and connecting.exception() is None:
            self._producer = connecting.result()  # also if nothing waits for it any more
        if self._producer is not None:
            await close(self._producer)


def _retrieve_outcome(sent: asyncio.Future[Any]) -> None:
    if not sent.cancelled():
        sent.exception()


class Requests:
    """Keeps a broker's batches in flight below max.request.size, because aiokafka sends all of them in one request."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._under_way: Counter[Any] = Counter()
        self._turns: defaultdict[Any, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def room(self, leader: Any, size: int) -> AsyncIterator[None]:
        """Wait until a batch of this size may be sent to its leader, and hold the room. First come, first served."""
        async with self._turns[leader]:  # else small batches could hold a large batch back without end
            while self._under_way[leader] and self._under_way[leader] + size > self._limit_bytes:
                self._changed.clear()
                await self._changed.wait()
            self._under_way[leader] += size
        try:
            yield
        finally:
            self._under_way[leader] -= size
            self._changed.set()


async def close(producer: Any) -> None:
    """Close a producer, and drop its batches in flight."""
    with suppress(TimeoutError):
        await asyncio.wait_for(producer.stop(), LAST_WAIT_S)
    await producer.client.close()

"""One client of aiokafka's for one producer or several: its connections, its metadata, the bound of its requests.

On one event loop. Owns: connecting and its retries, which topics are asked about, taking back what a producer that
closes has left in it. Must not: lay out or retry batches (``ColumnSender``).
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
from confluent_kafka import KafkaError as NamedError

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.aiokafka_parts import ReadyBatch, sends_no_more, withdraw
from spark_connect_rt.kafka.error_mapping import connect_error, is_retriable
from spark_connect_rt.kafka.records.record_batch_columns import record_batch
from spark_connect_rt.kafka.records.varint_columns import Numbers
from spark_connect_rt.kafka.writing.column_settings import ColumnSettings


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """Rows of one partition."""

    columns: pa.RecordBatch
    sizes: Numbers
    now_ms: int
    until_s: float

    @property
    def size(self) -> int:
        """Return how many bytes they take in a batch at most."""
        return int(self.sizes.sum())

    def slice(self, first: int, end: int | None = None) -> PartitionRows:
        """Return those from ``first`` to before ``end``."""
        columns = self.columns.slice(first, None if end is None else end - first)
        return PartitionRows(columns, self.sizes[first:end], self.now_ms, self.until_s)


class BatchPosition(NamedTuple):
    """Where the first record of a batch lies."""

    offset: int
    appended_ms: int | None = None  # the broker's timestamp for all of them; None: their own are kept


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of batches with the same columns, at least one row, as one batch."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


# Small batches of several producers for one partition, sent as one record batch: a request costs more than its rows.
#
# A broker takes one batch of a partition in a request, so ten tasks that write a few rows each to one partition are
# ten requests, one after the other. Owns: what waits for a partition, which rows go together, whose outcome is whose.
# One attempt only: who waits tries again by itself (``ColumnSender``). On the event loop.
#
# What one producer does must not be felt by its neighbours. A joint batch that the broker refuses is sent again as the
# batches it was made of, each with its own outcome; the partition's batches then go alone for a while. Rows of a
# producer that closes leave with it: a joint batch that is not in a request yet is laid out again without them.


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
    under_way: set[ReadyBatch]  # of its producer
    written: asyncio.Future[BatchPosition] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    @property
    def given_up(self) -> bool:
        return self.written.done()


class BatchCoalescer:
    """See the module."""

    def __init__(self, settings: ColumnSettings, send: Send, withdraw: Withdraw) -> None:
        """Take the bound of a batch and its compression, what sends one, and what takes it back."""
        self._settings = settings
        self._send = send
        self._withdraw = withdraw
        self._waiting: dict[TopicPartition, deque[_Entry]] = {}
        self._alone_until_s: dict[TopicPartition, float] = {}
        self._met_s: dict[TopicPartition, float] = {}  # when batches of several were there together
        self._tasks: set[asyncio.Task[None]] = set()

    async def written(self, place: TopicPartition, rows: PartitionRows, under_way: set[ReadyBatch]) -> BatchPosition:
        """Send rows, perhaps with those of others; return where they begin.

        ``under_way``: the batches that hold rows of this producer, kept up to date. Raises KafkaError: of one attempt.
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
            for entry in (*entries, *waiting):  # of an attempt that was cut off, or failed by a fault of ours
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
            except Exception as error:  # noqa: BLE001 - what cannot be laid out, too, fails no neighbour
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
LAST_WAIT_S = 1.0  # for batches under way when the producer is closed


class ProducerClient:
    """Connects when the first producer asks. Everything but the making and ``users`` on the loop's thread."""

    def __init__(self, settings: ColumnSettings) -> None:
        """Take what ``column_settings`` returned."""
        self.last_error = ""
        self.joint = BatchCoalescer(settings, self.send, self.withdrawn)
        self._requests = Requests(settings.request_bytes)
        self.users = 0  # producers that share it; under the lock of ``SharedClients``
        self._settings = settings
        self._producer: Any = None
        self._connecting: asyncio.Task[Any] | None = None
        self._topics: Counter[str] = Counter()

    @property
    def broken(self) -> bool:
        """Tell whether nothing is sent by it any more. Any thread."""
        return self._producer is not None and sends_no_more(self._producer)

    async def connected(self) -> Any:
        """Return aiokafka's producer; waits while no broker answers."""
        if self._producer is None:
            if self._connecting is None or self._connecting.done():
                self._connecting = asyncio.create_task(self._connect())
            self._producer = await asyncio.shield(self._connecting)  # others may wait for it, too
        return self._producer

    async def _connect(self) -> Any:
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

    async def send(self, place: TopicPartition, batch: ReadyBatch) -> BatchPosition:
        """Make one attempt at a batch; return where its first record lies. Raises KafkaError."""
        leader = self._producer.client.cluster.leader_for_partition(place)
        async with self._requests.room(leader, batch.size()):
            sent = await self._producer.send_batch(batch, place.topic, partition=place.partition)
            sent.add_done_callback(_retrieve_outcome)  # also when no one waits for it any more
            done = await asyncio.shield(sent)
            return BatchPosition(int(done.offset), None if done.timestamp in (None, -1) else int(done.timestamp))

    def withdrawn(self, batch: ReadyBatch) -> bool:
        """Take a batch back; return False where it is in a request by now: that one is the last."""
        return not withdraw(self._producer, {batch})

    def writes_to(self, topic: str) -> None:
        """Take note that one more producer writes to a topic."""
        self._topics[topic] += 1

    async def leave(self, topics: Set[str], batches: Set[ReadyBatch]) -> None:
        """Take back what a producer has left: batches that no one waits for, topics that no other writes to."""
        self._topics -= Counter(topics)
        if self._producer is None:
            return
        if under_way := withdraw(self._producer, batches):
            await asyncio.wait(under_way, timeout=LAST_WAIT_S)
            withdraw(self._producer, batches)  # those that went back to be sent once more
        if self._topics:
            self._producer.client.set_topics(list(self._topics))

    async def close(self) -> None:
        """Close it, and give up what is under way."""
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        if self._producer is not None:
            await close(self._producer)


def _retrieve_outcome(sent: asyncio.Future[Any]) -> None:
    if not sent.cancelled():
        sent.exception()


class Requests:
    """Keeps a broker's share of what is under way below max.request.size: aiokafka sends all of it in one request."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._under_way: Counter[Any] = Counter()
        self._turns: defaultdict[Any, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def room(self, leader: Any, size: int) -> AsyncIterator[None]:
        """Wait until a batch of this size may be sent to its leader, and hold the room. First come, first served."""
        async with self._turns[leader]:  # else small ones would keep a large one out for ever
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
    """Close a producer, and give up what is under way."""
    with suppress(TimeoutError):
        await asyncio.wait_for(producer.stop(), LAST_WAIT_S)
    await producer.client.close()


def client_error(error: KafkaError, doing: str) -> ConnectError:
    """Return the ConnectError for an error of aiokafka; ``doing`` begins its message."""
    code = getattr(error, "errno", None)
    if code is not None and code > 0:
        return connect_error(NamedError(code), doing)
    kind = RetriableError if is_retriable(error) else ConnectError
    return kind(f"{doing}: {error!r}")

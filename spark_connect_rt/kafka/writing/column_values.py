"""What is sent to one partition, and where it lies then. Values."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pyarrow as pa
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaError as NamedError

from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.error_mapping import connect_error, is_retriable
from spark_connect_rt.kafka.records.varint_columns import Numbers


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


# What ``ColumnSender`` and aiokafka's producer need between them: the request's bound, the errors.


LAST_WAIT_S = 1.0  # for batches under way when the producer is closed


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


def client_error(error: KafkaError, doing: str) -> ConnectError:
    """Return the ConnectError for an error of aiokafka; ``doing`` begins its message."""
    code = getattr(error, "errno", None)
    if code is not None and code > 0:
        return connect_error(NamedError(code), doing)
    kind = RetriableError if is_retriable(error) else ConnectError
    return kind(f"{doing}: {error!r}")


async def close(producer: Any) -> None:
    """Close a producer, and give up what is under way."""
    with suppress(TimeoutError):
        await asyncio.wait_for(producer.stop(), LAST_WAIT_S)
    await producer.client.close()


# Batches that were produced and are not dealt to their partitions yet, in order. On the event loop.
#
# Dealing costs something for each batch and each partition in it, so small batches that piled up leave as one.


JOINED_BYTES = 256 << 10  # above it a batch costs little beside its bytes


@dataclass(frozen=True, slots=True)
class Produced:
    """One ``produce``: a batch in produce form, and when."""

    batch: pa.RecordBatch
    now_ms: int
    until_s: float  # of the loop's clock: no later it is acknowledged
    sizes: Numbers | None = None  # ``record_bytes`` of the batch, where they are known


class Inbox:
    """See the module."""

    def __init__(self) -> None:
        """Start empty."""
        self._waiting: deque[Produced] = deque()
        self._some = asyncio.Event()

    def put(self, produced: Produced) -> None:
        """Add one behind all others."""
        self._waiting.append(produced)
        self._some.set()

    async def take(self) -> Produced:
        """Return the first, with small ones behind it that are alike: the time is the first one's. Waits for one."""
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


def joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return the rows of batches with the same columns, at least one row, as one batch."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]

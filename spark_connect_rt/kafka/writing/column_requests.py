"""What ``ColumnSender`` and aiokafka's producer need between them: the request's bound, the errors."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiokafka.errors import KafkaError
from confluent_kafka import KafkaError as NamedError

from spark_connect_rt.errors import ConnectError, RetriableError
from spark_connect_rt.kafka.error_mapping import connect_error, is_retriable

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

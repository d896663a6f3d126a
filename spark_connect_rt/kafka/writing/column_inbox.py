"""Batches that were produced and are not dealt to their partitions yet, in order. On the event loop.

Dealing costs something for each batch and each partition in it, so small batches that piled up leave as one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from spark_connect_rt.kafka.records.varint_columns import Numbers

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

"""The time of records whose source knows none: when ``poll`` returned them, as Java's FileStreamSource does it.

Without a time TimestampRouter fails and InsertField's ``timestamp.field`` is null.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from spark_connect_rt.api.records import SourceBatch, SourceRecord

T = TypeVar("T")
Poll = Callable[[T], Sequence[Any] | None]


def wall_ms() -> int:
    """Return milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def timed(poll: Poll[T]) -> Poll[T]:
    """Decorate a task's ``poll``: records and batches that it returns without a time get the time of the call's end.

    They are other objects then. A task that names its records by identity (``TransactionContext.commit_transaction``)
    calls ``with_time`` before it does so, instead.
    """

    @wraps(poll)
    def timed_poll(task: T) -> Sequence[Any] | None:
        polled = poll(task)
        if not polled:
            return polled
        now_ms = wall_ms()
        return [with_time(piece, now_ms) for piece in polled]

    return timed_poll


def with_time(piece: Any, now_ms: int) -> Any:
    """Return a record or batch with this time, in ms since the epoch, unless it already has one."""
    if isinstance(piece, SourceRecord):
        return replace(piece, timestamp_ms=now_ms) if piece.timestamp_ms is None else piece
    if isinstance(piece, SourceBatch) and piece.timestamps_ms is None:
        times = np.full(len(piece.values), now_ms, np.int64)  # a fifth of the price of pa.repeat
        return replace(piece, timestamps_ms=pa.array(times))
    return piece

"""Small batches of several tasks as one super-row: each row costs two Python processes and the JVM some 2 ms.

Owns what is small, when it is worth waiting a moment for more of it, and the layout of a pack. A pack is its rows in
order, no less: its reader sees them as if each had come alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence

import orjson
import pyarrow as pa

from spark_connect_rt.engine.executor.frames import Row, RowKind

SMALL_BYTES = 16 * 1024
PACK_ROWS = 64
GATHER_S = 0.005
OFTEN_ROWS, OFTEN_S = 8, 1.0


def is_small(row: Row) -> bool:
    """Tell whether a row may be packed."""
    return row.kind is RowKind.BATCH and row.size_bytes() < SMALL_BYTES


def packed(rows: Sequence[Row]) -> Row:
    """Return small rows as one row, a lone one as it is."""
    if len(rows) == 1:
        return rows[0]
    parts = [b"" if row.data is None else row.data for row in rows]
    head = [(row.host, row.head.decode(), len(part)) for row, part in zip(rows, parts, strict=True)]
    return Row(0, RowKind.PACK, orjson.dumps(head), pa.py_buffer(b"".join(map(memoryview, parts))))


def unpacked(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows, packs as what was packed; only the last row of a pack may be ``last``."""
    for row in rows:
        if row.kind is RowKind.PACK:
            yield from _rows_of(row)
        else:
            yield row


def _rows_of(pack: Row) -> Iterator[Row]:
    at, heads = 0, orjson.loads(pack.head)
    for number, (host, head, size) in enumerate(heads, 1):
        # A copy: a slice would keep the whole pack in memory for as long as one slow lane has not taken its row.
        data = pa.py_buffer(pack.data[at : at + size].to_pybytes()) if pack.data is not None and size else None
        yield Row(host, RowKind.BATCH, head.encode(), data, pack.last and number == len(heads))
        at += size


class Gathering:
    """Whether small rows come so often that more are likely within a moment; a lone one is not held back."""

    def __init__(self) -> None:
        """Begin with none seen."""
        self._seen_s: deque[float] = deque(maxlen=OFTEN_ROWS)

    def seen(self, now_s: float) -> bool:
        """Take note of a small row; return whether those of the last second were many."""
        self._seen_s.append(now_s)
        return len(self._seen_s) == OFTEN_ROWS and now_s - self._seen_s[0] < OFTEN_S

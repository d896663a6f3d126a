"""Super-rows: the only thing that crosses from a slot's reader process through the JVM to its writer process.

Owns the row schema and the payload of data rows. A row is (host, kind, head, data): ``host`` names one hosting of
one run (the driver hands the numbers out), ``head`` is small JSON, ``data`` an Arrow IPC stream. Life-cycle news
travels in the same stream as the data, so "failed", "paused" and "released" can only come after what was read
before them (E1: in-band order is the proof that a report's data came first).
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, Protocol

import orjson
import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.errors import ShuttingDownError
from spark_connect_rt.kafka.executor_clients import DeliveryReports
from spark_connect_rt.records.pipeline.columns import content_bytes, without_views

ROW_SCHEMA = pa.schema([("host", pa.int64()), ("kind", pa.int32()), ("head", pa.binary()), ("data", pa.binary())])
EXACT = b"exact"
_LAST = 100  # added to the kind of a row behind which the reader had nothing queued


class RowKind(IntEnum):
    """The meaning of a row for its host."""

    MARKER = 0  # pushes the row before it through the JVM; also the reader's heartbeat (host is 0)
    LAUNCH = 1  # head: the launch; the writer opens a task writer
    BATCH = 2  # head: offsets and counts; data: records
    RUNNING = 3  # the source task started or resumed; sinks: resumed
    PAUSED = 4
    FAILED = 5  # head: the trace
    ENDED = 6  # nothing more comes from this host
    ASSIGNED = 7  # sinks: head: partitions to open
    REVOKED = 8  # sinks: head: partitions to flush and close
    CLAIM = 9  # exactly-once sources: fence earlier producers, report "claimed"; head: its DeliveryReports' number
    COMMIT = 10  # exactly-once sources: a transaction may end here; head EXACT: it must
    ABORT = 11  # exactly-once sources: drop the records since the last end, keep their offsets
    GENERATION = 13  # sinks: head: the generation that the task's group member is in
    PACK = 12  # small BATCH rows of any hosts, see row_packs
    LOST = 14  # the process that hosts the source task is gone; head: why
    TOTALS = 15  # the last row: totals that fused hosts reported durable; head: [host, records, batches] of each


@dataclass(frozen=True, slots=True)
class Row:
    """One super-row in its decoded form.

    Within a process, it may have its records as a `batch` of `batch_bytes`, and no `data`.
    """

    host: int
    kind: RowKind
    head: bytes = b""
    data: pa.Buffer | None = None
    last: bool = False  # the reader had nothing more queued: time to flush
    batch: pa.RecordBatch | None = None
    batch_bytes: int = 0  # counted once: it takes some microseconds

    @staticmethod
    def of_batch(host: int, head: bytes, batch: pa.RecordBatch) -> Row:
        """Return a BATCH row for this process."""
        return Row(host, RowKind.BATCH, head, batch=batch, batch_bytes=content_bytes(batch))

    def size_bytes(self) -> int:
        """Return what the row weighs in a queue."""
        return len(self.head) + self.data_bytes()

    def data_bytes(self) -> int:
        """Return the size of its data or batch."""
        return self.batch_bytes if self.data is None else int(self.data.size)

    def has_records(self) -> bool:
        """Return whether it has data or a batch."""
        return self.data is not None or self.batch is not None

    def records(self) -> pa.RecordBatch | None:
        """Return the records of a BATCH row, None: it has none."""
        return decode_records(self.data) if self.batch is None and self.data is not None else self.batch

    def for_another_process(self) -> Row:
        """Return the row with its records as `data`."""
        return (
            self
            if self.batch is None
            else replace(self, data=encode_records(without_views(self.batch)), batch=None, batch_bytes=0)
        )


# The JVM hands a row on when it has read the next one whole. The last bytes written stay in the reader's 64-byte
# buffer unless the last write is larger. So each run-out is followed by a marker that ends in 128 bytes.
MARKER_ROW = Row(0, RowKind.MARKER, data=pa.py_buffer(b" " * 128), last=True)


@dataclass(frozen=True, slots=True)
class BatchHead:
    """The head of a BATCH row."""

    records: int
    source_offsets: tuple[tuple[Any, Any], ...] = ()  # (partition, offset)
    skipped: int = 0
    topics: tuple[str, ...] = ()
    delivery_reports: DeliveryReports = DeliveryReports.NOTHING  # the reports that the task wants
    written: int | None = None  # bytes of records that the task has written itself

    def encode(self) -> bytes:
        """Return the JSON of this head."""
        fields = [self.records, self.source_offsets, self.skipped, self.topics, self.delivery_reports, self.written]
        return orjson.dumps(fields, option=orjson.OPT_NON_STR_KEYS)

    @staticmethod
    def decode(head: bytes) -> BatchHead:
        """Return the value of ``encode``'s bytes."""
        records, offsets, skipped, topics, delivery_reports, written = orjson.loads(head)
        places = tuple((p, o) for p, o in offsets)
        return BatchHead(records, places, skipped, tuple(topics), DeliveryReports(delivery_reports), written)


def encode_records(batch: pa.RecordBatch) -> pa.Buffer:
    """Return ``batch`` as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def decode_records(data: pa.Buffer) -> pa.RecordBatch:
    """Return the batch of ``encode_records``; shares memory with ``data``."""
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()


def _binary_cell(content: bytes | pa.Buffer | None) -> pa.Array:
    """Return a one-element binary array over ``content`` without copying it."""
    buffer = content if isinstance(content, pa.Buffer) else pa.py_buffer(content or b"")
    offsets = pa.py_buffer(struct.pack("<ii", 0, buffer.size))
    return pa.Array.from_buffers(pa.binary(), 1, [None, offsets, buffer])


def to_arrow(row: Row) -> pa.RecordBatch:
    """Return the one-row batch that the DataSource reader yields."""
    columns = [
        pa.array([row.host], pa.int64()),
        pa.array([int(row.kind) + (_LAST if row.last else 0)], pa.int32()),
        _binary_cell(row.head),
        _binary_cell(row.data),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=ROW_SCHEMA)


def from_arrow(batch: pa.RecordBatch) -> Iterator[Row]:
    """Yield the rows of a batch that the DataSource writer was given."""
    hosts, kinds, heads, datas = batch.columns
    for index in range(batch.num_rows):
        last, kind = divmod(kinds[index].as_py(), _LAST)
        head, data = heads[index].as_py() or b"", datas[index].as_buffer()
        some = data if data is not None and data.size else None
        yield Row(hosts[index].as_py(), RowKind(kind), head, some, bool(last))


def encode_partitions(partitions: Sequence[tuple[str, int] | tuple[str, int, int]]) -> bytes:
    """Return the head of ASSIGNED and REVOKED rows: topic, partition and, if ASSIGNED knows it, the first offset."""
    return orjson.dumps(partitions)


def decode_partitions(head: bytes) -> frozenset[TopicPartition]:
    """Return the partitions of ``encode_partitions``'s bytes."""
    return frozenset(TopicPartition(topic, partition) for topic, partition, *_ in orjson.loads(head))


def decode_starts(head: bytes) -> dict[TopicPartition, int]:
    """Return the first offsets of ``encode_partitions``'s bytes, where they are known."""
    places = orjson.loads(head)
    return {TopicPartition(topic, number): at for topic, number, *rest in places for at in rest if at >= 0}


# Small batches of several tasks as one super-row: each row costs two Python processes and the JVM some 2 ms.
#
# Owns what is small, when it is worth waiting a moment for more of it, and the layout of a pack. A pack is its rows in
# order, no less: its reader sees them as if each had come alone.


SMALL_BYTES = 16 * 1024
PACK_ROWS = 64
GATHER_S = 0.005
OFTEN_ROWS, OFTEN_S = 8, 1.0


def is_small(row: Row) -> bool:
    """Return whether a row may be packed."""
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
        # A copy: a slice would keep the whole pack in memory for as long as one slow task writer has not taken its row.
        data = pa.py_buffer(pack.data[at : at + size].to_pybytes()) if pack.data is not None and size else None
        yield Row(host, RowKind.BATCH, head.encode(), data, pack.last and number == len(heads))
        at += size


class Gathering:
    """Whether small rows come so often that more are likely within a moment; a lone one is not held back."""

    def __init__(self) -> None:
        """Start without any row seen."""
        self._seen_s: deque[float] = deque(maxlen=OFTEN_ROWS)

    def seen(self, now_s: float) -> bool:
        """Take note of a small row; return whether those of the last second were many."""
        self._seen_s.append(now_s)
        return len(self._seen_s) == OFTEN_ROWS and now_s - self._seen_s[0] < OFTEN_S


# The queue between a slot's task threads and the one generator that Spark reads.
#
# Owns back-pressure: each host may have ``limit_bytes`` queued, so a busy task waits for Spark while its quiet
# neighbours' rows still get in. Rows leave in the order they came.


class Rows(Protocol):
    """Where a host's rows go."""

    def put(self, row: Row) -> None:
        """Hand a row on, maybe after a wait. Raises ShuttingDownError once the slice is over."""

    def serve_at_once(self, host: int, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """Have a batch served on this thread, as it is; False: it is to be ``put`` as a row."""


class RowQueue:
    """First in, first out; bounded by bytes per host."""

    def __init__(self, limit_bytes: int = 4 * 1024 * 1024) -> None:
        self._limit_bytes = limit_bytes
        self._rows: deque[Row] = deque()
        self._queued_bytes: dict[int, int] = {}
        self._closed = False
        self.taken = 0  # rows that left
        self._lock = threading.Lock()
        self._not_empty = threading.Condition(self._lock)
        self._not_full = threading.Condition(self._lock)

    def put(self, row: Row) -> None:
        """Queue a row; waits while its host has too much queued. Raises ShuttingDownError once closed."""
        row = row.for_another_process()
        size = row.size_bytes()
        with self._lock:
            while not self._closed and row.data is not None and self._is_full(row.host):
                self._not_full.wait()
            if self._closed:
                raise ShuttingDownError("the slice is over, so rows are discarded")
            self._queued_bytes[row.host] = self._queued_bytes.get(row.host, 0) + size
            self._rows.append(row)
            self._not_empty.notify()

    def serve_at_once(self, host: int, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """Refuse: it is served in another process."""
        return False

    def _is_full(self, host: int) -> bool:
        return self._queued_bytes.get(host, 0) >= self._limit_bytes

    def get(self, timeout_s: float) -> Row | None:
        """Return the next row, or None when none came in time or the queue is closed and empty."""
        with self._lock:
            if not self._rows and not self._closed:
                self._not_empty.wait(timeout_s)
            return self._take() if self._rows else None

    def take_while(self, wanted: Callable[[Row], bool], most: int) -> list[Row]:
        """Return up to so many rows from the front, as far as they are wanted; does not wait."""
        taken = list[Row]()
        with self._lock:
            while self._rows and len(taken) < most and wanted(self._rows[0]):
                taken.append(self._take())
        return taken

    def _take(self) -> Row:
        row = self._rows.popleft()
        self.taken += 1
        left = self._queued_bytes.pop(row.host, 0) - row.size_bytes()
        if left > 0:
            self._queued_bytes[row.host] = left
        if row.data is not None:
            self._not_full.notify_all()
        return row

    def empty(self) -> bool:
        """Return whether nothing is queued right now."""
        return not self._rows

    def wake(self) -> None:
        """Make a waiting ``get`` return now."""
        with self._lock:
            self._not_empty.notify_all()

    def close(self) -> None:
        """Refuse further rows; waiting putters get ShuttingDownError."""
        with self._lock:
            self._closed = True
            self._not_empty.notify_all()
            self._not_full.notify_all()

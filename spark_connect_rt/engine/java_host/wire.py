"""Frames between Python and a Java host: ``int32 length | byte kind | int32 host | int32 head length | head | data``.

Little endian; ``length`` counts what follows it. The head is JSON, the data raw column buffers. Pure, but for the one
function that reads a socket.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson
import pyarrow as pa

from spark_connect_rt.records.pipeline.columns import HEADERS_TYPE, PARTITION, PRODUCE_FIELDS, TOPIC

_PREFIX = struct.Struct("<icii")
_LENGTH_BYTES = 4
FRAME_BYTES_MAX = 1 << 30


class ToJava(Enum):
    """Kinds of frames from Python to the JVM; ``host`` 0 is the JVM itself, others are tasks."""

    HELLO = b"H"  # worker settings, logger levels
    START = b"S"  # a task
    STOP = b"X"  # sources end in two steps: {"last": false} ends the polls only
    GO = b"N"  # source: no earlier producer of the task writes any more, it may start
    ROOM = b"C"  # source: so many more polls may be sent; 0: none, which is answered by IDLE
    DURABLE = b"A"  # source: so many batches are durable, and where their records lie
    OFFSETS = b"O"  # source: answer to OFFSETS
    CONFIG = b"F"  # answer to CONFIG
    PUT = b"P"
    PUT_AGAIN = b"G"
    OPEN = b"U"
    SAFE = b"V"  # sink: preCommit
    CLOSE = b"Y"
    HURRY = b"I"  # sink: something must not wait for a record that is tried again; true: the end of the task
    LETTERS = b"R"  # sink: dead letters are durable, or will never be
    MEMBER = b"M"  # sink: its group member has joined a generation
    QUESTION = b"Q"  # about a connector
    LEVELS = b"L"
    STACKS = b"K"
    STAGE = b"T"  # a transformation, converter or config provider of a Python connector


class FromJava(Enum):
    """Kinds of frames from the JVM to Python."""

    READY = b"H"
    STARTED = b"S"
    BATCH = b"B"
    OFFSETS = b"O"
    CONFIG = b"C"  # the task asks what its configuration is now
    DONE = b"D"  # sink: a call has returned, or raised
    ERRANT = b"Z"  # a record that was given up, for the log and the dead letter queue
    MADE = b"M"  # source: it waits for GO
    IDLE = b"I"  # source: no poll is in progress
    RETRIED = b"R"  # source: a poll has failed, and is tried again
    QUIET = b"Y"  # source: a poll has brought nothing, once after each batch with offsets
    FAILED = b"F"
    ENDED = b"E"
    ANSWER = b"Q"
    STAGE = b"T"  # its answer
    HEARTBEAT = b"U"  # once a second: memory, the call a task is in, what its MBeans say
    NEWS = b"N"  # of a connector: reconfigure, failed
    LINE = b"L"  # of the log
    STACKS = b"K"
    LAST_WORDS = b"W"  # a plug-in called System.exit: its thread and stack


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it was read; ``data`` is a view of its bytes."""

    kind: FromJava
    host: int
    head: Any
    data: memoryview


class WireError(Exception):
    """The bytes are not a valid frame: the two sides are of different versions, or something else wrote."""


def encode_frame(kind: ToJava, host: int, head: Any = None, data_bytes: int = 0) -> bytes:
    """Return all of a frame but its data, of which ``data_bytes`` follow. Raises ValueError: too large."""
    body = b"" if head is None else orjson.dumps(head)
    length = _PREFIX.size - _LENGTH_BYTES + len(body) + data_bytes
    if length > FRAME_BYTES_MAX:
        raise ValueError(f"a frame of {length} bytes is too large for a Java host (at most {FRAME_BYTES_MAX})")
    return _PREFIX.pack(length, kind.value, host, len(body)) + body


def read_frame(connection: socket.socket) -> Frame | None:
    """Return the next frame, None when the JVM is gone. Raises WireError, OSError."""
    prefix = _read(connection, _PREFIX.size)
    if prefix is None:
        return None
    length, kind, host, head_bytes = _PREFIX.unpack(prefix)
    rest_bytes = length - (_PREFIX.size - _LENGTH_BYTES)
    if not 0 <= head_bytes <= rest_bytes <= FRAME_BYTES_MAX:
        raise WireError(f"a frame of {length} bytes with a head of {head_bytes}")
    rest = _read(connection, rest_bytes)
    if rest is None:
        return None
    try:
        return Frame(FromJava(kind), host, orjson.loads(rest[:head_bytes]) if head_bytes else None, rest[head_bytes:])
    except ValueError as error:
        raise WireError(f"frame {kind!r}: {error}") from error


def _read(connection: socket.socket, size_bytes: int) -> memoryview | None:
    content = memoryview(bytearray(size_bytes))
    filled = 0
    while filled < size_bytes:
        count = connection.recv_into(content[filled:])
        if not count:
            return None
        filled += count
    return content


def send_frame(connection: socket.socket, parts: Sequence[Any]) -> None:
    """Write a frame's parts (buffers) one behind the other, without joining them. Raises OSError."""
    views = [memoryview(part).cast("B") for part in parts if len(memoryview(part).cast("B"))]
    while views:
        sent = connection.sendmsg(views[:512])
        while views and sent >= len(views[0]):
            sent -= len(views.pop(0))
        if views and sent:
            views[0] = views[0][sent:]


# Columns as they cross the socket, to and from the engine's two Arrow forms. No record is touched. Pure.


_HEADER_KIND = HEADERS_TYPE.value_type


def produce_batches(sections: Sequence[Mapping[str, Any]], data: memoryview) -> Iterator[pa.RecordBatch]:
    """Yield a batch in produce form for each topic of a BATCH frame; they share its memory.

    Args:
        sections: {"topic", "rows", "columns": {name: bytes of each buffer}}, in the order of their buffers.
        data: the buffers, one behind the other.
    """
    buffers = _Buffers(data)
    for section in sections:
        rows, sizes = section["rows"], section["columns"]
        columns = {name: _column(name, rows, buffers.take(sizes[name])) for name in sizes}
        columns.setdefault("value", pa.nulls(rows, PRODUCE_FIELDS["value"]))
        schema = pa.schema(
            [pa.field(name, PRODUCE_FIELDS[name]) for name in columns], metadata={TOPIC: section["topic"].encode()}
        )
        yield pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return batches of ``produce_batches`` as one, each row with its topic."""
    topics = [(batch.schema.metadata[TOPIC].decode(), batch.num_rows) for batch in batches]
    columns = {"topic": pa.concat_arrays([pa.repeat(pa.scalar(topic), rows) for topic, rows in topics])}
    for name in dict.fromkeys(name for batch in batches for name in batch.schema.names):
        kind = PRODUCE_FIELDS[name]
        parts = [b.column(name) if name in b.schema.names else pa.nulls(b.num_rows, kind) for b in batches]
        columns[name] = pa.concat_arrays(parts)
    schema = pa.schema([pa.field(name, PRODUCE_FIELDS[name]) for name in columns])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


class _Buffers:
    def __init__(self, data: memoryview) -> None:
        self._data = pa.py_buffer(data)
        self._at = 0

    def take(self, sizes: Sequence[int]) -> list[pa.Buffer | None]:
        """Return the next buffers; None for one of no bytes."""
        taken: list[pa.Buffer | None] = []
        for size in sizes:
            taken.append(self._data.slice(self._at, size) if size else None)
            self._at += size
        return taken


def _column(name: str, rows: int, buffers: Sequence[pa.Buffer | None]) -> pa.Array:
    kind = PRODUCE_FIELDS[name]
    if name == "headers":
        lists, key_valid, key_ends, key_data, value_valid, value_ends, value_data = buffers
        count = len(key_ends) // 4 - 1 if key_ends is not None else 0
        keys = pa.Array.from_buffers(pa.string(), count, [key_valid, key_ends, key_data or pa.py_buffer(b"")])
        values = pa.Array.from_buffers(pa.binary(), count, [value_valid, value_ends, value_data or pa.py_buffer(b"")])
        pairs = pa.StructArray.from_arrays([keys, values], fields=list(_HEADER_KIND))
        return pa.Array.from_buffers(kind, rows, [None, lists], children=[pairs])
    if kind == pa.binary():
        validity, ends, content = buffers
        return pa.Array.from_buffers(kind, rows, [validity, ends, content or pa.py_buffer(b"")])
    return pa.Array.from_buffers(kind, rows, list(buffers))


def consumed(batch: pa.RecordBatch) -> tuple[dict[str, Any], list[pa.Buffer]]:
    """Return a batch in consume form as the head and the buffers of a PUT frame."""
    metadata = batch.schema.metadata or {}
    head: dict[str, Any] = {"rows": batch.num_rows, "columns": {}}
    if TOPIC in metadata:
        head["topic"] = metadata[TOPIC].decode()
    if PARTITION in metadata:
        head["partition"] = int(metadata[PARTITION])
    buffers: list[pa.Buffer] = []
    for name, column in _flat(batch):
        parts = _parts(column)
        head["columns"][name] = [len(part) for part in parts]
        buffers += parts
    return head, buffers


def pieces(batch: pa.RecordBatch, most_bytes: int) -> list[pa.RecordBatch]:
    """Return a batch in pieces of about so many bytes, if its rows are of about one size; a small one as it is."""
    if batch.nbytes <= most_bytes or batch.num_rows < 2:
        return [batch]
    rows = max(1, batch.num_rows * most_bytes // batch.nbytes)
    starts = range(0, batch.num_rows, rows)
    return [batch.take(pa.array(range(at, min(at + rows, batch.num_rows)), pa.int64())) for at in starts]


_ORDER = ("topic", "partition", "offset", "timestamp", "key", "value")


def _flat(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns in the order in which the JVM takes their buffers; headers as three."""
    for name in _ORDER:
        if name in batch.schema.names and batch.column(name).null_count < batch.num_rows:
            yield name, batch.column(name)
    if "headers" in batch.schema.names and batch.column("headers").null_count < batch.num_rows:
        lists = batch.column("headers").fill_null([])
        pairs = lists.flatten()
        yield "header_lists", lists
        yield "header_keys", pairs.field("key")
        yield "header_values", pairs.field("value")


def _parts(column: pa.Array) -> list[pa.Buffer]:
    """Return validity (no bytes: all valid) and the other buffers of a column."""
    if column.offset:  # a slice: its buffers begin elsewhere
        column = column.take(pa.array(range(len(column)), pa.int64()))
    validity, *others = column.buffers()[: 2 if pa.types.is_list(column.type) else 3]
    nothing = pa.py_buffer(b"")
    return [
        validity if column.null_count and validity is not None else nothing,
        *(other or nothing for other in others),
    ]

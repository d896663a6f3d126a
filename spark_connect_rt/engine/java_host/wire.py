"""Frames between Python and a Java host: ``int32 length | byte kind | int32 host | int32 head length | head | data``.

Little endian; ``length`` counts what follows it. The head is JSON, the data raw column buffers. Pure, but for the one
function that reads a socket.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import orjson

_PREFIX = struct.Struct("<icii")
_LENGTH_BYTES = 4
FRAME_BYTES_MAX = 1 << 30


class ToJava(Enum):
    """What Python says; ``host`` 0 is the JVM itself, others are tasks."""

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
    """What the JVM says."""

    READY = b"H"
    STARTED = b"S"
    BATCH = b"B"
    OFFSETS = b"O"
    CONFIG = b"C"  # the task asks what its configuration is now
    DONE = b"D"  # sink: a call has returned, or raised
    ERRANT = b"Z"  # a record that was given up, for the log and the dead letter queue
    MADE = b"M"  # source: it waits for GO
    IDLE = b"I"  # source: no poll is under way
    RETRIED = b"R"  # source: a poll has failed, and is tried again
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
    """What was read is no frame: the two sides are of different versions, or something else wrote."""


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

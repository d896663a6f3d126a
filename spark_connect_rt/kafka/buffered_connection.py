"""A connection to a broker that receives into buffers which are used again, and sends pieces without joining them.

aiokafka's copies what it receives three times and joins what it sends. This one lets it connect and authenticate, then
takes over the transport. Requests and answers are still the library's, but for the bytes of record batches. These are
views: of the answer's buffer when received, of the memory that holds them when sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from aiokafka.errors import CorrelationIdError, KafkaConnectionError

from spark_connect_rt.kafka.group_security import GroupConnection

# Memory for answers, used again: fresh pages cost as much as the bytes that are read into them.


KEPT = 12  # in flight are 16 MiB in answers of 4 MiB, parts of which have been sent, and an answer or two more
ROUNDED_BYTES = 1 << 20
RESTS = 20  # in a row, until what is kept is memory for nothing: a reader has caught up


class BufferPool:
    """Hands out views of buffers; one is free again when no view of it is left. One thread."""

    def __init__(self) -> None:
        """Start without any kept buffer."""
        self._kept: list[bytearray] = []
        self._rests = 0

    def take(self, size: int) -> memoryview:
        """Return a writable view of so many bytes, with undefined content."""
        self._rests = 0
        for number, buffer in enumerate(self._kept):
            if _is_free(buffer):
                if len(buffer) >= size:
                    return memoryview(buffer)[:size]
                del self._kept[number]
                break
        made = bytearray(-(-size // ROUNDED_BYTES) * ROUNDED_BYTES)
        if len(self._kept) < KEPT:
            self._kept.append(made)
        return memoryview(made)[:size]

    def rest(self) -> None:
        """Note that its user waits; after ``RESTS`` of them without a ``take`` nothing is kept."""
        self._rests += 1
        if self._rests >= RESTS:
            self.forget()

    def forget(self) -> None:
        """Keep no buffer. A buffer that still has views lives as long as they do."""
        self._kept.clear()


def _is_free(buffer: bytearray) -> bool:
    """Return whether no view of it is left: one that is seen by a view refuses to change its size."""
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True


# Writes pieces to a socket from where they lie, many in one call of the kernel: nothing is joined or copied before.
#
# Owns a second descriptor of a transport's socket, which the transport still reads. Only for a socket without TLS,
# and while the transport itself has nothing to write.


MOST_PIECES = 512  # of one call; the kernel takes 1024 (IOV_MAX)
Piece = bytes | bytearray | memoryview


class SocketWriter:
    """See the module. One loop, one ``write`` at a time."""

    def __init__(self, transport: Any) -> None:
        """Take a transport that is connected."""
        self._socket = transport.get_extra_info("socket").dup()
        self._socket.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None

    async def write(self, pieces: Sequence[Piece]) -> None:
        """Return when the kernel has all of it. Raises OSError: the connection is closed."""
        left = pieces
        while left:
            sent = 0
            with contextlib.suppress(BlockingIOError, InterruptedError):
                sent = self._socket.sendmsg(left[:MOST_PIECES])
            left = _behind(left, sent)
            if left:
                await self._room()

    def close(self) -> None:
        """Give the descriptor back; a ``write`` in progress fails."""
        if self._socket.fileno() < 0:
            return
        self._loop.remove_writer(self._socket.fileno())
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(ConnectionResetError("the connection was closed"))
        self._socket.close()

    async def _room(self) -> None:
        self._waiting = self._loop.create_future()
        self._loop.add_writer(self._socket.fileno(), self._has_room)
        await self._waiting

    def _has_room(self) -> None:
        self._loop.remove_writer(self._socket.fileno())
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _behind(pieces: Sequence[Piece], sent: int) -> list[Piece]:
    """Return what is left of pieces of which so many bytes were sent."""
    for number, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[number + 1 :]]
        sent -= len(piece)
    return []


FIRST_BYTES = 8 << 10  # read at once where no frame is begun: most answers, and the first bytes of large ones
SMALL_FRAME_BYTES = 64 << 10
SMALL_FIELD_BYTES = 4096  # of an answer: below it bytes, as the library makes them
WAKE_BYTES = 1 << 20  # of a large frame are received at once
CHUNK_BYTES = 256 << 10  # the rest, which a socket does not take at once, is copied
_SIZE_BYTES = 4
_HEAD = struct.Struct(">ihhih")  # of a request: size, kind, version, number, length of the client's id


class PiecesRequest(Protocol):
    """A request whose body is pieces, and which reads its answer itself: the library makes an object of each field."""

    API_KEY: int

    def version(self, versions: Mapping[int, tuple[int, int]]) -> int:
        """Return the version to send of those that a broker takes, by kind: (least, most), without tagged fields."""

    def decoded(self, body: bytes, version: int) -> Any:
        """Return what the answer behind its head says."""


class _Sent(NamedTuple):
    request: PiecesRequest
    version: int


class BufferedConnection(GroupConnection):
    """See the module. One loop; a request is written whole before the next one."""

    def __init__(self, pool: BufferPool, host: str, port: int, **arguments: Any) -> None:
        """Take where buffers come from; the rest as of aiokafka's."""
        super().__init__(host, port, **arguments)
        self._pool = pool
        self._writing = asyncio.Lock()
        self._receiver: _Receiver | None = None
        self._direct: SocketWriter | None = None  # None: with TLS

    async def connect(self) -> Any:
        """Connect and authenticate as the library does, then receive by ``_Receiver``."""
        connected = await super().connect()
        transport = self._writer.transport
        self._read_task.cancel()
        self._receiver = _Receiver(self, self._pool)
        transport.set_protocol(self._receiver)
        if transport.get_extra_info("ssl_object") is None:
            transport.set_write_buffer_limits(high=0)
            self._direct = SocketWriter(transport)
            self._receiver.socket = transport.get_extra_info("socket")
        else:  # asyncio's TLS pauses at that size, not above it: with 0 it pauses and resumes in turns, and may stay so
            transport.set_write_buffer_limits(high=1, low=0)
        return connected

    async def send_pieces(self, request: PiecesRequest, body: Sequence[Piece]) -> Any:
        """Send a request whose body, behind its header, is these pieces; return the broker's answer, decoded.

        Raises as the library's ``send``.
        """
        version, client = request.version(self._versions), self._client_id.encode()
        if self._writer is None:
            raise KafkaConnectionError(f"No connection to broker at {self._host}:{self._port}")
        async with asyncio.timeout(self._request_timeout):
            async with self._writing:
                number = self._next_correlation_id()
                size = _HEAD.size - _SIZE_BYTES + len(client) + sum(map(len, body))
                head = _HEAD.pack(size, request.API_KEY, version, number, len(client)) + client
                answered = self._loop.create_future()
                self._requests.append((number, _Sent(request, version), answered))
                try:
                    await self._write((head, *body))
                except BaseException:
                    self.close()  # half a request cannot be taken back
                    raise
            return await answered

    async def _write(self, pieces: Sequence[Piece]) -> None:
        assert self._receiver is not None
        if self._direct is not None:
            await self._receiver.room()
            await self._direct.write(pieces)
            return
        for chunk in _chunks(pieces):
            if self._writer is None:
                raise KafkaConnectionError(f"Connection at {self._host}:{self._port} closed")
            self._writer.transport.write(chunk)
            await self._receiver.room()

    def close(self, reason: Any = None, exc: BaseException | None = None) -> Any:
        """Close at once. Unwritten data is not sent any more, because its memory may hold something else by then."""
        if self._direct is not None:
            self._direct.close()
        if self._receiver is not None and self._writer is not None:
            self._writer.transport.abort()
        return super().close(reason=reason, exc=exc)

    def take_frame(self, frame: memoryview) -> None:
        """Resolve the oldest request by its answer."""
        if not self._requests:
            self.close(exc=CorrelationIdError("the broker sent a response to no request"))
            return
        number, request, answered = self._requests.popleft()
        try:
            answer = _answer(request, number, frame)
        except Exception as error:  # noqa: BLE001 - the loop would close the transport and leave who asked waiting
            known = isinstance(error, CorrelationIdError)
            problem = error if known else KafkaConnectionError(f"the broker's response cannot be read: {error!r}")
            if not answered.done():
                answered.set_exception(problem)
            self.close(exc=problem)
            return
        if not answered.done():
            answered.set_result(answer)
        self._last_action = time.monotonic()

    def lost(self, error: Exception | None) -> None:
        """Close the connection, because its transport is closed."""
        if not self._closed_fut.done():
            self._closed_fut.set_result(None)
        self.close(exc=error)


def _answer(request: Any, number: int, frame: memoryview) -> Any:
    """Return what an answer says to the request of that number. Raises CorrelationIdError: it is another one's."""
    if isinstance(request, _Sent):
        said = int.from_bytes(frame[:_SIZE_BYTES], "big")
        if said == number:
            return request.request.decoded(bytes(frame[_SIZE_BYTES:]), request.version)
    else:
        reader = _Fields(frame)
        said = request.parse_response_header(reader).correlation_id
        if said == number:
            return request.RESPONSE_TYPE.decode(reader)
    raise CorrelationIdError(f"Correlation ids do not match: sent {number}, recv {said}")


async def connect_buffered(pool: BufferPool, host: str, port: int, **arguments: Any) -> BufferedConnection:
    """Return an open, authenticated connection; ``arguments`` as of ``group_connection.connect``."""
    connection = BufferedConnection(pool, host, port, **arguments)
    await connection.connect()
    return connection


class _Receiver(asyncio.BufferedProtocol):
    """Receives frames, and knows whether the transport takes more.

    A frame that fits is read with its size and its neighbours at once; a larger one continues in its own memory.
    """

    def __init__(self, connection: BufferedConnection, pool: BufferPool) -> None:
        self._connection = connection
        self._pool = pool
        self._first = memoryview(bytearray(FIRST_BYTES))
        self._frame: memoryview | None = None  # one whose first bytes are there
        self._have = 0  # of the frame, or of ``_first``
        self._room = asyncio.Event()
        self._room.set()
        self.socket: Any = None  # None with TLS, whose encrypted data has another length
        self._wakes_at = 1  # bytes

    def get_buffer(self, sizehint: int) -> memoryview:
        return (self._first if self._frame is None else self._frame)[self._have :]

    def buffer_updated(self, nbytes: int) -> None:
        self._have += nbytes
        if self._frame is None:
            self._take_apart()
        elif self._have == len(self._frame):
            frame, self._frame, self._have = self._frame, None, 0
            self._connection.take_frame(frame)
        if self.socket is not None:
            self._wake_at(1 if self._frame is None else min(len(self._frame) - self._have, WAKE_BYTES))

    def _wake_at(self, size: int) -> None:
        """Have the kernel wait until so many bytes are there: a turn of the loop for each of its pieces costs more.

        It wakes for an end all the same, and when its own buffer takes no more.
        """
        if size != self._wakes_at:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, size)
            self._wakes_at = size

    def _take_apart(self) -> None:
        at, end = 0, self._have
        while end - at >= _SIZE_BYTES and self._frame is None:
            size = int.from_bytes(self._first[at : at + _SIZE_BYTES], "big")
            at += _SIZE_BYTES
            here = self._first[at : min(end, at + size)]
            at += len(here)
            if len(here) == size:
                self._connection.take_frame(memoryview(bytearray(here)))
            else:
                self._frame = memoryview(bytearray(size)) if size <= SMALL_FRAME_BYTES else self._pool.take(size)
                self._frame[: len(here)] = here
                self._have = len(here)
        if self._frame is None:
            self._have = end - at
            self._first[: self._have] = bytes(self._first[at:end])

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._room.set()
        self._connection.lost(exc)

    def pause_writing(self) -> None:
        self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    async def room(self) -> None:
        """Return when the transport has nothing left to write."""
        if not self._room.is_set():
            await self._room.wait()


class _Fields:
    """The input from which the library's types read an answer; large fields are views."""

    def __init__(self, frame: memoryview) -> None:
        self._frame = frame
        self._at = 0

    def read(self, size: int) -> Piece:
        """Return the next so many bytes, or what is left."""
        found = self._frame[self._at : self._at + size]
        self._at += len(found)
        return found if size >= SMALL_FIELD_BYTES else bytes(found)


def _chunks(pieces: Sequence[Piece]) -> Iterator[Piece]:
    """Yield the same bytes in chunks of no more than ``CHUNK_BYTES``, small neighbours joined."""
    small: list[Piece] = []
    held = 0
    for piece in pieces:
        if held + len(piece) <= CHUNK_BYTES:
            small.append(piece)
            held += len(piece)
            continue
        if small:
            yield b"".join(small) if len(small) > 1 else small[0]
            small, held = [], 0
        view = memoryview(piece)
        for at in range(0, len(view), CHUNK_BYTES):
            yield view[at : at + CHUNK_BYTES]
    if small:
        yield b"".join(small) if len(small) > 1 else small[0]

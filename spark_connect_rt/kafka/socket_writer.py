"""Writes pieces to a socket from where they lie, many in one call of the kernel: nothing is joined or copied before.

Owns a second descriptor of a transport's socket, which the transport goes on reading. Only for a socket without TLS,
and while the transport itself has nothing to write.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

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
        """Give the descriptor back; a ``write`` under way fails."""
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

"""Pieces reach the other end in order and whole, however little its socket takes; a closed one is an error at once."""

from __future__ import annotations

import asyncio
import socket

import pytest

from spark_connect_rt.kafka.buffered_connection import MOST_PIECES, SocketWriter


async def _ends() -> tuple[socket.socket, SocketWriter, asyncio.BaseTransport]:
    here, there = socket.socketpair()
    for sock in (here, there):
        sock.setblocking(False)
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, sock=here)
    return there, SocketWriter(transport), transport


def test_everything_arrives_in_order() -> None:
    async def run() -> None:
        there, writer, transport = await _ends()
        pieces = [bytes([n % 251]) * (n * 7 % 3_000) for n in range(MOST_PIECES + 100)]
        whole = b"".join([*pieces, bytes(3_000_000)])
        writing = asyncio.create_task(writer.write([*pieces, memoryview(bytearray(3_000_000))]))
        received = bytearray()
        while len(received) < len(whole):
            received += await asyncio.get_running_loop().sock_recv(there, 50_000)
        await writing
        assert received == whole
        writer.close()
        transport.close()
        there.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_closing_ends_a_write_and_the_connection() -> None:
    """The descriptor is one of two: were it left open, the broker would wait for the rest of a request."""

    async def run() -> None:
        there, writer, transport = await _ends()
        writing = asyncio.create_task(writer.write([bytes(50_000_000)]))
        await asyncio.sleep(0)
        transport.abort()  # type: ignore[attr-defined]
        writer.close()
        writer.close()
        with pytest.raises(ConnectionResetError):
            await writing
        with pytest.raises(OSError, match="Bad file"):
            await writer.write([b"more"])
        while await asyncio.get_running_loop().sock_recv(there, 1 << 20):
            pass  # and then its end
        there.close()

    asyncio.run(asyncio.wait_for(run(), 30))

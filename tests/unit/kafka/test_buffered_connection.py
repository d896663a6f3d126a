"""Frames are received whole, and of a large one the loop hears seldom."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from spark_connect_rt.kafka.buffered_connection import WAKE_BYTES, BufferPool, _Receiver


class Taking:
    """A connection that keeps what it is given."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def take_frame(self, frame: memoryview) -> None:
        self.frames.append(bytes(frame))


def _received(receiver: Any, data: bytes) -> None:
    while data:
        room = receiver.get_buffer(-1)
        size = min(len(room), len(data))
        room[:size] = data[:size]
        receiver.buffer_updated(size)
        data = data[size:]


def _framed(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


@pytest.mark.parametrize("size", [10, 100_000, 3 * WAKE_BYTES])
def test_kernel_waits_for_the_rest_of_a_frame_and_for_anything_between_frames(size: int) -> None:
    here, there = socket.socketpair()
    connection = Taking()
    receiver = _Receiver(connection, BufferPool())  # type: ignore[arg-type]
    receiver.socket = here

    def wakes_at() -> int:
        return here.getsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT)

    content = bytes(range(256)) * (size // 256) + bytes(size % 256)
    whole = _framed(content)
    _received(receiver, whole[:9])
    assert wakes_at() == min(size - 5, WAKE_BYTES)
    _received(receiver, whole[9:-3])
    assert wakes_at() == 3
    _received(receiver, whole[-3:] + _framed(b"next"))
    assert (wakes_at(), connection.frames) == (1, [content, b"next"])
    here.close()
    there.close()


def test_a_connection_with_tls_is_left_alone() -> None:
    """What is encrypted has another length than the frame."""
    connection = Taking()
    receiver = _Receiver(connection, BufferPool())  # type: ignore[arg-type]
    _received(receiver, _framed(bytes(100_000)))
    assert (receiver.socket, len(connection.frames[0])) == (None, 100_000)

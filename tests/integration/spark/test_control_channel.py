"""The control channel between real sockets: strangers, silence, books."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.engine.driver.control_channel import ControlChannel, SlotConnection, listen_tcp, listen_unix
from spark_connect_rt.engine.executor.control_client import ControlClient, Line, ask_totals
from spark_connect_rt.engine.executor.control_wire import encode_message
from spark_connect_rt.engine.executor.ticket import SliceTicket
from spark_connect_rt.errors import FencedError
from spark_connect_rt.testing.memory_executor_clients import wait_until

SESSION_MS = 600


class Owner:
    """Keeps what it is told."""

    token = "right"

    def __init__(self) -> None:
        self.hellos: list[str] = []
        self.messages: list[dict[str, Any]] = []
        self.dead: list[str] = []
        self.connections: list[SlotConnection] = []
        self.answer: tuple[ControlChannel, str] | None = None

    def on_hello(self, connection: SlotConnection, message: dict[str, Any]) -> bool:
        self.hellos.append(message["role"])
        self.connections.append(connection)
        if self.answer is not None:
            self.answer[0].send(connection, {"op": "totals", "error": self.answer[1]})
        return True

    def on_message(self, connection: SlotConnection, message: dict[str, Any]) -> None:
        self.messages.append(message)

    def on_dead(self, connection: SlotConnection) -> None:
        self.dead.append(connection.role)


@pytest.fixture(params=["unix", "tcp"])
def channel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControlChannel]:
    if request.param == "unix":
        channel = listen_unix(str(tmp_path / "c.sock"), SESSION_MS)
    else:
        channel = listen_tcp("127.0.0.1", SESSION_MS)
    yield channel
    channel.close()


@pytest.fixture
def owner(channel: ControlChannel) -> Owner:
    owner = Owner()
    channel.expect(1, owner)
    return owner


def ticket(channel: ControlChannel, token: str = "right") -> SliceTicket:
    return SliceTicket(1, token, channel.address, SESSION_MS, "m:f", channel.certificate)


def test_messages_go_both_ways_and_a_good_end_loses_nothing(channel: ControlChannel, owner: Owner) -> None:
    heard: list[dict[str, Any]] = []
    lost: list[str] = []
    client = ControlClient(ticket(channel), "writer", lost.append)
    client.listen(heard.append)
    wait_until(lambda: owner.hellos == ["writer"])
    channel.send(owner.connections[0], {"op": "x", "n": 1})
    wait_until(lambda: {"op": "x", "n": 1} in heard)
    for n in range(500):
        client.send({"op": "durable", "n": n, "fill": "f" * 1000})
    channel.send(owner.connections[0], {"op": "unread"})
    client.close()
    wait_until(lambda: owner.dead == ["writer"])
    assert [m["n"] for m in owner.messages] == list(range(500))
    assert lost == []


def test_first_driver_message_waits_for_a_listener(channel: ControlChannel, owner: Owner) -> None:
    heard: list[dict[str, Any]] = []
    client = ControlClient(ticket(channel), "reader", lambda why: None)
    wait_until(lambda: owner.hellos == ["reader"])
    channel.send(owner.connections[0], {"op": "start", "n": 1})
    client.send({"op": "first"})
    wait_until(lambda: owner.messages == [{"op": "first"}])
    client.listen(heard.append)
    wait_until(lambda: {"op": "start", "n": 1} in heard)
    client.close()


def test_an_idle_connection_lives_on(channel: ControlChannel, owner: Owner) -> None:
    lost: list[str] = []
    client = ControlClient(ticket(channel), "reader", lost.append)
    client.listen(lambda message: None)
    threading.Event().wait(SESSION_MS / 1000 * 2.5)  # silence is the point of this test
    assert lost == []
    assert owner.dead == []
    client.close()


def test_a_cut_reaches_the_other_end_at_once(channel: ControlChannel, owner: Owner) -> None:
    lost: list[str] = []
    client = ControlClient(ticket(channel), "reader", lost.append)
    client.listen(lambda message: None)
    wait_until(lambda: bool(owner.connections))
    channel.cut(owner.connections[0])
    wait_until(lambda: bool(lost), limit_s=SESSION_MS / 1000)
    assert owner.dead == []  # it told nobody yet that it stopped
    client._sock.close()  # as the exit of its process does
    wait_until(lambda: owner.dead == ["reader"])


def test_a_client_stops_when_the_driver_is_silent(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        lost: list[str] = []
        silent = SliceTicket(1, "t", f"unix:{tmp_path / 's'}", SESSION_MS, "m:f")
        client = ControlClient(silent, "reader", lost.append)
        client.listen(lambda message: None)
        wait_until(lambda: bool(lost), limit_s=5)
        assert "nothing received" in lost[0]
        client._sock.close()


def test_a_silent_client_is_dead_only_after_it_must_have_stopped(channel: ControlChannel, owner: Owner) -> None:
    line = Line(ticket(channel))
    line.send(encode_message({"op": "hello", "slice": 1, "token": "right", "role": "reader", "pid": 1}))
    wait_until(lambda: owner.hellos == ["reader"])
    (connection,) = owner.connections
    wait_until(lambda: connection.cut_s is not None, limit_s=5)
    assert owner.dead == []
    wait_until(lambda: owner.dead == ["reader"], limit_s=5)
    line.sock.close()


@pytest.mark.parametrize(
    "greeting",
    [
        encode_message({"op": "hello", "slice": 1, "token": "wrong", "role": "reader", "pid": 1}),
        encode_message({"op": "hello", "slice": 9, "token": "right", "role": "reader", "pid": 1}),
        encode_message({"op": "durable", "host": 1}),
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00\x00\x00\x02[]",
    ],
)
def test_connections_of_strangers_are_closed(channel: ControlChannel, owner: Owner, greeting: bytes) -> None:
    line = Line(ticket(channel))
    with line.sock, contextlib.suppress(ConnectionResetError):
        line.send(greeting)
        assert line.receive() is None
    assert (owner.hellos, owner.messages, owner.dead) == ([], [], [])


def test_books_are_compared_before_the_slice_is_closed(channel: ControlChannel, owner: Owner) -> None:
    owner.answer = (channel, "")
    ask_totals(ticket(channel), {1: (5, 1)})
    owner.answer = (channel, "host 1: writer says (5, 1), driver heard (4, 1)")
    with pytest.raises(FencedError, match="driver heard"):
        ask_totals(ticket(channel), {1: (5, 1)})
    with pytest.raises(FencedError, match="no longer knows"):
        ask_totals(ticket(channel, "wrong"), {})

"""Strangers at the control channel: they read nothing, are nobody's half, and slow nobody."""

from __future__ import annotations

import contextlib
import errno
import pickle
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.engine.driver import control_handshake as control_door
from spark_connect_rt.engine.driver.control_channel import ControlChannel, listen_tcp, listen_unix
from spark_connect_rt.engine.driver.control_handshake import Handshakes, PendingConnection, new_identity
from spark_connect_rt.engine.driver.slice_runner import SparkSlotJob
from spark_connect_rt.engine.driver.slot_jobs import SliceConnected, SliceGone
from spark_connect_rt.engine.executor.control_cipher import Plain, driver_known_by
from spark_connect_rt.engine.executor.control_client import ControlClient, Line, connect
from spark_connect_rt.engine.executor.control_wire import Message, encode_message
from spark_connect_rt.engine.executor.ticket import SliceTicket
from spark_connect_rt.testing.memory_executor_clients import wait_until

SESSION_MS = 4_000
TOKEN = "0123456789abcdef0123456789abcdef"
HELLO: Message = {"op": "hello", "slice": 1, "token": TOKEN, "role": "writer", "pid": 1}


class Slice:
    """A slice that keeps its halves and what they say."""

    token = TOKEN

    def __init__(self) -> None:
        self.halves: dict[str, Any] = {}
        self.messages: list[Message] = []
        self.dead: list[str] = []

    def on_hello(self, connection: Any, message: Message) -> bool:
        if connection.role in self.halves:
            return False
        self.halves[connection.role] = connection
        return True

    def on_message(self, connection: Any, message: Message) -> None:
        self.messages.append(message)

    def on_dead(self, connection: Any) -> None:
        self.dead.append(connection.role)


def ticket(channel: ControlChannel) -> SliceTicket:
    return SliceTicket(1, TOKEN, channel.address, SESSION_MS, "m:f", channel.certificate)


@pytest.fixture
def channel() -> Iterator[ControlChannel]:
    channel = listen_tcp("127.0.0.1", SESSION_MS)
    yield channel
    channel.close()


@pytest.fixture
def owner(channel: ControlChannel) -> Slice:
    owner = Slice()
    channel.expect(1, owner)
    return owner


class Tap:
    """Who reads along between a client and the driver."""

    def __init__(self, address: str) -> None:
        self.seen = bytearray()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp:127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, args=(address,), daemon=True).start()

    def _run(self, address: str) -> None:
        near, _ = self._listener.accept()
        far = connect(address)
        self._listener.close()
        back = threading.Thread(target=self._pass_on, args=(far, near), daemon=True)
        back.start()
        self._pass_on(near, far)
        back.join(5)
        near.close()
        far.close()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while chunk := source.recv(65_536):
                self.seen += chunk
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)


def test_eavesdropper_sees_neither_token_nor_secret(channel: ControlChannel, owner: Slice) -> None:
    tap, heard = Tap(channel.address), list[Message]()
    through = SliceTicket(1, TOKEN, tap.address, SESSION_MS, "m:f", channel.certificate)
    client = ControlClient(through, "reader", lambda why: None)
    client.listen(heard.append)
    wait_until(lambda: "reader" in owner.halves)
    channel.send(owner.halves["reader"], {"op": "start", "launch": {"sasl.jaas.config": "s3cret"}})
    wait_until(lambda: any(message["op"] == "start" for message in heard))
    client.send({"op": "durable", "host": 7, "n": 1})
    wait_until(lambda: len(owner.messages) == 1)
    client.close()
    assert len(tap.seen) > 500
    for secret in (TOKEN, "s3cret", "durable", '"op"'):
        assert secret.encode() not in tap.seen


def test_a_half_says_nothing_to_another_driver(channel: ControlChannel, owner: Slice) -> None:
    _, certificate = new_identity()
    with pytest.raises(OSError, match="certificate verify failed"):
        Line(SliceTicket(1, TOKEN, channel.address, SESSION_MS, "m:f", certificate))
    assert owner.halves == {}


def test_unencrypted_hello_is_ignored(channel: ControlChannel, owner: Slice) -> None:
    with connect(channel.address) as sock, contextlib.suppress(ConnectionResetError):
        sock.sendall(encode_message(HELLO))
        while sock.recv(100):
            pass
    assert owner.halves == {}


def test_a_ticket_with_its_certificate_stays_small(channel: ControlChannel) -> None:
    assert len(pickle.dumps(ticket(channel))) < 1024
    assert "BEGIN CERTIFICATE" not in repr(ticket(channel))


# -- how many, how much, how long


def test_those_who_wait_are_bounded_and_who_comes_last_gets_in(
    channel: ControlChannel, owner: Slice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_door, "GUESTS_MAX", 8)
    silent = [connect(channel.address) for _ in range(40)]
    client = ControlClient(ticket(channel), "reader", lambda why: None)
    wait_until(lambda: "reader" in owner.halves)
    assert len(channel._door._guests) <= 8
    client.close()
    for sock in silent:
        sock.close()


def test_slow_hello_is_closed_in_time(channel: ControlChannel, owner: Slice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_door, "HELLO_TIMEOUT_S", 0.3)
    hello = driver_known_by(channel.certificate).greet()

    def drip(sock: socket.socket) -> None:
        for byte in hello[:60]:
            sock.sendall(bytes([byte]))
            time.sleep(0.05)  # dripping is the point of this test

    with connect(channel.address) as sock, pytest.raises(OSError, match=r"reset|Broken pipe"):
        drip(sock)


def test_large_input_without_a_hello_is_closed() -> None:
    class Deaf(Plain):
        ready = False

    with socket.socket() as sock:
        guest = PendingConnection(sock, Deaf(), 0.0)
        for _ in range(4):
            assert guest.receive(b"x" * 65_536) == (b"", None, [])
        with pytest.raises(ValueError, match="too much"):
            guest.receive(b"x")


def test_a_listener_without_descriptors_is_not_asked_without_end() -> None:
    """A connection that cannot be accepted is still there at the next look."""

    class Exhausted(socket.socket):
        asked = 0

        def accept(self) -> Any:
            Exhausted.asked += 1
            raise OSError(errno.EMFILE, "Too many open files")

    listener = Exhausted()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    door = Handshakes(listener, None, lambda number: None, lambda guest, hello, others: None)
    with connect(f"tcp:127.0.0.1:{listener.getsockname()[1]}"):
        wait_until(lambda: Exhausted.asked > 0)
        before = Exhausted.asked
        time.sleep(0.35)  # the pause is the point of this test
        assert Exhausted.asked - before <= 4
    door.close()


# -- the halves of a slice


class _Launcher:
    """What SparkSlotJob needs of its launcher."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.on_event = self.events.append
        self.cut_off: list[str] = []
        self.session = self
        self.cancelling = self

    def channel(self) -> _Launcher:
        return self

    def cut(self, connection: Any) -> None:
        self.cut_off.append(connection.role)

    def send(self, connection: Any, message: Message) -> None:
        self.events.append(message)

    def forget(self, slice_id: int) -> None:
        """Nothing to forget."""

    def ready(self) -> bool:
        return True

    def submit(self, step: Callable[[], None]) -> None:
        """Nothing to cancel."""


class _Half:
    def __init__(self, role: str) -> None:
        self.role = role


def test_a_slice_has_one_reader_one_writer_and_one_who_closes_its_books() -> None:
    launcher = _Launcher()
    slice_ = SparkSlotJob(launcher, 1)  # type: ignore[arg-type]
    reader, writer, commit = (_Half(role) for role in ("reader", "writer", "commit"))
    assert slice_.on_hello(reader, {"op": "hello"})  # type: ignore[arg-type]
    assert slice_.on_hello(writer, {"op": "hello"})  # type: ignore[arg-type]
    assert slice_.on_hello(commit, {"op": "hello", "totals": []})  # type: ignore[arg-type]
    for role in ("reader", "writer", "commit"):
        assert not slice_.on_hello(_Half(role), {"op": "hello", "totals": []})  # type: ignore[arg-type]
    assert launcher.events == [SliceConnected(1)]
    slice_.send({"op": "end"})
    slice_.on_dead(reader)  # type: ignore[arg-type]
    slice_.on_dead(writer)  # type: ignore[arg-type]
    slice_._on_job_done(None)
    assert launcher.events[1:] == [{"op": "end"}, {"op": "totals", "error": ""}, SliceGone(1, None)]


@pytest.mark.parametrize("last", ["reader", "writer"])
def test_e4_books_are_compared_when_both_halves_have_said_everything(last: str) -> None:
    launcher = _Launcher()
    slice_ = SparkSlotJob(launcher, 1)  # type: ignore[arg-type]
    halves = {role: _Half(role) for role in ("reader", "writer", "commit")}
    for half in halves.values():
        assert slice_.on_hello(half, {"op": "hello", "totals": [(1, 3, 1)]})  # type: ignore[arg-type]
    slice_.send({"op": "end"})
    slice_.on_dead(halves["writer" if last == "reader" else "reader"])  # type: ignore[arg-type]
    assert {"op": "totals", "error": ""} not in launcher.events
    slice_.on_message(halves[last], {"op": "durable", "host": 1, "n": 3})  # type: ignore[arg-type]
    slice_.on_dead(halves[last])  # type: ignore[arg-type]
    assert {"op": "totals", "error": ""} in launcher.events


# -- 10,000 openings


def mutated(chance: random.Random, opening: bytes) -> bytes:
    """Return an opening with some of it changed, cut, doubled, or noise from the start."""
    kind, data = chance.randrange(6), bytearray(opening)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 400))
    for _ in range(chance.randrange(1, 6)):
        place = chance.randrange(len(data))
        match kind:
            case 1 | 2:
                data[place] = chance.randrange(256)
            case 3:
                data[place:place] = chance.randbytes(chance.randrange(1, 20))
            case 4:
                del data[place : place + chance.randrange(1, 20)]
                data = data or bytearray(b"\0")
            case _:
                data[place:place] = data[: chance.randrange(len(data))]
    return bytes(data)


def open_and_leave(address: str, opening: bytes) -> None:
    with connect(address) as sock, contextlib.suppress(ConnectionError):
        sock.sendall(opening)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(65_536):
            pass


ODD_VALUES = (None, True, 1.5, -1, 2**63, "", "ä", "\x00", [], [1], {}, {"a": 1}, "writer", "reader", "commit", TOKEN)


def odd_hello(chance: random.Random) -> bytes:
    """Return a hello that is one in form, with something else than the token."""
    odd = {name: chance.choice(ODD_VALUES) for name in chance.sample(sorted(HELLO), chance.randrange(1, 5))}
    return encode_message(HELLO | {"token": "f" * 32} | {name: v for name, v in odd.items() if v != TOKEN})


@pytest.mark.parametrize(("kind", "openings"), [("tcp", 1_000), ("unix", 9_000)])
def test_nothing_a_stranger_says_ends_or_slows_the_channel(tmp_path: Path, kind: str, openings: int) -> None:
    channel = listen_tcp("127.0.0.1", SESSION_MS) if kind == "tcp" else listen_unix(str(tmp_path / "c"), SESSION_MS)
    owner, chance, heard, lost = Slice(), random.Random(20_261_122), list[Message](), list[str]()
    channel.expect(1, owner)
    client = ControlClient(ticket(channel), "writer", lost.append)
    client.listen(heard.append)
    wait_until(lambda: "writer" in owner.halves)
    words = driver_known_by(channel.certificate).greet()
    for n in range(openings):
        if kind == "unix":
            open_and_leave(channel.address, odd_hello(chance) if n % 3 else mutated(chance, encode_message(HELLO)))
        elif n % 10:
            open_and_leave(channel.address, mutated(chance, words))
        else:
            speak(channel, mutated(chance, odd_hello(chance)))
        if n % 100 == 0:
            said_s = time.monotonic()
            channel.send(owner.halves["writer"], {"op": "x", "n": n})
            wait_until(lambda: {"op": "x", "n": n} in heard)  # noqa: B023
            assert time.monotonic() - said_s < SESSION_MS / 1000
    client.send({"op": "last"})
    wait_until(lambda: owner.messages == [{"op": "last"}])
    assert (set(owner.halves), owner.dead, lost, channel.ended) == ({"writer"}, [], [], False)
    wait_until(lambda: not channel._door._guests)
    client.close()
    wait_until(lambda: owner.dead == ["writer"])
    channel.close()


def speak(channel: ControlChannel, words: bytes) -> None:
    """Say something inside the encryption, as who knows the address and the certificate can."""
    line = Line(ticket(channel))
    with line.sock, contextlib.suppress(OSError):
        line.send(words)
        line.sock.shutdown(socket.SHUT_WR)
        while line.receive() is not None:
            pass

"""Nothing that is said on the control channel, or that is to be said on it, ends it for the others."""

from __future__ import annotations

import contextlib
import select
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from spark_connect_rt.engine.driver import control_channel
from spark_connect_rt.engine.driver.control_channel import ControlChannel, SlotConnection, listen_tcp, listen_unix
from spark_connect_rt.engine.driver.slice_runner import SparkSliceLauncher, SparkSlotJob
from spark_connect_rt.engine.driver.slot_jobs import SliceGone
from spark_connect_rt.engine.executor.control_client import ControlClient, Line, connect
from spark_connect_rt.engine.executor.control_wire import Message, encode_message
from spark_connect_rt.engine.executor.ticket import SliceTicket
from spark_connect_rt.testing.memory_executor_clients import wait_until

SESSION_MS = 2_000  # the machine may be busy with other tests: nobody is silent for that long


class Owner:
    """A slice that keeps what it is told."""

    token = "right"

    def __init__(self) -> None:
        self.halves: dict[str, SlotConnection] = {}
        self.messages: list[Message] = []
        self.dead: list[str] = []

    def on_hello(self, connection: SlotConnection, message: Message) -> bool:
        if connection.role in self.halves:
            return False
        self.halves[connection.role] = connection
        return True

    def on_message(self, connection: SlotConnection, message: Message) -> None:
        if message["op"] == "trips":
            raise RuntimeError("the slice fails over a message")
        self.messages.append(message)

    def on_dead(self, connection: SlotConnection) -> None:
        self.dead.append(connection.role)


class Half:
    """One half of a slice, and what it hears."""

    def __init__(self, channel: ControlChannel, owner: Owner, role: str, slice_id: int = 1) -> None:
        self.heard: list[Message] = []
        self.lost: list[str] = []
        self.client = ControlClient(ticket(channel, slice_id), role, self.lost.append)
        self.client.listen(self.heard.append)
        wait_until(lambda: role in owner.halves)
        self.connection = owner.halves[role]

    def still_hears(self, channel: ControlChannel, n: int) -> None:
        channel.send(self.connection, {"op": "x", "n": n})
        wait_until(lambda: {"op": "x", "n": n} in self.heard)


@pytest.fixture(params=["unix", "tcp"])
def channel(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ControlChannel]:
    is_unix = request.param == "unix"
    channel = listen_unix(str(tmp_path / "c"), SESSION_MS) if is_unix else listen_tcp("127.0.0.1", SESSION_MS)
    yield channel
    channel.close()


@pytest.fixture
def owner(channel: ControlChannel) -> Owner:
    owner = Owner()
    channel.expect(1, owner)
    return owner


def ticket(channel: ControlChannel, slice_id: int = 1) -> SliceTicket:
    return SliceTicket(slice_id, "right", channel.address, SESSION_MS, "m:f", channel.certificate)


def say(channel: ControlChannel, greeting: bytes) -> None:
    """Say something as a stranger and wait until it was cut off."""
    line = Line(ticket(channel))
    with line.sock, contextlib.suppress(ConnectionResetError):
        line.send(greeting)
        assert line.receive() is None


HELLO: Message = {"op": "hello", "slice": 1, "token": "right", "role": "reader", "pid": 1}


@pytest.mark.parametrize(
    "odd",
    [
        {"slice": []},
        {"slice": {"a": 1}},
        {"slice": True},
        {"slice": 1.0},
        {"token": "falsch-ä"},
        {"token": None},
        {"token": ["right"]},
        {"role": None},
        {"role": {}},
        {"role": "owner"},
        {"op": []},
    ],
    ids=str,
)
def test_a_strangers_hello_ends_its_connection_alone(channel: ControlChannel, owner: Owner, odd: Message) -> None:
    half = Half(channel, owner, "writer")
    say(channel, encode_message(HELLO | odd))
    half.still_hears(channel, 1)
    assert set(owner.halves) == {"writer"}
    half.client.close()


def test_a_second_half_is_refused_and_changes_nothing(channel: ControlChannel, owner: Owner) -> None:
    half = Half(channel, owner, "reader")
    say(channel, encode_message(HELLO))
    half.still_hears(channel, 1)
    assert owner.dead == []
    half.client.close()


def test_unencodable_message_fails_its_sender(channel: ControlChannel, owner: Owner) -> None:
    half = Half(channel, owner, "reader")
    for value in (2**64, "\ud800", object()):
        with pytest.raises(TypeError):
            channel.send(half.connection, {"op": "offsets", "answer": [{"position": value}]})
    half.still_hears(channel, 1)
    half.client.close()


def test_a_slice_that_fails_over_a_message_loses_that_half_alone(channel: ControlChannel, owner: Owner) -> None:
    other = Owner()
    channel.expect(2, other)
    half, neighbour = Half(channel, owner, "reader"), Half(channel, other, "reader", 2)
    half.client.send({"op": "trips"})
    wait_until(lambda: bool(half.lost))
    neighbour.still_hears(channel, 1)
    wait_until(lambda: owner.dead == ["reader"])
    assert other.dead == []
    neighbour.client.close()


def test_e3_a_half_that_dies_with_something_unread_is_dead_at_once_on_this_machine(
    channel: ControlChannel, owner: Owner
) -> None:
    """Its kernel says "reset" then, not "end": known of this machine's, not of whatever lies on the way to another."""
    line = Line(ticket(channel))
    line.send(encode_message(HELLO))
    wait_until(lambda: "reader" in owner.halves)
    channel.send(owner.halves["reader"], {"op": "x"})
    assert select.select([line.sock], [], [], 5)[0]
    time.sleep(0.05)  # behind what a channel says first: closed with nothing unread it would be an orderly end
    line.sock.close()
    begun_s, here = time.monotonic(), channel.address.startswith("unix:")
    wait_until(lambda: owner.dead == ["reader"])
    assert (time.monotonic() - begun_s < SESSION_MS / 2_000) is here


def test_e3_a_channel_that_ends_all_the_same_fails_every_slice(
    channel: ControlChannel, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = Half(channel, owner, "reader")

    def fails(*_: Any) -> None:
        raise MemoryError

    monkeypatch.setattr(control_channel.ControlChannel, "_watch_time", fails)
    wait_until(lambda: bool(half.lost))
    assert owner.dead == []  # it has only just been told to end
    wait_until(lambda: owner.dead == ["reader"])
    assert channel.ended
    channel.send(half.connection, {"op": "x"})  # dropped
    half.client._sock.close()
    with pytest.raises(OSError, match=r"."):
        connect(channel.address)


def test_an_executor_whose_ear_fails_gives_up(channel: ControlChannel, owner: Owner) -> None:
    """Else its process lived on, and nobody would end it when the driver is gone."""
    lost: list[str] = []

    def fails(message: Message) -> None:
        raise RuntimeError("can't start new thread")

    client = ControlClient(ticket(channel), "reader", lost.append)
    client.listen(fails)
    wait_until(lambda: "reader" in owner.halves)
    channel.send(owner.halves["reader"], {"op": "start"})
    wait_until(lambda: bool(lost))
    assert "can't start new thread" in lost[0]
    client._sock.close()


def test_a_large_message_crosses_whole_both_ways(channel: ControlChannel, owner: Owner) -> None:
    half = Half(channel, owner, "reader")
    large = {"op": "start", "launch": "x" * 3_000_000}
    channel.send(half.connection, large)
    wait_until(lambda: large in half.heard)
    half.client.send(large)
    wait_until(lambda: large in owner.messages)
    half.client.close()


def test_two_threads_may_send_while_a_third_receives(channel: ControlChannel, owner: Owner) -> None:
    half = Half(channel, owner, "writer")

    def send(name: int) -> None:
        for n in range(300):
            half.client.send({"op": "durable", "name": name, "n": n, "fill": "f" * 500})

    threads = [threading.Thread(target=send, args=(name,)) for name in range(2)]
    for thread in threads:
        thread.start()
    for n in range(300):
        channel.send(half.connection, {"op": "x", "n": n})
    for thread in threads:
        thread.join(10)
    wait_until(lambda: len(owner.messages) == 600)
    assert [m["n"] for m in owner.messages if m["name"] == 1] == list(range(300))
    wait_until(lambda: len([m for m in half.heard if m["op"] == "x"]) == 300)
    half.client.close()


class _Session:
    """What a launcher asks of Spark."""

    def __init__(self) -> None:
        self.sparkContext = self.dataSource = self.conf = self
        self.newSession = self.getConf = lambda: self
        self.master = "local[1]"

    def get(self, name: str = "") -> Any:
        return self if not name else "127.0.0.1"

    def ready(self) -> bool:
        return True

    def set(self, name: str, value: str) -> None:
        """No settings."""

    def register(self, source: object) -> None:
        """Nothing to register with."""

    def cancelJobGroup(self, group: str) -> None:  # noqa: N802
        """Nothing to cancel."""


def test_e3_slices_of_a_channel_that_ended_are_gone_and_the_next_ones_have_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher, events, lost = SparkSliceLauncher(_Session(), "m:f", SESSION_MS), list[Any](), list[str]()  # type: ignore[arg-type]
    launcher.open(events.append)
    channel, slice_ = launcher.channel(), SparkSlotJob(launcher, 1)
    channel.expect(1, slice_)
    reader = SliceTicket(1, slice_.token, channel.address, SESSION_MS, "m:f", channel.certificate)
    client = ControlClient(reader, "reader", lost.append)
    client.listen(lambda message: None)
    wait_until(lambda: "reader" in slice_._halves)
    with monkeypatch.context() as broken:
        broken.setattr(control_channel.ControlChannel, "_watch_time", lambda self: 1 / 0)
        wait_until(lambda: bool(lost))
    slice_._on_job_done("its processes ended")
    assert events == []  # a process that hears nothing may still live
    wait_until(lambda: events == [SliceGone(1, "its processes ended")])
    following = Owner()
    launcher.channel().expect(2, following)
    Half(launcher.channel(), following, "reader", 2).client.close()
    client._sock.close()
    launcher.close()

"""The executor's end of the control channel.

Owns one connection and its thread. Losing the driver (end of stream at once, silence for the session timeout)
calls ``on_lost``: the half must then stop by itself, for the driver may already have given its tasks away (E3).
"""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from spark_connect_rt.base.loggers import JAVA_LOG_LEVELS
from spark_connect_rt.engine.executor.control_cipher import driver_known_by
from spark_connect_rt.engine.executor.control_wire import Message, MessageSplitter, encode_message
from spark_connect_rt.engine.executor.task_logs import take_logs
from spark_connect_rt.engine.executor.ticket import SliceTicket
from spark_connect_rt.errors import FencedError

CONNECT_TIMEOUT_S = 10.0
TURN_S = 1.0
log = logging.getLogger(__name__)


def connect(address: str) -> socket.socket:
    """Return a connected socket. Raises OSError."""
    scheme, _, rest = address.partition(":")
    if scheme == "unix":
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(CONNECT_TIMEOUT_S)
        sock.connect(rest)
        return sock
    host, _, port = rest.rpartition(":")
    sock = socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


class Line:
    """An encrypted connection to the driver of a ticket. ``send`` and ``receive`` may be called by two threads."""

    def __init__(self, ticket: SliceTicket) -> None:
        """Connect. Raises OSError: there is no driver, or another one."""
        self._cipher = driver_known_by(ticket.certificate)
        self._sending = threading.Lock()
        self.sock = connect(ticket.address)
        try:
            self._greet()
        except OSError:
            self.sock.close()
            raise

    def _greet(self) -> None:
        self.sock.sendall(self._cipher.greet())
        while not self._cipher.ready:
            chunk = self.sock.recv(65536)
            if not chunk:
                raise ConnectionError("the driver closed the connection during the handshake")
            self.sock.sendall(self._cipher.greet(chunk))

    def send(self, data: bytes) -> None:
        """Send all of it, in the order of calls. Raises OSError."""
        with self._sending:
            self.sock.sendall(self._cipher.seal(data))

    def send_now(self, data: bytes) -> bool:
        """Send it if nothing has to be waited for: at most 16 KiB, which a socket that takes anything takes whole.

        Returns False where it would wait, and nothing was sent. Raises OSError.
        """
        if not self._sending.acquire(blocking=False):
            return False
        try:
            free = select.poll()
            free.register(self.sock, select.POLLOUT)
            if not free.poll(0):
                return False
            self.sock.sendall(self._cipher.seal(data))
            return True
        finally:
            self._sending.release()

    def receive(self) -> bytes | None:
        """Wait for something to arrive; return the data in it, may be none yet; None: the end. Raises OSError."""
        chunk = self.sock.recv(65536)
        return self._cipher.open(chunk) if chunk else None


class ControlClient:
    """One half's connection to the driver. It can be sent by at once; ``listen`` handles what the driver says."""

    def __init__(self, ticket: SliceTicket, role: str, on_lost: Callable[[str], None]) -> None:
        self._role = role
        self._on_message: Callable[[Message], None] = lambda message: None
        self._on_turn: Callable[[], None] = lambda: None
        self._on_lost = on_lost
        self._session_s = ticket.session_timeout_ms / 1000
        self._closed = False
        self._line = Line(ticket)
        self._sock = self._line.sock
        self._sock.settimeout(self._session_s / 3)
        self._thread: threading.Thread | None = None
        hello = {"op": "hello", "slice": ticket.slice_id, "token": ticket.token, "role": role, "pid": os.getpid()}
        self._line.send(encode_message(hello))

    def listen(self, on_message: Callable[[Message], None], on_turn: Callable[[], None] = lambda: None) -> None:
        """Hand over every message, also those that came since the hello, on its own thread.

        ``on_turn`` is called there each second at least, and once more by ``close``. It must not wait.
        """
        self._on_message, self._on_turn = on_message, on_turn
        self._thread = threading.Thread(target=self._run, name=f"control-{self._role}", daemon=True)
        self._thread.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message. Any thread. Raises TypeError: it cannot be written as JSON."""
        self.send_encoded(encode_message(message))

    def send_encoded(self, data: bytes) -> None:
        """Send encoded messages, one behind the other. Any thread."""
        try:
            self._line.send(data)
        except OSError as error:
            self._lost(f"sending failed: {error}")

    def send_now(self, data: bytes) -> bool:
        """Send an encoded message if nothing has to be waited for; False: nothing was sent. At most 16 KiB."""
        try:
            return not self._closed and self._line.send_now(data)
        except OSError as error:
            self._lost(f"sending failed: {error}")
            return False

    def close(self) -> None:
        """End in good order: everything sent will arrive, ``on_lost`` is not called."""
        self._on_turn()
        self._closed = True
        with contextlib.suppress(OSError):
            # Only the sending half: closing with something unread would reset the connection and could
            # take the last reports with it. The driver closes when it has read them all.
            self._sock.shutdown(socket.SHUT_WR)
        if self._thread is not None:
            self._thread.join(self._session_s)
        self._sock.close()

    def _lost(self, why: str) -> None:
        if not self._closed:
            self._closed = True
            self._on_lost(why)

    def _run(self) -> None:
        try:
            self._receive_until_lost()
        except (OSError, ValueError) as error:
            self._lost(f"the control channel broke: {error}")
        except BaseException as error:  # unheard, this process would live on when the driver is gone (E3)
            log.exception("a message of the driver failed")
            self._lost(f"a message of the driver failed: {type(error).__name__}: {error}")

    def _take(self, message: Message) -> bool:
        """Take a message; False: that failed, and a half that ignores its driver must end (E3)."""
        try:
            if message["op"] == "levels":
                JAVA_LOG_LEVELS.replace(message["levels"])
            elif message["op"] == "log_level":
                take_logs(message["level"])
            else:
                self._on_message(message)
        except BaseException as error:
            log.exception("a message of the driver failed")
            self._lost(f"{message['op']} of the driver failed: {type(error).__name__}: {error}")
            return False
        return True

    def _receive_until_lost(self) -> None:
        splitter = MessageSplitter()
        incoming = select.poll()
        incoming.register(self._sock, select.POLLIN)
        received_s = pinged_s = time.monotonic()
        while True:
            # Not the socket's own time-out: that one is for sending, too.
            silence_left_s = received_s + self._session_s - time.monotonic()
            if incoming.poll(max(0.0, 1000 * min(self._session_s / 3, silence_left_s, TURN_S))):
                data = self._line.receive()
                if data is None:
                    self._lost("the driver closed the control channel")
                    return
                for message in splitter.feed(data):
                    if message["op"] == "ping":  # E5: these alone show that the work may continue
                        received_s = time.monotonic()
                    if not self._take(message):
                        return
            self._on_turn()
            now = time.monotonic()
            if now - received_s >= self._session_s:
                self._lost(f"nothing received from the driver for {self._session_s:.1f} s")
                return
            if now - pinged_s >= self._session_s / 3 and not self._closed:
                pinged_s = now
                self.send({"op": "ping"})


def ask_totals(ticket: SliceTicket, totals: Mapping[int, tuple[int, int]]) -> None:
    """Have the driver compare a slice's totals with the reports it received. Raises FencedError if they differ."""
    hello = {
        "op": "hello",
        "slice": ticket.slice_id,
        "token": ticket.token,
        "role": "commit",
        "pid": os.getpid(),
        "totals": [(host, *counts) for host, counts in totals.items()],
    }
    splitter = MessageSplitter()
    line = Line(ticket)
    with line.sock as sock:
        sock.settimeout(ticket.session_timeout_ms / 1000)
        line.send(encode_message(hello))
        while (data := line.receive()) is not None:
            for message in splitter.feed(data):
                if message["op"] == "totals":
                    if message["error"]:
                        raise FencedError(f"slice {ticket.slice_id}: {message['error']}")
                    return
    raise FencedError(f"slice {ticket.slice_id}: the driver no longer knows this slice")

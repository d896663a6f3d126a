"""The driver's end of the control channel: one I/O thread for every slice.

Owns connections, from hello (``control_door``) to certain death. A half is dead when its kernel closed the connection,
or when it was silent or cut for longer than the session timeout, by which time it has stopped itself (E3).

Whatever is wrong with one connection ends that one alone: every slice of the worker lives by this one thread.
"""

from __future__ import annotations

import logging
import selectors
import socket
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from spark_connect_rt.base.loggers import JAVA_LOG_LEVELS
from spark_connect_rt.base.supervision import SupervisedPart, report_nowhere
from spark_connect_rt.engine.driver.control_handshake import Handshakes, PendingConnection
from spark_connect_rt.engine.executor.control_wire import Message, encode_message

DEATH_MARGIN = 1.2  # of the session timeout
_PING = encode_message({"op": "ping"})
log = logging.getLogger(__name__)


class ChannelOwner(Protocol):
    """The slice that a token belongs to. Called from the channel's thread; must be quick."""

    token: str

    def on_hello(self, connection: SlotConnection, message: Message) -> bool:
        """One of the slice's processes said who it is. False: it is refused, and not mentioned again."""

    def on_message(self, connection: SlotConnection, message: Message) -> None:
        """A connection sent a report."""

    def on_dead(self, connection: SlotConnection) -> None:
        """It is certainly dead, or ended by itself. The last call for this connection."""


class SlotConnection:
    """One half of a slice, or who closes its books."""

    def __init__(self, guest: PendingConnection, role: str) -> None:
        self.sock = guest.sock
        self.cipher = guest.cipher
        self.splitter = guest.splitter
        self.role = role
        self.owner: ChannelOwner | None = None
        self.out: deque[bytes] = deque()
        self.received_s = self.pinged_s = time.monotonic()
        self.cut_s: float | None = None  # when this side closed its half


class ControlChannel:
    """The driver's end of all connections to slots, served by one thread."""

    def __init__(
        self,
        listener: socket.socket,
        address: str,
        session_timeout_ms: int,
        holds_lease: Callable[[], bool] = lambda: True,
        identity: tuple[ssl.SSLContext | None, str] = (None, ""),
    ) -> None:
        """Take the listener; ``holds_lease`` is asked before each ping: executors live by pings alone (E5).

        ``identity``: by which the channel is encrypted, with its certificate (PEM).
        """
        self.address = address
        tls, self.certificate = identity
        self._holds_lease = holds_lease
        self._session_s = session_timeout_ms / 1000
        self._owners: dict[int, ChannelOwner] = {}
        self._connections: set[SlotConnection] = set()
        self._orders: deque[tuple[SlotConnection, Callable[[], None]]] = deque()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)  # full: the thread is to wake anyway
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._stopped = threading.Event()
        self.ended = False  # nothing is received or sent any more
        self.on_thread_end: Callable[[BaseException | str], None] = lambda why: report_nowhere(
            SupervisedPart.CHANNEL, why
        )
        self._door = Handshakes(listener, tls, self._token_of, self._admit)
        self._thread = threading.Thread(target=self._run, name="control-channel", daemon=True)
        self._thread.start()
        JAVA_LOG_LEVELS.listen(self._say_levels)

    # -- any thread

    def _say_levels(self, levels: Mapping[str, str]) -> None:
        for connection in tuple(self._connections):
            self.send(connection, {"op": "levels", "levels": dict(levels)})

    def expect(self, slice_id: int, owner: ChannelOwner) -> None:
        """Let the processes of a slice in."""
        self._owners[slice_id] = owner

    def forget(self, slice_id: int) -> None:
        """Let them in no more."""
        self._owners.pop(slice_id, None)

    def send(self, connection: SlotConnection, message: Message) -> None:
        """Queue a message; dropped when the connection is cut. Raises TypeError: it cannot be written as JSON."""
        data = encode_message(message)  # here, so that the caller gets the error if the message cannot be encoded
        self._order(connection, lambda: self._queue(connection, data))

    def cut(self, connection: SlotConnection) -> None:
        """Close this side's half: the process on the other end exits when it sees that; ``on_dead`` follows."""
        self._order(connection, lambda: self._cut(connection))

    def close(self) -> None:
        """Cut everything and end the threads."""
        JAVA_LOG_LEVELS.forget(self._say_levels)
        self._stopped.set()
        self._wake()
        self._thread.join(5)

    def _token_of(self, slice_id: int) -> str | None:
        owner = self._owners.get(slice_id)
        return None if owner is None else owner.token

    def _admit(self, guest: PendingConnection, hello: Message, others: list[Message]) -> None:
        connection = SlotConnection(guest, hello["role"])
        self._order(connection, lambda: self._take_in(connection, hello, others))
        if self.ended:
            guest.sock.close()

    def _order(self, connection: SlotConnection, step: Callable[[], None]) -> None:
        if not self.ended:
            self._orders.append((connection, step))
            self._wake()

    def _wake(self) -> None:
        try:
            self._wake_out.send(b"w")
        except OSError:
            log.debug("control channel is awake, or closed")

    # -- the channel's thread

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                self._serve_once()
        except BaseException as error:  # not by a message: the thread's own work failed
            log.exception("the control channel has ended, so every slice is lost")
            self.on_thread_end(error)
        finally:
            self.ended = True
            self._give_up()

    def _serve_once(self) -> None:
        for key, events in self._selector.select(self._session_s / 6):
            if key.fileobj is self._wake_in:
                self._wake_in.recv(65_536)
            else:
                self._guarded(key.data, partial(self._serve, key.data, events))
        while self._orders:
            connection, step = self._orders.popleft()
            self._guarded(connection, step)
        self._watch_time()

    def _give_up(self) -> None:
        """Close everything.

        Unless a stop was requested, each closed half counts as dead once its deadline has certainly passed (E3).
        """
        self._door.close()
        for sock in (self._wake_in, self._wake_out, *(peer.sock for peer in self._connections)):
            sock.close()
        self._selector.close()
        if not self._stopped.wait(self._session_s * DEATH_MARGIN):
            for connection in list(self._connections):
                self._tell_dead(connection)

    def _guarded(self, connection: SlotConnection, step: Callable[[], None]) -> None:
        """Serve one connection. A failure ends only that connection."""
        try:
            step()
        except Exception as error:
            if not isinstance(error, (OSError, ValueError)):
                log.exception("control connection of %s failed", connection.role)
            self._broken(connection, f"{type(error).__name__}: {error}")

    def _take_in(self, connection: SlotConnection, hello: Message, others: list[Message]) -> None:
        self._connections.add(connection)
        self._selector.register(connection.sock, selectors.EVENT_READ, connection)
        connection.owner = self._owners.get(hello["slice"])
        if connection.owner is None or not connection.owner.on_hello(connection, hello):
            log.warning("a %s of slice %s is rejected", connection.role, hello["slice"])
            connection.owner = None
            self._drop(connection)
            return
        self._queue(connection, encode_message({"op": "log_level", "level": logging.getLogger().level}))
        levels: Mapping[str, str] = {}
        while levels != (levels := JAVA_LOG_LEVELS.current()):  # until nothing was set meanwhile
            self._queue(connection, encode_message({"op": "levels", "levels": dict(levels)}))
        for message in others:
            self._on_message(connection, message)

    def _serve(self, connection: SlotConnection, events: int) -> None:
        if connection not in self._connections:
            return
        if events & selectors.EVENT_WRITE:
            self._flush(connection)
        if events & selectors.EVENT_READ:
            self._read(connection)

    def _read(self, connection: SlotConnection) -> None:
        try:
            chunk = connection.sock.recv(262_144)
        except BlockingIOError:
            return
        except ConnectionResetError:
            if connection.sock.family != socket.AF_UNIX:
                raise
            chunk = b""  # of this machine's kernel: its process closed it, or is gone, with something unread
        if not chunk:
            self._drop(connection)
            return
        data = connection.cipher.open(chunk)
        connection.received_s = time.monotonic()
        for message in connection.splitter.feed(data):
            self._on_message(connection, message)

    def _on_message(self, connection: SlotConnection, message: Message) -> None:
        if connection.owner is not None and message["op"] != "ping":
            connection.owner.on_message(connection, message)

    def _broken(self, connection: SlotConnection, why: str) -> None:
        """Cut a connection whose other end may still live: it is dead only after the session timeout."""
        log.warning("control connection of %s broke: %s", connection.role, why)
        self._close(connection)
        connection.cut_s = connection.cut_s or time.monotonic()

    def _queue(self, connection: SlotConnection, data: bytes) -> None:
        if connection in self._connections and connection.cut_s is None:
            connection.out.append(connection.cipher.seal(data))
            self._flush(connection)

    def _flush(self, connection: SlotConnection) -> None:
        try:
            while connection.out:
                sent = connection.sock.send(connection.out[0])
                if sent < len(connection.out[0]):
                    connection.out[0] = connection.out[0][sent:]
                else:
                    connection.out.popleft()
        except BlockingIOError:
            pass
        except OSError:  # bytes that it sent before are read first and show its end
            connection.out.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.out else 0)
        self._selector.modify(connection.sock, wanted, connection)

    def _cut(self, connection: SlotConnection) -> None:
        if connection not in self._connections or connection.cut_s is not None:
            return
        connection.cut_s = time.monotonic()
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            log.debug("%s has already ended", connection.role)

    def _drop(self, connection: SlotConnection) -> None:
        """Forget a connection whose other end is dead."""
        self._connections.discard(connection)
        self._close(connection)
        self._tell_dead(connection)

    def _close(self, connection: SlotConnection) -> None:
        if connection.sock.fileno() >= 0:
            self._selector.unregister(connection.sock)
            connection.sock.close()

    def _tell_dead(self, connection: SlotConnection) -> None:
        if connection.owner is None:
            return
        try:
            connection.owner.on_dead(connection)
        except Exception:
            log.exception("the slice of %s failed after its end", connection.role)

    def _watch_time(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            self._guarded(connection, partial(self._watch, connection, now))

    def _watch(self, connection: SlotConnection, now_s: float) -> None:
        if connection.cut_s is not None:
            if now_s - connection.cut_s > self._session_s * DEATH_MARGIN:
                self._drop(connection)
        elif now_s - connection.received_s > self._session_s:
            self._broken(connection, f"silent for {self._session_s:.1f} s")
        elif now_s - connection.pinged_s > self._session_s / 3 and self._holds_lease():
            connection.pinged_s = now_s
            self._queue(connection, _PING)


def listen_unix(path: str, session_timeout_ms: int, holds_lease: Callable[[], bool] = lambda: True) -> ControlChannel:
    """Listen on a unix socket: driver and executors on one machine. Its folder keeps others out."""
    Path(path).unlink(missing_ok=True)  # of a channel that ended
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(256)
    return ControlChannel(listener, f"unix:{path}", session_timeout_ms, holds_lease)


def listen_tcp(host: str, session_timeout_ms: int, holds_lease: Callable[[], bool] = lambda: True) -> ControlChannel:
    """Listen on a free port of the driver's address; TLS."""
    from spark_connect_rt.engine.driver.control_handshake import new_identity  # 8 MiB that a local Spark does not need

    listener = socket.create_server((host, 0), backlog=256)
    port = listener.getsockname()[1]
    return ControlChannel(listener, f"tcp:{host}:{port}", session_timeout_ms, holds_lease, new_identity())

"""The driver's end of the control channel: one listener and one I/O thread for every slice.

Owns connections, from hello to certain death. A stranger (wrong token, no hello within seconds, not our bytes) is
cut off. A half is dead when its kernel closed the connection, or when it was silent or cut for longer than the
session timeout, by which time it has stopped itself (E3).
"""

from __future__ import annotations

import hmac
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from spark_connect_rt.ports.supervision import Part, report_nowhere, watched
from spark_connect_rt.spark.executor.control_wire import Message, MessageSplitter, encode_message

HELLO_TIMEOUT_S = 10.0
DEATH_MARGIN = 1.2  # of the session timeout
log = logging.getLogger(__name__)


class ChannelOwner(Protocol):
    """The slice that a token belongs to. Called from the channel's thread; must be quick."""

    token: str

    def on_hello(self, connection: Connection, message: Message) -> None:
        """One of the slice's processes said who it is."""

    def on_message(self, connection: Connection, message: Message) -> None:
        """It said something."""

    def on_dead(self, connection: Connection) -> None:
        """It is certainly dead, or ended by itself. The last call for this connection."""


class Connection:
    """One accepted connection."""

    def __init__(self, sock: socket.socket, now_s: float) -> None:
        self.sock = sock
        self.role = ""
        self.owner: ChannelOwner | None = None
        self.splitter = MessageSplitter(limit_bytes=65_536)  # until hello
        self.out: deque[bytes] = deque()
        self.opened_s = self.heard_s = self.pinged_s = now_s
        self.cut_s: float | None = None  # when this side closed its half


class ControlChannel:
    """Listener, connections and their thread."""

    def __init__(
        self,
        listener: socket.socket,
        address: str,
        session_timeout_ms: int,
        may_vouch: Callable[[], bool] = lambda: True,
    ) -> None:
        """Take the listener; ``may_vouch`` is asked before each ping: executors live by pings alone (E5)."""
        self.address = address
        self._may_vouch = may_vouch
        self._session_s = session_timeout_ms / 1000
        self._listener = listener
        self._listener.setblocking(False)
        self._owners: dict[int, ChannelOwner] = {}
        self._connections: set[Connection] = set()
        self._orders: deque[Callable[[], None]] = deque()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake_in, selectors.EVENT_READ)
        self._stopped = False
        self.on_thread_end: Callable[[BaseException | str], None] = lambda why: report_nowhere(Part.CHANNEL, why)
        run = watched(self._run, Part.CHANNEL, lambda _, why: self.on_thread_end(why), lambda: self._stopped)
        self._thread = threading.Thread(target=run, name="control-channel", daemon=True)
        self._thread.start()

    # -- any thread

    def expect(self, slice_id: int, owner: ChannelOwner) -> None:
        """Let the processes of a slice in."""
        self._owners[slice_id] = owner

    def forget(self, slice_id: int) -> None:
        """Let them in no more."""
        self._owners.pop(slice_id, None)

    def send(self, connection: Connection, message: Message) -> None:
        """Queue a message; dropped when the connection is cut."""
        self._order(lambda: self._queue(connection, encode_message(message)))

    def cut(self, connection: Connection) -> None:
        """Close this side's half: the process on the other end exits when it sees that; ``on_dead`` follows."""
        self._order(lambda: self._cut(connection))

    def close(self) -> None:
        """Cut everything and end the thread."""
        self._stopped = True
        self._order(lambda: None)
        self._thread.join(5)
        for connection in list(self._connections):
            connection.sock.close()
        for sock in (self._listener, self._wake_in, self._wake_out):
            sock.close()
        self._selector.close()

    def _order(self, step: Callable[[], None]) -> None:
        self._orders.append(step)
        try:
            self._wake_out.send(b"w")
        except OSError:
            log.debug("control channel is closed")

    # -- the channel's thread

    def _run(self) -> None:
        while not self._stopped:
            for key, events in self._selector.select(self._session_s / 6):
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._wake_in:
                    self._wake_in.recv(65_536)
                else:
                    self._serve(key.data, events)
            while self._orders:
                self._orders.popleft()()
            self._watch_time()

    def _accept(self) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        sock.setblocking(False)
        if sock.family != socket.AF_UNIX:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock, time.monotonic())
        self._connections.add(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)

    def _serve(self, connection: Connection, events: int) -> None:
        if connection not in self._connections:
            return
        if events & selectors.EVENT_WRITE:
            self._flush(connection)
        if events & selectors.EVENT_READ:
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        try:
            chunk = connection.sock.recv(262_144)
        except BlockingIOError:
            return
        except OSError as error:
            self._broken(connection, str(error))
            return
        if not chunk:
            self._drop(connection)
            return
        connection.heard_s = time.monotonic()
        try:
            for message in connection.splitter.feed(chunk):
                self._hear(connection, message)
        except (ValueError, KeyError) as error:
            self._broken(connection, f"not our protocol: {error}")

    def _hear(self, connection: Connection, message: Message) -> None:
        if connection.owner is not None:
            if message["op"] != "ping":
                connection.owner.on_message(connection, message)
            return
        owner = self._owners.get(message["slice"]) if message["op"] == "hello" else None
        if owner is None or not hmac.compare_digest(owner.token, str(message["token"])):
            raise ValueError("no such slice, or a wrong token")
        connection.owner = owner
        connection.role = message["role"]
        connection.splitter.limit_bytes = MessageSplitter().limit_bytes
        owner.on_hello(connection, message)

    def _broken(self, connection: Connection, why: str) -> None:
        """Cut a connection whose other end may still live: it is dead only after the session timeout."""
        log.warning("control connection of %s broke: %s", connection.role or "a stranger", why)
        if connection.owner is None:
            self._drop(connection)
            return
        self._selector.unregister(connection.sock)
        connection.sock.close()
        connection.cut_s = connection.cut_s or time.monotonic()

    def _queue(self, connection: Connection, data: bytes) -> None:
        if connection in self._connections and connection.cut_s is None:
            connection.out.append(data)
            self._flush(connection)

    def _flush(self, connection: Connection) -> None:
        try:
            while connection.out:
                sent = connection.sock.send(connection.out[0])
                if sent < len(connection.out[0]):
                    connection.out[0] = connection.out[0][sent:]
                else:
                    connection.out.popleft()
        except BlockingIOError:
            pass
        except OSError:  # what it still sent is read first; its end shows there
            connection.out.clear()
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.out else 0)
        self._selector.modify(connection.sock, wanted, connection)

    def _cut(self, connection: Connection) -> None:
        if connection not in self._connections or connection.cut_s is not None:
            return
        connection.cut_s = time.monotonic()
        try:
            connection.sock.shutdown(socket.SHUT_WR)
        except OSError:
            log.debug("%s is gone already", connection.role)

    def _drop(self, connection: Connection) -> None:
        """Forget a connection whose other end is dead."""
        self._connections.discard(connection)
        if connection.sock.fileno() >= 0:
            self._selector.unregister(connection.sock)
            connection.sock.close()
        if connection.owner is not None:
            connection.owner.on_dead(connection)

    def _watch_time(self) -> None:
        now = time.monotonic()
        for connection in list(self._connections):
            if connection.owner is None:
                if now - connection.opened_s > HELLO_TIMEOUT_S:
                    self._drop(connection)
            elif connection.cut_s is not None:
                if now - connection.cut_s > self._session_s * DEATH_MARGIN:
                    self._drop(connection)
            elif now - connection.heard_s > self._session_s:
                self._broken(connection, f"silent for {self._session_s:.1f} s")
            elif now - connection.pinged_s > self._session_s / 3 and self._may_vouch():
                connection.pinged_s = now
                self._queue(connection, encode_message({"op": "ping"}))


def listen_unix(path: str, session_timeout_ms: int, may_vouch: Callable[[], bool] = lambda: True) -> ControlChannel:
    """Listen on a unix socket: driver and executors on one machine."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(256)
    return ControlChannel(listener, f"unix:{path}", session_timeout_ms, may_vouch)


def listen_tcp(host: str, session_timeout_ms: int, may_vouch: Callable[[], bool] = lambda: True) -> ControlChannel:
    """Listen on a free port of the driver's address."""
    listener = socket.create_server((host, 0), backlog=256)
    port = listener.getsockname()[1]
    return ControlChannel(listener, f"tcp:{host}:{port}", session_timeout_ms, may_vouch)

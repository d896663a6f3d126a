"""uvicorn's server with bounded connections, and without its ten checks a second whether it has to end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Callable
from enum import Enum
from functools import partial
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from spark_connect_rt.base.descriptor_limit import NOWHERE, descriptor_limit
from spark_connect_rt.rest.listening.connections import BODY_BYTES_PER_S, REQUEST_LIMIT_S, Connections
from spark_connect_rt.rest.listening.turns import only_health

# uvicorn's HTTP/1.1 connection with limits: the connection of a client that sends or reads too slowly is closed.
#
# uvicorn bounds only the time between an answer and the next byte. Owns the phases of a request as h11 sees them; the
# numbers are in connections.py.


HEAD_MAX_BYTES = 16 * 1024
"""Of a request's line and headers together; Jetty takes 8 KiB."""
DISCARDED_MAX_BYTES = 72 * 1024 * 1024
"""Of a body that is not read because its request is answered already; the largest one that is read is 64 MiB."""
_REFUSAL = "HTTP/1.1 {} {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
LATE = _REFUSAL.format(408, "Request Timeout").encode()
HEAD_TOO_LARGE = _REFUSAL.format(431, "Request Header Fields Too Large").encode()


class Awaits(Enum):
    """The part of a request that the client has to send next."""

    HEAD = "head"
    BODY = "body"
    NOTHING = "nothing"  # the request is complete, or none has begun since the last answer


class BoundedHttp(H11Protocol):
    """One HTTP/1.1 connection with the limits of its listener."""

    def __init__(self, open_connections: Connections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._all = open_connections
        self._awaits = Awaits.HEAD
        self._since_s = self.loop.time()
        self._body_bytes = 0
        self._unsent_bytes, self._unsent_since_s = 0, 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection; beyond the limit it is served ``/health`` alone."""
        super().connection_made(transport)
        if not self._all.opened(self):
            self.app = only_health(self.app)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, because the client or the server closed it."""
        self._all.closed(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, and note what has to come next."""
        if self._awaits is Awaits.BODY:
            self._body_bytes += len(data)
        elif self._awaits is Awaits.NOTHING:
            self._begin(Awaits.HEAD)
        self._all.active(self)
        super().data_received(data)
        self._note()

    def on_response_complete(self) -> None:
        """Continue with the next request, if it is there already."""
        super().on_response_complete()
        self._note()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP; a head that is too large is answered 431, as in Java."""
        if len(self.conn.trailing_data[0]) > HEAD_MAX_BYTES:
            self.transport.write(HEAD_TOO_LARGE)
            self.transport.close()
            return
        super().send_400_response(msg)

    def is_idle(self) -> bool:
        """Return whether no request is being read to its end or answered."""
        return self.cycle is None or (self.cycle.response_complete and self._awaits is not Awaits.BODY)

    def is_late(self, now_s: float) -> bool:
        """Return whether the client takes too long to send a request, or to read an answer."""
        return self._sends_too_slowly(now_s) or self._reads_too_slowly(now_s)

    def _sends_too_slowly(self, now_s: float) -> bool:
        if self._awaits is Awaits.NOTHING:
            return False
        if self.flow is not None and self.flow.read_paused:  # it is the application that does not read on
            self._since_s = now_s
            return False
        answered = self.cycle is not None and self.cycle.response_complete
        if self._awaits is Awaits.BODY and answered and self._body_bytes > DISCARDED_MAX_BYTES:
            return True
        return now_s - self._since_s > REQUEST_LIMIT_S + self._body_bytes / BODY_BYTES_PER_S

    def _reads_too_slowly(self, now_s: float) -> bool:
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes == 0 or unsent_bytes != self._unsent_bytes:
            self._unsent_bytes, self._unsent_since_s = unsent_bytes, now_s
            return False
        return now_s - self._unsent_since_s > REQUEST_LIMIT_S

    def end(self) -> None:
        """See ``ClientConnection``. A client that has begun a request and is owed no answer yet learns why (408)."""
        begun = self._awaits is Awaits.HEAD and bool(self.conn.trailing_data[0])
        if begun and self.is_idle() and not self.transport.get_write_buffer_size():
            self.transport.write(LATE)
            self.transport.close()
        else:
            self.transport.abort()

    def _note(self) -> None:
        """Note what h11 waits for."""
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            self._begin(Awaits.BODY)
        elif state is h11.IDLE and (self.cycle is None or self.conn.trailing_data[0]):
            self._begin(Awaits.HEAD)
        else:
            self._awaits = Awaits.NOTHING

    def _begin(self, awaits: Awaits) -> None:
        if self._awaits is not awaits:
            self._awaits, self._since_s, self._body_bytes = awaits, self.loop.time(), 0


# A listener that is short of descriptors: says so once a minute, and keeps some back for clients that ask meanwhile.
#
# asyncio reports each attempt to accept a connection with a traceback, and tries as often as its backlog is long.


log = logging.getLogger(__name__)

SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
LOG_EVERY_S = 60.0
RESERVED = 8


class ReservedDescriptors:
    """Descriptors that are held only to be given back when there are no others."""

    def __init__(self, count: int = RESERVED) -> None:
        self._count = count
        self._held: list[int] = []

    def hold(self) -> None:
        """Take as many as are available, up to the wanted number."""
        try:
            while len(self._held) < self._count:
                self._held.append(os.open(NOWHERE, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:  # there is still a shortage; this is called again
            return

    def release(self) -> int:
        """Give all of them back; return how many that were."""
        held, self._held = self._held, []
        for descriptor in held:
            os.close(descriptor)
        return len(held)


class AcceptErrors:
    """An event loop's exception handler. It runs on the loop, between two attempts to accept."""

    def __init__(
        self,
        reserved: ReservedDescriptors,
        lower: Callable[[float], None],
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """``lower`` has fewer connections open for a while; it takes the time, s."""
        self._reserved = reserved
        self._lower = lower
        self._now_s = now_s
        self._count = 0
        self._logged_s = -LOG_EVERY_S

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Take what asyncio reports; anything but a shortage takes the default way."""
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in SHORTAGES and "accept" in context.get("message", "")):
            loop.default_exception_handler(context)
            return
        self._count += 1
        self._reserved.release()
        self._lower(self._now_s())
        self.report(error)

    def report(self, error: OSError) -> None:
        """Log how often connections could not be accepted since the last line, once a minute at most."""
        now_s = self._now_s()
        if now_s - self._logged_s < LOG_EVERY_S:
            return
        log.error(
            "REST cannot accept connections: %s (%d attempts since the last such line; ulimit -n is %d). Idle "
            "connections are closed and the next ones accepted as soon as files are closed.",
            error.strerror or error,
            self._count,
            descriptor_limit().soft,
        )
        self._logged_s, self._count = now_s, 0


TICK_S = 1.0  # uvicorn's tick also renews the Date header
ACCEPTED_AT_ONCE = 64  # in one round of the loop: connections accepted before are served between two rounds
BACKLOG = 1_024  # connections that the system keeps until they are accepted


class CalmServer(uvicorn.Server):
    """``end`` is noticed at once, by whichever thread it is called."""

    def __init__(self, config: uvicorn.Config, most: int) -> None:
        """``most``: how many connections may be open at once."""
        super().__init__(config)
        self.connections = Connections(most)
        self._reserved = ReservedDescriptors()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wakes = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept on the sockets. Raises RuntimeError: the application refused to start."""
        await self.lifespan.startup()
        if self.lifespan.should_exit:
            raise RuntimeError("the application did not start")
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(AcceptErrors(self._reserved, self.connections.lower, loop.time))
        self._reserved.hold()
        tls: dict[str, Any] = {"ssl_handshake_timeout": REQUEST_LIMIT_S} if self.config.ssl else {}
        self.servers = []
        for sock in sockets or []:
            made = partial(
                BoundedHttp, self.connections, self.config, self.server_state, app_state=self.lifespan.state, _loop=loop
            )
            server = await loop.create_server(made, sock=sock, ssl=self.config.ssl, backlog=ACCEPTED_AT_ONCE, **tls)
            sock.listen(BACKLOG)  # asyncio takes its backlog for both
            self.servers.append(server)
        self.started = True

    async def main_loop(self) -> None:
        """See uvicorn: returns when the server is to end."""
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            self.connections.close_late(self._loop.time())
            self._reserved.hold()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wakes.wait(), TICK_S)
        self._reserved.release()

    def end(self) -> None:
        """Have the server end. Any thread."""
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._wakes.set)

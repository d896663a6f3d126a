"""uvicorn's HTTP/1.1 connection with limits: a client that sends or reads too slowly is cut off.

uvicorn bounds only the time between an answer and the next byte. Owns the phases of a request as h11 sees them; the
numbers are in connections.py.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from spark_connect_rt.rest.listening.connections import BODY_BYTES_PER_S, REQUEST_LIMIT_S, Connections
from spark_connect_rt.rest.listening.turns import only_health

HEAD_MAX_BYTES = 16 * 1024
"""Of a request's line and headers together; Jetty takes 8 KiB."""
DISCARDED_MAX_BYTES = 72 * 1024 * 1024
"""Of a body that nobody reads because its request is answered already; the largest one that is read is 64 MiB."""
_REFUSAL = "HTTP/1.1 {} {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
LATE = _REFUSAL.format(408, "Request Timeout").encode()
HEAD_TOO_LARGE = _REFUSAL.format(431, "Request Header Fields Too Large").encode()


class Awaits(Enum):
    """What the client has to send next."""

    HEAD = "head"
    BODY = "body"
    NOTHING = "nothing"  # the request is complete, or none has begun since the last answer


class BoundedHttp(H11Protocol):
    """One connection."""

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
        """See uvicorn."""
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
        """Go on with the next request, if it is there already."""
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
        """See ``Connection``."""
        return self.cycle is None or (self.cycle.response_complete and self._awaits is not Awaits.BODY)

    def is_late(self, now_s: float) -> bool:
        """See ``Connection``."""
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
        """See ``Connection``. A client that has begun a request and is owed no answer yet learns why (408)."""
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

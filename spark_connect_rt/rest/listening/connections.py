"""The open connections of one listener: how many there may be, and how long each may take over one request.

Owns the limits. A connection is whatever implements ``ClientConnection``, as uvicorn's does in event_driven_server.py.
All of it runs on the listener's event loop.
"""

from __future__ import annotations

from typing import Protocol

CONNECTIONS_MAX = 1_024
"""The default of the setting ``connectrt.rest.connections.max``."""
EXTRA_MAX = 32
"""Connections beyond the limit that are still accepted while all others are busy: for ``/health``."""
REQUEST_LIMIT_S = 30.0
"""From the connect, or the first byte of a request, to the end of its head; and from there to the end of its body."""
LOWERED_S = 60.0
"""How long fewer connections are taken after the process had no files left."""
BODY_BYTES_PER_S = 65_536
"""A body that comes as fast as this may take longer: its limit grows with what has arrived."""


class ClientConnection(Protocol):
    """One connection of a client."""

    def is_idle(self) -> bool:
        """Return whether no request is being read to its end or answered."""

    def is_late(self, now_s: float) -> bool:
        """Return whether the client takes too long to send a request, or to read an answer. Called once a second."""

    def end(self) -> None:
        """Close the connection now, without waiting."""


class Connections:
    """Those of one listener, in the order in which they were last active."""

    def __init__(self, most: int = CONNECTIONS_MAX) -> None:
        """``most``: how many may be open at once."""
        self._most = most
        self._lowered_to: int | None = None
        self._lowered_until_s = 0.0
        self._open: dict[ClientConnection, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, connection: ClientConnection) -> bool:
        """Take a new connection; return whether it is within the limit.

        At the limit the idle connection that was active longest ago is closed for it. While all are busy the next
        ``EXTRA_MAX`` are beyond the limit (False), and what comes after these is closed.
        """
        most = self._most if self._lowered_to is None else self._lowered_to
        within = len(self._open) < most or self.close_idle(1) > 0
        self._open[connection] = None
        if len(self._open) > most + EXTRA_MAX:
            self._end(connection)
        return within

    def lower(self, now_s: float) -> None:
        """Take no more than half of what is open, for a minute: the process has no files left for more.

        Then an idle connection makes room for each new one before the next shortage.
        """
        self._lowered_until_s = now_s + LOWERED_S
        if self._lowered_to is None:
            self._lowered_to = max(1, len(self._open) // 2)
            self.close_idle(len(self._open) - self._lowered_to)

    def active(self, connection: ClientConnection) -> None:
        """Note that a connection was used just now."""
        if connection in self._open:
            del self._open[connection]
            self._open[connection] = None

    def closed(self, connection: ClientConnection) -> None:
        """Forget a connection that is closed."""
        self._open.pop(connection, None)

    def close_idle(self, count: int) -> int:
        """Close up to ``count`` idle connections, those first that were active longest ago; return how many."""
        idle: list[ClientConnection] = []
        for connection in self._open:
            if len(idle) >= count:
                break
            if connection.is_idle():
                idle.append(connection)
        for connection in idle:
            self._end(connection)
        return len(idle)

    def close_late(self, now_s: float) -> int:
        """Close the connections whose clients take too long; return how many. Called once a second."""
        if now_s >= self._lowered_until_s:
            self._lowered_to = None
        late = [connection for connection in self._open if connection.is_late(now_s)]
        for connection in late:
            self._end(connection)
        return len(late)

    def _end(self, connection: ClientConnection) -> None:
        del self._open[connection]  # at once: the transport reports its end only in the loop's next round
        connection.end()


def connections_max(wanted: int, descriptors: int, listeners: int) -> int:
    """Return the limit of one listener: ``wanted``, but all listeners together at most half of the descriptors."""
    return max(1, min(wanted, descriptors // 2 // max(1, listeners)))

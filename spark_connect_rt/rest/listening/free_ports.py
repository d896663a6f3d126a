"""Listeners whose port the system chooses (port 0): bound before the worker's address is made.

Java binds its connectors before ``advertisedUrl`` is read, too.
"""

from __future__ import annotations

import socket

from spark_connect_rt.config.worker_config import Listener


class FreePorts:
    """The sockets that were bound for such listeners, until a server takes them."""

    def __init__(self) -> None:
        self._bound: dict[tuple[str, int], socket.socket] = {}

    def settled(self, listener: Listener) -> Listener:
        """Return the listener with the port that it has from now on. Raises OSError: it is unavailable."""
        if listener.port:
            return listener
        bound = listening(listener.host, 0)
        port = int(bound.getsockname()[1])
        self._bound[listener.host, port] = bound
        return Listener(listener.scheme, listener.host, port)

    def take(self, host: str, port: int) -> socket.socket | None:
        """Return the socket that is bound to it, which is the caller's now; None: none is held."""
        return self._bound.pop((host, port), None)

    def close(self) -> None:
        """Close the ports that were not taken. Safe to call twice."""
        while self._bound:
            self._bound.popitem()[1].close()


def listening(host: str, port: int, backlog: int = 128) -> socket.socket:
    """Return a bound, listening socket. SO_REUSEADDR only lets a restart pass over connections in TIME_WAIT."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(backlog)
    except OSError:
        listener.close()
        raise
    return listener

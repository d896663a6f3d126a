"""Plain clients of a listener: connections that send bytes, and the time that a health check takes."""

from __future__ import annotations

import http.client
import socket
import time

from spark_connect_rt.rest.server import RestServer


def connected(server: RestServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=20)


def until_closed(client: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    found = b""
    try:
        while part := client.recv(65_536):
            found += part
    except ConnectionResetError:
        pass
    return found


def health_s(server: RestServer) -> float:
    """Return how long ``/health/live`` takes from connect to answer, s."""
    begun_s = time.monotonic()
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    client.request("GET", "/health/live")
    assert client.getresponse().status == 200
    client.close()
    return time.monotonic() - begun_s

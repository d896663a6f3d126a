"""A real listener under clients that send half a request, send too much, or only connect."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_connect_rt.rest.listening import event_driven_server as bounded_http
from spark_connect_rt.rest.listening import event_driven_server as calm_server
from spark_connect_rt.rest.server import RestServer
from tests.integration.rest.clients import connected, health_s, until_closed

LIMIT_S = 1.0


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients that are late closed after a second."""
    monkeypatch.setattr(bounded_http, "REQUEST_LIMIT_S", LIMIT_S)
    monkeypatch.setattr(calm_server, "TICK_S", 0.1)


HEAD = b"PUT /connectors/a/config HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
UNFINISHED = {
    "nothing": (b"", b""),
    "half a request line": (b"GET /conn", b"HTTP/1.1 408 "),
    "half a header": (b"GET / HTTP/1.1\r\nHost: h\r\nX-A", b"HTTP/1.1 408 "),
    "a head without its end": (b"GET / HTTP/1.1\r\nHost: h\r\n", b"HTTP/1.1 408 "),
    "a body that does not come": (HEAD + b"Content-Length: 10\r\n\r\n", b""),
    "half a body": (HEAD + b"Content-Length: 10\r\n\r\n{}", b""),
    "half a chunk": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{}", b""),
    "chunks without an end": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", b""),
    "half a request behind a whole one": (b"GET /health/live HTTP/1.1\r\nHost: h\r\n\r\nGET /", b"HTTP/1.1 200 OK"),
    "a refused request whose body does not come": (
        b"POST /connectors HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 99999999\r\n\r\n{",
        b"HTTP/1.1 413 ",
    ),
}
REFUSED = {
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"HTTP/1.1 400 "),
    "no version": (b"GET /\r\n\r\n", b"HTTP/1.1 400 "),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 "),
    "a header without a colon": (b"GET / HTTP/1.1\r\nHost: h\r\nBad\r\n\r\n", b"HTTP/1.1 400 "),
    "a folded name": (b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", b"HTTP/1.1 400 "),
    "two lengths": (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}", b"HTTP/1.1 400 "),
    "a negative length": (HEAD + b"Content-Length: -1\r\n\r\n{}", b"HTTP/1.1 400 "),
    "a chunk of no size": (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n", b"HTTP/1.1 400 "),
    "a huge header": (b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 400_000 + b"\r\n\r\n", b"HTTP/1.1 431 "),
    "a huge request line": (b"GET /" + b"a" * 400_000 + b" HTTP/1.1\r\nHost: h\r\n\r\n", b"HTTP/1.1 431 "),
    "endless headers": (b"GET / HTTP/1.1\r\nHost: h\r\n" + b"X: a\r\n" * 80_000, b"HTTP/1.1 431 "),
}


@pytest.mark.usefixtures("quick")
def test_a_client_that_does_not_finish_its_request_is_closed(start: Callable[..., RestServer]) -> None:
    server, clients = start(), dict[str, socket.socket]()
    begun_s = time.monotonic()
    for name, (sent, _) in UNFINISHED.items():
        clients[name] = connected(server)
        clients[name].sendall(sent)
    for name, (_, answer) in UNFINISHED.items():
        found = until_closed(clients[name])
        assert found.startswith(answer), (name, found)
        clients[name].close()
    assert LIMIT_S <= time.monotonic() - begun_s < LIMIT_S + 5
    assert health_s(server) < 5


@pytest.mark.usefixtures("quick")
def test_a_client_that_drips_is_closed_too(start: Callable[..., RestServer]) -> None:
    client = connected(start())
    begun_s = time.monotonic()
    try:
        for byte in b"GET /health HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 1_000:
            client.sendall(bytes([byte]))
            client.settimeout(0.05)
            try:
                if client.recv(1_000):
                    break
            except TimeoutError:
                continue
    except OSError:
        pass
    assert time.monotonic() - begun_s < LIMIT_S + 5
    client.close()


@pytest.mark.parametrize("name", REFUSED)
def test_request_that_is_not_http_is_refused_and_closed(start: Callable[..., RestServer], name: str) -> None:
    sent, answer = REFUSED[name]
    client = connected(start())
    client.sendall(sent)
    assert until_closed(client).startswith(answer)
    client.close()


@pytest.mark.usefixtures("quick")
def test_a_kept_connection_lives_longer_than_a_request_may_take(start: Callable[..., RestServer]) -> None:
    server = start()
    client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    for _ in range(2):
        client.request("GET", "/connectors")
        assert client.getresponse().read() == b'["src"]'
        time.sleep(2 * LIMIT_S)  # the fact is that nothing happens meanwhile
    client.request("GET", "/connectors")
    assert client.getresponse().status == 200
    client.close()
    assert server._server is not None
    assert server._server.config.timeout_keep_alive >= 75
    assert not server._server.config.proxy_headers


def test_idle_connections_beyond_the_limit_make_room(start: Callable[..., RestServer]) -> None:
    server = start(connections_max=20)
    idle = [connected(server) for _ in range(100)]
    assert health_s(server) < 5
    assert server._server is not None
    assert len(server._server.connections) <= 20
    for client in idle:
        client.close()


FEW_FILES = """
import logging, resource, sys, threading
resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.rest.server import RestServer
from tests.unit.rest.fake_herder import FakeHerder
server = RestServer(create_app(FakeHerder()), "127.0.0.1", 0)  # with the limit of a worker that has more files
server.start()
print(server.port, flush=True)
sys.stdin.read()
"""


def test_health_is_answered_though_no_file_is_left_and_a_line_a_minute_says_so(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-c", FEW_FILES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        assert process.stdout is not None
        port = int(process.stdout.readline())
        idle = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(150)]
        for _ in range(2):
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
            client.request("GET", "/health")
            assert client.getresponse().status == 200
            client.close()
        for connection in idle:
            connection.close()
        process.communicate(timeout=60)
    said = (tmp_path / "log").read_text()
    assert said.count("cannot accept connections: Too many open files") == 1
    assert len(said.splitlines()) == 1

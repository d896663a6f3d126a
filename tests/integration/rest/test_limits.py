"""A real listener under clients that send half a request, send too much, ask too often, or only connect."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.rest.listening import event_driven_server as bounded_http
from spark_connect_rt.rest.listening import event_driven_server as calm_server
from spark_connect_rt.rest.server import RestServer
from spark_connect_rt.runtime.values import InternalKey
from tests.unit.rest.fake_herder import FakeHerder

LIMIT_S = 1.0
HEALTH_S = 1.0  # or a third of what the others take, on a machine that is busy with other tests


@pytest.fixture
def herder() -> FakeHerder:
    return FakeHerder()


@pytest.fixture
def start(herder: FakeHerder) -> Iterator[Callable[..., RestServer]]:
    """Start a server; what it is given goes to it."""
    started: list[RestServer] = []

    def begin(**named: int) -> RestServer:
        server = RestServer(create_app(herder), "127.0.0.1", 0, **named)  # type: ignore[arg-type]
        server.start()
        started.append(server)
        return server

    yield begin
    for server in started:
        server.stop()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients that are late closed after a second."""
    monkeypatch.setattr(bounded_http, "REQUEST_LIMIT_S", LIMIT_S)
    monkeypatch.setattr(calm_server, "TICK_S", 0.1)


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


def test_health_answers_within_a_second_with_a_thousand_idle_connections(start: Callable[..., RestServer]) -> None:
    server = start()
    idle = [connected(server) for _ in range(1_010)]
    assert min(health_s(server) for _ in range(5)) < HEALTH_S
    for client in idle:
        client.close()


def test_health_answers_within_a_second_with_large_unsigned_bodies(
    start: Callable[..., RestServer], herder: FakeHerder
) -> None:
    herder.key = InternalKey(required=True, key=b"k" * 32)
    server, size, over = start(), 63 * 1024 * 1024, threading.Event()
    body, statuses = b" " * size, list[int]()

    def send() -> None:
        client = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        client.request("POST", "/connectors/src/tasks", body, {"Content-Type": "application/json"})
        statuses.append(client.getresponse().status)
        client.close()

    senders = [threading.Thread(target=send) for _ in range(8)]
    for sender in senders:
        sender.start()
    begun_s, worst_s = time.monotonic(), 0.0
    while any(sender.is_alive() for sender in senders):
        worst_s = max(worst_s, health_s(server))
        over.wait(0.02)
    assert statuses == [400] * 8
    assert worst_s < max(HEALTH_S, (time.monotonic() - begun_s) / 3)


def test_health_answers_within_a_second_with_a_thousand_lists_of_connectors(
    start: Callable[..., RestServer], herder: FakeHerder
) -> None:
    names = [f"c{number:04}" for number in range(300)]
    herder.list_connectors = lambda: tuple(names)  # type: ignore[method-assign]
    server, head = (
        start(),
        b"GET /connectors?expand=status&expand=info HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
    )
    clients = [connected(server) for _ in range(1_000)]
    lengths: list[int] = []

    def read() -> None:
        for client in clients:
            lengths.append(len(until_closed(client)))

    for client in clients:
        client.sendall(head)
    reader = threading.Thread(target=read)
    reader.start()
    begun_s, worst_s = time.monotonic(), health_s(server)
    while reader.is_alive():
        worst_s = max(worst_s, health_s(server))
        reader.join(0.05)
    took_s = time.monotonic() - begun_s
    for client in clients:
        client.close()
    assert len(lengths) == 1_000
    assert set(lengths) == {lengths[0]}
    assert worst_s < max(HEALTH_S, took_s / 3)


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

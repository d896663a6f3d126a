"""The server on a loopback socket: a port, a thread, an end."""

from __future__ import annotations

import socket
import threading

import httpx
import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.errors import RetriableError, StartupError, TimedOutError
from spark_connect_rt.rest.peers import HttpPeerClient
from spark_connect_rt.rest.server import RestServer
from tests.unit.rest.fake_herder import FakeHerder


def test_it_serves_until_stopped() -> None:
    server = RestServer(create_app(FakeHerder()), "127.0.0.1", 0)
    server.start()
    url = f"http://127.0.0.1:{server.port}"
    with httpx.Client(trust_env=False, base_url=url) as client:
        answer = client.get("/connectors/a%2Fb")
        assert answer.json()["message"] == "Connector a/b not found"
        head = client.head("/connectors")
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "7")
    server.stop()
    server.stop()
    assert not any(thread.name == "rest-server" for thread in threading.enumerate())
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", server.port)) != 0


def test_a_taken_port_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = RestServer(create_app(FakeHerder()), "127.0.0.1", port)
        with pytest.raises(StartupError, match=f"cannot listen on http://127.0.0.1:{port}") as refused:
            server.start()
    assert refused.value.exit_code == 16


def test_an_address_of_another_machine_is_named() -> None:
    with pytest.raises(StartupError, match=r"192\.0\.2\.1") as refused:
        RestServer(create_app(FakeHerder()), "192.0.2.1", 0).bind()
    assert refused.value.exit_code == 16


def test_peers_talk_http() -> None:
    server = RestServer(create_app(FakeHerder()), "127.0.0.1", 0)
    server.start()
    peers = HttpPeerClient()
    answer = peers.request("GET", f"http://127.0.0.1:{server.port}/connectors", timeout_ms=5_000)
    assert (answer.status, answer.body) == (200, b'["src"]')
    server.stop()
    with pytest.raises(RetriableError):
        peers.request("GET", f"http://127.0.0.1:{server.port}/connectors", timeout_ms=5_000)
    with pytest.raises(RetriableError):
        peers.request("GET", "no url", timeout_ms=5_000)
    peers.close()


def test_a_silent_peer_is_a_time_out() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        peers = HttpPeerClient()
        with pytest.raises(TimedOutError):
            peers.request("GET", f"http://127.0.0.1:{silent.getsockname()[1]}/", timeout_ms=50)
        peers.close()

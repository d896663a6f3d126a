"""Both shells: over the real application in memory, and over transports that fail."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.errors import BadConfigError, UnreachableError
from spark_connect_rt.rest.client import calls, management_calls
from spark_connect_rt.rest.client.async_client import in_process
from spark_connect_rt.rest.client.calls import Call
from spark_connect_rt.rest.client.connection import ClusterConnection, connection_to
from spark_connect_rt.rest.client.refusals import NotServedError, UnknownNameError
from spark_connect_rt.rest.client.sync_client import Client, EventReader, ServerEvent
from tests.support.app_transport import AppTransport
from tests.unit.rest.fake_herder import CONFIG, FakeHerder


def over(respond: Callable[[httpx.Request], httpx.Response], *urls: str, **options: Any) -> Client:
    return Client(ClusterConnection(urls or ("http://a:8083",), **options), httpx.MockTransport(respond))


def test_the_sync_client_speaks_to_the_application() -> None:
    with Client(connection_to("h:8083"), AppTransport(create_app(FakeHerder()))) as client:
        assert client.send(calls.connector_names()) == ["src"]
        assert client.send(calls.config("src")) == CONFIG
        assert client.send(calls.connectors())["src"]["status"]["tasks"][0]["state"] == "FAILED"
        assert client.send(calls.set_logger("org.x", "DEBUG")) is None
        with pytest.raises(UnknownNameError, match="Connector a/b not found"):
            client.send(calls.connector("a/b"))
        with pytest.raises(NotServedError):
            client.send(Call("GET", "/admin/nothing"))


def test_the_async_client_serves_a_console_in_process() -> None:
    async def story() -> None:
        async with in_process(create_app(FakeHerder()), ("10.0.0.9", 1234)) as client:
            assert await client.send(calls.connector_names(), {"Host": "h:8083"}) == ["src"]
            assert await client.send(calls.pause("src")) is None
            with pytest.raises(NotServedError):
                await client.send(Call("GET", "/admin/nothing"))

    asyncio.run(story())


def test_headers_of_a_request_and_the_browsers_address_reach_the_application() -> None:
    seen: dict[str, Any] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.update(dict(scope["headers"]), client=scope["client"])
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    async def story() -> None:
        async with in_process(app, ("10.0.0.9", 1234)) as client:
            await client.send(calls.resume("x"), {"Authorization": "Basic eDp5", "Host": "worker.example"})

    asyncio.run(story())
    assert seen["client"] == ("10.0.0.9", 1234)
    assert (seen[b"authorization"], seen[b"host"]) == (b"Basic eDp5", b"worker.example")


def test_credentials_go_along_and_never_into_a_text() -> None:
    seen = []

    def respond(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers.get("authorization"))
        return httpx.Response(200, json=[])

    connection = connection_to("https://me:p%40ss@a:8083/")
    assert connection.bases() == ("https://a:8083",)
    Client(connection, httpx.MockTransport(respond)).send(calls.connector_names())
    over(respond, token="t0ken").send(calls.connector_names())
    assert seen == [f"Basic {base64.b64encode(b'me:p@ss').decode()}", "Bearer t0ken"]
    assert "p@ss" not in repr(connection.password and ClusterConnection(("http://a:1",), "me", "p@ss", token="t"))


def test_the_address_that_answered_is_asked_first_from_then_on() -> None:
    asked = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.host == "a":
            raise httpx.ConnectError("connection refused")
        return httpx.Response(200, json=[])

    client = over(respond, "http://a:1", "http://b:2")
    client.send(calls.connector_names())
    client.send(calls.connector_names())
    assert asked == ["a", "b", "b"]


def test_a_write_whose_answer_is_lost_is_not_repeated() -> None:
    asked = []

    def respond(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        raise httpx.ReadError("connection reset")

    with pytest.raises(UnreachableError, match="not known"):
        over(respond, "http://a:1", "http://b:2").send(calls.restart("x"))
    assert asked == ["a"]


def test_a_stream_goes_to_the_next_address_and_yields_events() -> None:
    def respond(request: httpx.Request) -> httpx.Response:
        if request.url.host == "a":
            raise httpx.ConnectError("connection refused")
        assert request.headers["last-event-id"] == "7"
        return httpx.Response(200, content=b': hello\n\nid: 8\nevent: failure\ndata: {"a":\ndata: 1}\n\n')

    events = over(respond, "http://a:1", "http://b:2").stream(management_calls.events_stream(), last_id="7")
    assert list(events) == [ServerEvent("failure", {"a": 1}, "8")]


def test_a_stream_that_a_worker_does_not_have_is_refused() -> None:
    client = over(lambda _: httpx.Response(404, json={"error_code": 404, "message": "HTTP 404 Not Found"}))
    with pytest.raises(NotServedError):
        list(client.stream(management_calls.events_stream()))


def test_events_may_come_in_any_pieces() -> None:
    whole = 'id: 1\r\nevent: x\r\ndata: "ä"\r\n\r\n:\n\ndata: 2\n\n'.encode()
    for size in range(1, len(whole)):
        reader = EventReader()
        pieces = [whole[start : start + size] for start in range(0, len(whole), size)]
        assert [(e.kind, e.data) for piece in pieces for e in reader.take(piece)] == [("x", "ä"), ("message", 2)]


@pytest.mark.parametrize("url", ["ftp://a:1", "http://", "http://a:99999", "http://a b", "http://[::1", "file:///etc"])
def test_invalid_address_is_refused_without_showing_its_credentials(url: str) -> None:
    with pytest.raises(BadConfigError):
        connection_to(url)
    with pytest.raises(BadConfigError) as raised:
        ClusterConnection(("ftp://me:secret@a",))
    assert "secret" not in str(raised.value)


def test_a_certificate_that_cannot_be_read_is_named() -> None:
    from pathlib import Path

    with pytest.raises(BadConfigError, match=r"no\.pem"):
        Client(ClusterConnection(("https://a:1",), ca_file=Path("no.pem")))

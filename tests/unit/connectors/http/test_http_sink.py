"""HttpSink over a service in memory: outages, redirects, keys that are no part of a path."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from spark_connect_rt.connectors.http import http_connection, http_sink
from spark_connect_rt.connectors.http.http_sink import CONFIG, HttpSinkConnector
from spark_connect_rt.errors import BadConfigError, DataError, ExternalError
from spark_connect_rt.testing.sink_harness import SinkHarness

TOLERANT = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
}
Answer = Callable[[httpx.Request], httpx.Response]


class Service:
    """What it was sent, and how it answers."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []
        self.taken: list[Any] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append((request.method, request.url.raw_path.decode()))
        answer = self.answer(request)
        if answer.is_success and request.content:
            self.taken.append(json.loads(request.content))
        return answer


def harness(monkeypatch: pytest.MonkeyPatch, service: Service, path: str = "/in", **settings: str) -> SinkHarness:
    made = http_sink.http_client

    def client(values: Any) -> httpx.Client:
        with made(values) as real:
            return httpx.Client(auth=real.auth, headers=real.headers, transport=httpx.MockTransport(service))

    monkeypatch.setattr(http_connection, "_trust", lambda location: False)  # reading certificates takes 0.1 s
    monkeypatch.setattr(http_sink, "http_client", client)
    given = {f"http.{name.replace('_', '.')}": setting for name, setting in settings.items()}
    return SinkHarness(HttpSinkConnector, {"topics": "t", "http.url": f"http://api.test{path}", **TOLERANT, **given})


def away(request: httpx.Request) -> httpx.Response:
    return httpx.Response(503)


def unreachable(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("nobody listens", request=request)


def garbled(request: httpx.Request) -> httpx.Response:
    raise httpx.DecodingError("no gzip", request=request)


def good(request: httpx.Request) -> httpx.Response:
    return httpx.Response(204)


@pytest.mark.parametrize("batch", ["1", "7"])
@pytest.mark.parametrize("outage", [away, unreachable, garbled])
def test_an_outage_longer_than_the_retries_makes_no_dead_letter_and_commits_nothing(
    monkeypatch: pytest.MonkeyPatch, outage: Answer, batch: str
) -> None:
    """The outage comes, stays for three restarts and goes: then everything is delivered, once, in order."""
    service = Service(good)
    with harness(monkeypatch, service, retries_max="2", retry_backoff_ms="1", batch_records=batch) as sink:
        sink.send("t", {"n": 0})
        assert sink.deliver()
        before = dict(sink.commit())
        for number in range(1, 41):
            sink.send("t", {"n": number})
        service.answer = outage
        for _ in range(3):
            assert not sink.deliver()
            assert not sink.deliver()
            with pytest.raises(ExternalError, match="3 failures in a row"):
                sink.deliver()
            assert (sink.commit(), sink.dead_letters()) == (before, [])
            sink.restart()
        service.answer = good
        assert sink.deliver()
        assert sink.dead_letters() == []
        assert set(sink.commit().values()) == {41}
    flat = [record for body in service.taken for record in (body if isinstance(body, list) else [body])]
    assert [record["n"] for record in flat] == list(range(41))


@pytest.mark.parametrize("status", [301, 302, 304, 307, 308, 401, 402, 403, 404, 405, 406, 407, 415, 421, 426, 428])
def test_a_refusal_of_every_record_blames_no_record(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    service = Service(lambda request: httpx.Response(status, headers={"Location": "/elsewhere"}))
    with harness(monkeypatch, service) as sink:
        for number in range(4):
            sink.send("t", {"n": number})
        with pytest.raises(ExternalError, match=str(status)):
            sink.deliver()
        assert len(service.asked) == 1, "no redirect is followed, and no other record is tried"
        assert (sink.commit(), sink.dead_letters()) == ({}, [])


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_a_record_that_is_refused_is_dead_lettered(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(status if b'"n":2' in request.content else 204)

    with harness(monkeypatch, Service(answer), batch_records="4") as sink:
        for number in range(4):
            sink.send("t", {"n": number})
        assert sink.deliver()
        assert [json.loads(letter["value"]) for letter in sink.dead_letters()] == [{"n": 2}]
        assert set(sink.commit().values()) == {4}


@pytest.mark.parametrize("value", [{"a": 1}, None])
def test_a_key_that_would_address_the_parent_is_errant(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    service = Service(good)
    keys = ["42", "..", ".", "", None, "../groups", "..\\x", "a b", "...", "%2e%2e"]
    with harness(monkeypatch, service, "/api/users/${key}", method="PUT", null_values="delete") as sink:
        for key in keys:
            row = {"key": None if key is None else json.dumps(key).encode()}
            row["value"] = None if value is None else json.dumps(value).encode()
            sink.topics.append([{"topic": "t", "partition": 0, **row}])
        assert sink.deliver()
        method = "PUT" if value else "DELETE"
        names = ["42", "..%2Fgroups", "..%5Cx", "a%20b", "...", "%252e%252e"]
        assert service.asked == [(method, f"/api/users/{name}") for name in names]
        assert [letter["key"] for letter in sink.dead_letters()] == [b'".."', b'"."', b'""', None]
        assert set(sink.commit().values()) == {len(keys)}


def test_a_key_in_a_query_may_be_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(good)
    with harness(monkeypatch, service, "/in?key=${key}") as sink:
        for key in ("..", ""):
            sink.send("t", {"a": 1}, key=key)
        assert sink.deliver()
        assert [path for _, path in service.asked] == ["/in?key=..", "/in?key="]


def test_without_tolerance_such_a_key_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(TOLERANT):
        monkeypatch.delitem(TOLERANT, name)
    with harness(monkeypatch, Service(good), "/api/${key}", method="PUT") as sink:
        sink.send("t", {"a": 1}, key="..")
        with pytest.raises(DataError, match=r"the key '\.\.'"):
            sink.deliver()


def test_text_that_has_no_bytes_is_errant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone surrogate: JSON may hold one, UTF-8 may not."""
    service = Service(good)
    rows = [(b'"\\ud800"', b"{}"), (b'"k"', b'{"a": "\\ud800"}'), (b'"k"', b'{"a": 1}')]
    with harness(monkeypatch, service, "/in/${key}") as sink:
        for key, value in rows:
            sink.topics.append([{"topic": "t", "partition": 0, "key": key, "value": value}])
        assert sink.deliver()
        assert service.taken == [{"a": 1}]
        assert len(sink.dead_letters()) == 2


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", "é".encode()),
        ('text/plain; Charset="ISO-8859-1"', b"\xe9"),
        ("text/plain; charset=utf-16-le", "é".encode("utf-16-le")),
    ],
)
def test_the_body_is_written_in_the_charset_of_its_content_type(
    monkeypatch: pytest.MonkeyPatch, content_type: str, body: bytes
) -> None:
    bodies: list[bytes] = []

    def answer(request: httpx.Request) -> httpx.Response:
        bodies.append(request.content)
        return httpx.Response(503)

    with harness(monkeypatch, Service(answer), content_type=content_type, body_template="é") as sink:
        sink.send("t", {"a": 1})
        assert not sink.deliver()
    assert bodies == [body]


def test_an_unknown_charset_is_refused() -> None:
    with pytest.raises(BadConfigError, match="klingon"):
        CONFIG.parse({"http.url": "http://x", "http.content.type": "text/plain; charset=klingon"})

"""Passes of HttpSource over a service in memory: where they end, what a restart repeats, what is never lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from spark_connect_rt.connectors.http import http_connection, http_source
from spark_connect_rt.connectors.http.http_source import HttpSourceConnector, HttpSourceTask
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.testing.connector_harness import SourceHarness

SIZE = 10
URL = "http://api.test/rows"


class Service:
    """A list that grows. ``end``: how it answers a page behind the last one."""

    def __init__(self, kind: str, end: httpx.Response | None = None) -> None:
        self.kind = kind
        self.rows: list[dict[str, int]] = []
        self.end = end
        self.asked: list[str] = []
        self.answers: list[httpx.Response] = []  # before those of the list

    def add(self, count: int) -> None:
        self.rows += [{"id": number, "at": number} for number in range(len(self.rows) + 1, len(self.rows) + count + 1)]

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(str(request.url))
        if self.answers:
            return self.answers.pop(0)
        since, number = int(request.url.params.get("since", "0")), int(request.url.params.get("page", "1"))
        found = [row for row in self.rows if row["at"] > since][(number - 1) * SIZE : number * SIZE]
        if not found and number > 1 and self.end is not None:
            return self.end
        if self.kind == "page":
            return httpx.Response(200, json={"data": found})
        following: Any = number + 1 if found else None
        if self.kind == "next" and following:
            following = f"/rows?since={since}&page={following}"
        return httpx.Response(200, json={"data": found, "next": following})


def harness(monkeypatch: pytest.MonkeyPatch, service: Callable[..., Any], kind: str, **more: str) -> SourceHarness:
    made = http_source.http_client

    def client(values: Any) -> httpx.Client:
        with made(values) as real:
            return httpx.Client(auth=real.auth, headers=real.headers, transport=httpx.MockTransport(service))

    monkeypatch.setattr(http_connection, "_trust", lambda location: False)  # reading certificates takes 0.1 s
    monkeypatch.setattr(http_source, "http_client", client)
    given = {
        "topic": "t",
        "http.url": URL,
        "http.params": '{"since": "${offset.since}"}',
        "http.offset.fields": '{"since": "/at"}',
        "http.offset.initial": '{"since": "0"}',
        "http.records.pointer": "/data",
        "http.pagination": kind,
        "http.poll.interval.ms": "0",
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    made_harness = SourceHarness(HttpSourceConnector, given)
    made_harness.start()
    return made_harness


def ids(source: SourceHarness, polls: int) -> list[int]:
    return [record.json()["id"] for _ in range(polls) for record in source.poll()]


@pytest.mark.parametrize("polls", [1, 2, 3, 6])
@pytest.mark.parametrize("first", [2, 10, 15])
def test_rows_that_come_between_two_pages_or_while_it_is_stopped_are_not_lost(
    monkeypatch: pytest.MonkeyPatch, polls: int, first: int
) -> None:
    """Killed behind any page; none of 45 rows is missing, and none is there twice."""
    service = Service("page")
    source = harness(monkeypatch, service, "page")
    service.add(first)
    read = ids(source, polls)
    source.restart()
    service.add(45 - first)
    read += ids(source, 14)
    assert read == list(range(1, 46))
    assert source.offsets.all()[-1][1] == {"since": 45}
    source.stop()


def test_rows_behind_a_page_that_was_not_full_are_not_lost_in_the_same_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = Service("page")
    source = harness(monkeypatch, service, "page")
    service.add(15)
    read = ids(source, 2)  # pages 1 and 2, of which the second has five
    service.add(30)
    read += ids(source, 6)
    assert read == list(range(1, 46))
    source.stop()


ENDS = {
    "404": httpx.Response(404),
    "416": httpx.Response(416),
    "204": httpx.Response(204),
    "{}": httpx.Response(200, json={}),
    "no array": httpx.Response(200, json={"total": 25, "next": None}),
    "null": httpx.Response(200, json={"data": None}),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", ["page", "cursor", "next"])
def test_new_rows_come_after_each_restart_whatever_ends_the_pages(
    monkeypatch: pytest.MonkeyPatch, kind: str, end: str
) -> None:
    service = Service(kind, ENDS[end])
    service.add(25)
    source = harness(monkeypatch, service, kind)
    assert ids(source, 5) == list(range(1, 26))
    assert source.offsets.all()[-1][1] == {"since": 25}, "the end of the pass is stored"
    for _ in range(3):
        service.add(1)
        source.restart()
        assert ids(source, 3) == [len(service.rows)]
    source.stop()


def test_a_first_page_that_is_not_there_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("page")
    service.answers = [httpx.Response(404)]
    source = harness(monkeypatch, service, "page")
    with pytest.raises(ConnectError, match="404"):
        source.poll()
    source.stop()


def test_a_page_in_the_middle_that_is_refused_otherwise_fails_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("page", httpx.Response(400))
    service.add(10)
    source = harness(monkeypatch, service, "page")
    source.poll()
    with pytest.raises(ConnectError, match="400"):
        source.poll()
    source.stop()


def test_an_error_in_a_good_answer_is_not_the_end_of_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("page", httpx.Response(200, json={"error": "busy"}))
    service.add(10)
    source = harness(monkeypatch, service, "page")
    source.poll()
    with pytest.raises(DataError, match="/data"):
        source.poll()
    source.stop()


@pytest.mark.parametrize("status", [400, 404, 410])
def test_a_stored_cursor_that_is_not_known_any_more_begins_the_pass_again(
    monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    service = Service("cursor")
    service.add(25)
    source = harness(monkeypatch, service, "cursor")
    assert ids(source, 1) == list(range(1, 11))
    source.restart()
    service.answers = [httpx.Response(status)]
    assert ids(source, 5) == list(range(1, 26)), "nothing is lost, one page comes again"
    source.stop()


@pytest.mark.parametrize("status", [401, 403])
def test_a_stored_page_is_not_given_up_for_credentials(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    service = Service("cursor")
    service.add(25)
    source = harness(monkeypatch, service, "cursor")
    source.poll()
    source.restart()
    service.answers = [httpx.Response(status)]
    with pytest.raises(ConnectError, match=str(status)):
        source.poll()
    source.restart()
    assert ids(source, 3) == list(range(11, 26))
    source.stop()


def test_a_stored_page_of_another_pagination_begins_a_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("page")
    service.add(3)
    source = harness(monkeypatch, service, "page")
    source.offsets.put({"url": URL}, {"since": 0, "page": json.dumps({"next": "c7", "newest": {"since": 0}})})
    source.restart()
    assert ids(source, 1) == [1, 2, 3]
    source.stop()


def test_an_address_in_a_stored_offset_does_not_get_the_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    offset = {"page": json.dumps({"next": "http://evil.test/x", "newest": {}})}
    with pytest.raises(ConnectError, match="another server"):
        HttpSourceConnector().alter_offsets({}, [({"url": URL}, offset)])
    with pytest.raises(ConnectError, match="another server"):
        HttpSourceConnector().alter_offsets({"http.pagination": "next"}, [({"url": URL}, offset)])
    assert HttpSourceConnector().alter_offsets({"http.pagination": "cursor"}, [({"url": URL}, offset)])
    service = Service("next")
    source = harness(monkeypatch, service, "link", http_auth_type="bearer", http_auth_token="s3cret")
    source.offsets.put({"url": URL}, offset)
    source.restart()
    with pytest.raises(ConnectError, match="another server"):
        source.poll()
    assert service.asked == []
    source.stop()


@pytest.mark.parametrize(
    ("kind", "answer"),
    [
        ("link", httpx.Response(200, json={"data": [{"at": 1}]}, headers={"Link": "/2; rel=next"})),
        ("next", httpx.Response(200, json={"data": [{"at": 1}], "next": {"href": "/2"}})),
        ("cursor", httpx.Response(200, json={"data": [{"at": 1}], "next": ["c"]})),
    ],
)
def test_a_next_page_that_is_not_understood_fails_the_task(
    monkeypatch: pytest.MonkeyPatch, kind: str, answer: httpx.Response
) -> None:
    service = Service(kind)
    service.answers = [answer]
    source = harness(monkeypatch, service, kind)
    with pytest.raises(ConnectError, match="it is not clear whether there is a next page"):
        source.poll()
    assert source.offsets.all() == []
    source.stop()


def test_bodies_are_read_by_the_charset_of_their_content_type(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("none")
    body, latin = '{"data": [{"at": 1, "id": "é"}]}'.encode("latin-1"), "application/json; charset=ISO-8859-1"
    service.answers = [httpx.Response(200, content=body, headers={"Content-Type": latin})]
    source = harness(monkeypatch, service, "none")
    assert [record.json()["id"] for record in source.poll()] == ["é"]
    source.stop()


def test_a_preview_sends_no_post_unless_it_only_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service("none")
    source = harness(monkeypatch, service, "none")
    post = {**source.hosted.config, "http.method": "POST"}
    connector = HttpSourceConnector()
    assert connector.preview_obstacle(source.hosted.config) is None
    assert connector.preview_obstacle({**post, "http.post.safe": "true"}) is None
    assert "http.post.safe" in str(connector.preview_obstacle(post))
    assert connector.outside_checks(post) == ()
    task = HttpSourceTask()
    task.context = source.tasks[0].context
    task.context.previewed = True
    with pytest.raises(ConnectError, match=r"http\.post\.safe"):
        task.start(post)
    assert service.asked == []
    source.stop()

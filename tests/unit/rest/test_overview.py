"""The routes of the overview: what they take, and the stream of one client."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.operations.overview.routes import OVERLAP_MS
from spark_connect_rt.rest.event_streams import EventStreams
from tests.unit.rest.conftest import Asked, ask
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.fake_overview import FakeOverview

STREAM = "/admin/overview/stream"


def test_a_page_a_connector_and_the_group(rest: Asked) -> None:
    page = rest("GET", "/admin/overview?search=s&state=RUNNING&sort=rate&limit=5").json()
    assert page["connectors"][0]["class"] == "FileStreamSource"
    assert page["unanswered"] == [{"worker_id": "w2:8083", "why": "no answer within 1000 ms"}]
    detail = rest("GET", "/admin/connectors/src").json()
    assert detail["course"] == [{"at_ms": 10_000, "records_per_second": 1.5, "lag": None, "errors": 0}]
    assert rest("GET", "/admin/group").json()["leader"] == "h:8083"


@pytest.mark.parametrize("path", ["/admin/connectors/none", "/admin/connectors/%2F"])
def test_no_such_connector(rest: Asked, path: str) -> None:
    assert rest("GET", path).status_code == 404


@pytest.mark.parametrize("query", ["limit=x", "sort=1", "type=both", "offset=-1", "limit=0"])
def test_invalid_page_number_is_rejected(rest: Asked, query: str) -> None:
    assert rest("GET", f"/admin/overview?{query}").status_code == 400


@pytest.mark.parametrize("path", ["/admin/overview", STREAM, "/admin/connectors/src", "/admin/group"])
def test_a_worker_without_it_has_no_such_paths_and_nothing_is_written_to_them(rest: Asked, path: str) -> None:
    assert ask(create_app(FakeHerder()), "GET", path).status_code == 404
    assert rest("POST", path, b"{}").status_code == 405


class Noted(FakeOverview):
    """Writes down what streams say they have; ends them when they have asked often enough."""

    def __init__(self, enough: int) -> None:
        self.since: list[int] = []
        self.streams = EventStreams()
        self._enough = enough

    def changes(self, since_ms: int) -> Any:
        self.since.append(since_ms)
        if len(self.since) >= self._enough:
            self.streams.end()
        return super().changes(since_ms)


def streamed(path: str, looks: int = 1, **headers: str) -> tuple[httpx.Response, Noted]:
    overview = Noted(looks)
    app = create_app(FakeHerder(), management=Management(overview=overview, streams=overview.streams))
    return ask(app, "GET", path, None, Accept="text/event-stream", **headers), overview


def test_a_stream_sends_what_changed_since_the_clients_page_and_ends_with_the_worker() -> None:
    answer, overview = streamed(f"{STREAM}?since_ms=3", 2)
    assert answer.headers["content-type"].startswith("text/event-stream")
    lines = answer.text.splitlines()
    assert "id: 5" in lines
    assert "event: overview" in lines
    assert json.loads(next(line for line in lines if line.startswith("data: "))[6:]) == {"changed": []}
    assert overview.since == [3, 5]  # then from what was sent


@pytest.mark.parametrize(
    ("query", "headers", "since"),
    [
        ("", {}, 0),
        ("?since_ms=x", {}, 0),
        ("?since_ms=" + "9" * 40, {}, 0),
        ("?since_ms=7", {"Last-Event-ID": str(OVERLAP_MS + 40)}, 40),
        ("", {"Last-Event-ID": "5"}, 1),
        ("", {"Last-Event-ID": "w1-7"}, 0),
    ],
)
def test_where_a_stream_begins(query: str, headers: dict[str, str], since: int) -> None:
    assert streamed(STREAM + query, 1, **headers)[1].since[0] == since

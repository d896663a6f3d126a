"""``/admin/dead-letters``: what is asked, what is refused, who is remembered."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.operations.dead_letters.model import LetterQuery, WantedReplay
from tests.unit.rest.conftest import ask
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.fake_letters import FakeLetters


def asked(letters: FakeLetters, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
    app = create_app(FakeHerder(), management=Management(letters=letters, replays=letters))
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return ask(app, method, f"/admin/dead-letters{path}", data, **headers)


def test_pages() -> None:
    letters = FakeLetters()
    answer = asked(letters, "GET", "?connector=src&class=A&replayed=false&after=x&limit=7")
    (letter,) = answer.json().pop("letters")
    assert (letter["class"], letter["value"], letter["origin"]["offset"]) == ("A", {"text": "x", "error": "no JSON"}, 7)
    assert {**answer.json(), "letters": []} == {
        "topic": "dead", "connector": "src", "letters": [], "next": None, "scanned": 1,
    }  # fmt: skip
    assert letters.calls == [LetterQuery("src", None, {"class": "A", "replayed": "false"}, "x", 7)]
    for wrong in ("?limit=0", "?limit=2001", "?limit=1e3", "?offset=1"):
        assert asked(letters, "GET", wrong).status_code == 400
    assert ask(create_app(FakeHerder()), "GET", "/admin/dead-letters").status_code == 404


def test_a_replay_is_started_tried_stopped_and_resumed() -> None:
    letters = FakeLetters()
    body = {"connector": "src", "filter": {"stage": "X"}, "letters": [{"partition": 0, "offset": 2**62}], "rate": 5}
    answer = asked(letters, "POST", "/replays", body)
    assert (answer.status_code, answer.json()["id"]) == (201, "r")
    wanted = WantedReplay("src", None, "topic", {"stage": "X"}, ((0, 2**62),), {}, 5.0, again=False)
    assert letters.calls.pop() == (wanted, "127.0.0.1")
    dry = asked(letters, "POST", "/replays", {"topic": "dead", "target": "sink", "again": True, "dry_run": True})
    assert (dry.status_code, dry.json()["matched"]) == (200, 1)
    assert letters.calls.pop() == ("dry", WantedReplay(None, "dead", "sink", {}, None, {}, None, again=True))
    assert asked(letters, "GET", "/replays").json() == {"replays": [answer.json()]}
    assert asked(letters, "GET", "/replays/a%2Fb").json() == answer.json()
    assert asked(letters, "POST", "/replays/r/stop", b"{}").status_code == 200
    assert asked(letters, "POST", "/replays/r/resume", {}).status_code == 200
    assert asked(letters, "POST", "/replays/r/stop").status_code == 400
    assert asked(letters, "POST", "/delete", {"topic": "dead"}).json()["up_to"] == {"0": 3}
    assert letters.calls == ["a/b", ("stop", "r"), ("resume", "r"), ("delete", None, "dead")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        [],
        {"offset": 1},
        {"connector": 1},
        {"filter": []},
        {"edit": "x"},
        {"rate": "fast"},
        {"rate": True},
        {"rate": 1e300},
        {"dry_run": 1},
        {"again": "yes"},
        {"letters": [1]},
        {"letters": [{"partition": 0}]},
        {"letters": [{"partition": 0, "offset": 2**65}]},
        {"letters": [{"partition": -1, "offset": 0}]},
    ],
)
def test_a_body_that_asks_for_nothing(body: Any) -> None:
    letters = FakeLetters()
    assert asked(letters, "POST", "/replays", body).status_code == 400
    assert letters.calls == []


def test_a_page_of_another_origin_cannot_replay() -> None:
    letters = FakeLetters()
    for content_type in ("text/plain", "application/x-www-form-urlencoded"):
        for path in ("/replays", "/replays/r/stop", "/delete"):
            assert asked(letters, "POST", path, b"{}", Content_Type=content_type).status_code == 415
    assert letters.calls == []

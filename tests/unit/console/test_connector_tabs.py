"""History, offsets that were, dead letters: what the tabs show of the API, and what their actions send."""

from __future__ import annotations

import html
import json
import re

import pytest

from tests.support.management_stand_in.app import StandIn
from tests.unit.console.conftest import Browser

TABS = (
    "/history",
    "/offsets",
    "/offsets/history",
    "/dead-letters",
    "/dead-letters/0/1/edit",
    "/history/diff?from=1&to=2",
)
SINK, SOURCE = "/connectors/orders-sink", "/connectors/orders"


def test_tabs_have_no_script_and_no_secret_and_hostile_text_is_text(browser: Browser) -> None:
    whole = ""
    for path in TABS:
        answer = browser.get(SOURCE + path)
        assert answer.status_code == 200, path
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*src=)|hx-on|javascript:", answer.text), path
        assert "<script>alert" not in answer.text, path
        whole += answer.text
    assert "&lt;script&gt;alert" in whole
    assert "hunter" not in whole


@pytest.mark.parametrize("path", ["/history", "/offsets/history", "/dead-letters"])
def test_a_part_that_this_worker_does_not_serve_leaves_the_page(path: str) -> None:
    answer = Browser(StandIn(without={"history", "dead-letters"})).get(SOURCE + path)
    assert answer.status_code == 200
    assert "This worker does not serve this" in answer.text


def test_an_unknown_connector_has_no_page(browser: Browser) -> None:
    assert browser.get("/connectors/nobody/history").status_code == 404
    assert browser.get(SOURCE + "/history/x/rollback").status_code in (404, 405)


def test_the_history_shows_what_each_change_changed(browser: Browser, group: StandIn) -> None:
    text = browser.get(SOURCE + "/history").text
    assert re.search(r"<code>topic</code></dt><dd class=\"diff\"><del>old</del> <ins>lines</ins>", text)
    assert "ann@10.0.0.1" in text
    assert text.count("Roll back …") == 2
    assert text.count("Undo …") == 1
    browser.get(SOURCE + "/history?kind=offsets&before=9")
    assert "connector=orders&kind=offsets&limit=50&before=9" in str(group.requests[-3:])


def test_a_rollback_is_shown_before_it_is_done(browser: Browser, group: StandIn) -> None:
    answer = {"diff": [{"setting": "topic", "before": "lines", "after": "old"}], "applied": False}
    answer |= {"kept": ["db.password"], "problems": {"topic": ["no such topic"]}}
    path = "/admin/history/orders/2/rollback"
    group.answers["POST", path] = 200, answer
    text = browser.post(SOURCE + "/history/2/rollback").text
    assert "<del>lines</del>" in text
    assert "db.password keeps its current value" in text
    assert "topic: no such topic" in text
    assert "is rolled back to change 2" in browser.post(SOURCE + "/history/2/rollback", {"sure": "1"}).text
    assert group.sent("POST", path) == [{"dry_run": True}, {"dry_run": False}]


def test_a_refused_rollback_says_why(browser: Browser, group: StandIn) -> None:
    group.answers["POST", "/admin/history/orders/2/rollback"] = 409, {"error_code": 409, "message": "hides db.password"}
    answer = browser.post(SOURCE + "/history/2/rollback", {"sure": "1"})
    assert answer.status_code == 409
    assert "hides db.password" in answer.text


def test_offsets_are_undone_after_a_dry_run(browser: Browser, group: StandIn) -> None:
    text = browser.post(SOURCE + "/offsets/undo/3").text
    assert "<del>{&#34;position&#34;: 42}</del>" in text
    assert 'hx-post="/console/connectors/orders/offsets/undo/3"' in text
    answer = browser.post(SOURCE + "/offsets/undo/3", {"sure": "1", "force": "1"})
    assert "1 offset written" in answer.text
    assert group.sent("POST", "/admin/history/orders/3/undo") == [
        {"dry_run": True},
        {"force": True, "dry_run": False},
    ]


def test_an_unsafe_undo_says_why_and_can_be_forced(browser: Browser, group: StandIn) -> None:
    move = {"partition": {"p": 1}, "from": {"o": 2}, "to": {"o": 1}}
    answer = {"offsets": [move], "applied": False, "problems": ["the connector has moved since change 3"]}
    group.answers["POST", "/admin/history/orders/3/undo"] = 200, answer
    text = browser.post(SOURCE + "/offsets/undo/3").text
    assert "has moved since change 3" in text
    assert 'name="force"' in text


def test_a_connector_goes_back_to_a_time(browser: Browser, group: StandIn) -> None:
    text = browser.post(SOURCE + "/offsets/goto", {"time": "2026-11-21T10:00"}).text
    assert 'name="time" value="2026-11-21T10:00"' in text
    browser.post(SOURCE + "/offsets/goto", {"time": "2026-11-21T10:00", "sure": "1"})
    assert group.sent("POST", "/admin/connectors/orders/offsets/goto") == [
        {"time_ms": 1_795_255_200_000, "dry_run": True},
        {"time_ms": 1_795_255_200_000, "dry_run": False},
    ]
    assert "is not a valid time" in browser.post(SOURCE + "/offsets/goto", {"time": "then"}).text


def test_a_name_with_odd_characters_keeps_its_addresses(browser: Browser, group: StandIn) -> None:
    group.connectors["a/b c"] = group.connectors["orders"]
    text = browser.post("/connectors/a%2Fb%20c/offsets/goto", {"time": "2026-11-21T10:00"}).text
    assert 'hx-post="/console/connectors/a%2Fb%20c/offsets/goto"' in text


def test_letters_are_filtered_and_paged(browser: Browser, group: StandIn) -> None:
    text = browser.get(SINK + "/dead-letters?stage=VALUE_CONVERTER&replayed=false&odd=1").text
    assert len(re.findall(r'name="letter" value="0/\d"', text)) == 4
    [asked] = [target for _, target, _ in group.requests if target.startswith("/admin/dead-letters?")]
    assert asked == "/admin/dead-letters?connector=orders-sink&limit=50&stage=VALUE_CONVERTER&replayed=false"
    group.letters = [letter | {"offset": 100 + n} for n in range(60) for letter in group.letters[:1]]
    text = browser.get(SINK + "/dead-letters?message=alert").text
    assert "dead-letters?message=alert&amp;after=149" in text


def test_a_connector_without_a_queue_says_how_to_get_one(browser: Browser, group: StandIn) -> None:
    group.answers["GET", "/admin/dead-letters"] = 200, {"topic": None, "letters": [], "next": None}
    assert "errors.deadletterqueue.topic.name" in browser.get(SOURCE + "/dead-letters").text


def test_the_editor_of_a_letter_says_what_is_shown_cut(browser: Browser, group: StandIn) -> None:
    group.letters[0] |= {"value": {"text": "x" * 65_536, "cut": 70_000}}
    text = browser.get(SINK + "/dead-letters/0/0/edit").text
    assert "Value of this letter is longer than the 64 KiB that are shown" in text
    assert "xxxx" not in text


def test_a_letter_is_edited_looked_at_and_replayed(browser: Browser, group: StandIn) -> None:
    text = browser.get(SINK + "/dead-letters/0/0/edit").text
    found = re.search(r'name="original" value="([^"]*)"', text)
    assert found
    original = html.unescape(found.group(1))
    fields = {"letter": "0/0", "original": original, "edited": original.replace('"ten"', "10"), "target": "sink"}
    asked = browser.post(SINK + "/dead-letters/replay", fields).text
    assert re.search(r"<th scope=\"row\">value</th><td><del[^>]*>[^<]*&#34;ten&#34;", asked)
    assert re.search(r"<ins[^>]*>[^<]*&#34;id&#34;: 2", asked)
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', asked))
    answer = browser.post(SINK + "/dead-letters/replay", {name: html.unescape(value) for name, value in hidden.items()})
    assert "Replay r1 of orders-sink started" in answer.text
    first, second = group.sent("POST", "/admin/dead-letters/replays")
    assert first == second | {"dry_run": True}
    assert second == {
        "connector": "orders-sink",
        "target": "sink",
        "letters": [{"partition": 0, "offset": 0}],
        "edit": {"patch": [{"op": "replace", "path": "/value/json/amount", "value": 10}]},
    }


def test_a_replay_that_would_send_nothing_cannot_be_started(browser: Browser, group: StandIn) -> None:
    path, fields = ("POST", "/admin/dead-letters/replays"), {"which": "all"}
    refused = {"partition": 0, "offset": 1, "before": {}, "error": "no json"}
    group.answers[path] = 200, {"matched": 1, "sample": [refused]}
    text = browser.post(SINK + "/dead-letters/replay", fields).text
    assert "not sent: no json" in text
    assert 'class="primary" disabled' in text
    group.answers[path] = 200, {"matched": 2, "sample": [refused]}  # the other one is not among the samples
    assert " disabled" not in browser.post(SINK + "/dead-letters/replay", fields).text


def test_a_letter_that_is_gone_is_reported(browser: Browser) -> None:
    answer = browser.get(SINK + "/dead-letters/0/77/edit")
    assert answer.status_code == 404
    assert "Letter 0/77 of orders-sink no longer exists" in answer.text


@pytest.mark.parametrize(
    ("fields", "words"), [({}, "No letters are selected"), ({"which": "all", "patch": "{"}, "JSON patch is not JSON")]
)
def test_a_replay_of_nothing_says_what_to_do(browser: Browser, fields: dict[str, str], words: str) -> None:
    answer = browser.post(SINK + "/dead-letters/replay", fields)
    assert answer.status_code == 400
    assert words in html.unescape(answer.text)


def test_replays_show_their_progress_and_are_stopped_and_resumed(browser: Browser, group: StandIn) -> None:
    browser.post(SINK + "/dead-letters/replay", {"which": "all", "rate": "5", "sure": "1"})
    group.replays["r1"] |= {"done": 3, "failed": 1, "failures": [{"partition": 0, "offset": 2, "error": "<b>no"}]}
    group.replays["other"] = {"id": "other", "connector": "x", "state": "running"}
    text = browser.get(SINK + "/dead-letters/replays").text
    assert '<progress value="4" max="5"' in text
    assert "0/2: &lt;b&gt;no" in text
    assert "other" not in text
    assert "r1 stopped" in browser.post(SINK + "/dead-letters/replays/r1/stop").text
    assert "Resume" in browser.get(SINK + "/dead-letters/replays").text
    assert "r1 resumed" in browser.post(SINK + "/dead-letters/replays/r1/resume").text
    assert browser.post(SINK + "/dead-letters/replays/r1/explode").status_code == 404


def test_replayed_letters_are_deleted_after_a_question(browser: Browser, group: StandIn) -> None:
    assert "deleted permanently" in browser.get(SINK + "/dead-letters/delete").text
    assert "1 letter of orders-sink deleted" in browser.post(SINK + "/dead-letters/delete").text
    assert json.dumps(group.sent("POST", "/admin/dead-letters/delete")) == '[{"connector": "orders-sink"}]'

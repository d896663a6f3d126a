"""The list of connectors: filters, rows, the stream's changes, actions on many."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

from spark_connect_rt.console.shared_reads import Rendered
from spark_connect_rt.operations.overview.page import OverviewSnapshot, changes, view
from tests.support.management_stand_in import content
from tests.support.management_stand_in.app import StandIn
from tests.unit.console.conftest import Browser


def order_of(text: str) -> list[str]:
    return [part.partition('"')[0] for part in text.split('data-key="')[1:]]


def test_abnormal_connectors_come_first_with_their_reason(browser: Browser) -> None:
    text = browser.get("/").text
    assert order_of(text) == ["orders-sink", "resting", "halted", "orders"]
    assert "1 task FAILED" in text
    assert "<title>1 failing · Connectors" in text


def test_filters_go_to_the_api_and_come_back_as_links(browser: Browser, group: StandIn) -> None:
    text = browser.get("/?search=or&type=source&evil=1").text
    (target,) = [path for _, path, _ in group.requests if path.startswith("/admin/overview")]
    assert target == "/admin/overview?search=or&type=source&offset=0&limit=100"
    assert order_of(text) == ["orders"]
    assert 'href="?search=or&amp;type=source&amp;state=PAUSED"' in text
    assert "No connectors match" in browser.get("/?search=nothing").text


def test_pages_of_a_hundred() -> None:
    found = {
        "connectors": [],
        "total": 2000,
        "matching": 250,
        "counts": {"RUNNING": 249, "NEW_STATE": 1, "abnormal": 0},
    }
    first = view(found, {"offset": 0, "limit": 100, "search": "a"})
    assert (first["before"], first["after"], first["until"]) == ("", "?search=a&offset=100", 100)
    last = view(found, {"offset": 200, "limit": 100})
    assert (last["before"], last["after"], last["until"]) == ("?offset=100", "", 250)
    assert last["states"] == ["RUNNING", "NEW_STATE"]


def test_an_offset_that_is_not_a_number_is_the_first_page(browser: Browser) -> None:
    for offset in ("-1", "x", "9" * 40, "1e3"):
        assert browser.get(f"/?offset={offset}").status_code == 200


def test_the_confirmation_names_every_connector(browser: Browser) -> None:
    text = browser.post("/selection/delete/confirm", {"name": ["orders", "halted"]}).text
    assert "Delete 2 connectors?" in text
    assert '<li>halted<input type="hidden" name="name" value="halted"></li>' in text
    everything = browser.post(
        "/selection/pause/confirm", {"all": "1", "filter-abnormal": "true", "name": "orders"}
    ).text
    assert "orders-sink" in everything
    assert "Pause orders-sink?" in everything
    assert "No connector is selected" in browser.post("/selection/stop/confirm").text


def test_an_action_on_many_says_which_refused(browser: Browser, group: StandIn) -> None:
    answer = browser.post("/selection/pause", {"name": ["orders", "gone<b>", "halted"]})
    assert "2 connectors paused." in answer.text
    assert "gone&lt;b&gt;: Connector gone&lt;b&gt; not found" in answer.text
    assert "console:changed" in answer.headers["hx-trigger"]
    assert group.connectors["orders"]["row"]["state"] == "PAUSED"
    on_list = browser.post("/selection/delete", {"name": "orders"}, **{"HX-Current-URL": "http://one:8083/console/"})
    assert "hx-redirect" not in on_list.headers
    own = {"HX-Current-URL": "http://one:8083/console/connectors/resting/logs?task=1"}
    assert browser.post("/selection/delete", {"name": "resting"}, **own).headers["hx-redirect"] == "/console/"
    assert "orders" not in group.connectors
    browser.post("/selection/restart-failed", {"name": "orders-sink"})
    assert group.requests[-1][:2] == ("POST", "/connectors/orders-sink/restart?includeTasks=true&onlyFailed=true")
    assert browser.post("/selection/explode", {"name": "orders-sink"}).status_code == 404


def test_nothing_was_restarted_where_nothing_had_failed(browser: Browser, group: StandIn) -> None:
    assert (
        "Nothing was restarted: orders has no failed tasks."
        in browser.post("/selection/restart-failed", {"name": "orders"}).text
    )
    state, task = {"state": "RUNNING"}, {"id": 0, "state": "RESTARTING"}
    answer = {"name": "orders-sink", "connector": state, "tasks": [task]}
    group.answers["POST", "/connectors/orders-sink/restart"] = 202, answer
    text = browser.post("/selection/restart-failed", {"name": ["orders", "orders-sink"]}).text
    assert "1 connector restarted." in text


def test_the_aggregate_state_is_above_javas_own_where_they_differ(browser: Browser) -> None:
    text = browser.get("/").text
    failing = text[text.index('data-key="orders-sink"') : text.index('data-key="resting"')]
    assert failing.index("DEGRADED") < failing.index("connector RUNNING")
    assert "connector STOPPED" not in text
    assert 'href="?state=DEGRADED"' in text
    assert "#stopped" in text[text.index('data-key="halted"') :]
    page = browser.get("/connectors/orders-sink").text
    assert page.index("DEGRADED") < page.index("connector RUNNING")


def test_a_stream_sends_everything_once_and_then_what_changed() -> None:
    async def snapshots() -> AsyncIterator[OverviewSnapshot]:
        yield OverviewSnapshot({"a": "1", "b": "1"}, "s", 0)
        yield OverviewSnapshot({"a": "1", "b": "1"}, "s", 0)
        yield OverviewSnapshot({"a": "2", "b": "1"}, "s", 0)
        yield OverviewSnapshot({"b": "1"}, "t", 1)

    async def read() -> list[Any]:
        return [value async for _, value in changes(snapshots())]

    assert asyncio.run(read()) == [
        {"changed": {"a": "1", "b": "1"}, "order": ["a", "b"], "summary": "s", "abnormal": 0},
        {"changed": {"a": "2"}, "order": None, "summary": None, "abnormal": 0},
        {"changed": {}, "order": ["b"], "summary": "t", "abnormal": 1},
    ]


def test_a_row_is_made_again_only_when_its_values_changed() -> None:
    kept, made = Rendered(), []

    def render(row: dict[str, Any]) -> str:
        made.append(row["name"])
        return str(row["lag"])

    kept.rows([{"name": "a", "lag": 1}, {"name": "b", "lag": 1}], render)
    assert kept.rows([{"name": "a", "lag": 2}, {"name": "b", "lag": 1}], render) == {"a": "2", "b": "1"}
    assert made == ["a", "b", "a"]


def test_a_row_with_nothing_known_is_shown(browser: Browser, group: StandIn) -> None:
    bare = {"name": "bare", "type": None, "class": None, "state": None, "worker_id": None, "tasks": None}
    group.connectors["bare"] = {**group.connectors["orders"], "row": content.row("bare") | bare}
    assert "bare" in order_of(browser.get("/").text)


def test_a_page_of_two_thousand_connectors_takes_far_less_than_200_ms_of_a_core(
    browser: Browser, group: StandIn
) -> None:
    kept = group.connectors["orders"]
    for number in range(2000):
        name, broken = f"c{number:04}", number % 40 == 0
        made = content.row(name, state="FAILED" if broken else "RUNNING", abnormal=broken, why="boom" if broken else "")
        group.connectors[name] = {**kept, "row": made | {"tasks": {"RUNNING": 5}}}
    browser.get("/")  # templates are compiled
    began = time.process_time()
    text = browser.get("/").text
    spent_ms = (time.process_time() - began) * 1000
    assert len(order_of(text)) == 100
    assert spent_ms < 200, f"{spent_ms:.0f} ms"


def test_a_row_says_when_it_is_tried_again_or_why_not(browser: Browser, group: StandIn) -> None:
    group.connectors["orders"]["row"] |= {"restart": {"attempts": 3, "next_attempt_ms": content.NOW_MS}}
    group.connectors["halted"]["row"] |= {"restart": {"attempts": 8, "stopped": "the same record <x>"}}
    text = browser.get("/").text
    assert all(words in text for words in ("try 3", "2026-11-23 08:00:00", "stopped: the same record &lt;x&gt;"))

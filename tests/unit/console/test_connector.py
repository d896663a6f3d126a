"""A connector's tabs: state, course, tasks, offsets, logs; what they ask for and what they refuse."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from spark_connect_rt.operations.connectors.page import ConnectorSnapshot, changes, columns, minutes
from spark_connect_rt.operations.history.offsets_page import moved
from spark_connect_rt.operations.logs.page import _lines
from tests.support.management_stand_in.app import StandIn
from tests.unit.console.conftest import Browser

SLASHED = "a/b c?%"


def test_every_tab_works_for_a_name_of_any_form(browser: Browser, group: StandIn) -> None:
    group.connectors[SLASHED] = group.connectors["orders-sink"]
    for tab in ("", "/offsets", "/logs"):
        answer = browser.get(f"/connectors/a%2Fb%20c%3F%25{tab}")
        assert answer.status_code in (200, 404)  # the stand-in decodes paths: what counts is what was asked
    assert browser.get("/connectors/orders-sink").text.count("aria-current") == 2
    assert browser.get("/connectors/nothing").status_code == 404


def test_the_status_tab_shows_what_is_wrong_and_hides_secrets(browser: Browser, group: StandIn) -> None:
    group.connectors["orders-sink"]["tasks"][1]["restart"] = {"attempts": 7, "stopped": "a record it cannot pass"}
    text = browser.get("/connectors/orders-sink").text
    assert "1 task FAILED" in text
    assert "at task" in text
    assert all(words in text for words in ("try 7", "stopped: a record it cannot pass"))
    assert "hunter-2" not in text
    assert "<script>alert" not in text
    assert "executor driver" not in text


def test_one_task_is_restarted(browser: Browser, group: StandIn) -> None:
    assert "restarted" in browser.post("/connectors/orders-sink/tasks/1/restart").text
    assert group.requests[-1][:2] == ("POST", "/connectors/orders-sink/tasks/1/restart")
    assert browser.post("/connectors/orders-sink/tasks/x/restart").status_code in (404, 422)


def test_a_stream_sends_only_new_points_and_changed_rows() -> None:
    def at(number: int) -> dict[str, Any]:
        return {"at_ms": number, "records_per_second": 1.0, "lag": None, "errors": 0}

    async def snapshots() -> AsyncIterator[ConnectorSnapshot]:
        yield ConnectorSnapshot("f", {"0": "a", "1": "a"}, [at(1000), at(2000)], "RUNNING")
        yield ConnectorSnapshot("f", {"0": "b"}, [at(2000), at(3000)], "FAILED", "topics")
        yield ConnectorSnapshot("f", {"0": "b"}, [at(3000)], "FAILED")

    async def read() -> list[Any]:
        return [value async for _, value in changes(snapshots())]

    first, second, third = asyncio.run(read())
    assert (first["course"]["at_s"], first["tasks"], first["facts"]) == ([1.0, 2.0], {"0": "a", "1": "a"}, "f")
    assert (second["course"]["at_s"], second["tasks"], second["facts"]) == ([3.0], {"0": "b"}, None)
    assert (second["order"], second["state"]) == (["0"], "FAILED")
    assert (first["order"], third["order"]) == (["0", "1"], None)
    assert [event["topics"] for event in (first, second)] == ["", "topics"]


def test_the_table_next_to_the_chart_has_a_row_a_minute_newest_first() -> None:
    course = [{"at_ms": second * 10_000} for second in range(12)]
    assert [minute["at_ms"] for minute in minutes(course)] == [110_000, 50_000]
    assert minutes(None) == []
    assert columns([]) == {"at_s": [], "records_per_second": [], "lag": [], "errors": []}


HERE, THERE = {"filename": "in.txt"}, {"filename": "other.txt"}


def test_moved_offsets_are_computed_from_before_and_after() -> None:
    before = [{"partition": {"a": 1, "b": 2}, "offset": {"p": 1}}, {"partition": THERE, "offset": {"p": 5}}]
    after = [{"partition": {"b": 2, "a": 1}, "offset": {"p": 1}}, {"partition": HERE, "offset": {"p": 3}}]
    assert moved(before, after) == [
        {"partition": HERE, "from": None, "to": {"p": 3}},
        {"partition": THERE, "offset": {"p": 5}, "from": {"p": 5}, "to": None},
    ]
    assert moved(before, before) == []


def fields(browser: Browser, offsets: Any, **more: str) -> dict[str, str]:
    return {"offsets": json.dumps(offsets), **more}


def test_offsets_are_written_after_a_diff_and_only_if_nothing_moved(browser: Browser, group: StandIn) -> None:
    kept = group.connectors["halted"]
    wanted = [{"partition": HERE, "offset": {"position": 7}}]
    dialog = browser.post("/connectors/halted/offsets/diff", fields(browser, wanted)).text
    assert "{&#34;position&#34;: 42}" in dialog
    assert "Save 1 offset" in dialog
    seen = json.dumps(kept["offsets"])
    written = browser.post("/connectors/halted/offsets", fields(browser, wanted, before=seen))
    assert "altered successfully" in written.text
    assert group.sent("PATCH", "/connectors/halted/offsets") == [{"offsets": wanted}]
    late = browser.post("/connectors/halted/offsets", fields(browser, wanted, before=seen))
    assert (late.status_code, "have moved in the meantime" in late.text) == (409, True)


def test_offsets_of_a_running_connector_are_the_apis_to_refuse(browser: Browser, group: StandIn) -> None:
    assert "disabled" in browser.get("/connectors/orders/offsets").text
    refused = browser.post("/connectors/orders/offsets/reset")
    assert (refused.status_code, "STOPPED state" in refused.text) == (400, True)


@pytest.mark.parametrize(
    "text", ["", "{", "{}", "[1]", '[{"partition": 1}]', '[{"partition": {}, "offset": 3}]', "[" * 9999]
)
def test_offsets_that_are_invalid_are_refused_with_the_reason(browser: Browser, text: str) -> None:
    refused = browser.post("/connectors/halted/offsets/diff", {"offsets": text})
    assert (refused.status_code, "The offsets are" in refused.text) == (400, True)


def test_offsets_that_cannot_be_read_leave_the_page(browser: Browser, group: StandIn) -> None:
    group.answers["GET", "/connectors/orders/offsets"] = 500, {"error_code": 500, "message": "no broker"}
    answer = browser.get("/connectors/orders/offsets")
    assert (answer.status_code, "no broker" in answer.text) == (200, True)


def test_logs_of_a_task_from_a_level(browser: Browser, group: StandIn) -> None:
    text = browser.get("/connectors/orders-sink/logs?task=1&level=WARN").text
    assert ("GET", "/admin/connectors/orders-sink/tasks/1/logs?level=WARN&tail=300", None) in group.requests
    assert "&lt;script&gt;alert" in text
    browser.get("/connectors/orders-sink/logs?task=../../x&level=EVIL")
    assert "EVIL" not in group.requests[-1][1]
    group.answers["GET", "/admin/connectors/orders/logs"] = 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
    assert "does not serve this" in browser.get("/connectors/orders/logs").text


def test_lines_of_a_stream_come_one_by_one_or_together() -> None:
    assert _lines('{"message": "a"}') == [{"message": "a"}]
    assert _lines('{"lines": [{"message": "a"}, 3]}') == [{"message": "a"}]
    assert [_lines(text) for text in ("", "3", "{}", "not json")] == [[], [], [], []]

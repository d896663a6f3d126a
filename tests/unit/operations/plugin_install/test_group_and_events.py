"""What the pages Group, Events and Plug-ins show of answers of the API, also of odd ones."""

from __future__ import annotations

import pytest

from spark_connect_rt.operations.events.page import event_filter, event_line, event_lines
from spark_connect_rt.operations.overview.group_page import group_page, tasks_by_connector, time_line
from spark_connect_rt.operations.plugin_install.page import connector_line, matching, plugin_lines, plugins_page
from tests.support.management_stand_in import content

HOUR_MS = 3_600_000


def test_the_leader_is_listed_first_and_unanswered_workers_are_named() -> None:
    page = group_page(content.group())
    assert [(worker.worker_id, worker.leader) for worker in page.workers] == [
        ("one:8083", True),
        ("java:8083", False),
        ("two:8083", False),
    ]
    assert page.unreachable == ("two:8083",)
    assert "Java worker" in page.workers[1].note
    assert page.workers[0].note == ""


def test_tasks_stand_by_connector_whose_name_may_hold_dashes() -> None:
    ids = ("a-b-10", "a-b-2", "a-0", "odd", "x-²", "-1")
    assert tasks_by_connector(ids) == (("a", (0,)), ("a-b", (2, 10)))


@pytest.mark.parametrize("answer", [{}, {"workers": None}, {"workers": ["x", 1]}, {"workers": [{}]}])
def test_a_group_that_says_nothing_is_a_page(answer: dict[str, object]) -> None:
    assert len(group_page(answer).workers) in (0, 1)


def test_rebalances_lie_on_the_line_by_their_time_and_length() -> None:
    now = 10 * HOUR_MS
    events = [
        {"id": "1", "at_ms": now - HOUR_MS // 2, "kind": "rebalance", "summary": "b", "details": {"seconds": 360}},
        {"id": "2", "at_ms": now - 5 * HOUR_MS, "kind": "rebalance", "summary": "a", "details": {}},
    ]
    line = time_line(events, now)
    assert [mark.event.summary for mark in line.marks] == ["b", "a"]
    assert line.marks[0].x > line.marks[1].x >= 0
    assert line.marks[0].width > line.marks[1].width == 4
    assert all(mark.x >= 0 and mark.x + mark.width <= 1000 for mark in line.marks)
    assert 5 < line.hours < 6


def test_a_quiet_group_has_a_line_of_an_hour() -> None:
    line = time_line([], HOUR_MS * 10)
    assert (line.marks, line.hours) == ((), 1.0)


def test_an_event_of_tomorrow_is_shown_as_it_is() -> None:
    line = event_line({"kind": "eclipse", "task": "x", "details": {"a": {"b": 1}, "c": None}, "at_ms": None})
    assert (line.kind, line.tone, line.task, line.at_ms) == ("eclipse", "idle", None, 0)
    assert line.details == (("a", '{"b": 1}'),)
    assert len(event_lines({"events": content.events()})) == 6


@pytest.mark.parametrize(
    ("kind", "summary", "icon", "tone"),
    [
        ("state", "lines task 0: task lines-0 is RUNNING", "ok", "ok"),
        ("state", "connector lines is PAUSED", "idle", "idle"),
        ("state", "connector lines is STOPPED", "stopped", "idle"),
        ("logger", "root is DEBUG", "logger", "idle"),
        ("config", "changed", "change", "idle"),
        ("failure", "task 0 FAILED", "bad", "bad"),
    ],
)
def test_an_event_has_the_icon_of_what_it_is_about(kind: str, summary: str, icon: str, tone: str) -> None:
    line = event_line({"kind": kind, "summary": summary})
    assert (line.icon, line.tone) == (icon, tone)


@pytest.mark.parametrize(
    ("task", "summary", "shown"),
    [
        (None, "connector lines: pause requested", "pause requested"),
        (None, "connector lines is reconfigured", "reconfigured"),
        (0, "task lines-0 is PAUSED", "PAUSED"),
        (0, "task 0 FAILED: boom", "FAILED: boom"),
        (None, "connector lines-2 is deleted", "connector lines-2 is deleted"),
    ],
)
def test_a_line_names_its_connector_once(task: int | None, summary: str, shown: str) -> None:
    assert event_line({"connector": "lines", "task": task, "summary": summary}).summary == shown


def test_the_filter_of_events_keeps_only_what_it_knows() -> None:
    wanted = event_filter(["failure", "nonsense", "failure"], " orders ", "900")
    assert wanted.query(1_000_000) == {
        "kind": "failure",
        "connector": "orders",
        "since_ms": 100_000,
        "limit": 500,
    }
    assert event_filter([], "", "9" * 30).query(0)["since_ms"] is None


def test_versions_of_one_class_are_on_one_line() -> None:
    lines = plugin_lines(
        [
            {"class": "x.B", "type": "source", "version": "1", "location": "p"},
            {"class": "x.A", "type": "sink", "version": None, "location": "q"},
            {"class": "x.B", "type": "source", "version": "2", "location": "p"},
        ]
    )
    assert [(line.short, line.versions) for line in lines] == [("A", (("", "q"),)), ("B", (("1", "p"), ("2", "p")))]


def test_kinds_are_listed_in_order_and_failures_of_workers_are_named() -> None:
    page = plugins_page(content.plugins())
    assert [kind for kind, _ in page.kinds] == ["source", "sink", "converter"]
    assert page.broken[0].error == f"ImportError: {content.NASTY}"
    assert [worker_state.worker_id for worker_state in page.installed[0].failed] == ["two:8083"]


def test_connectors_are_found_by_words() -> None:
    lines = plugin_lines(content.plugins()["plugins"])
    assert [line.short for line in matching(lines, "", "")] == [
        "FileStreamSinkConnector",
        "FileStreamSourceConnector",
    ]
    assert [line.short for line in matching(lines, "FILE sink", "")] == ["FileStreamSinkConnector"]
    assert matching(lines, "file sink", "source") == ()
    assert matching(lines, "json", "") == ()
    assert [line.short for line in matching(lines, "writes", "")] == ["FileStreamSinkConnector"]
    found = connector_line(lines, "FileStreamSink")
    assert found
    assert (found.kind, found.description) == ("sink", "Writes lines.")
    assert connector_line(lines, "JsonConverter") is None

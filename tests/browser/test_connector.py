"""A connector's page: live state and course, offsets and configuration with a diff before anything is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import Tabs
from tests.browser.tab import Tab
from tests.support.management_stand_in.app import StandIn


@pytest.mark.parametrize("path", ["", "/configuration", "/offsets", "/logs"])
def test_every_tab_can_be_read_in_every_size_and_colour(quick: Tab, path: str) -> None:
    quick.expects("404")  # the stand-in has no stream of logs
    page = quick.open(f"/connectors/orders-sink{path}")
    expect(page.get_by_role("heading", level=1)).to_have_text("orders-sink")
    quick.accessible_in_every_size_and_colour()


def test_state_tasks_and_course_are_live(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/connectors/orders-sink")
    expect(page.locator("[data-chart] canvas")).to_have_count(3)
    expect(page.locator('[data-newest="lag"]')).to_have_text("359")
    trace = page.locator("details.trace")
    trace.locator("summary").click()
    kept = stand_in.connectors["orders-sink"]
    kept["row"] |= {"state": "PAUSED", "aggregate": "PAUSED"}
    kept["tasks"][1]["records"] = 4321
    expect(page.locator("#facts")).to_contain_text("PAUSED")
    expect(page.locator('#tasks > tr[data-key="1"]')).to_contain_text("4,321")
    expect(trace).to_have_attribute("open", "")  # what one reads stays open
    expect(page.locator("#announcer")).to_have_text("The connector is PAUSED")
    first = page.locator("#tasks > tr").first
    expect(first).to_have_attribute("data-key", "1")  # it failed
    kept["tasks"][0]["state"], kept["tasks"][1]["state"] = "FAILED", "RUNNING"
    expect(page.locator('#tasks > tr[data-key="0"]')).to_contain_text("FAILED")
    expect(first).to_have_attribute("data-key", "1")  # the pointer is on its trace: nothing moves under it
    page.get_by_text("As a table").click()
    expect(first).to_have_attribute("data-key", "0")
    expect(trace).to_have_attribute("open", "")
    expect(page.get_by_role("region", name="The last hour as a table").locator("tbody tr")).to_have_count(60)


def test_tables_of_a_sink_show_their_progress_live(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/connectors/orders-sink")
    row = page.locator("#tables tbody tr").first
    expect(row).to_contain_text("shop.orders")
    expect(row.get_by_role("cell")).to_have_text(["40,321", "7", "3.0 MiB", "14", "12", "82", "250", "12.4", "1", "0"])
    stand_in.connectors["orders-sink"]["tables"][0] |= {"rows": 40_571, "waiting_rows": 0, "commits": 13}
    expect(row).to_contain_text("40,571")
    quick.accessible_in_every_size_and_colour()
    page = quick.open("/connectors/orders")
    expect(page.get_by_role("heading", name="Topics")).to_be_visible()
    expect(page.locator("#tables table")).to_have_count(0)


DRAWN = """
    window.drawn = [];
    const draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const half = this.textAlign === "center" ? this.measureText(text).width / 2 : 0;
        window.drawn.push([text, x - half, x + half, this.canvas.width]);
        return draw.call(this, text, x, y);
    };
"""


@pytest.mark.parametrize("points", [1, 360])
def test_the_ticks_of_a_chart_are_times_and_not_cut(quick: Tab, tabs: Tabs, stand_in: StandIn, points: int) -> None:
    stand_in.points = points
    tab = tabs(quick.url)
    tab.page.add_init_script(DRAWN)
    page = tab.open("/connectors/orders")
    expect(page.locator('[data-newest="lag"]')).to_have_text(str(points - 1))
    page.wait_for_function("window.drawn.some(([text]) => text.includes(':'))")
    drawn = page.evaluate("window.drawn.filter(([text]) => text.includes(':'))")
    assert [text for text, *_ in drawn if text.startswith("00:00")] == []
    assert [text for text, left, right, width in drawn if left < 0 or right > width] == []


def test_topics_come_up_without_a_reload(quick: Tab, stand_in: StandIn) -> None:
    stand_in.connectors["orders"]["topics"] = []
    page = quick.open("/connectors/orders")
    expect(page.locator("#topics")).to_contain_text("No record has passed")
    stand_in.connectors["orders"]["topics"] = ["fresh"]
    expect(page.locator("#topics")).to_have_text("fresh")


def test_a_click_pauses_a_connector_and_the_next_try_clears_an_old_complaint(quick: Tab, stand_in: StandIn) -> None:
    quick.expects("409")
    page = quick.open("/connectors/orders")
    stand_in.answers["PUT", "/connectors/orders/pause"] = 409, {"error_code": 409, "message": "a rebalance"}
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#messages .bad")).to_contain_text("a rebalance")
    stand_in.answers.clear()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#messages")).to_contain_text("orders paused.")
    expect(page.locator("#messages .bad")).to_have_count(0)
    page.get_by_role("button", name="Restart failed").click()
    expect(page.locator("#messages")).to_contain_text("Nothing was restarted")


def test_every_tab_and_page_is_within_reach_of_a_phone(quick: Tab) -> None:
    quick.page.set_viewport_size({"width": 390, "height": 844})
    page = quick.open("/connectors/orders-sink/dead-letters")
    for link in (*page.locator(".pages a").all(), *page.locator(".tabs a").all()):
        box = link.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390, link.inner_text()


def test_times_are_relative_as_soon_as_a_part_is_read_again(quick: Tab) -> None:
    page = quick.open("/connectors/orders/history")
    expect(page.locator("#history time").first).to_contain_text("ago")
    seen = page.evaluate("""() => new Promise((done) => {
        document.addEventListener("htmx:afterSwap", () =>
            done([...document.querySelectorAll("#history time")].map((one) => one.textContent)), { once: true });
        htmx.trigger("#history", "refresh");
    })""")
    assert seen
    assert [text for text in seen if not text.endswith("ago")] == []


def test_a_task_is_restarted(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/connectors/orders-sink")
    page.get_by_role("button", name="Restart task 1").click()
    expect(page.locator("#messages")).to_contain_text("Task 1 of orders-sink is restarted.")
    assert stand_in.sent("POST", "/connectors/orders-sink/tasks/1/restart") == [None]


def test_a_button_stays_under_the_finger_while_its_row_changes(quick: Tab, stand_in: StandIn) -> None:
    page, task = quick.open("/connectors/orders-sink"), stand_in.connectors["orders-sink"]["tasks"][1]
    button, row = page.get_by_role("button", name="Restart task 1"), page.locator('#tasks > tr[data-key="1"]')
    restarts = "/connectors/orders-sink/tasks/1/restart"
    button.focus()
    page.keyboard.down("Space")
    task |= {"state": "RESTARTING", "records": 4321}
    expect(row).to_contain_text("4,321")
    page.keyboard.up("Space")
    expect(page.locator("#messages")).to_contain_text("Task 1 of orders-sink is restarted.")
    assert len(stand_in.sent("POST", restarts)) == 1

    button.hover()
    page.mouse.down()
    with page.expect_response("**/alive"):  # every 3 s: live values come more often
        task |= {"state": "FAILED", "trace": "it broke\nat line 1", "records": 5432}
    expect(row).to_contain_text("4,321")  # nothing moves until the release
    with page.expect_response("**/tasks/1/restart"):
        page.mouse.up()
    expect(row).to_contain_text("5,432")
    assert len(stand_in.sent("POST", restarts)) == 2


REBALANCING = (409, {"error_code": 409, "message": "a rebalance is under way"})


@pytest.mark.parametrize(
    ("ends", "answer", "words"),
    [
        (Route.continue_, (204, None), "Task 1 of orders-sink is restarted."),
        (Route.continue_, REBALANCING, "a rebalance is under way"),
        (Route.abort, None, "does not answer"),
        (lambda route: route.fulfill(status=502, body="<b>not the console's</b>"), None, "HTTP 502"),
    ],
    ids=["done", "refused", "lost", "by a proxy"],
)
def test_an_action_says_how_it_ended_though_its_button_is_gone(
    quick: Tab, stand_in: StandIn, ends: Callable[[Route], None], answer: Any, words: str
) -> None:
    quick.expects("409|502|ERR_FAILED|htmx:(sendError|afterRequest)")
    page, held = quick.open("/connectors/orders-sink"), list[Route]()
    stand_in.answers["POST", "/connectors/orders-sink/tasks/1/restart"] = answer
    page.route("**/tasks/1/restart", lambda route: held.append(route))
    with page.expect_request("**/tasks/1/restart"):
        page.get_by_role("button", name="Restart task 1").click()
    page.locator("#tasks > tr").evaluate_all("(rows) => rows.forEach((row) => row.remove())")
    ends(held[0])
    expect(page.locator("#messages")).to_contain_text(words)


def test_offsets_are_edited_after_a_diff(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/connectors/halted/offsets")
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Edit").click())
    wanted = [{"partition": {"filename": "in.txt"}, "offset": {"position": 7}}]
    dialog.get_by_label("Offsets, as JSON").fill(json.dumps(wanted))
    dialog.get_by_role("button", name="Review changes").click()
    expect(dialog.locator(".after")).to_have_text('{"position": 7}')
    quick.accessible()
    dialog.get_by_role("button", name="Save 1 offset").click()
    expect(page.locator("#offsets tbody")).to_contain_text('{"position": 7}')
    assert stand_in.connectors["halted"]["offsets"] == wanted


def test_a_setting_is_edited_in_the_form_and_a_second_edit_is_refused_with_the_diff(
    quick: Tab, tabs: Tabs, stand_in: StandIn
) -> None:
    other = tabs(quick.url)
    first, second = quick.open("/connectors/orders/configuration"), other.open("/connectors/orders/configuration")
    for tab, page, value in ((quick, first, "mine"), (other, second, "late")):
        expect(page.locator("#save-bar")).to_be_hidden()
        page.locator('[data-setting="topic"] [data-input]').fill(value)
        expect(page.locator("[data-config-json]")).to_have_value(re.compile(value))
        dialog = tab.dialog(lambda page=page: page.get_by_role("button", name="Review changes").click())  # type: ignore[misc]
        expect(dialog.locator(".after").last).to_have_text(value)
    first.get_by_role("button", name="Save 1 change").click()
    expect(first.locator("#messages")).to_contain_text("is saved")
    expect(first.locator("#save-bar")).to_be_hidden()
    other.expects("409")
    second.get_by_role("button", name="Save 1 change").click()
    expect(second.locator("#dialog")).to_contain_text("Another client changed")
    assert stand_in.connectors["orders"]["config"]["topic"] == "mine"
    second.get_by_role("button", name="Keep editing").click()
    dialog = other.dialog(lambda: second.get_by_role("button", name="Review changes").click())
    expect(dialog).to_contain_text("Another client changed it")
    other.accessible()
    dialog.get_by_role("link", name="Use theirs").click()
    expect(second.locator('[data-setting="topic"] [data-input]')).to_have_value("mine")


def test_configuration_of_a_running_connector_is_checked_and_previewed_before_saving(
    quick: Tab, stand_in: StandIn
) -> None:
    page = quick.open("/connectors/orders/configuration")
    bar = page.get_by_role("region", name="Check, preview, save")
    expect(bar).to_be_in_viewport()
    page.locator('[data-setting="topic"] [data-input]').fill("other")
    bar.get_by_role("button", name="Check").click()
    expect(page.locator("#check")).to_contain_text("Not ready: fix the problems below.")
    expect(page.locator("#check h2")).to_be_in_viewport()
    bar.get_by_role("button", name="Preview").click()
    expect(page.locator(".stage h3").first).to_be_visible()
    expect(bar).to_be_in_viewport()
    quick.accessible_in_every_size_and_colour()
    for path in ("/admin/check", "/admin/preview"):
        [body] = stand_in.sent("POST", path)
        assert (body["config"]["topic"], body["config"]["db.password"]) == ("other", "hunter-2")


def test_the_json_side_is_the_same_configuration(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/connectors/orders/configuration")
    text = page.locator("[data-config-json]")
    config = json.loads(text.input_value())
    assert "hunter-2" not in page.content()
    text.fill(json.dumps(config | {"topic": "by-json"}))
    expect(page.locator('[data-setting="topic"] [data-input]')).to_have_value("by-json")
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Review changes").click())
    dialog.get_by_role("button", name="Save 1 change").click()
    expect(page.locator("#messages")).to_contain_text("is saved")
    written = stand_in.connectors["orders"]["config"]
    assert (written["topic"], written["db.password"]) == ("by-json", "hunter-2")

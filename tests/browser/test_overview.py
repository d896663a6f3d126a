"""The list of connectors: what is wrong first, live, searched, and acted upon with the keyboard alone."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Route, expect

from tests.browser.tab import Tab
from tests.support.management_stand_in import content
from tests.support.management_stand_in.app import StandIn

HOSTILE = "\"><img src=x onerror=alert(1)>'\u202e"


def test_it_can_be_read_in_every_size_and_colour(quick: Tab) -> None:
    quick.open()
    expect(quick.page.locator("#rows > tr")).to_have_count(4)
    quick.accessible_in_every_size_and_colour()


def test_the_colours_are_chosen_and_kept(quick: Tab) -> None:
    page = quick.open()
    page.get_by_label("Theme").select_option("dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.reload()
    assert page.evaluate(ground) == dark
    expect(page.get_by_label("Theme")).to_have_value("dark")


def test_hostile_names_are_text(quick: Tab, stand_in: StandIn) -> None:
    row = content.row(HOSTILE, aggregate="FAILED", last_error=HOSTILE, abnormal=True, why=HOSTILE)
    stand_in.connectors[HOSTILE] = {**stand_in.connectors["orders"], "row": row}
    page = quick.open()
    expect(page.locator("#rows a").first).to_have_text(HOSTILE)
    expect(page.locator("#rows img")).to_have_count(0)
    page.get_by_label(f"Select {HOSTILE}").check()
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Pause").click())
    expect(dialog.locator("li")).to_have_text(HOSTILE)
    dialog.get_by_role("button", name=re.compile("^Pause ")).click()
    expect(page.locator("#messages")).to_contain_text("paused")
    assert stand_in.connectors[HOSTILE]["row"]["state"] == "PAUSED"


def test_values_change_without_a_reload_and_without_losing_the_selection(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open()
    page.evaluate("window.marked = true")
    box = page.get_by_label("Select orders", exact=True)
    box.focus()
    page.keyboard.press("Space")
    stand_in.connectors["orders"]["row"] |= {"aggregate": "FAILED", "abnormal": True, "why": "it broke"}
    row = page.locator('#rows > tr[data-key="orders"]')
    expect(row).to_contain_text("it broke")
    expect(box).to_be_checked()
    expect(box).to_be_focused()
    expect(page.locator("#announcer")).to_have_text("2 connectors are failing")
    expect(page.locator("#summary")).to_contain_text(re.compile(r"Failing\s*2"))
    page.locator("#search").focus()  # the table is left: now the order may change
    expect(page.locator("#rows > tr").first).to_have_attribute("data-key", "orders")
    assert page.evaluate("window.marked")


@pytest.mark.parametrize(
    ("path", "words"), [("/", "2 connectors are failing"), ("/connectors/orders", "The connector is FAILED")]
)
def test_changes_before_the_first_news_are_announced(quick: Tab, stand_in: StandIn, path: str, words: str) -> None:
    def late(route: Route) -> None:
        stand_in.connectors["orders"]["row"] |= {"aggregate": "FAILED", "abnormal": True, "why": "it broke"}
        route.continue_()

    quick.page.route(re.compile("/stream"), late)
    expect(quick.open(path).locator("#announcer")).to_have_text(words)


def test_search_while_typing_and_filters_by_state(quick: Tab) -> None:
    page = quick.open()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the content")).to_be_focused()
    page.get_by_role("searchbox").press_sequentially("rest")
    expect(page.locator("#rows > tr")).to_have_count(1)
    expect(page.get_by_role("searchbox")).to_be_focused()
    expect(page).to_have_url(re.compile("search=rest"))
    page.get_by_role("searchbox").fill("")
    expect(page.locator("#rows > tr")).to_have_count(4)
    page.get_by_role("link", name="STOPPED").click()
    expect(page.locator("#rows > tr")).to_have_count(1)
    expect(page.locator("#rows")).to_contain_text("halted")


def test_many_are_deleted_with_the_keyboard_after_a_dialog_that_names_them(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open()
    page.locator("#tick-all").focus()
    page.keyboard.press("Space")
    expect(page.locator("#selected-count")).to_have_text("4")
    page.get_by_label("Select resting").uncheck()
    delete = page.get_by_role("button", name="Delete …")
    dialog = quick.dialog(lambda: (delete.focus(), page.keyboard.press("Enter"))[0])  # type: ignore[func-returns-value]
    expect(dialog.locator("li")).to_have_text(["halted", "orders", "orders-sink"])
    quick.accessible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(delete).to_be_focused()
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("button", name="Delete 3 connectors")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#messages")).to_contain_text("3 connectors deleted.")
    expect(page.locator("#rows > tr")).to_have_count(1)
    assert list(stand_in.connectors) == ["resting"]


def test_a_refused_action_says_why_within_the_dialog(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open()
    quick.expects("403")
    page.get_by_label("Select orders", exact=True).check()
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Stop …").click())
    page.context.clear_cookies()  # as after hours on another worker
    dialog.get_by_role("button", name=re.compile("^Stop ")).click()
    expect(dialog).to_contain_text("Reload the page")
    assert stand_in.connectors["orders"]["row"]["state"] == "RUNNING"

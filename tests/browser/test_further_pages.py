"""Group, events, plug-ins, loggers, new connector and a connector's further tabs, over the stand-in of the API."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.tab import Tab
from tests.support.management_stand_in.app import StandIn

HIDDEN = r'"db.password": "\[hidden\]"'
SINK = "/connectors/orders-sink"
PAGES = (
    *("/group", "/events", "/plugins", "/loggers", "/new", "/new?plugin=FileStreamSource"),
    *("/connectors/orders/history", "/connectors/orders/offsets", f"{SINK}/dead-letters"),
)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_can_be_read_in_every_size_and_colour(quick: Tab, path: str) -> None:
    page = quick.open(path)
    expect(page.locator("h1")).to_be_visible()
    expect(page.locator("#offset-history h2, body:not(:has(#offset-history))").first).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    quick.accessible_in_every_size_and_colour()


def test_form_and_json_say_the_same_while_typing(quick: Tab) -> None:
    page = quick.open("/new?plugin=FileStreamSource")
    status, sent = page.locator("[data-config-status]"), page.locator("#config")
    expect(status).to_have_text("Still required: name, topic.")
    expect(page.locator(".wrong, [aria-invalid]")).to_have_count(0)
    page.get_by_label("topic required").fill("lines")
    expect(status).to_have_text("Still required: name.")
    page.get_by_label("topic required").fill("")
    expect(status).to_have_text("1 problem.")
    expect(page.locator(".wrong")).to_have_count(1)
    page.get_by_label("topic required").fill("lines")
    expect(status).to_have_text("Still required: name.")
    page.get_by_text("Common to all connectors").click()
    page.get_by_label("db.password").fill("hunter-2")
    expect(page.get_by_role("textbox", name="JSON", exact=True)).to_have_value(re.compile(HIDDEN))
    page.get_by_label("tasks.max").fill("many")
    expect(page.get_by_text("Invalid value many")).to_be_visible()
    expect(page.get_by_label("tasks.max")).to_be_focused()
    expect(page.get_by_label("tasks.max")).to_have_attribute("aria-invalid", "true")
    given = {"connector.class": "FileStreamSource", "name": "n", "db.password": "[hidden]", "strange": "1"}
    page.get_by_role("textbox", name="JSON", exact=True).fill(json.dumps(given))
    expect(page.get_by_label("strange")).to_have_value("1")
    expect(page.get_by_label("name required")).to_have_value("n")
    expect(page.get_by_label("db.password")).to_have_value("hunter-2")
    assert json.loads(sent.input_value())["db.password"] == "hunter-2"
    page.get_by_role("textbox", name="JSON", exact=True).fill('{"connector.class"')
    expect(page.get_by_role("alert").filter(has_text="JSON")).to_be_visible()
    assert json.loads(sent.input_value())["strange"] == "1", "what cannot be read is not sent"


def test_typed_text_is_kept_while_the_worker_validates(quick: Tab) -> None:
    page = quick.open("/new?plugin=FileStreamSource")
    field = page.get_by_label("name required")
    field.press_sequentially("a rather long name of a connector", delay=40)  # some validations come back meanwhile
    expect(field).to_have_value("a rather long name of a connector")
    expect(field).to_be_focused()


def test_a_connector_is_checked_previewed_and_created_with_the_keyboard(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/new")
    page.get_by_role("searchbox").press_sequentially("file source")
    expect(page.locator(".choices li")).to_have_count(1)
    page.locator(".choices a").focus()
    page.keyboard.press("Enter")
    page.get_by_label("name required").fill("fresh")
    page.get_by_label("topic required").fill("t")
    expect(page.locator("[data-config-status]")).to_have_text("No problems found.")
    page.get_by_role("button", name="Check").press("Enter")
    expect(page.locator(".check-lines li").first).to_contain_text("problem topic")
    page.get_by_role("button", name="Preview").press("Enter")
    expect(page.locator(".stage h3")).to_have_text(["polled", "transforms.drop", "converted"])
    quick.accessible()
    page.get_by_label("paused").check()
    page.get_by_role("button", name="Create").press("Enter")
    expect(page).to_have_url(re.compile("/connectors/fresh$"))
    expect(page.locator("h1")).to_have_text("fresh")
    [made] = stand_in.sent("POST", "/connectors")
    assert (made["initial_state"], made["config"]["topic"]) == ("PAUSED", "t")


def tab_to(page: Page, target: Locator) -> None:
    """Press the tab key until an element has the keyboard; it must be seen, and not behind the bar of actions."""
    for _ in range(60):
        if target.evaluate("one => one === document.activeElement"):
            break
        page.keyboard.press("Tab")
    expect(target).to_be_focused()
    covered = """one => { const box = one.getBoundingClientRect();
        const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
        return !(top === one || one.contains(top) || top?.contains(one)); }"""
    assert not target.evaluate(covered), "it is behind something"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_connector_is_created_with_the_keyboard_alone(quick: Tab, stand_in: StandIn, width: int) -> None:
    quick.page.set_viewport_size({"width": width, "height": 844})
    page = quick.open("/new")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("writes lines")
    expect(page.locator(".choices li")).to_have_count(1)
    tab_to(page, page.locator(".choices a"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("plugin="))
    for label, text in (("name required", "by-keys"), ("topic required", "t")):
        tab_to(page, page.get_by_label(label))
        page.keyboard.type(text)
    tab_to(page, page.locator("summary", has_text="More settings of this connector"))
    page.keyboard.press("Space")
    tab_to(page, page.get_by_label("on.error"))
    page.keyboard.type("skip")
    expect(page.locator("#config")).to_have_value(re.compile('"on.error":"skip"'))
    for button in ("Check", "Preview"):
        tab_to(page, page.get_by_role("button", name=button))
        page.keyboard.press("Enter")
    expect(page.locator(".stage h3").first).to_be_visible()
    expect(page.locator(".check-lines")).to_be_visible()
    tab_to(page, page.get_by_role("button", name="Create"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/connectors/by-keys$"))
    [made] = stand_in.sent("POST", "/connectors")
    assert (made["config"]["topic"], made["config"]["on.error"]) == ("t", "skip")


def test_missing_settings_are_reported_once_check_is_clicked(quick: Tab) -> None:
    page = quick.open("/new?plugin=FileStreamSource")
    expect(page.locator(".wrong")).to_have_count(0)
    page.get_by_role("button", name="Check").click()
    expect(page.locator("[data-config-status]")).to_have_text("2 problems.")
    expect(page.locator(".wrong")).to_have_count(2)


def test_events_come_in_live_and_can_be_held_back(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/events")
    expect(page.locator(".event")).to_have_count(6)
    event = {"id": "99", "at_ms": 1, "kind": "failure", "summary": "<b>fresh"}
    page.get_by_label("Pause updates").check()
    # Only now: the stream that the page opened first may begin later than the line above, and then sends what is here.
    stand_in.pushed = [b"id: 99\nevent: failure\ndata: " + json.dumps(event).encode() + b"\n\n"]
    page.evaluate("window.dispatchEvent(new Event('pagehide')); window.dispatchEvent(new Event('pageshow'))")
    expect(page.locator("[data-live-state]")).to_have_text("1 new")
    page.get_by_label("Pause updates").uncheck()
    expect(page.locator(".event").first).to_contain_text("<b>fresh")
    expect(page.locator(".event")).to_have_count(7)
    page.get_by_label("failure").check()
    expect(page).to_have_url(re.compile("kind=failure"))
    expect(page.locator(".event").nth(1)).to_contain_text("task 1: FAILED")


def test_a_plugin_is_removed_after_a_question_and_installed(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/plugins")
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Remove orders 1.2").click())
    dialog.get_by_role("button", name="Remove orders 1.2").click()
    expect(page.get_by_text("None. Install one below")).to_be_visible()
    page.get_by_text("Install a plug-in").click()
    page.get_by_label("Source").fill("g:a:1")
    page.get_by_role("button", name="Install").click()
    expect(page.locator("#messages")).to_contain_text("g:a:1 is installed")
    page.get_by_label("Find").fill("json")
    expect(page.get_by_text("JsonConverter", exact=True)).to_be_visible()
    expect(page.get_by_text("FileStreamSinkConnector", exact=True)).to_be_hidden()


def test_a_logger_is_set_in_the_group(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/loggers")
    page.get_by_label("Logger", exact=True).fill("a.b")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_label("Level of a.b")).to_have_value("DEBUG")
    page.get_by_label("this worker only").check()
    page.get_by_label("Level of root").select_option("WARN")
    page.get_by_role("button", name="Set root").click()
    expect(page.locator("#messages")).to_contain_text("root is WARN on this worker.")
    targets = [target for method, target, _ in stand_in.requests if method == "PUT"]
    assert targets == ["/admin/loggers/a.b?scope=cluster", "/admin/loggers/root?scope=worker"]


def test_a_letter_is_edited_and_replayed_after_a_dry_run(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open(f"{SINK}/dead-letters")
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Edit letter 0/0").click())
    editor = dialog.get_by_role("textbox")
    editor.fill(editor.input_value().replace('"ten"', "10"))
    dialog.get_by_role("button", name="Preview replay").click()
    expect(dialog.get_by_role("heading")).to_have_text("Replay 1 letter of orders-sink?")
    quick.accessible()
    dialog.get_by_role("button", name="Replay 1 letter").click()
    expect(page.locator("#replays")).to_contain_text("0 of 1 delivered")
    stand_in.replays["r1"]["done"] = 1
    expect(page.locator("#replays")).to_contain_text("1 of 1 delivered")  # it reads by itself
    page.get_by_role("button", name="Stop replay r1").click()
    expect(page.get_by_role("button", name="Resume replay r1")).to_be_visible()
    sent = stand_in.sent("POST", "/admin/dead-letters/replays")[-1]
    assert sent["edit"]["patch"] == [{"op": "replace", "path": "/value/json/amount", "value": 10}]


def test_letters_are_chosen_filtered_and_deleted(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open(f"{SINK}/dead-letters")
    page.get_by_label("Select all on this page").check()
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Preview replay").click())
    dialog.get_by_role("button", name="Cancel").click()
    assert len(stand_in.sent("POST", "/admin/dead-letters/replays")[0]["letters"]) == 5
    page.get_by_role("combobox", name="Replayed").select_option("true")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#letters tbody tr")).to_have_count(1)
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Delete replayed …").click())
    dialog.get_by_role("button", name="Delete replayed letters").click()
    expect(page.locator("#messages")).to_contain_text("1 letter of orders-sink deleted")


def test_history_is_compared_rolled_back_and_offsets_undone(quick: Tab, stand_in: StandIn) -> None:
    page = quick.open("/connectors/orders/history")
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Compare").click())
    expect(dialog.get_by_role("heading")).to_have_text("From change 1 to change 2")
    page.keyboard.press("Escape")
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Roll back to change 2").click())
    expect(dialog.locator("del")).to_have_text("lines")
    quick.accessible()
    dialog.get_by_role("button", name="Roll back to change 2").click()
    expect(page.locator("#messages")).to_contain_text("rolled back to change 2")
    page = quick.open("/connectors/orders/offsets")
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Undo change 3").click())
    dialog.get_by_role("button", name="Move 1 offset").click()
    expect(page.locator("#messages")).to_contain_text("1 offset written")
    page.get_by_label("Time (UTC)").fill("2026-11-21T10:00:05")
    dialog = quick.dialog(lambda: page.get_by_role("button", name="Preview").click())
    expect(dialog).to_contain_text("2026-11-21T10:00:05")
    bodies = stand_in.sent("POST", "/admin/history/orders/3/undo")
    assert bodies == [{"dry_run": True}, {"dry_run": False}]

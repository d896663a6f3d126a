"""The console on two real workers: states come live, actions reach connectors, a dead worker is gone on from."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.real_group import RealGroup
from tests.browser.tab import Tab


def test_the_broken_connector_comes_first_with_its_error(tab: Tab) -> None:
    page = tab.open()
    first = page.locator("#rows > tr").first
    expect(first).to_have_attribute("data-key", "broken")
    expect(first).to_contain_text("FAILED")
    tab.accessible()


def test_pause_and_resume_reach_the_connector(tab: Tab) -> None:
    page = tab.open()
    row = page.locator('#rows > tr[data-key="lines"]')
    for action, state in (("Pause", "PAUSED"), ("Resume", "RUNNING")):
        page.get_by_label("Select lines", exact=True).check()
        dialog = tab.dialog(lambda action=action: page.get_by_role("button", name=action).click())  # type: ignore[misc]
        dialog.get_by_role("button", name=f"{action} lines").click()
        expect(row.locator("td[data-label=State]")).to_have_text(state)


def test_the_life_of_a_connector_from_its_page(tab: Tab, group: RealGroup) -> None:
    group.source("life")
    group.first.rest.await_states("life", "RUNNING", ["RUNNING"])
    page = tab.open("/connectors/life")
    expect(page.locator("#tasks")).to_contain_text("RUNNING")
    page.get_by_role("button", name="Restart task 0").click()
    expect(page.locator("#messages")).to_contain_text("Task 0 of life is restarted.")
    tab.accessible()

    page = tab.open("/connectors/life/configuration")
    page.locator('[data-setting="topic"] [data-input]').fill("life-two")
    expect(page.locator("[data-config-status]")).to_have_text("No problems found.")
    dialog = tab.dialog(lambda: page.get_by_role("button", name="Review changes").click())
    expect(dialog.locator("tbody tr")).to_have_count(1)
    dialog.get_by_role("button", name="Save 1 change").click()
    expect(page.locator("#messages")).to_contain_text("is saved")
    assert group.first.rest.request("GET", "/connectors/life/config").json()["topic"] == "life-two"

    page = tab.open("/connectors/life/offsets")
    dialog = tab.dialog(lambda: page.get_by_role("button", name="Stop …").click())
    dialog.get_by_role("button", name=re.compile("^Stop ")).click()
    group.first.rest.await_states("life", "STOPPED", [])
    page = tab.open("/connectors/life/offsets")
    dialog = tab.dialog(lambda: page.get_by_role("button", name="Edit").click())
    editor = dialog.get_by_label("Offsets, as JSON")
    editor.fill(re.sub(r'"position": \d+', '"position": 7', editor.input_value()))
    dialog.get_by_role("button", name="Review changes").click()
    dialog.get_by_role("button", name="Save 1 offset").click()
    expect(page.locator("#offsets tbody")).to_contain_text('{"position": 7}')

    page = tab.open("/connectors/life/logs")
    expect(page.locator("#log, .note").first).to_be_visible()
    tab.accessible()
    page = tab.open("/connectors/life")
    dialog = tab.dialog(lambda: page.get_by_role("button", name="Delete …").click())
    dialog.get_by_role("button", name="Delete life").click()
    expect(page).to_have_url(re.compile("/console/$"))
    expect(page.locator('#rows > tr[data-key="lines"]')).to_be_visible()
    expect(page.locator('#rows > tr[data-key="life"]')).to_have_count(0)


def test_a_dead_worker_is_shown_and_another_continues(tabs: Tabs, group: RealGroup) -> None:
    lost = tabs(group.second.rest.url)
    lost.expects(
        "ERR_CONNECTION_(REFUSED|RESET)|ERR_(INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE)"
        "|ERR_(CONTENT_LENGTH_MISMATCH|SOCKET_NOT_CONNECTED)"
    )
    page = lost.open("/?search=line")
    expect(page.locator("footer")).to_contain_text(f"127.0.0.1:{group.first.rest_port}")
    group.second.kill()
    expect(page.locator("#lost")).to_contain_text("has not answered since")
    expect(page).to_have_url(re.compile(f"127.0.0.1:{group.first.rest_port}/console/.*search=line"), timeout=20_000)
    expect(page.locator("#rows > tr")).to_have_count(2)

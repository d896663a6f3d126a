"""The console on two real workers: states come live, actions reach connectors, a dead worker is gone on from."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.conftest import Tabs
from tests.browser.real_group import RealGroup
from tests.browser.tab import Tab


def test_the_broken_connector_stands_first_with_its_error(tab: Tab) -> None:
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
        dialog.get_by_role("button", name=f"{action} 1 connector").click()
        expect(row.locator("td[data-label=State]")).to_have_text(state)


def test_a_worker_that_dies_is_said_and_another_one_goes_on(tabs: Tabs, group: RealGroup) -> None:
    lost = tabs(group.second.rest.url)
    lost.expects("ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE")
    page = lost.open("/?search=line")
    expect(page.locator("footer")).to_contain_text(f"127.0.0.1:{group.first.rest_port}")
    group.second.kill()
    expect(page.locator("#lost")).to_contain_text("has not answered since")
    expect(page).to_have_url(re.compile(f"127.0.0.1:{group.first.rest_port}/console/.*search=line"), timeout=20_000)
    expect(page.locator("#rows > tr")).to_have_count(2)

"""``/`` leads a person's browser to the console, and stays Java's answer for every program."""

from __future__ import annotations

import pytest

from tests.unit.console.conftest import Browser

CHROMIUM = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8"
JAVA_URL_CONNECTION = "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2"


def test_a_browser_is_led_to_the_console(browser: Browser) -> None:
    answer = browser.client.get("/", headers={"Accept": CHROMIUM}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "/console")
    assert answer.headers["vary"] == "Accept"


@pytest.mark.parametrize("accept", ["*/*", "application/json", JAVA_URL_CONNECTION])
def test_a_program_gets_what_the_api_answers(browser: Browser, accept: str) -> None:
    answer = browser.client.get("/", headers={"Accept": accept}, follow_redirects=False)
    assert answer.status_code != 307
    assert "location" not in answer.headers


def test_only_the_root_leads_there(browser: Browser) -> None:
    answer = browser.client.get("/connectors", headers={"Accept": CHROMIUM}, follow_redirects=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("application/json")

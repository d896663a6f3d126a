"""What the console shows of Spark, in a real browser: a preview on an executor, where a task runs, what it logs."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect, sync_playwright

from tests.browser.chromium import chromium
from tests.browser.conftest import ARGUMENTS
from tests.browser.tab import Tab
from tests.support.worker_process import SparkWorkerProcess

LATE_MS = 60_000  # two cores run other tests beside this one


def the_console_shows_executors(worker: SparkWorkerProcess, folder: Path) -> None:
    """Look at a task that logs (``log_stories``) on an executor, then preview a new connector of a file."""
    worker.rest.create("seen-chatty", {"connector.class": "ChattySource"})
    worker.rest.await_states("seen-chatty", "RUNNING", ["RUNNING"])
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        tab = Tab(browser, worker.rest.url)
        try:
            page = tab.open("/connectors/seen-chatty")
            expect(page.locator("#tasks td[data-label=Where]")).to_contain_text("executor", timeout=LATE_MS)
            page = tab.open("/connectors/seen-chatty/logs?task=0")
            expect(page.locator("#log")).to_contain_text("from a thread of its own", timeout=LATE_MS)
            _a_new_one_is_previewed(tab, folder)
            tab.close()
        finally:
            browser.close()
    worker.rest.delete("seen-chatty")


def _a_new_one_is_previewed(tab: Tab, folder: Path) -> None:
    (folder / "seen.txt").write_text("first\nsecond\n")
    page = tab.open("/new?plugin=FileStreamSource")
    settings = {
        "name": "seen",
        "connector.class": "FileStreamSource",
        "file": str(folder / "seen.txt"),
        "topic": "seen",
        "transforms": "mark",
        "transforms.mark.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.mark.field": "line",
    }
    page.locator("#config-json").fill(json.dumps(settings))
    expect(page.locator("[data-config-status]")).to_have_text("No problems found.", timeout=LATE_MS)
    page.get_by_role("spinbutton", name="Records").fill("2")
    page.get_by_role("spinbutton", name="Seconds").fill("60")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".previewed > li")).to_have_count(2, timeout=2 * LATE_MS)
    expect(page.locator(".stage h3").filter(has_text="transforms.mark").first).to_be_visible()
    expect(page.locator(".changed").first).to_contain_text("first")

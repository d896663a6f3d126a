"""``python -m tests.browser.screenshots``: one picture of each page, light and dark, into ``docs/images/console``.

On two real workers with a broker of their own and a few connectors that run for a minute and a half before. Pages that
others add: a line in ``PAGES``.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.engine.startup.java_home import find_java
from tests.browser.chromium import chromium
from tests.browser.conftest import ARGUMENTS
from tests.browser.real_group import JSON, RealGroup, real_group
from tests.browser.tab import Tab

FOLDER = Path(__file__).parents[2] / "docs" / "images" / "console"
RUNS_S = 90.0
STRINGS = "org.apache.kafka.connect.storage.StringConverter"
QUEUE = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "notes-dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}
PAGES: tuple[tuple[str, str], ...] = (
    ("connectors", "/"),
    ("connector", "/connectors/orders"),
    ("failed", "/connectors/payments-archive"),
    ("configuration", "/connectors/orders/configuration"),
    ("offsets", "/connectors/orders-archive/offsets"),
    ("history", "/connectors/orders/history"),
    ("dead_letters", "/connectors/notes-archive/dead-letters"),
    ("logs", "/connectors/orders/logs"),
    ("new", "/new?plugin=FileStreamSink"),
    ("preview", "/new?copy=orders"),
    ("group", "/group"),
    ("events", "/events"),
    ("plugins", "/plugins"),
    ("loggers", "/loggers"),
)
"""(name of the picture, path below /console)."""


def fill(group: RealGroup) -> None:
    """Create connectors as a shop has them: most run, one waits, one is broken."""
    made = {"connector.class": "DatagenSource", "tasks.max": "2", **JSON}
    for name, rate in (("orders", "40"), ("clicks", "120"), ("returns", "3")):
        group.create(name, {**made, "topic": name, "datagen.rate": rate, "datagen.seed": rate})
    for topic in ("orders", "clicks"):
        group.sink(f"{topic}-archive", topic, **{"tasks.max": "2", "errors.tolerance": "all", **JSON})
    group.source("price-list", 300)
    notes = group.source("notes", 0, **{"value.converter": STRINGS})
    notes.write_text('{"note": 1}\n{"note": 2, "by": ann}\nlate again\n{"note": 4}\n')
    group.sink("notes-archive", "notes", **JSON, **QUEUE)
    group.failing("payments-archive", "orders")
    for name, tasks in (("orders", ["RUNNING"] * 2), ("payments-archive", ["FAILED"]), ("notes-archive", ["RUNNING"])):
        group.first.rest.await_states(name, "RUNNING", tasks)
    group.first.rest.request("PUT", "/connectors/returns/pause")
    group.first.rest.request("PUT", "/connectors/price-list/stop")


def preview(page: Page) -> None:
    """Have a preview of a copy of ``orders`` shown."""
    page.locator('[data-setting="name"] [data-input]').fill("orders-of-old")
    page.locator("#preview-button").click()
    page.locator(".previewed").wait_for(timeout=90_000)
    page.locator("#preview").evaluate("one => one.scrollIntoView()")


def take(browser: Browser, url: str, names: Sequence[str] = ()) -> None:
    """Take the pictures, those of ``names`` alone if there are any."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, path in PAGES:
        for dark in (False, True) if not names or name in names else ():
            tab = Tab(browser, url, width=1280, height=800, dark=dark)
            page = tab.open(path)
            page.wait_for_timeout(2500)  # live values have come
            if name == "preview":
                preview(page)
            answer = page.context.new_cdp_session(page).send(
                "Page.captureScreenshot", {"format": "webp", "quality": 82}
            )
            file = FOLDER / f"{name}-{'dark' if dark else 'light'}.webp"
            file.write_bytes(base64.b64decode(answer["data"]))
            print(file.name, file.stat().st_size, flush=True)
            tab.close()


def main(names: Sequence[str]) -> None:
    """Start everything, wait, take the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        kafka = EmbeddedKafka(Path(folder) / "kafka", java=find_java(), die_with_parent=True)
        kafka.start()
        try:
            with real_group(Path(folder) / "group", kafka.bootstrap_servers, "shop", spark=True) as group:
                fill(group)
                time.sleep(RUNS_S)
                with sync_playwright() as playwright:
                    browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
                    take(browser, group.first.rest.url, names)
                    browser.close()
        finally:
            kafka.stop()


if __name__ == "__main__":
    main(sys.argv[1:])

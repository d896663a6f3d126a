"""The further pages and tabs on two real workers with a real broker: each action is done by hand, in the browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.browser.real_group import JSON, RealGroup
from tests.browser.tab import Tab

LATE_MS = 30_000  # two cores run other tests beside this one
STRING = {"value.converter": "org.apache.kafka.connect.storage.StringConverter"}


def reloaded_until(page: Page, shown: Callable[[], bool]) -> None:
    """Load a page again until it shows what another worker may still be writing."""
    for _ in range(30):
        if shown():
            return
        page.wait_for_timeout(1000)
        page.reload()
    raise AssertionError(page.locator("main").inner_text())


def test_a_connector_is_made_from_its_plugin_to_its_first_event(tab: Tab, group: RealGroup) -> None:
    file = group.folder / "fresh.txt"
    file.write_text("first\nsecond\n")
    page = tab.open("/new")
    page.get_by_role("searchbox").press_sequentially("filestreamsource")
    page.get_by_role("link", name="FileStreamSourceConnector").click()
    status = page.locator("[data-config-status]")
    expect(status).to_have_text("Still required: name, file, topic.")
    page.locator('[data-setting="name"] [data-input]').fill("fresh")
    page.locator('[data-setting="topic"] [data-input]').fill("fresh")
    page.locator('[data-setting="file"] [data-input]').fill(str(file))
    expect(status).to_have_text("No problems found.", timeout=LATE_MS)
    given = json.loads(page.locator("#config-json").input_value()) | {"transforms": "mark"}
    page.locator("#config-json").fill(json.dumps(given))
    kind = page.locator('[data-setting="transforms.mark.type"] [data-input]')  # comes with the alias
    kind.fill("org.apache.kafka.connect.transforms.HoistField$Value")
    page.locator('[data-setting="transforms.mark.field"] [data-input]').fill("line")
    expect(status).to_have_text("No problems found.", timeout=LATE_MS)
    page.get_by_role("button", name="Check").click()
    expect(page.locator(".check-lines")).to_be_visible(timeout=LATE_MS)
    page.get_by_role("spinbutton", name="Records").fill("2")
    page.get_by_role("spinbutton", name="Seconds").fill("60")
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".previewed > li")).to_have_count(2, timeout=2 * LATE_MS)
    expect(page.locator(".stage h3").filter(has_text="transforms.mark").first).to_be_visible()
    expect(page.locator(".changed").first).to_contain_text("first")
    tab.accessible()
    page.get_by_label("paused").check()
    page.get_by_role("button", name="Create").click()
    expect(page).to_have_url(re.compile("/connectors/fresh$"), timeout=LATE_MS)
    group.first.rest.await_states("fresh", "PAUSED", [])
    page = tab.open("/events?connector=fresh&kind=config")
    expect(page.locator(".event").first).to_contain_text("fresh", timeout=LATE_MS)


def test_a_name_that_is_taken_is_refused_and_nothing_is_lost(tab: Tab, group: RealGroup) -> None:
    page = tab.open("/new?copy=lines")
    tab.expects("409")
    page.locator('[data-setting="name"] [data-input]').fill("lines")
    expect(page.locator("[data-config-status]")).to_have_text("No problems found.", timeout=LATE_MS)
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#messages")).to_contain_text("already exists", timeout=LATE_MS)
    expect(page.locator('[data-setting="topic"] [data-input]')).to_have_value("lines")


def test_a_configuration_is_rolled_back(tab: Tab, group: RealGroup) -> None:
    group.source("turning", 3)
    config = group.first.rest.request("GET", "/connectors/turning/config").json()
    group.first.rest.settled("PUT", "/connectors/turning/config", config | {"batch.size": "7"})
    page = tab.open("/connectors/turning/history?kind=config")
    rows = page.locator("#history tbody tr")
    reloaded_until(page, lambda: rows.count() == 2)
    expect(page.locator("#history tbody tr").first).to_contain_text("batch.size")
    dialog = tab.dialog(lambda: page.get_by_role("button", name="Compare the configurations").click())
    expect(dialog.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Escape")
    dialog = tab.dialog(lambda: page.get_by_role("button", name="Roll back").last.click())
    dialog.get_by_role("button", name="Roll back").click()
    expect(page.locator("#messages")).to_contain_text("is rolled back", timeout=LATE_MS)
    group.first.rest.until(
        lambda: group.first.rest.request("GET", "/connectors/turning/config").json(), config, 60.0, "rolled back"
    )
    reloaded_until(page, lambda: rows.count() == 3)


def test_offsets_written_by_hand_are_undone(tab: Tab, group: RealGroup) -> None:
    rest = group.first.rest
    file = group.source("moving", 5)
    rest.await_states("moving", "RUNNING", ["RUNNING"])
    path = "/connectors/moving/offsets"
    rest.until(lambda: bool(rest.request("GET", path).json()["offsets"]), True, 120.0, "offsets of moving")
    rest.settled("PUT", "/connectors/moving/stop")
    rest.await_states("moving", "STOPPED", [])
    before = rest.request("GET", path).json()["offsets"]
    place = {"partition": {"filename": str(file)}, "offset": {"position": 7}}
    assert rest.settled("PATCH", path, {"offsets": [place]}).status == 200
    page = tab.open("/connectors/moving/offsets")
    undo = page.get_by_role("button", name="Undo change")
    reloaded_until(page, undo.is_visible)
    dialog = tab.dialog(lambda: undo.click())
    expect(dialog.locator("del")).to_contain_text('"position": 7')
    tab.accessible()
    dialog.get_by_role("button", name="Move 1 offset").click()
    expect(page.locator("#messages")).to_contain_text("1 offset written", timeout=LATE_MS)
    assert rest.request("GET", path).json()["offsets"] == before
    expect(page.locator("#offsets")).to_contain_text(str(before[0]["offset"]["position"]), timeout=LATE_MS)


def test_dead_letters_are_read_edited_and_replayed_into_the_sink(tab: Tab, group: RealGroup) -> None:
    group.folder.joinpath("spoilt.txt").write_text('{"n": 1}\n{"n": broken}\n<script>\n')
    source = {"file": str(group.folder / "spoilt.txt"), "topic": "spoilt", **STRING}
    group.create("spoilt", {"connector.class": "FileStreamSource", **source})
    queue = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "spoilt-dlq"}
    queue |= {"errors.deadletterqueue.topic.replication.factor": "1"}
    queue |= {"errors.deadletterqueue.context.headers.enable": "true"}
    group.sink("mended", "spoilt", **JSON, **queue)
    out = group.folder / "mended.out"
    group.first.rest.until(lambda: out.exists() and "n" in out.read_text(), True, 120.0, "the good record")
    page = tab.open("/connectors/mended/dead-letters")
    reloaded_until(page, lambda: page.locator("#letters tbody tr").count() == 2)
    expect(page.locator("#letters tbody")).to_contain_text("VALUE_CONVERTER")
    expect(page.locator("#letters tbody")).to_contain_text("<script>")
    tab.accessible()
    dialog = tab.dialog(lambda: page.get_by_role("button", name="Edit letter").first.click())
    editor = dialog.get_by_role("textbox")
    letter = json.loads(editor.input_value())
    editor.fill(json.dumps(letter | {"value": {"json": {"n": 2}}}))
    dialog.get_by_label("straight to the sink").check()
    dialog.get_by_role("button", name="Preview replay").click()
    expect(dialog.get_by_role("heading")).to_have_text("Replay 1 letter of mended?", timeout=2 * LATE_MS)
    dialog.get_by_role("button", name="Replay 1 letter").click()
    expect(page.locator("#replays")).to_contain_text("1 of 1 delivered", timeout=3 * LATE_MS)
    group.first.rest.until(lambda: out.read_text().count("n"), 2, 60.0, "the replayed record")
    expect(page.locator("#letters .badge")).to_have_count(1, timeout=LATE_MS)
    dialog = tab.dialog(lambda: page.get_by_role("button", name="Delete replayed …").click())
    dialog.get_by_role("button", name="Delete replayed letters").click()
    expect(page.locator("#messages")).to_contain_text("deleted", timeout=LATE_MS)


def test_a_level_is_set_on_both_workers(tab: Tab, group: RealGroup) -> None:
    page = tab.open("/loggers")
    page.get_by_label("Logger", exact=True).fill("spark_connect_rt.connectors.mirror")
    page.locator("#logger-form select").select_option("WARN")
    page.get_by_role("button", name="Set", exact=True).click()
    expect(page.get_by_label("Level of spark_connect_rt.connectors.mirror")).to_have_value("WARN", timeout=LATE_MS)
    path = "/admin/loggers/spark_connect_rt.connectors.mirror"
    group.second.rest.until(
        lambda: (group.second.rest.request("GET", path).json() or {}).get("level"), "WARN", 30.0, "the other worker"
    )


def test_the_group_its_plugins_and_its_rebalances(tab: Tab, group: RealGroup) -> None:
    page = tab.open("/group")
    expect(page.locator("#group tbody tr")).to_have_count(2, timeout=LATE_MS)
    expect(page.locator("#group tbody").get_by_text("leader")).to_have_count(1)
    expect(page.locator(".events .event").first).to_contain_text("rebalance")
    tab.accessible()
    page = tab.open("/plugins")
    expect(page.get_by_text("JsonConverter", exact=True).first).to_be_attached()
    tab.expects("40[0-9]|50[0-9]")
    page.get_by_text("Install a plug-in").click()
    page.get_by_label("Source").fill("/nowhere/at/all.zip")
    page.get_by_role("button", name="Install").click()
    expect(page.locator("#messages .message.bad")).to_be_visible(timeout=LATE_MS)

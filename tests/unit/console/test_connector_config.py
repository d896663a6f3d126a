"""The tab Configuration: secrets stay where they are, a diff stands before a write, a second edit is refused."""

from __future__ import annotations

import asyncio
import html
import json
import re
from typing import Any

from spark_connect_rt.console.api import Api
from spark_connect_rt.operations.connectors.config_page import EditedSetting, changes, secrets_of
from tests.support.management_stand_in.app import StandIn
from tests.unit.console.conftest import Browser
from tests.unit.console.test_frame import request_of

PAGE = "/connectors/orders/configuration"


def fields(text: str) -> dict[str, str]:
    """Return what the page's hidden inputs hold: as an editor that changes nothing would send them."""
    found = re.findall(r'name="(config|seal|base_config)" value="([^"]*)"', text)
    return {name: html.unescape(value) for name, value in found}


def edited(given: dict[str, str], **changed: str | None) -> dict[str, str]:
    config: dict[str, Any] = json.loads(given["config"]) | changed
    return given | {"config": json.dumps(config)}


def test_changes_name_secrets_and_show_none_of_their_values() -> None:
    before = {"a": "1", "password": "old", "key": "k", "ref": "${file:x:token}", "gone": "g"}
    after = {"a": "2", "password": "new", "key": "l", "ref": "${file:x:other}", "more": "m"}
    assert changes(before, after, {"key"}) == (
        EditedSetting("a", "1", "2"),
        EditedSetting("gone", "g", None),
        EditedSetting("key", "[hidden]", "[hidden]", secret=True),
        EditedSetting("more", None, "m"),
        EditedSetting("password", "[hidden]", "[hidden]", secret=True),
        EditedSetting("ref", "${file:x:token}", "${file:x:other}"),
    )
    declared = {"configs": [{"definition": {"name": "p", "type": "PASSWORD"}}, {"definition": None}]}
    assert secrets_of(declared, {"q": "[hidden]", "r": "x"}) == {"p", "q"}


def test_no_secret_is_in_the_page_or_the_diff(browser: Browser, group: StandIn) -> None:
    group.connectors["orders"]["config"]["odd.name"] = "s3cret-odd"
    hidden_by_worker = {**group.connectors["orders"]["config"], "db.password": "[hidden]", "odd.name": "[hidden]"}
    row = group.connectors["orders"]["row"]
    detail = row | {"config": hidden_by_worker, "topics": [], "course": [], "tasks": []}
    group.answers["GET", "/admin/connectors/orders"] = 200, detail
    page = browser.get(PAGE).text
    sent = edited(fields(page), **{"db.password": "typed-secret", "topic": "other"})
    diff = browser.post(f"{PAGE}/diff", sent).text
    for text in (page, diff):
        assert not re.search("hunter-2|s3cret-odd|typed-secret", text)
    assert ">changed<" in diff
    assert "Save 2 changes" in diff
    browser.post(PAGE, sent)
    (written,) = group.sent("PUT", "/connectors/orders/config")
    assert (written["db.password"], written["odd.name"], written["topic"]) == ("typed-secret", "s3cret-odd", "other")


def test_concurrent_edit_is_shown_and_not_replaced(browser: Browser, group: StandIn) -> None:
    sent = edited(fields(browser.get(PAGE).text), topic="mine")
    group.connectors["orders"]["config"]["topic"] = "theirs"
    refused = browser.post(PAGE, sent)
    assert (refused.status_code, "Another client changed" in refused.text) == (409, True)
    assert group.sent("PUT", "/connectors/orders/config") == []
    diff = browser.post(f"{PAGE}/diff", sent).text
    assert "Another client changed it" in diff
    assert all(f'<code class="{kind}">{value}' in diff for kind, value in (("after", "theirs"), ("after", "mine")))
    informed = sent | {key: value for key, value in fields(diff).items() if key != "config"}
    assert browser.post(PAGE, informed).status_code == 200
    assert group.connectors["orders"]["config"]["topic"] == "mine"


def test_a_change_of_a_secret_alone_is_noticed(browser: Browser, group: StandIn) -> None:
    sent = edited(fields(browser.get(PAGE).text), topic="mine")
    group.connectors["orders"]["config"]["db.password"] = "hunter-3"
    assert browser.post(PAGE, sent).status_code == 409
    assert "They changed a secret value" in browser.post(f"{PAGE}/diff", sent).text


def test_a_page_of_a_worker_that_is_gone_can_still_be_saved(browser: Browser, group: StandIn) -> None:
    other = Browser(group)
    sent = edited(fields(other.get(PAGE).text), topic="mine")
    assert "Another client" not in browser.post(f"{PAGE}/diff", sent).text
    group.connectors["orders"]["config"]["topic"] = "theirs"
    assert "Another client" in browser.post(f"{PAGE}/diff", sent).text


def test_nothing_to_write_and_nothing_to_read(browser: Browser, group: StandIn) -> None:
    sent = fields(browser.get(PAGE).text)
    assert "nothing to save" in browser.post(f"{PAGE}/diff", sent).text
    assert browser.post(f"{PAGE}/diff", sent | {"config": "{"}).status_code == 400
    assert browser.post(PAGE, sent | {"config": "[1]"}).status_code == 400
    assert browser.post("/connectors/nothing/configuration", sent).status_code == 404


def test_worker_refusal_is_shown_setting_by_setting(browser: Browser, group: StandIn) -> None:
    sent = edited(fields(browser.get(PAGE).text), topic="")
    body = {"error_code": 400, "message": "wrong", "problems": {"topic": ["empty <b>"]}}
    group.answers["PUT", "/connectors/orders/config"] = 400, body
    refused = browser.post(PAGE, sent)
    assert (refused.status_code, "empty &lt;b&gt;" in refused.text) == (400, True)


def test_an_unknown_class_leaves_the_configuration_editable(browser: Browser, group: StandIn) -> None:
    path = f"/admin/connector-plugins/{group.connectors['orders']['config']['connector.class']}/config/validate"
    group.answers["PUT", path] = 404, {"error_code": 404, "message": "no such class"}
    page = browser.get(PAGE)
    assert (page.status_code, "no such class" in page.text, "hunter-2" in page.text) == (200, True, False)


def test_a_change_between_the_last_read_and_the_write_is_refused_by_its_version(
    browser: Browser, group: StandIn
) -> None:
    sent = edited(fields(browser.get(PAGE).text), topic="mine")
    group.answers["PUT", "/connectors/orders/config"] = 412, {"error_code": 412, "message": "not of version 3"}
    refused = browser.post(PAGE, sent)
    assert (refused.status_code, "Another client changed" in refused.text) == (409, True)


def test_a_write_names_the_version_it_was_made_of() -> None:
    seen: list[tuple[str, bytes]] = []

    async def app(scope: Any, _: Any, send: Any) -> None:
        seen.append((scope["method"], dict(scope["headers"]).get(b"if-match", b"")))
        await send({"type": "http.response.start", "status": 200, "headers": [(b"ETag", b'"config-7"')]})
        await send({"type": "http.response.body", "body": b"{}"})

    async def written() -> None:
        api = Api(app, request_of(if_match="the browser's"))
        _, version = await api.get_version("/connectors/x/config")
        await api.send("PUT", "/connectors/x/config", {}, version=version)

    asyncio.run(written())
    assert seen == [("GET", b""), ("PUT", b'"config-7"')]

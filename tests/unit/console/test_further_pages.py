"""Group, events, plug-ins, loggers, new connector: what they show of the API, and what their actions send."""

from __future__ import annotations

import html
import json
import re

import pytest

from tests.support.management_stand_in import content
from tests.support.management_stand_in.app import StandIn
from tests.unit.console.conftest import Browser

PAGES = ("/group", "/events", "/plugins", "/loggers", "/new", "/new?plugin=FileStreamSource", "/new?copy=orders")
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


def config_of(text: str) -> dict[str, str]:
    found = re.search(r'id="config" name="config" value="([^"]*)"', text)
    assert found
    config: dict[str, str] = json.loads(html.unescape(found.group(1)))
    return config


@pytest.mark.parametrize("path", PAGES)
def test_no_page_has_a_script_or_style_in_it_nor_a_secret(browser: Browser, path: str) -> None:
    answer = browser.get(path)
    assert answer.status_code == 200
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*src=)|hx-on|javascript:", answer.text)
    assert "hunter" not in answer.text
    assert "<h1" in answer.text
    assert len(re.findall(r'\sid="([^"]+)"', answer.text)) == len(set(re.findall(r'\sid="([^"]+)"', answer.text)))


@pytest.mark.parametrize("path", ["/group", "/events", "/plugins", "/new?plugin=FileStreamSource"])
def test_hostile_text_is_text(browser: Browser, path: str) -> None:
    text = browser.get(path).text
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


@pytest.mark.parametrize(("path", "part"), [("/group", "group"), ("/events", "events"), ("/plugins", "plugins")])
def test_unserved_page_is_reported(path: str, part: str) -> None:
    answer = Browser(StandIn(without={part})).get(path)
    assert answer.status_code == 404
    assert "This worker does not serve this" in answer.text


def test_a_group_without_events_is_a_group(browser: Browser, group: StandIn) -> None:
    group.without = {"events"}
    text = browser.get("/group").text
    assert "This worker does not serve this" in text
    assert "two:8083" in text


def test_the_group_shows_its_leader_and_who_is_silent(browser: Browser) -> None:
    text = browser.get("/group").text
    assert re.search(r"one:8083</span>\s*<span class=\"badge\">leader", text)
    assert "<b>two:8083</b> did not answer" in text
    assert "has no management API" in text
    assert "2 rebalances since" in text


def test_events_are_filtered_by_kind_and_connector(browser: Browser) -> None:
    text = browser.get("/events?kind=failure&kind=restart&connector=orders-sink").text
    assert len(re.findall(r'<li class="event"', text)) == 2
    assert 'data-live-events="/console/events/stream?kind=failure&amp;kind=restart&amp;connector=orders-sink' in text
    assert "No events match" in browser.get("/events?connector=nobody").text


def test_live_events_come_as_the_page_shows_them(browser: Browser, group: StandIn) -> None:
    wanted, other = (json.dumps(sent).encode() for sent in content.events()[:2])
    group.pushed = [b"id: 1\nevent: failure\ndata: " + wanted + b"\n\n", b"event: rebalance\ndata: " + other + b"\n\n"]
    with browser.client.stream("GET", "/console/events/stream?kind=failure&connector=orders-sink") as answer:
        lines = iter(answer.iter_lines())
        [data] = [line for line in (next(lines) for _ in range(4)) if line.startswith("data")]
    event = json.loads(data.removeprefix("data: "))
    assert "&lt;script&gt;" in event["html"]
    assert event["id"] == "6"


def test_a_logger_is_set_in_the_whole_group_unless_one_worker_is_meant(browser: Browser, group: StandIn) -> None:
    answer = browser.post("/loggers", {"logger": " a.b ", "level": "DEBUG", "scope": "cluster"})
    assert "a.b is DEBUG on every worker" in answer.text
    browser.post("/loggers", {"logger": "c/d", "level": "WARN", "scope": "worker"})
    puts = [(target, body) for method, target, body in group.requests if method == "PUT"]
    assert puts == [
        ("/admin/loggers/a.b?scope=cluster", {"level": "DEBUG"}),
        ("/admin/loggers/c%2Fd?scope=worker", {"level": "WARN"}),
    ]
    assert "<code>a.b</code>" in browser.get("/loggers").text


def test_a_plugin_is_installed_and_removed(browser: Browser, group: StandIn) -> None:
    assert "g:x:1 is installed" in browser.post("/plugins", {"source": " g:x:1 ", "name": "", "version": ""}).text
    assert group.sent("POST", "/admin/plugins") == [{"source": "g:x:1"}]
    assert "Remove orders 1.2?" in browser.get("/plugins/remove?name=orders&version=1.2").text
    assert "is removed" in browser.post("/plugins/remove", {"name": "orders", "version": "1.2"}).text
    assert group.plugins["installed"] == []


def test_a_refused_install_says_the_setting(browser: Browser, group: StandIn) -> None:
    words = "plug-ins are not installed by this client: connectrt.plugins.install=deny"
    group.answers["POST", "/admin/plugins"] = 403, {"error_code": 403, "message": words, "code": "CRT-1160"}
    answer = browser.post("/plugins", {"source": "x"})
    assert answer.status_code == 403
    assert words in answer.text
    assert "CRT-1160" in answer.text


def test_plugins_are_found_by_words(browser: Browser) -> None:
    text = browser.get("/new?search=file+sink").text
    assert "FileStreamSinkConnector" in text
    assert "FileStreamSourceConnector" not in text
    assert "No plug-ins match" in browser.get("/new?search=nothing").text


def test_the_editor_shows_what_is_wrong_while_typing(browser: Browser) -> None:
    config = {"connector.class": SOURCE, "name": "n", "tasks.max": "many", "db.password": "hunter-2"}
    text = browser.post("/form", {"config": json.dumps(config), "connector": ""}).text
    assert "Invalid value many for configuration tasks.max" in text
    assert "Missing required configuration &#34;topic&#34;" in text
    assert 'data-count="2"' in text
    assert "hunter" not in text


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "one JSON object"),
        ("{}", "connector.class is missing"),
        ('{"connector.class": "F", "db.password": "[hidden]"}', "nothing is stored for db.password"),
    ],
)
def test_failed_validation_says_why(browser: Browser, config: str, words: str) -> None:
    answer = browser.post("/form", {"config": config, "connector": ""})
    assert answer.status_code == 200
    assert words in answer.text


def test_an_unknown_class_is_shown_in_the_form(browser: Browser, group: StandIn) -> None:
    words = "Failed to find any class that implements Connector and which name matches Nope"
    refused = 500, {"error_code": 500, "message": words}
    group.answers["PUT", "/admin/connector-plugins/Nope/config/validate"] = refused
    assert words in browser.post("/form", {"config": '{"connector.class": "Nope"}'}).text


def test_a_fresh_form_complains_of_nothing_and_says_what_the_connector_does(browser: Browser) -> None:
    text = browser.get(f"/new?plugin={SOURCE}").text
    assert 'data-count="0"' in text
    assert "aria-invalid" not in text
    assert "Reads lines: &lt;script&gt;" in text
    assert browser.get("/new?plugin=FileStreamSource").text.count("Reads lines:") == 1
    assert "Writes lines." in browser.get("/new?search=writes").text
    assert "No plug-ins match" in browser.get("/new?search=writes&kind=source").text


def test_a_worker_without_the_management_api_validates_as_java_does(browser: Browser, group: StandIn) -> None:
    group.without = {"connector-plugins", "plugins"}
    text = browser.get("/new?plugin=FileStreamSource").text
    assert 'data-setting="topic"' in text
    assert '<select id="setting' in text  # what Java recommends
    assert "FileStreamSinkConnector" in browser.get("/new").text


def test_a_setting_with_few_values_is_a_choice(browser: Browser) -> None:
    given = {"connector.class": SOURCE, "on.error": "SKIP"}
    text = browser.post("/form", {"config": json.dumps(given)}).text
    field = text[text.index('data-setting="on.error"') :]
    assert re.findall(r'<option value="(\w*)"( selected)?', field[: field.index("</select>")]) == [
        ("", ""),
        ("fail", ""),
        ("SKIP", " selected"),
    ]


def test_an_existing_connector_is_checked_and_previewed_with_its_secrets(browser: Browser, group: StandIn) -> None:
    page = browser.get("/connectors/orders/configuration").text
    assert all(part in page for part in ('id="preview-button"', 'hx-post="/console/new/check"', 'value="orders"'))
    sent = {"config": json.dumps(config_of(page)), "connector": "orders"}
    browser.post("/new/check", sent)
    [body] = group.sent("POST", "/admin/check")
    assert (body["name"], body["config"]["db.password"]) == ("orders", "hunter-2")
    browser.post("/new/preview", sent)
    assert group.sent("POST", "/admin/preview")[0]["config"]["db.password"] == "hunter-2"
    group.answers["POST", "/admin/check"] = 200, {"ok": True, "lines": []}
    assert "Ready to save." in browser.post("/new/check", sent).text
    assert "Ready to create." in browser.post("/new/check", {"config": sent["config"].replace("[hidden]", "x")}).text


def test_a_preview_of_a_source_that_has_read_everything_says_what_to_do(browser: Browser, group: StandIn) -> None:
    group.answers["POST", "/admin/preview"] = 200, {"records": [], "ended": "time", "error": None, "seconds": 20.0}
    config = json.dumps({"connector.class": SOURCE, "name": "n", "topic": "t"})
    text = browser.post("/new/preview", {"config": config, "from": "stored"}).text
    assert "0 records in 20.0 s; stopped: time limit reached." in text
    assert "Nothing new after the stored offsets." in text
    assert "Nothing new" not in browser.post("/new/preview", {"config": config, "from": "start"}).text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", "Create the first connector"),
        ("/events", "No events yet"),
        ("/plugins", "Install one below"),
        ("/loggers", "Set one above"),
        ("/connectors/new/history", "Each change of the configuration, the state or the offsets appears here."),
        ("/connectors/new/offsets", "No offsets are stored."),
        ("/connectors/new/dead-letters", "No dead letters."),
        ("/connectors/new/logs", "No log lines yet."),
        ("/connectors/new", "No record has passed"),
    ],
)
def test_an_empty_page_says_what_to_do_first(browser: Browser, group: StandIn, path: str, words: str) -> None:
    fresh = content.row("new", tasks={})
    for kept in (group.connectors, group.events, group.changes, group.letters, group.loggers):
        kept.clear()  # type: ignore[attr-defined]
    if path != "/":
        group.connectors["new"] = {"row": fresh, "config": {}, "tasks": [], "offsets": [], "topics": [], "tables": []}
    group.answers["GET", "/admin/connectors/new/logs"] = 200, {"lines": []}
    group.plugins["installed"] = []
    assert words in browser.get(path).text


def test_a_copy_keeps_the_secret_without_showing_it(browser: Browser, group: StandIn) -> None:
    config = config_of(browser.get("/new?copy=orders").text)
    assert config["db.password"] == "[hidden]"
    assert "name" not in config
    sent = {"config": json.dumps(config | {"name": "orders-2"}), "connector": "orders", "initial_state": "STOPPED"}
    answer = browser.post("/new", sent)
    assert answer.headers["hx-redirect"] == "/console/connectors/orders-2"
    [body] = group.sent("POST", "/connectors")
    assert (body["name"], body["initial_state"]) == ("orders-2", "STOPPED")
    assert body["config"]["db.password"] == "hunter-2"


def test_a_connector_is_created_with_offsets(browser: Browser, group: StandIn) -> None:
    config = json.dumps({"connector.class": SOURCE, "name": "a/b", "topic": "t"})
    offsets = [{"partition": {"filename": "x"}, "offset": {"position": 1}}]
    answer = browser.post("/new", {"config": config, "initial_offsets": json.dumps(offsets)})
    assert answer.headers["hx-redirect"] == "/console/connectors/a%2Fb"
    [body] = group.sent("POST", "/connectors")
    assert body == {"name": "a/b", "config": json.loads(config), "initial_offsets": offsets}


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ({"config": '{"connector.class": "F"}'}, "has no name"),
        ({"config": '{"name": "orders"}'}, "already exists"),
        ({"config": "{"}, "cannot be read"),
        ({"config": '{"name": "n"}', "initial_offsets": "{}"}, "must be a list"),
        ({"config": '{"name": "n"}', "initial_offsets": "["}, "are not JSON"),
        ({}, "cannot be read"),
    ],
)
def test_failed_create_says_why(browser: Browser, sent: dict[str, str], words: str) -> None:
    answer = browser.post("/new", sent)
    assert answer.status_code >= 400
    assert words in answer.text


def test_check_and_preview(browser: Browser, group: StandIn) -> None:
    config = json.dumps({"connector.class": SOURCE, "name": "n", "topic": "t"})
    text = browser.post("/new/check", {"config": config}).text
    assert text.index("problem") < text.index("validation")
    assert "set topic" in text
    text = browser.post("/new/preview", {"config": config, "records": "9999", "seconds": "x", "from": "start"}).text
    assert "dropped here" in text
    assert "&lt;script&gt;" in text
    [body] = group.sent("POST", "/admin/preview")
    assert {name: body[name] for name in ("records", "seconds", "from", "put")} == {
        "records": 200,
        "seconds": 20,
        "from": "start",
        "put": False,
    }


def test_check_that_this_worker_does_not_serve(browser: Browser, group: StandIn) -> None:
    group.without = {"check", "preview"}
    for path in ("/new/check", "/new/preview"):
        answer = browser.post(path, {"config": '{"connector.class": "F", "name": "n"}'})
        assert answer.status_code == 404
        assert "This worker does not serve this" in answer.text

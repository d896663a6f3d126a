"""What surrounds every page: the policy, the proof of origin, errors, escaping, static files, streams that end."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator
from importlib import resources

import pytest
from starlette.requests import Request

from spark_connect_rt.app.rest.console_app import Console
from spark_connect_rt.console import protection as assets
from spark_connect_rt.console.api import Api, ApiError, at
from spark_connect_rt.console.frame import PageFrame, neighbours
from spark_connect_rt.console.protection import Protection, content_policy, origin_of
from spark_connect_rt.console.shared_reads import SharedReads, who_asks
from tests.support.management_stand_in import content
from tests.support.management_stand_in.app import StandIn
from tests.unit.console.conftest import Browser

HOSTILE = '"><img src=x onerror=alert(1)>'


def test_a_page_allows_nothing_but_this_workers_files(browser: Browser) -> None:
    answer = browser.get("/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")
    assert not re.search(r"<style|\sstyle=|\son[a-z]+=|<script(?![^>]*src=)|hx-on|javascript:", answer.text)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"Origin": "http://evil.example"}, "came from http://evil.example"),
        ({"Origin": ""}, "came from an unknown page"),
        ({"Origin": "null"}, "came from null"),
        ({"Origin": "http://one:8084"}, "came from http://one:8084"),
        ({"X-CSRF-Token": ""}, "older than this worker"),
        ({"X-CSRF-Token": "0" * 64}, "older than this worker"),
        ({"Cookie": ""}, "older than this worker"),
        ({"Cookie": "connectrt_console=x"}, "older than this worker"),
    ],
)
def test_an_action_that_no_page_of_ours_sent_is_refused(browser: Browser, change: dict[str, str], why: str) -> None:
    browser.get("/")
    if "Cookie" in change:
        browser.client.cookies.clear()
    answer = browser.post("/selection/delete", {"name": "orders"}, **change)
    assert (answer.status_code, why in answer.text) == (403, True)
    assert "orders" in browser.group.connectors


def test_the_token_belongs_to_one_browser_and_one_process(browser: Browser, group: StandIn) -> None:
    browser.get("/")
    other = Browser(group)
    other.get("/")
    stolen = browser.post("/selection/pause", {"name": "orders"}, **{"X-CSRF-Token": other.token})
    assert stolen.status_code == 403
    cookie = browser.client.cookies["connectrt_console"]
    assert browser.post("/selection/pause", {"name": "orders"}).status_code == 200
    header = browser.get("/").headers.get("set-cookie")
    assert header is None, f"a good cookie is kept, {cookie}"


def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(browser: Browser) -> None:
    cookie = browser.get("/").headers["set-cookie"]
    assert cookie.endswith("; Path=/console; HttpOnly; SameSite=Strict")


def test_hostile_text_is_text_wherever_it_stands(browser: Browser, group: StandIn) -> None:
    made = content.row(HOSTILE, last_error=HOSTILE, why=HOSTILE, abnormal=True, worker_id=HOSTILE, state=HOSTILE)
    group.connectors[HOSTILE] = {**group.connectors["orders"], "row": made | {"class": HOSTILE, "type": HOSTILE}}
    group.group["group_id"] = HOSTILE
    group.group["workers"][1] |= {"worker_id": HOSTILE, "url": f"javascript:alert(1)//{HOSTILE}"}
    for path in ("/", f"/?search={HOSTILE}&state=x", "/?sort=%3Cscript%3E"):
        text = browser.get(path).text
        assert "<img" not in text
        assert "javascript:" not in text
        assert "<script>" not in text


def test_half_a_character_in_a_name_is_shown_as_a_question_mark(browser: Browser, group: StandIn) -> None:
    group.connectors["orders"]["row"] |= {"name": "a\ud800b", "last_error": "\udfff", "abnormal": True}
    assert "a?b" in browser.get("/").text
    assert browser.get("/?search=%ED%A0%80").status_code == 200


def test_addresses_that_other_members_gave_do_not_reach_the_policy() -> None:
    assert origin_of("http://two:8083/") == "http://two:8083"
    assert origin_of("http://user:secret@two:8083/x") == "http://two:8083"
    assert [origin_of(it) for it in ("javascript:alert(1)", "http://a; script-src *", "ftp://x", "", "http://[")] == [
        ""
    ] * 5
    policy = content_policy(["http://two:8083", "http://x; script-src *", "'unsafe-inline'"])
    assert "connect-src 'self' http://two:8083;" in policy
    assert "unsafe" not in policy
    assert policy.count("script-src") == 1


def test_java_workers_are_not_neighbours_of_the_console() -> None:
    assert [neighbour.worker_id for neighbour in neighbours(content.group())] == [content.WORKER, content.OTHER]
    assert neighbours({}) == []
    aside = neighbours(content.group(), "https://one:9999")
    assert [neighbour.url for neighbour in aside] == ["https://one:9999", "https://two:9999"]
    for url in ("http://[::1]:8083/", "http://[::1]"):
        six = {"workers": [{"worker_id": "six", "url": url}]}
        assert neighbours(six, "http://[::2]:9999")[0].url == "http://[::1]:9999"


def test_missing_or_failed_page_shows_the_reason(browser: Browser, group: StandIn) -> None:
    missing = browser.get("/nothing")
    assert (missing.status_code, "<h1>" in missing.text) == (404, True)
    group.answers["GET", "/admin/overview"] = (
        500,
        {"error_code": 500, "message": "no <b>", "hint": "do it", "code": "CRT-1"},
    )
    failed = browser.get("/")
    assert failed.status_code == 500
    assert all(words in failed.text for words in ("no &lt;b&gt;", "do it", "CRT-1, connectrt explain CRT-1 says more"))
    group.answers.clear()
    group.without.add("overview")
    assert "This worker does not serve this" in browser.get("/").text
    part = browser.get("/", **{"HX-Request": "true"})
    assert part.headers["hx-retarget"] == "#messages"
    assert "<html" not in part.text


def test_a_worker_without_the_group_read_has_a_console_all_the_same(group: StandIn) -> None:
    group.without.add("group")
    assert Browser(group).get("/").status_code == 200


def test_static_files_have_types_and_are_kept_by_their_digest(browser: Browser) -> None:
    address = assets.address("console.css")
    named, plain = browser.get(address), browser.get("/static/console.css")
    assert "immutable" in named.headers["cache-control"]
    assert plain.headers["cache-control"] == "no-cache"
    assert browser.get(assets.address("vendor/htmx.min.js")).headers["content-type"].startswith("text/javascript")
    assert browser.get("/static/../frame.py").status_code == 404
    assert browser.get("/static/%2e%2e/frame.py").status_code == 404


def test_files_of_others_are_those_that_were_pinned() -> None:
    folder = resources.files("spark_connect_rt.console") / "static" / "vendor"
    pinned = dict(
        reversed(line.split("  ", 1))  # type: ignore[arg-type]
        for line in (folder / "PINNED.txt").read_text().splitlines()
        if re.match(r"[0-9a-f]{64}  ", line)
    )
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name.endswith((".js", ".css"))}
    from hashlib import sha256

    assert {name: sha256(data).hexdigest() for name, data in found.items()} == pinned


def test_the_console_is_off_the_api_and_the_api_off_the_console(browser: Browser) -> None:
    assert browser.client.get("/console").status_code == 200
    assert browser.client.get("/consoles").status_code == 404
    assert browser.client.get("/connectors").json() == sorted(browser.group.connectors)


def request_of(**headers: str) -> Request:
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "GET", "path": "/console/", "query_string": b"", "headers": given}
    return Request({**scope, "client": ("10.1.2.3", 5), "server": ("h", 80), "console": {"root": ""}})


def test_the_api_sees_the_browsers_login_address_and_host_but_not_its_form() -> None:
    seen: list[dict[str, object]] = []

    async def app(scope: dict[str, object], _: object, send: object) -> None:
        seen.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"[1]"})  # type: ignore[operator]

    browser = request_of(authorization="Basic eA==", host="h:1", content_type="text/x", x_forwarded_for="1.2.3.4")
    assert asyncio.run(Api(app, browser).get(at("connectors", "a/b ü%"), {"x": "&"})) == [1]  # type: ignore[arg-type]
    (scope,) = seen
    headers = dict(scope["headers"])  # type: ignore[call-overload]
    assert (headers[b"authorization"], headers[b"host"], headers[b"accept"]) == (
        b"Basic eA==",
        b"h:1",
        b"application/json",
    )
    assert headers[b"x-forwarded-for"] == b"1.2.3.4"
    assert b"content-type" not in headers
    assert scope["client"] == ("10.1.2.3", 5)
    assert (scope["raw_path"], scope["query_string"]) == (b"/connectors/a%2Fb%20%C3%BC%25", b"x=%26")


def test_an_api_that_breaks_or_answers_no_json_is_a_refusal() -> None:
    async def broken(_: object, __: object, ___: object) -> None:
        raise RuntimeError("boom")

    async def words(_: object, __: object, send: object) -> None:
        headers = [(b"WWW-Authenticate", b"Basic")]
        await send({"type": "http.response.start", "status": 401, "headers": headers})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"User cannot"})  # type: ignore[operator]

    with pytest.raises(ApiError, match="boom"):
        asyncio.run(Api(broken, request_of()).get("/x"))  # type: ignore[arg-type]
    with pytest.raises(ApiError, match="User cannot") as refused:
        asyncio.run(Api(words, request_of()).get_or(None, "/x"))  # type: ignore[arg-type]
    assert (refused.value.status, refused.value.challenge) == (401, "Basic")


def test_a_stream_of_the_api_is_read_event_by_event_and_hung_up_when_left() -> None:
    ended = threading.Event()

    async def app(_: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        for chunk in (b": hello\n\nev", b"ent: x\ndata: a\ndata: b", b"\n\n", b"data: {}\r\n\r\n"):
            await send({"type": "http.response.body", "body": chunk, "more_body": True})  # type: ignore[operator]
        await receive()  # type: ignore[operator]
        if (await receive())["type"] == "http.disconnect":  # type: ignore[operator]
            ended.set()

    async def read() -> list[tuple[str, str]]:
        found = []
        stream = Api(app, request_of()).stream("/events/stream")  # type: ignore[arg-type]
        async for event in stream:
            found.append(event)
            if len(found) == 2:
                break
        await stream.aclose()  # type: ignore[attr-defined]
        await asyncio.sleep(0.01)
        return found

    assert asyncio.run(read()) == [("x", "a\nb"), ("message", "{}")]


def test_a_stopping_worker_ends_every_stream_at_once() -> None:
    async def endless() -> AsyncIterator[tuple[str, object]]:
        yield "x", {"a": "<"}
        await asyncio.sleep(60)

    async def read() -> list[bytes]:
        frame = PageFrame(StandIn().app, Protection())
        found = []
        async for line in frame.stream(endless()).body_iterator:  # type: ignore[attr-defined]
            found.append(line)
            if len(found) == 2:
                threading.Timer(0.02, frame.close).start()
        return found

    assert asyncio.run(asyncio.wait_for(read(), 5)) == [b"retry: 2000\n\n", b'event: x\ndata: {"a":"<"}\n\n']


def test_pages_that_follow_the_same_thing_share_one_reader_which_ends_with_them() -> None:
    asked = 0

    async def read() -> int:
        nonlocal asked
        asked += 1
        if asked == 3:
            raise ApiError(500, "gone")
        return asked

    async def follow(reads: SharedReads[int]) -> list[object]:
        found: list[object] = []
        try:
            async for value in reads.follow("k", read):
                found.append(value)
        except ApiError as error:
            found.append(str(error))
        return found

    async def both() -> list[list[object]]:
        reads: SharedReads[int] = SharedReads(0.01)
        return list(await asyncio.gather(follow(reads), follow(reads)))

    assert asyncio.run(both()) == [[1, 2, "gone"]] * 2


def test_no_console_no_path() -> None:
    console = Console()
    console.close()  # before anything was asked: nothing to end


def test_only_requests_that_may_see_the_same_share_a_reader() -> None:
    hashable = who_asks(request_of(authorization="Basic eA==", host="h", user_agent="a", cookie="connectrt_console=a"))
    assert (
        who_asks(request_of(authorization="Basic eA==", host="h", user_agent="b", cookie="connectrt_theme=x"))
        == hashable
    )
    for other in ({"authorization": "Basic eQ=="}, {"x_remote_user": "eve"}, {"cookie": "session=2"}, {}):
        assert who_asks(request_of(host="h", **({"authorization": "Basic eA=="} | other if other else {}))) != hashable

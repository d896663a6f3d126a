"""HttpSource and a real web service: pages, offsets, restarts, patience, bad input, secrets."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from spark_connect_rt.connectors.http.http_pages import standing_of
from spark_connect_rt.connectors.http.http_source import HttpSourceConnector
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError
from spark_connect_rt.testing.connector_harness import ProducedRecord, SourceHarness
from tests.integration.http_service import Asked, HttpService

ITEMS = [{"id": number, "at": f"2026-01-{number:02d}"} for number in range(1, 8)]


class Clock:
    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        return self.now_s


def harness(url: str, **settings: Any) -> SourceHarness:
    texts = {name: setting if isinstance(setting, str) else json.dumps(setting) for name, setting in settings.items()}
    given = {f"http.{name.replace('_', '.')}": text for name, text in texts.items()}
    made = SourceHarness(HttpSourceConnector, {"topic": "t", "http.url": f"{url}/items", **given})
    made.start()
    return made


def timed(source: SourceHarness) -> Clock:
    clock = Clock()
    source.tasks[0].clock = clock  # type: ignore[attr-defined]
    return clock


def ids(records: list[ProducedRecord]) -> list[int]:
    return [record.json()["id"] for record in records]


def since(asked: Asked) -> Response:
    return JSONResponse({"items": [item for item in ITEMS if item["at"] > asked.query.get("since", "")][:3]})


SINCE = {
    "records_pointer": "/items",
    "params": {"since": "${offset.since}"},
    "offset_fields": {"since": "/at"},
    "poll_interval_ms": "0",
}


def test_only_what_is_newer_is_asked_for_also_after_a_restart() -> None:
    with HttpService(since) as service:
        source = harness(service.url, **SINCE, key_pointer="/id")
        first = source.poll()
        assert ids(first) == [1, 2, 3]
        assert [record.key for record in first] == [b'"1"', b'"2"', b'"3"']
        assert source.offsets.all()[-1][1] == {"since": "2026-01-03"}
        source.restart()
        assert ids(source.poll_all()) == [4, 5, 6, 7]
        assert [asked.query for asked in service.asked][:2] == [{}, {"since": "2026-01-03"}]
        source.stop()


def test_a_page_that_was_not_durable_is_repeated() -> None:
    with HttpService(since) as service:
        source = harness(service.url, **SINCE)
        assert ids(source.poll(durable=False)) == [1, 2, 3]
        source.restart()
        assert ids(source.poll()) == [1, 2, 3]
        source.stop()


def by_link(asked: Asked) -> Response:
    page = int(asked.query.get("p", "0"))
    headers = {"Link": f'</items?p={page + 1}>; rel="next"'} if page < 2 else {}
    return JSONResponse(ITEMS[page * 3 : page * 3 + 3], headers=headers)


def by_next(asked: Asked) -> Response:
    page = int(asked.query.get("p", "0"))
    return JSONResponse({"data": ITEMS[page * 3 : page * 3 + 3], "next": f"/items?p={page + 1}" if page < 2 else None})


def by_cursor(asked: Asked) -> Response:
    page = int(asked.query.get("c", "c0")[1:])
    return JSONResponse({"data": ITEMS[page * 3 : page * 3 + 3], "next": f"c{page + 1}" if page < 2 else ""})


def by_number(asked: Asked) -> Response:
    page = int(asked.query["page"])
    return JSONResponse(ITEMS[page * 3 - 3 : page * 3])


PAGINATIONS: list[tuple[Callable[[Asked], Response], dict[str, Any]]] = [
    (by_link, {"pagination": "link"}),
    (by_next, {"pagination": "next", "records_pointer": "/data"}),
    (by_cursor, {"pagination": "cursor", "records_pointer": "/data", "page_param": "c"}),
    (by_number, {"pagination": "page"}),
]


@pytest.mark.parametrize(("answer", "settings"), PAGINATIONS)
def test_every_page_is_read_once_and_a_restart_continues_with_the_next(
    answer: Callable[[Asked], Response], settings: dict[str, Any]
) -> None:
    with HttpService(answer) as service:
        source = harness(service.url, **settings, offset_fields={"last": "/id"}, poll_interval_ms="3600000")
        assert ids(source.poll()) == [1, 2, 3]
        source.restart()
        assert ids(source.poll_all()) == [4, 5, 6, 7]
        assert standing_of(source.offsets.all()[-1][1], {}).newest == {"last": 7}
        source.stop()


def test_the_next_page_of_another_server_is_not_asked_for() -> None:
    with HttpService(lambda _: JSONResponse({"data": ITEMS[:1], "next": "http://127.0.0.2:9/"})) as service:
        source = harness(service.url, pagination="next", records_pointer="/data")
        with pytest.raises(ConnectError, match="another server"):
            source.poll()
        source.stop()


def test_passes_are_an_interval_apart() -> None:
    with HttpService(lambda _: JSONResponse(ITEMS[:1])) as service:
        source = harness(service.url, poll_interval_ms="60000")
        clock = timed(source)
        assert len(source.poll()) == 1
        assert source.poll() == []
        clock.now_s += 60
        assert len(source.poll()) == 1
        assert len(service.asked) == 2
        source.stop()


def test_a_server_that_asks_for_patience_gets_it_and_finally_the_task_fails() -> None:
    answers = [
        Response(status_code=429, headers={"Retry-After": "7"}),
        Response(status_code=503),
        JSONResponse(ITEMS[:2]),
    ]
    with HttpService(lambda _: answers.pop(0) if answers else Response(status_code=500)) as service:
        source = harness(service.url, poll_interval_ms="0", retries_max="2")
        clock = timed(source)
        for wait_s, asked in ((0.0, 1), (6.9, 1), (0.2, 2), (1.5, 2)):  # the wait of 2 s has 20 % of jitter
            clock.now_s += wait_s
            assert source.poll() == []
            assert len(service.asked) == asked
        clock.now_s += 1.0
        assert ids(source.poll()) == [1, 2]
        assert source.poll() == []  # the first failure
        clock.now_s += 100
        assert source.poll() == []
        clock.now_s += 100
        with pytest.raises(ConnectError, match=r"3 failures in a row.*500"):
            source.poll()
        source.stop()


def test_no_server_listens() -> None:
    source = harness("http://127.0.0.1:1", retries_max="0")
    with pytest.raises(ConnectError, match="ConnectError"):
        source.poll()
    source.stop()


def test_a_refusal_fails_the_task_and_shows_no_secret(caplog: pytest.LogCaptureFixture) -> None:
    with HttpService(lambda _: Response("no such thing", status_code=404)) as service, caplog.at_level(logging.DEBUG):
        source = harness(service.url, params={"key": "s3cret"}, auth_type="bearer", auth_token="t0ken")
        with pytest.raises(ConnectError, match="404: no such thing") as refused:
            source.poll()
        assert service.asked[0].headers["authorization"] == "Bearer t0ken"
        assert service.asked[0].query == {"key": "s3cret"}
        told = str(refused.value) + caplog.text
        assert "s3cret" not in told
        assert "t0ken" not in told
        source.stop()


@pytest.mark.parametrize(("body", "settings"), [(b"{", {}), (b"{}", {"records_pointer": "/items"})])
def test_an_invalid_body_is_errant(body: bytes, settings: dict[str, str]) -> None:
    with HttpService(lambda _: Response(body)) as service:
        source = harness(service.url, **settings)
        with pytest.raises(DataError, match="/items"):
            source.poll()
        source.stop()


def test_a_record_without_offset_fields_is_errant_and_others_are_delivered() -> None:
    items = [ITEMS[0], {"id": 99}, ITEMS[1]]
    with HttpService(lambda _: JSONResponse(items)) as service:
        config = {"topic": "t", "http.url": f"{service.url}/items", "http.offset.fields": '{"since": "/at"}'}
        source = SourceHarness(HttpSourceConnector, {**config, "errors.tolerance": "all"})
        source.start()
        assert ids(source.poll()) == [1, 2]
        (errant,) = source.errants
        assert "record 1" in errant.place
        assert source.offsets.all()[-1][1] == {"since": "2026-01-02"}
        source.stop()


def test_values_as_text_headers_and_a_body() -> None:
    with HttpService(lambda _: JSONResponse(ITEMS[:1])) as service:
        more = {"headers": {"X-A": "1"}, "secret_headers": {"X-B": "2"}, "body": '{"from": ${offset.last}}'}
        source = harness(service.url, method="POST", value="text", offset_initial='{"last": "5"}', **more)
        (record,) = source.poll()
        assert json.loads(record.json()) == ITEMS[0]
        (asked,) = service.asked
        assert (asked.method, asked.headers["x-a"], asked.headers["x-b"]) == ("POST", "1", "2")
        assert asked.body == b'{"from": 5}'
        source.stop()


def test_settings_that_are_wrong_are_refused() -> None:
    connector = HttpSourceConnector()
    assert "http.auth.token" in connector.validate({"http.auth.type": "bearer"})
    for name, value in (("http.url", "ftp://x"), ("http.params", "[1]"), ("http.records.pointer", "items")):
        with pytest.raises(BadConfigError, match=name):
            connector.config_def().parse({"topic": "t", "http.url": "http://x", name: value})
    with pytest.raises(ConnectError):
        connector.alter_offsets({}, [({"file": "x"}, {"a": 1})])
    with pytest.raises(ConnectError):
        connector.alter_offsets({}, [({"url": "http://x"}, {"page": "{"})])
    assert connector.alter_offsets({}, [({"url": "http://x"}, {"since": "2026"})])


def test_a_check_asks_for_the_first_page_and_shows_no_secret() -> None:
    answers = [JSONResponse([]), Response("no: t0ken", status_code=401), Response(status_code=503)]
    with HttpService(lambda asked: answers[len(service.asked) - 1]) as service:
        config = {
            "topic": "t",
            "http.url": f"{service.url}/items?key=t0ken",
            "http.auth.type": "bearer",
            "http.auth.token": "t0ken",
        }
        found = [line for _ in answers for look in HttpSourceConnector().outside_checks(config) for line in look()]
        assert [(finding.check, finding.level.value) for finding in found] == [
            ("credentials", "ok"),
            ("credentials", "problem"),
            ("host", "problem"),
        ]
        assert "t0ken" not in repr(found)
        assert HttpSourceConnector().outside_checks({**config, "http.method": "POST"}) == ()

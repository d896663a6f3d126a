"""HttpSink and a real web service: bodies, batches, deletes, patience, refused records."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.responses import Response

from spark_connect_rt.connectors.http.http_sink import HttpSinkConnector
from spark_connect_rt.errors import ConnectError, DataError
from spark_connect_rt.testing.sink_harness import SinkHarness
from tests.integration.http_service import Asked, HttpService


def harness(url: str, path: str = "/in", **settings: Any) -> SinkHarness:
    given = {
        (name if name.startswith("errors") else f"http.{name}").replace("_", "."): str(setting)
        for name, setting in settings.items()
    }
    made = SinkHarness(HttpSinkConnector, {"topics": "t", "http.url": f"{url}{path}", **given})
    made.start()
    return made


def bodies(service: HttpService) -> list[Any]:
    return [json.loads(asked.body) for asked in service.asked]


def good(_: Asked) -> Response:
    return Response(status_code=204)


def test_one_request_a_record_with_topic_and_key_in_the_address() -> None:
    with HttpService(good) as service:
        sink = harness(service.url, "/${topic}/${key}", method="PUT")
        sink.send("t", {"a": 1}, key="k 1")
        sink.send("t", {"a": 2}, key="k2")
        assert sink.deliver()
        assert [(asked.method, asked.path) for asked in service.asked] == [("PUT", "/t/k 1"), ("PUT", "/t/k2")]
        assert bodies(service) == [{"a": 1}, {"a": 2}]
        assert service.asked[0].headers["content-type"] == "application/json"
        sink.stop()


def test_batches_and_a_template() -> None:
    with HttpService(good) as service:
        template = '{"v": ${value}, "o": ${offset}, "k": ${key}}'
        sink = harness(service.url, batch_records=2, body_template=template)
        for number in range(3):
            sink.send("t", {"n": number}, key="x")
        assert sink.deliver()
        assert bodies(service) == [
            [{"v": {"n": 0}, "o": 0, "k": "x"}, {"v": {"n": 1}, "o": 1, "k": "x"}],
            [{"v": {"n": 2}, "o": 2, "k": "x"}],
        ]
        sink.stop()


def test_records_without_a_value() -> None:
    with HttpService(lambda asked: Response(status_code=404 if asked.method == "DELETE" else 200)) as service:
        for wish, methods in (("ignore", ["POST"]), ("delete", ["DELETE", "POST"])):
            service.asked.clear()
            sink = harness(service.url, "/${key}", null_values=wish)
            sink.send("t", b"", key="gone")
            sink.topics.append([{"topic": "t", "partition": 0, "timestamp": None, "key": b'"gone"', "value": None}])
            sink.send("t", {"a": 1}, key="k")
            assert sink.deliver()
            assert [asked.method for asked in service.asked][-len(methods) :] == methods
            sink.stop()


def test_a_server_that_asks_for_patience_gets_the_same_records_but_not_those_it_took() -> None:
    answers = [204, 503, 429, 204, 204]
    with HttpService(lambda _: Response(status_code=answers.pop(0))) as service:
        sink = harness(service.url, retry_backoff_ms=1, retries_max=3)
        for number in range(3):
            sink.send("t", {"n": number})
        assert not sink.deliver()
        assert not sink.deliver()
        assert sink.deliver()
        assert [body["n"] for body in bodies(service)] == [0, 1, 1, 1, 2]
        sink.stop()


def test_patience_ends() -> None:
    with HttpService(lambda _: Response(status_code=500)) as service:
        sink = harness(service.url, retries_max=1, retry_backoff_ms=1)
        sink.send("t", {"n": 1})
        assert not sink.deliver()
        with pytest.raises(ConnectError, match="2 failures in a row"):
            sink.deliver()
        assert len(service.asked) == 2
        sink.stop()


def refuses_seven(asked: Asked) -> Response:
    return Response("seven is no number", status_code=422 if b'"n":7' in asked.body else 200)


@pytest.mark.parametrize("batch", [1, 4])
def test_a_refused_record_is_dead_lettered_and_the_others_are_taken(batch: int) -> None:
    with HttpService(refuses_seven) as service:
        dead = {"errors_deadletterqueue_topic_name": "dead", "errors_deadletterqueue_context_headers_enable": "true"}
        sink = harness(service.url, batch_records=batch, errors_tolerance="all", **dead)
        for number in range(10):
            sink.send("t", {"n": number})
        assert sink.deliver()
        taken = [record for asked in service.asked if b'"n":7' not in asked.body for record in _records(asked)]
        assert sorted(record["n"] for record in taken) == [0, 1, 2, 3, 4, 5, 6, 8, 9]
        (letter,) = sink.dead_letters()
        assert json.loads(letter["value"]) == {"n": 7}
        sink.stop()


def _records(asked: Asked) -> list[Any]:
    found = json.loads(asked.body)
    return found if isinstance(found, list) else [found]


def test_without_tolerance_a_refused_record_fails_the_task() -> None:
    with HttpService(refuses_seven) as service:
        sink = harness(service.url)
        sink.send("t", {"n": 7})
        with pytest.raises(DataError, match="422: seven is no number"):
            sink.deliver()
        sink.stop()


@pytest.mark.parametrize("status", [401, 403, 404, 405])
def test_credentials_and_a_wrong_address_blame_no_record(status: int) -> None:
    with HttpService(lambda _: Response(status_code=status)) as service:
        sink = harness(service.url, errors_tolerance="all", auth_type="basic", auth_user="ann", auth_password="s3cret")
        for number in range(4):
            sink.send("t", {"n": number})
        with pytest.raises(ConnectError, match=str(status)) as failed:
            sink.deliver()
        assert "s3cret" not in str(failed.value)
        sink.stop()


def test_after_a_restart_what_was_not_committed_is_sent_again() -> None:
    with HttpService(good) as service:
        sink = harness(service.url)
        sink.send("t", {"n": 1})
        assert sink.deliver()
        sink.restart()
        assert sink.deliver()
        sink.commit()
        sink.restart()
        sink.send("t", {"n": 2})
        assert sink.deliver()
        assert [body["n"] for body in bodies(service)] == [1, 1, 2]
        sink.stop()

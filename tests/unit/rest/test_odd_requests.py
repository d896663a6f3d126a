"""Odd requests, answered as Java Connect 4.1.1 was seen to answer them."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector, RestartConnector
from spark_connect_rt.runtime.values import ConfigWritten
from tests.unit.rest.conftest import Asked
from tests.unit.rest.fake_herder import INFO, STATUS, FakeHerder


@pytest.mark.parametrize(
    ("number", "status"),
    [("0", 200), ("%2B0", 200), ("+0", 200), ("00", 200), ("0.0", 404), ("1_0", 404), ("%200", 404), ("x", 404)],
)
def test_the_number_of_a_task(rest: Asked, number: str, status: int) -> None:
    assert rest("GET", f"/connectors/src/tasks/{number}/status").status_code == status


@pytest.mark.parametrize(("first", "second", "status"), [("true", "false", 202), ("false", "true", 204)])
def test_of_a_repeated_flag_the_first_counts(
    rest: Asked, herder: FakeHerder, first: str, second: str, status: int
) -> None:
    herder.answers[RestartConnector] = STATUS if status == 202 else None
    rest("POST", f"/connectors/src/restart?includeTasks={first}&includeTasks={second}")
    assert herder.requests == [RestartConnector("src", first == "true", False)]


@pytest.mark.parametrize(
    ("name", "kept"), [("\u00a0nb\u00a0", "\u00a0nb\u00a0"), (" \u0001sp ", "sp"), ("\t\x00a b\n", "a b")]
)
def test_only_characters_up_to_a_blank_are_cut_from_a_name(
    rest: Asked, herder: FakeHerder, name: str, kept: str
) -> None:
    herder.answers[CreateConnector] = ConfigWritten(True, INFO)
    rest("POST", "/connectors", json.dumps({"name": name, "config": {}}).encode())
    assert herder.requests[0].name == kept


def raw_request(herder: FakeHerder, method: str, raw_path: bytes, messages: list[dict[str, Any]]) -> list[Any]:
    """Hand one request to the application as a server does; return what it sent."""
    sent: list[Any] = []

    async def run() -> None:
        async def receive() -> dict[str, Any]:
            return messages.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": raw_path.decode(),
            "raw_path": raw_path,
            "query_string": b"",
            "headers": [(b"content-type", b"application/json"), (b"host", b"h:8083")],
            "client": ("127.0.0.1", 1),
            "server": ("h", 8083),
        }
        await create_app(herder, request_limit_ms=200)(scope, receive, send)

    asyncio.run(run())
    return sent


@pytest.mark.parametrize("target", [b"http://h:8083/connectors", b"HTTPS://other/connectors"])
def test_a_request_line_in_absolute_form(herder: FakeHerder, target: bytes) -> None:
    sent = raw_request(herder, "GET", target, [{"type": "http.request", "body": b"", "more_body": False}])
    assert (sent[0]["status"], sent[1]["body"]) == (200, b'["src"]')


def test_a_client_that_hangs_up_is_not_an_error(herder: FakeHerder, caplog: pytest.LogCaptureFixture) -> None:
    messages = [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    with caplog.at_level(logging.WARNING):
        raw_request(herder, "POST", b"/connectors", messages)  # an error would be raised here, for the server to log
    # Kafka clients of earlier tests may still write to the log from their own threads.
    here = [record for record in caplog.records if not record.name.startswith("aiokafka")]
    assert (here, herder.requests) == ([], [])


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/connectors/none", "GET /connectors lists the connectors."),
        ("/connectors/src/tasks/7/status", "GET /connectors/{name}/tasks lists the tasks of a connector."),
        ("/admin/loggers/none", "GET /admin/loggers lists the loggers."),
    ],
)
def test_the_hint_of_what_is_not_found_is_about_that(rest: Asked, path: str, hint: str) -> None:
    answer = rest("GET", path)
    assert (answer.status_code, answer.json()["hint"]) == (404, hint)

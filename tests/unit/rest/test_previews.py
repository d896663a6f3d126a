"""``POST /admin/preview`` as HTTP: what a body may hold, and a client that goes away."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from spark_connect_rt.app.rest.admin_api import Management
from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.errors import BadRequestError, ConnectError
from spark_connect_rt.operations.preview.model import From
from spark_connect_rt.operations.preview.routes import read_preview
from tests.unit.rest.conftest import Asked, ask
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.fake_management import FakePreviews


def test_a_body_says_what_is_wanted() -> None:
    offsets = [{"partition": {"a": 1}, "offset": {"b": 2}}]
    body = {"name": "x", "config": {"a": 1, "b": True}, "records": 5, "seconds": 2.5, "from": "given", "put": True}
    found = read_preview(json.dumps(body | {"offsets": offsets}).encode())
    assert (found.name, found.config, found.records, found.seconds) == ("x", {"a": "1", "b": "true"}, 5, 2.5)
    assert (found.begin, found.offsets, found.put) == (From.GIVEN, (({"a": 1}, {"b": 2}),), True)
    plain = read_preview(b'{"name":"x"}')
    assert (plain.records, plain.seconds, plain.begin, plain.put) == (20, 30.0, From.STORED, False)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"{}",
        b'{"name":""}',
        b'{"name":1}',
        b'{"name":"x","records":0}',
        b'{"name":"x","records":1001}',
        b'{"name":"x","records":1.5}',
        b'{"name":"x","records":true}',
        b'{"name":"x","records":18446744073709551617}',
        b'{"name":"x","seconds":121}',
        b'{"name":"x","seconds":0}',
        b'{"name":"x","seconds":"30"}',
        b'{"name":"x","seconds":NaN}',
        b'{"name":"x","from":"yesterday"}',
        b'{"name":"x","from":["stored"]}',
        b'{"name":"x","put":1}',
        b'{"name":"x","offsets":[{"partition":{},"offset":{}}]}',
        b'{"name":"x","from":"given","offsets":{}}',
        b'{"name":"x","from":"given","offsets":[{"partition":{}}]}',
        b'{"name":"x","from":"given","offsets":[1]}',
        b'{"name":"x","more":1}',
        b'{"config":[]}',
        b'{"config":{"a":null}}',
        b'{"config":{"a":{"b":"c"}}}',
    ],
)
def test_any_other_body_is_refused(body: bytes) -> None:
    with pytest.raises(ConnectError):
        read_preview(body)


def test_a_number_that_is_too_large_is_named() -> None:
    with pytest.raises(BadRequestError, match="records: must be between 1 and 1000"):
        read_preview(b'{"name":"x","records":18446744073709551617}')


def test_a_foreign_page_cannot_send_it(rest: Asked) -> None:
    assert rest("POST", "/admin/preview", b'{"name":"x"}', Content_Type="text/plain").status_code == 415


def test_a_worker_without_previews_says_so() -> None:
    answer = ask(create_app(FakeHerder()), "POST", "/admin/preview", b'{"name":"x"}')
    assert (answer.status_code, answer.json()["message"]) == (404, "this worker does not serve previews")


def test_a_client_that_goes_away_ends_its_preview() -> None:
    previews = FakePreviews()
    previews.hangs = True
    app = create_app(FakeHerder(), management=Management(previews=previews))
    body = b'{"name":"x"}'
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"host", b"h")]
    scope: dict[str, Any] = {"type": "http", "http_version": "1.1", "method": "POST", "path": "/admin/preview"}
    scope |= {"headers": headers, "query_string": b"", "raw_path": b"/admin/preview", "scheme": "http"}
    scope |= {"server": ("h", 80), "client": ("c", 1)}
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        pass

    asyncio.run(asyncio.wait_for(app(scope, receive, send), 5))
    assert previews.cancelled.is_set()

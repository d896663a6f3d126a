"""A body is read only as far as its limit, and between workers only after its headers say who signs it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.group.peers import sign
from spark_connect_rt.rest.middleware import LIMIT_BYTES, TASKS_LIMIT_BYTES
from spark_connect_rt.runtime.herder.herder_requests import PatchConfig
from spark_connect_rt.runtime.values import ConfigWritten, InternalKey
from tests.unit.rest.conftest import Asked
from tests.unit.rest.fake_herder import INFO, FakeHerder

PIECE = b" " * 65_536


def streamed(herder: FakeHerder, method: str, path: str, size_bytes: int, **headers: str) -> tuple[httpx.Response, int]:
    """Send a body piece by piece, its length untold; return the answer and how much of it was taken."""
    taken = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal taken
        while taken < size_bytes:
            taken += len(PIECE)
            yield PIECE

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=create_app(herder, request_limit_ms=200), raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://h:8083") as client:
            all_headers = {"Content-Type": "application/json", **headers}
            return await client.request(method, path, content=body(), headers=all_headers)

    return asyncio.run(send()), taken


@pytest.mark.parametrize(("method", "path"), [("POST", "/connectors"), ("PATCH", "/connectors/src/offsets")])
def test_no_more_than_the_limit_is_read(herder: FakeHerder, method: str, path: str) -> None:
    answer, taken = streamed(herder, method, path, 4 * LIMIT_BYTES)
    assert (answer.status_code, answer.json()["error_code"]) == (413, 413)
    assert taken <= LIMIT_BYTES + 2 * len(PIECE)
    assert herder.requests == []


def test_a_length_beyond_the_limit_is_refused_before_anything_is_read(rest: Asked, herder: FakeHerder) -> None:
    answer, taken = streamed(herder, "POST", "/connectors", LIMIT_BYTES, **{"Content-Length": str(LIMIT_BYTES + 1)})
    assert (answer.status_code, taken) == (413, 0)
    herder.answers[PatchConfig] = ConfigWritten(False, INFO)
    assert rest("PATCH", "/connectors/src/config", b"{}" + b" " * (LIMIT_BYTES - 2)).status_code == 200


def test_of_a_request_between_workers_nothing_is_read_before_its_signature_is_there(herder: FakeHerder) -> None:
    herder.key = InternalKey(required=True, key=b"k" * 32)
    answer, taken = streamed(herder, "POST", "/connectors/src/tasks", LIMIT_BYTES)
    assert (answer.status_code, taken) == (400, 0)
    assert "missing required signature" in answer.text
    signed = sign(b"k" * 32, "HmacSHA256", b"another body")
    answer, taken = streamed(herder, "POST", "/connectors/src/tasks", 2 * LIMIT_BYTES, **signed)
    assert (answer.status_code, taken) == (403, 2 * LIMIT_BYTES)  # the task sets of a large group are larger
    answer, taken = streamed(herder, "POST", "/connectors/src/tasks", 2 * TASKS_LIMIT_BYTES, **signed)
    assert answer.status_code == 413
    assert taken <= TASKS_LIMIT_BYTES + 2 * len(PIECE)

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import ASGIApp

from spark_connect_rt.app.rest.rest_app import create_app
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.fake_management import EVERY_PART

Asked = Callable[..., httpx.Response]


def ask(app: ASGIApp, method: str, path: str, body: bytes | None = None, **headers: str) -> httpx.Response:
    """Send one request to an application, no socket between."""

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://h:8083") as client:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            if body is not None:
                sent.setdefault("Content-Type", "application/json")
            return await client.request(method, path, content=body, headers=sent)

    return asyncio.run(send())


@pytest.fixture(scope="session")
def served() -> FakeHerder:
    """The herder of ``application``, as the test before left it."""
    return FakeHerder()


@pytest.fixture(scope="session")
def application(served: FakeHerder) -> FastAPI:
    """The whole API. Made once: FastAPI analyses each of its routes, a tenth of a second of CPU."""
    return create_app(served, request_limit_ms=200, management=EVERY_PART)


@pytest.fixture
def herder(served: FakeHerder) -> FakeHerder:
    """A herder as it was made, the one that ``rest`` asks."""
    vars(served).clear()
    served.__init__()  # type: ignore[misc]
    return served


@pytest.fixture
def rest(herder: FakeHerder, application: FastAPI) -> Asked:
    app = application

    def asked(method: str, path: str, body: bytes | None = None, **headers: Any) -> httpx.Response:
        return ask(app, method, path, body, **headers)

    return asked

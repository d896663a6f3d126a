"""The console over the stand-in of the management API, as a browser without scripts sees it."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from spark_connect_rt.app.rest.console_app import Console
from tests.support.management_stand_in.app import StandIn

ADDRESS = "http://one:8083"


class Browser:
    """Reads pages, and does what a page's script would: it sends the token of the last page with each action."""

    def __init__(self, group: StandIn, console: Console | None = None) -> None:
        self.group, self.console = group, console or Console()
        self.console.asks(group.app)
        self.client = TestClient(self.console.in_front_of(group.app), base_url=ADDRESS)
        self.token = ""

    def get(self, path: str, **headers: str) -> httpx.Response:
        answer = self.client.get(f"/console{path}", headers=headers)
        if found := re.search(r'name="csrf-token" content="([0-9a-f]+)"', answer.text):
            self.token = found.group(1)
        return answer

    def post(self, path: str, data: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
        if not self.token:
            self.get("/")
        given = {"Origin": ADDRESS, "X-CSRF-Token": self.token, "HX-Request": "true", **headers}
        return self.client.post(f"/console{path}", data=data or {}, headers=given)


@pytest.fixture
def group() -> StandIn:
    return StandIn()


@pytest.fixture(scope="session")
def console() -> Console:
    """The console of all tests that do not end it: FastAPI analyses each of its routes when it is made."""
    return Console()


@pytest.fixture
def browser(group: StandIn, console: Console) -> Browser:
    return Browser(group, console)

"""``/admin/plugins``: who may install and remove, and what is answered."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace

import httpx
import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.errors import AlreadyExistsError, PluginInUseError
from spark_connect_rt.operations.plugin_install.routes import InstallRights, may_change
from spark_connect_rt.plugins.interfaces import INSTALLED, InstalledInfo, InstallState, WantedPlugin
from tests.unit.rest.conftest import ask
from tests.unit.rest.fake_herder import FakeHerder

INFO = InstalledInfo(
    "one", "1.0", "g:one:1.0", "maven", "ab", "ann", 1, (), ("org.One",), True, {"h:1": InstallState(INSTALLED)}
)


class FakeInstalls:
    def __init__(self, name: str = "one") -> None:
        self.info = replace(INFO, name=name)
        self.calls: list[tuple[object, ...]] = []
        self.error: Exception | None = None

    def install(self, wanted: WantedPlugin, who: str) -> InstalledInfo:
        self.calls.append((wanted, who))
        if self.error:
            raise self.error
        return self.info

    def remove(self, name: str, version: str, who: str) -> None:
        self.calls.append((name, version, who))
        if self.error:
            raise self.error

    def installed(self) -> Sequence[InstalledInfo]:
        return [self.info]

    def problem(self) -> str:
        return ""


def asked(installs: FakeInstalls, method: str, path: str, body: object = None, mode: str = "allow") -> httpx.Response:
    app = create_app(FakeHerder(), installs=InstallRights(installs, mode))
    return ask(app, method, path, None if body is None else json.dumps(body).encode())


def test_install_list_and_remove() -> None:
    installs = FakeInstalls()
    answer = asked(installs, "POST", "/admin/plugins", {"source": "g:one:1.0", "sha512": "ab"})
    assert (answer.status_code, answer.json()["workers"]) == (201, {"h:1": {"state": "installed", "reason": ""}})
    assert asked(installs, "GET", "/admin/plugins").json()["installed"] == [answer.json()]
    assert asked(installs, "GET", "/admin/plugins/one").json() == [answer.json()]
    assert asked(installs, "GET", "/admin/plugins/two").status_code == 404
    assert asked(installs, "DELETE", "/admin/plugins/o%2Fne/1.0").status_code == 204
    assert installs.calls == [(WantedPlugin("g:one:1.0", "ab"), "127.0.0.1"), ("o/ne", "1.0", "127.0.0.1")]


@pytest.mark.parametrize("body", [{}, {"source": ""}, {"source": 1}, {"source": "a:b:1", "sha": ""}, ["a:b:1"]])
def test_a_body_that_asks_for_nothing(body: object) -> None:
    installs = FakeInstalls()
    assert asked(installs, "POST", "/admin/plugins", body).status_code == 400
    assert installs.calls == []


@pytest.mark.parametrize("body", [b"", b"{", b"\xff"])
def test_a_body_that_is_not_json(body: bytes) -> None:
    app = create_app(FakeHerder(), installs=InstallRights(FakeInstalls(), "allow"))
    assert ask(app, "POST", "/admin/plugins", body).status_code == 400


def test_refusals_have_their_status() -> None:
    installs = FakeInstalls()
    installs.error = AlreadyExistsError("it is there")
    assert asked(installs, "POST", "/admin/plugins", {"source": "g:one:1.0"}).status_code == 409
    installs.error = PluginInUseError("used by x")
    answer = asked(installs, "DELETE", "/admin/plugins/one/1.0")
    assert (answer.status_code, answer.json()["code"]) == (409, "CRT-1162")


@pytest.mark.parametrize(("method", "path"), [("POST", "/admin/plugins"), ("DELETE", "/admin/plugins/one/1.0")])
@pytest.mark.parametrize("mode", ["deny", "loopback"])  # the test's client asks for the host "h"
def test_forbidden_install_names_the_setting(method: str, path: str, mode: str) -> None:
    installs = FakeInstalls()
    answer = asked(installs, method, path, {"source": "g:one:1.0"}, mode)
    assert (answer.status_code, answer.json()["code"]) == (403, "CRT-1160")
    assert "connectrt.plugins.install" in answer.json()["message"]
    assert installs.calls == []


@pytest.mark.parametrize(
    ("mode", "client", "headers", "may"),
    [
        ("loopback", "127.0.0.1", {"host": "127.0.0.1:8083"}, True),
        ("LOOPBACK", "::1", {"host": "[::1]:8083"}, True),
        ("loopback", "127.0.0.1", {"host": "localhost:8083"}, True),
        ("loopback", "127.0.0.1", {"host": "evil.example:8083"}, False),  # a page whose name leads here
        ("loopback", "127.0.0.1", {"host": "localhost", "x-forwarded-for": "10.0.0.1"}, False),
        ("loopback", "10.0.0.1", {"host": "localhost"}, False),
        ("loopback", "", {}, False),
        ("deny", "127.0.0.1", {"host": "localhost"}, False),
        ("allow", "10.0.0.1", {"host": "worker.example"}, True),
    ],
)
def test_the_setting_says_who_may(mode: str, client: str, headers: Mapping[str, str], may: bool) -> None:
    assert may_change(mode, client, headers, is_private=True) is may
    shown = {**headers, "x-connectrt-install-token": "t" * 43}
    assert may_change(mode, client, shown, token="t" * 43) is may
    if mode.lower() == "loopback":  # a proxy on this machine that adds no header looks like this
        assert not may_change(mode, client, headers, token="t" * 43)
        assert not may_change(mode, client, shown, token="u" * 43)
        assert not may_change(mode, client, {**shown, "x-connectrt-install-token": ""})


def test_a_page_of_another_site_cannot_send_what_is_read() -> None:
    installs = FakeInstalls()
    app = create_app(FakeHerder(), installs=InstallRights(installs, "allow"))
    answer = ask(app, "POST", "/admin/plugins", b'{"source": "g:one:1.0"}', Content_Type="text/plain")
    assert answer.status_code == 415
    assert installs.calls == []


def test_installs_that_take_long_keep_no_read_waiting() -> None:
    go_on = threading.Event()

    class Slow(FakeInstalls):
        def install(self, wanted: WantedPlugin, who: str) -> InstalledInfo:
            go_on.wait(20)
            return self.info

    async def run() -> tuple[int, list[int]]:
        app = create_app(FakeHerder(), installs=InstallRights(Slow(), "allow"))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://h") as client:
            body = {"source": "g:one:1.0"}
            asked = [asyncio.ensure_future(client.post("/admin/plugins", json=body)) for _ in range(50)]
            await asyncio.sleep(0)
            read = await asyncio.wait_for(client.get("/admin/plugins"), 10)
            go_on.set()
            return read.status_code, [response.status_code for response in await asyncio.gather(*asked)]

    assert asyncio.run(run()) == (200, [201] * 50)

"""Where the console is served: beside /admin, behind the same login, off by a setting; what a stopping worker does."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from spark_connect_rt.app.rest.rest_api import RestApi
from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
from spark_connect_rt.testing.worker_settings import worker_settings
from tests.support.logins import login_settings
from tests.unit.rest.fake_herder import FakeHerder

ANN = "Basic " + base64.b64encode(b"ann:secret").decode()
Started = Callable[..., str]


@pytest.fixture
def started() -> Iterator[Started]:
    apis: list[RestApi] = []

    def start(settings: Mapping[str, str] = {}) -> str:
        (port,) = free_ports(1)
        listeners = {"listeners": f"http://127.0.0.1:{port}", **settings}
        apis.append(RestApi(worker_settings(listeners), FakeHerder(), bundled_plugins(), lambda: 0, environment={}))
        apis[-1].start()
        return f"http://127.0.0.1:{port}"

    yield start
    for api in apis:
        api.stop()


def get(url: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers=headers, trust_env=False, timeout=20)


@pytest.fixture
def login(tmp_path: Path) -> dict[str, str]:
    return login_settings(tmp_path, {"ann": "secret"})


def test_it_is_served_next_to_the_api_unless_switched_off(started: Started) -> None:
    assert get(started() + "/console/loggers").status_code == 200
    assert get(started({"connectrt.console.enabled": "false"}) + "/console/").status_code == 404


def test_a_login_guards_pages_files_and_actions_and_browsers_are_asked_for_it(
    started: Started, login: dict[str, str]
) -> None:
    url = started(login)
    for path in ("/console", "/console/loggers", "/console/static/console.css", "/console/alive"):
        refused = get(url + path)
        assert (refused.status_code, refused.headers["www-authenticate"].partition(" ")[0]) == (401, "Basic")
    assert "www-authenticate" not in get(url + "/connectors").headers  # as Java's
    assert get(url + "/console/loggers", Authorization=ANN).status_code == 200
    posted = httpx.post(url + "/console/selection/delete", data={"name": "src"}, trust_env=False)
    assert posted.status_code == 401


def test_console_moves_with_admin_and_calls_the_api_with_the_login_of_the_browser(
    started: Started, login: dict[str, str]
) -> None:
    (admin,) = free_ports(1)
    url = started({**login, "admin.listeners": f"http://127.0.0.1:{admin}"})
    assert get(url + "/console/", Authorization=ANN).status_code == 404
    aside = f"http://127.0.0.1:{admin}/console"
    assert get(f"{aside}/loggers").status_code == 200  # of /admin, which no extension guards there, as in Java
    refused = get(f"{aside}/new")  # of /connector-plugins
    assert (refused.status_code, "www-authenticate" in refused.headers) == (401, True)
    assert get(f"{aside}/new", Authorization=ANN).status_code == 200
    assert get(f"http://127.0.0.1:{admin}/connectors", Authorization=ANN).status_code == 404


def test_nowhere_where_admin_is_nowhere(started: Started) -> None:
    assert get(started({"admin.listeners": ""}) + "/console/").status_code == 404


def test_a_stopping_worker_waits_for_no_open_page() -> None:
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    api = RestApi(worker_settings({"listeners": url}), FakeHerder(), bundled_plugins(), lambda: 0, environment={})
    api.start()
    with httpx.stream("GET", f"{url}/console/connectors/src/stream", trust_env=False, timeout=20) as answer:
        assert answer.status_code == 200
        began = time.monotonic()
        api.stop()
        assert time.monotonic() - began < 3

"""One Chromium, one group of workers, one stand-in for all tests of the folder; a page for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka, free_ports
from spark_connect_rt.app.rest.console_app import Console
from spark_connect_rt.rest.server import RestServer
from tests.browser.chromium import chromium
from tests.browser.real_group import RealGroup, real_group
from tests.browser.tab import Tab
from tests.support.management_stand_in.app import StandIn

# In a container of root's there is no sandbox for it to use; the pages are our own.
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="package")
def group(tmp_path_factory: pytest.TempPathFactory, broker: EmbeddedKafka) -> Iterator[RealGroup]:
    """Two real workers with connectors ``lines`` (source), ``lines-out`` (sink), ``broken`` (a task FAILED)."""
    with real_group(tmp_path_factory.mktemp("console"), broker.bootstrap_servers) as started:
        started.source("lines")
        started.sink("lines-out", "lines")
        started.failing("broken", "lines")
        started.first.rest.await_states("lines", "RUNNING", ["RUNNING"])
        started.first.rest.await_states("broken", "RUNNING", ["FAILED"])
        yield started


class Served:
    """The console over a fresh stand-in, on a port."""

    def __init__(self) -> None:
        self.group, self.console, (port,) = StandIn(), Console(), free_ports(1)
        self.console.asks(self._api)
        self._server = RestServer(self.console.in_front_of(self._api), "127.0.0.1", port)
        self.url = f"http://127.0.0.1:{port}"
        self._server.start()

    async def _api(self, scope: object, receive: object, send: object) -> None:
        await self.group.app(scope, receive, send)  # type: ignore[arg-type]

    def stop(self) -> None:
        self.console.close()
        self._server.stop()


@pytest.fixture(scope="package")
def _served() -> Iterator[Served]:
    served = Served()
    yield served
    served.stop()


@pytest.fixture
def stand_in(_served: Served) -> StandIn:
    """The content behind ``quick``, fresh for each test."""
    _served.group = StandIn()
    return _served.group


Tabs = Callable[[str], Tab]


@pytest.fixture
def tabs(browser: Browser) -> Iterator[Tabs]:
    """Opens further tabs, each in a context of its own: ``tabs(url)``."""
    opened: list[Tab] = []

    def open_one(url: str) -> Tab:
        opened.append(Tab(browser, url))
        return opened[-1]

    yield open_one
    for window in opened:
        window.close()


@pytest.fixture(scope="package")
def _tab(browser: Browser) -> Iterator[Tab]:
    tab = Tab(browser, "")
    yield tab
    tab.close()


@pytest.fixture
def quick(_tab: Tab, _served: Served, stand_in: StandIn) -> Iterator[Tab]:
    """A tab over the stand-in; the same one for each test, cleared."""
    _tab.url = _served.url
    yield _tab
    _tab.clear()


@pytest.fixture
def tab(_tab: Tab, group: RealGroup) -> Iterator[Tab]:
    """A tab over the first worker of the real group; the same one for each test, cleared."""
    _tab.url = group.first.rest.url
    yield _tab
    _tab.clear()

"""Real listeners over a herder that answers from memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.rest.server import RestServer
from tests.unit.rest.fake_herder import FakeHerder


@pytest.fixture
def herder() -> FakeHerder:
    return FakeHerder()


@pytest.fixture
def start(herder: FakeHerder) -> Iterator[Callable[..., RestServer]]:
    """Start a server; what it is given goes to it."""
    started: list[RestServer] = []

    def begin(**named: int) -> RestServer:
        server = RestServer(create_app(herder), "127.0.0.1", 0, **named)  # type: ignore[arg-type]
        server.start()
        started.append(server)
        return server

    yield begin
    for server in started:
        server.stop()

"""A REST server that ends unasked is told; one that never came up says why (and is not called a taken port)."""

from __future__ import annotations

import threading

import pytest

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.base.supervision import SupervisedPart
from spark_connect_rt.errors import EXIT_PART_FAILED, StartupError
from spark_connect_rt.rest.server import RestServer
from tests.unit.rest.fake_herder import FakeHerder


def _server(heard: list[tuple[SupervisedPart, str]], told: threading.Event) -> RestServer:
    def report(part: SupervisedPart, why: BaseException | str) -> None:
        heard.append((part, str(why)))
        told.set()

    return RestServer(create_app(FakeHerder()), "127.0.0.1", 0, report=report)


def test_a_server_whose_thread_ends_is_reported() -> None:
    heard: list[tuple[SupervisedPart, str]] = []
    told = threading.Event()
    server = _server(heard, told)
    server.start()

    async def fail(counter: int) -> bool:
        raise MemoryError(f"nothing left at {bool(counter)}")

    assert server._server is not None
    server._server.on_tick = fail  # type: ignore[method-assign]
    assert told.wait(10)
    assert [part for part, _ in heard] == [SupervisedPart.REST]
    server.stop()


def test_a_stopped_server_is_not_reported() -> None:
    heard: list[tuple[SupervisedPart, str]] = []
    server = _server(heard, threading.Event())
    server.start()
    server.stop()
    assert heard == []


def test_a_server_that_does_not_come_up_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("no event loop")

    monkeypatch.setattr("uvicorn.Server.run", fail)
    server = _server([], threading.Event())
    with pytest.raises(StartupError, match="did not start: no event loop") as refused:
        server.start()
    assert refused.value.exit_code == EXIT_PART_FAILED
    server.stop()

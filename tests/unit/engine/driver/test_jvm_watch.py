"""The session's JVM is watched through its gateway's socket; what cannot be made or is gone is told once."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from spark_connect_rt.base.supervision import SupervisedPart
from spark_connect_rt.engine.driver import spark_session as watch
from spark_connect_rt.engine.driver.control_channel import listen_unix
from spark_connect_rt.engine.driver.spark_session import CONTEXT_STOPPED, JVM_ENDED, BackgroundSession

LIMIT_S = 10.0


class Heard:
    """What was reported."""

    def __init__(self) -> None:
        self.news: list[tuple[SupervisedPart, str]] = []
        self.told = threading.Event()

    def report(self, part: SupervisedPart, why: BaseException | str) -> None:
        self.news.append((part, str(why)))
        self.told.set()


class Gateway:
    """A JVM's gateway as far as its socket goes."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.stopped = False
        self.ended_by: list[str] = []
        address, port = self._listener.getsockname()
        context = SimpleNamespace(
            _gateway=SimpleNamespace(gateway_parameters=SimpleNamespace(address=address, port=port)),
            _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: self.stopped)),
        )
        self.session: Any = SimpleNamespace(_sc=context, stop=lambda: self.ended_by.append("stop"))
        self.session._jvm = SimpleNamespace(SparkSession=SimpleNamespace(setActiveSession=lambda _: None))
        self.session._jsparkSession = None

    def accept(self) -> socket.socket:
        self._listener.settimeout(LIMIT_S)
        return self._listener.accept()[0]

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setattr(watch, "LOOK_EVERY_S", 0.05)
    with contextlib.closing(Gateway()) as gateway:
        yield gateway


def test_a_jvm_that_ends_is_reported_and_not_awaited(gateway: Gateway) -> None:
    heard = Heard()
    background = BackgroundSession(lambda: gateway.session, heard.report)
    gateway.accept().close()  # as the kernel closes what a killed process held
    assert heard.told.wait(LIMIT_S)
    assert heard.news == [(SupervisedPart.SPARK, JVM_ENDED)]
    background.close(stops=True)
    assert gateway.ended_by == []  # no call into a dead JVM


def test_a_context_stopped_by_other_code_is_reported(gateway: Gateway) -> None:
    heard = Heard()
    BackgroundSession(lambda: gateway.session, heard.report)
    line = gateway.accept()
    assert not heard.told.wait(0.2)
    gateway.stopped = True
    assert heard.told.wait(LIMIT_S)
    assert heard.news == [(SupervisedPart.SPARK, CONTEXT_STOPPED)]
    line.close()


def test_a_requested_end_is_not_reported(gateway: Gateway) -> None:
    heard = Heard()
    background = BackgroundSession(lambda: gateway.session, heard.report)
    line = gateway.accept()
    background.get(LIMIT_S)
    background.close(stops=True)
    assert gateway.ended_by == ["stop"]
    line.close()
    assert not heard.told.wait(0.3)


def test_a_session_that_cannot_be_created_is_reported() -> None:
    heard = Heard()

    def failing() -> Any:
        raise RuntimeError("no such master")

    background = BackgroundSession(failing, heard.report)
    assert heard.told.wait(LIMIT_S)
    assert heard.news == [(SupervisedPart.SPARK, "the session cannot be created: RuntimeError: no such master")]
    background.close(stops=True)  # raises nothing


def test_a_control_channel_whose_thread_ends_is_reported(tmp_path: Path) -> None:
    heard = Heard()
    channel = listen_unix(str(tmp_path / "c.sock"), 6_000)
    channel.on_thread_end = lambda why: heard.report(SupervisedPart.CHANNEL, why)
    failing: Callable[[], None] = _raise
    channel._watch_time = failing  # type: ignore[method-assign]
    channel._wake_out.send(b"w")
    assert heard.told.wait(LIMIT_S)
    assert heard.news == [(SupervisedPart.CHANNEL, "nothing left")]
    channel.close()


def test_a_closed_control_channel_is_not_reported(tmp_path: Path) -> None:
    heard = Heard()
    channel = listen_unix(str(tmp_path / "c.sock"), 6_000)
    channel.on_thread_end = lambda why: heard.report(SupervisedPart.CHANNEL, why)
    channel.close()
    assert not heard.told.is_set()


def _raise() -> None:
    raise MemoryError("nothing left")

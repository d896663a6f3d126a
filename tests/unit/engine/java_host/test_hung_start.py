"""Starts of a host: one that connects and hangs is ended and reported; what is set meanwhile reaches it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from spark_connect_rt.base.loggers import JavaLogLevels
from spark_connect_rt.engine.java_host import process
from spark_connect_rt.engine.java_host.process import JavaHostGoneError, JavaProcess
from spark_connect_rt.engine.java_host.wire import ToJava

HANGS = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); time.sleep(60)"


def test_a_host_that_connects_and_is_never_ready_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_LIMIT_S", 1.0)

    def command(path: Path) -> list[str]:
        return [sys.executable, "-c", HANGS, str(path)]

    with pytest.raises(JavaHostGoneError, match="connected but was not ready within 1 s"):
        JavaProcess(command, {}, lambda frame: None, lambda why: None)
    assert not [child for child in psutil.Process().children() if HANGS in child.cmdline()]


def test_a_level_that_is_set_while_a_host_starts_reaches_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = list[tuple[ToJava, Any]]()
    levels = JavaLogLevels()  # those of the process may hold what another test has set

    def send(self: JavaProcess, kind: ToJava, host: int, head: Any = None, data: object = ()) -> None:
        sent.append((kind, head))

    def greet(self: JavaProcess, hello: Any, until_s: float) -> None:
        assert hello["loggers"] == {"org.before": "WARN"}
        levels.set("org.meanwhile", "DEBUG")

    monkeypatch.setattr(JavaProcess, "send", send)
    monkeypatch.setattr(JavaProcess, "_greet", greet)
    monkeypatch.setattr(process, "JAVA_LOG_LEVELS", levels)
    levels.set("org.before", "WARN")
    host = JavaProcess(lambda path: [sys.executable, "-c", HANGS, str(path)], {}, lambda _: None, lambda _: None)
    try:
        assert sent == [(ToJava.LEVELS, {"org.before": "WARN", "org.meanwhile": "DEBUG"})]
        levels.set("org.later", "INFO")
        assert sent[1][1]["org.later"] == "INFO"
    finally:
        host.close(0.1)

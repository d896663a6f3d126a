"""A host that connects and then hangs is ended and reported, as one that never connects is."""

from __future__ import annotations

import sys
from pathlib import Path

import psutil
import pytest

from spark_connect_rt.java_host import process
from spark_connect_rt.java_host.process import JavaHostGoneError, JavaProcess

HANGS = "import socket, sys, time; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); time.sleep(60)"


def test_a_host_that_connects_and_is_never_ready_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "START_LIMIT_S", 1.0)

    def command(path: Path) -> list[str]:
        return [sys.executable, "-c", HANGS, str(path)]

    with pytest.raises(JavaHostGoneError, match="connected and was not ready within 1 s"):
        JavaProcess(command, {}, lambda frame: None, lambda why: None)
    assert not [one for one in psutil.Process().children() if HANGS in one.cmdline()]

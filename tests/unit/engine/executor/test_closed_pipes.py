"""A worker of Spark's daemon whose pipe was closed ends without a traceback; another error is still shown."""

from __future__ import annotations

import importlib
import socket
import sys
from types import ModuleType
from typing import Any, BinaryIO

import pytest

from spark_connect_rt.engine.executor.closed_pipes import end_quietly


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return pyspark's daemon as a module of its own, whose workers answer something."""
    monkeypatch.delitem(sys.modules, "pyspark.daemon", raising=False)
    monkeypatch.setattr(sys, "argv", ["daemon"])
    fresh = importlib.import_module("pyspark.daemon")

    def answer(_: BinaryIO, outfile: BinaryIO) -> None:
        outfile.write(b"answer")

    monkeypatch.setattr("pyspark.worker.main", answer)
    return fresh


def end_of_a_worker(daemon: Any) -> int:
    """Run a worker whose other end is closed, which it notices when it flushes."""
    ours, its = socket.socketpair()
    ours.close()
    with its:
        return int(daemon.worker(its, True))


def test_a_pipe_that_spark_closed_is_not_shown(daemon: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    end_quietly(daemon)
    end_of_a_worker(daemon)
    assert capfd.readouterr().err == ""


def test_another_error_is_shown(
    daemon: ModuleType, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    end_quietly(daemon)
    daemon.print("a fork failed", file=sys.stderr)  # type: ignore[attr-defined]
    assert capfd.readouterr().err == "a fork failed\n"

    def fails(_: BinaryIO, __: BinaryIO) -> None:
        raise ValueError("of the worker")

    monkeypatch.setattr("pyspark.worker.main", fails)
    with pytest.raises(ValueError, match="of the worker"):
        end_of_a_worker(daemon)

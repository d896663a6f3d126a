"""What config providers gave does not reach the log, in a message as in a trace; a fatal fault does."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from spark_connect_rt.app.logging_setup import set_up_logging
from spark_connect_rt.ports import hidden_values


@pytest.fixture
def as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers = []  # else they were closed
    hidden_values.remember(["S3CRET.value"])
    yield
    hidden_values.forget()
    root.handlers = handlers
    root.setLevel(level)


def test_a_secret_is_hidden_from_the_log(as_before: None, capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging({})
    try:
        raise ValueError("no route to db://u:S3CRET.value@h")
    except ValueError:
        logging.getLogger("tests.secret").exception("with %s", "S3CRET.value")
    written = capsys.readouterr().err
    assert "with [hidden]" in written
    assert "ValueError: no route to db://u:[hidden]@h" in written
    assert "S3CRET" not in written


def test_a_fault_in_a_native_library_leaves_the_stacks_of_all_threads() -> None:
    fault = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    words = f"from spark_connect_rt.app.logging_setup import set_up_logging; set_up_logging({{}}); {fault}"
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in ended.stderr
    assert "most recent call first" in ended.stderr

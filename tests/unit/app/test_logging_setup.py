"""What config providers gave does not reach the log, in a message as in a trace; a fatal fault does."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from spark_connect_rt.app.logging_setup import set_up_logging
from spark_connect_rt.base import hidden_values
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.task_logs import TASK_LOGS


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


def test_task_logs_hold_info_though_the_terminal_shows_warnings_only(
    as_before: None, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging({"connectrt.log.level": "WARNING"})
    task = ConnectorTaskId("quiet-terminal", 0)
    log = logging.getLogger("tests.life")
    log.info("task=%s starts", task)
    log.warning("task=%s waits", task)
    log.setLevel(logging.DEBUG)  # as PUT /admin/loggers does
    log.debug("task=%s looks", task)
    log.setLevel(logging.NOTSET)
    written = capsys.readouterr().err
    assert ["starts" in written, "waits" in written, "looks" in written] == [False, True, True]
    kept = [line.line.message for _, line in TASK_LOGS.lines("quiet-terminal", 0)]
    assert kept == [f"task={task} {word}" for word in ("starts", "waits", "looks")]


def test_a_topic_created_a_moment_later_is_not_an_error_of_the_log(
    as_before: None, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging({})
    log = logging.getLogger("aiokafka.cluster")
    log.error("Topic %s not found in cluster metadata", "lines")
    log.error("Topic %s is not authorized for this client", "secret")
    written = capsys.readouterr().err
    assert "not found" not in written
    assert "secret is not authorized" in written


def test_a_fault_in_a_native_library_leaves_the_stacks_of_all_threads() -> None:
    fault = "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"
    words = f"from spark_connect_rt.app.logging_setup import set_up_logging; set_up_logging({{}}); {fault}"
    ended = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in ended.stderr
    assert "most recent call first" in ended.stderr

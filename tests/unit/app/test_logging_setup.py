"""What config providers gave does not reach the log, in a message as in a trace."""

from __future__ import annotations

import logging
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

"""A thread beside the connectors: its errors end nothing, and /health says when it hangs or is gone."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from spark_connect_rt.base import supervision
from spark_connect_rt.base.supervision import Repeated, Supervisor
from tests.contract.compacted_log_contract import until


def rounds(work: Callable[[], None]) -> Repeated:
    return Repeated("counter", work, lambda: 0.001, "nothing is counted")


def test_error_of_a_round_is_logged_and_the_next_round_follows(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    def work() -> None:
        done.append(1)
        if len(done) == 1:
            raise ValueError("once")

    repeated = rounds(work)
    repeated.start()
    until(lambda: len(done) > 2)
    assert (repeated.trouble(), "nothing is counted, continuing with the next round" in caplog.text) == ("", True)
    repeated.stop(10)
    assert (repeated.stopped, repeated.trouble()) == (True, "")


def test_a_round_that_hangs_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervision, "STUCK_S", 0.05)
    hangs, supervisor = threading.Event(), Supervisor()
    repeated = rounds(lambda: assert_set(hangs))
    supervisor.watch(lambda: "")
    supervisor.watch(repeated.trouble)
    assert supervisor.troubles() == ""
    repeated.start()
    until(lambda: "counter has been busy with one round for" in supervisor.troubles())
    hangs.set()
    until(lambda: supervisor.troubles() == "")
    repeated.stop(10)


def assert_set(event: threading.Event) -> None:
    assert event.wait(30)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    def work() -> None:
        raise KeyboardInterrupt

    caplog.set_level(logging.CRITICAL)
    repeated = rounds(work)
    repeated.start()
    until(lambda: repeated.trouble() == "the thread counter ended: nothing is counted")
    repeated.stop()

"""The first signal asks, the second one ends the process at once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
from spark_connect_rt.app.signals import stop_asked
asked = stop_asked()
print("ready", flush=True)
asked.wait()
print("stopping", flush=True)
while True:
    asked.__class__().wait(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_a_stop_that_takes_too_long(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.stdout.readline() == "stopping\n"
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(20) == 128 + number
        assert "for the second time" in process.stderr.read()

"""The first signal asks, the second one ends the process at once."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PROGRAM = """
from spark_connect_rt.app.serving import stop_asked
asked = stop_asked()
print("ready", flush=True)
asked.wait()
print("stopping", flush=True)
while True:
    asked.__class__().wait(0.2)  # a signal just before a wait is seen to behind it
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_second_signal_ends_a_stop_that_takes_too_long(number: signal.Signals) -> None:
    with started(PROGRAM) as process:
        process.send_signal(number)
        assert line(process) == "stopping"
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(20) == 128 + number
        assert process.stderr is not None
        assert "a second time" in process.stderr.read()


def test_a_closed_terminal_asks_once_however_often_it_says_so() -> None:
    with started(PROGRAM) as process:
        for _ in range(3):
            process.send_signal(signal.SIGHUP)
        assert line(process) == "stopping"
        process.send_signal(signal.SIGTERM)  # the first of its kind: asks, too
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM


def test_nohup_keeps_a_worker_up() -> None:
    with started(f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{PROGRAM}") as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGTERM)
        assert line(process) == "stopping"
        process.kill()


TO_ANOTHER_THREAD = """
import signal, threading
from spark_connect_rt.app.serving import stop_asked
asked = stop_asked()
napping = threading.Thread(target=threading.Event().wait, daemon=True)
napping.start()
threading.Timer(0.3, lambda: signal.pthread_kill(napping.ident, signal.SIGTERM)).start()
print("ready", flush=True)
asked.wait()
print("stopping", flush=True)
"""


def test_a_signal_that_the_kernel_hands_to_another_thread_is_noticed() -> None:
    with started(TO_ANOTHER_THREAD) as process:
        assert line(process) == "stopping"
        process.kill()


IN_THE_MIDDLE = """
import os, signal, sys
from spark_connect_rt.app.serving import stop_asked
asked = stop_asked(second_ends=False)
print("ready", flush=True)

def at_each_line(frame, event, argument):
    signal.raise_signal(signal.SIGTERM)
    return at_each_line

sys.settrace(at_each_line)
asked.wait(0.1)
asked.set()
sys.settrace(None)
print("stopping", flush=True)
"""


def test_a_signal_in_the_middle_of_a_wait_does_not_wait_for_itself() -> None:
    with started(IN_THE_MIDDLE) as process:
        assert line(process) == "stopping"


UNWINDS = """
import signal
from spark_connect_rt.app.serving import unwind_when_asked
unwind_when_asked()
try:
    print("ready", flush=True)
    signal.pause()
finally:
    signal.raise_signal(signal.SIGHUP)  # the shell's, after the kernel's
    print("stopped", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_run_is_unwound_to_its_end(number: signal.Signals) -> None:
    with started(UNWINDS) as process:
        process.send_signal(number)
        assert line(process) == "stopped"
        assert process.wait(20) == 128 + number


IMPORTS = """
import sys
from spark_connect_rt.app.serving import unwind_when_asked
sys.path.insert(0, sys.argv[1])
unwind_when_asked()
try:
    import slow
    sys.stdin.read()
finally:
    print("stopped", flush=True)
"""
SLOW = """
import sys
print("ready", flush=True)
sys.stdin.readline()
print("imported", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_import_is_not_torn(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    with started(IMPORTS, str(tmp_path)) as process:
        process.send_signal(number)
        assert process.stdin is not None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.2)
        process.stdin.write("\n")
        process.stdin.flush()
        assert [line(process), line(process)] == ["imported", "stopped"]
        assert process.wait(20) == (-number if number == signal.SIGINT else 128 + number)


@contextlib.contextmanager
def started(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program for which a closed terminal is what it is without ``nohup``, however these tests were started."""
    as_by_default = "import signal; signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
    with subprocess.Popen(
        [sys.executable, "-c", as_by_default + program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert line(process) == "ready"
            yield process
        finally:
            process.kill()  # else its end is waited for, for ever where a test failed


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip()

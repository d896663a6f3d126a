"""Runs another program; ends it, with all it started and its files, when the process that started this one ends.

``python guard.py PARENT_PID PROGRAM ARGUMENT...``, run by its path, in a separate session; imports nothing of ours. A
task's process that is killed has no time to stop its children. It ends as its program does: with its exit code or by
its signal. A SIGTERM to the group reaches the program alone, which can then end in order.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PARENTS_END_S = 0.3


def _on_parents_end(signal_number: int, parent_pid: int) -> None:
    """Have the system send this process a signal when its parent ends (Linux).

    Elsewhere the process ends at its next write, when the pipe has no reader.
    """
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal_number)
    if os.getppid() != parent_pid:  # it ended before that
        os.kill(os.getpid(), signal_number)


def _end_all(*_: object) -> None:
    """Remove the folder this file is in, which holds the program's secrets, and end the group, whatever happens."""
    # A parent of several threads that is killed signals once for each: the second signal would interrupt the first
    # one's work.
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        shutil.rmtree(os.path.dirname(os.path.abspath(__file__)), ignore_errors=True)
    finally:
        os.killpg(0, signal.SIGKILL)


def _end_with_parent(parent_pid: int) -> None:
    """End all if the parent ends just now: its program may fail by that before the system's signal comes."""
    end_s = time.monotonic() + _PARENTS_END_S
    while time.monotonic() < end_s:
        if os.getppid() != parent_pid:
            _end_all()
        time.sleep(0.01)


def main() -> None:
    """Start the program, wait for its end, end as it did."""
    signal.signal(signal.SIGHUP, _end_all)
    signal.signal(signal.SIGTERM, lambda *_: None)
    _on_parents_end(signal.SIGHUP, int(sys.argv[1]))
    own_pid = os.getpid()
    program_pid = os.fork()
    if program_pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _on_parents_end(signal.SIGKILL, own_pid)
        os.execv(sys.argv[2], sys.argv[2:])
    for pipe in (1, 2):
        os.close(pipe)  # which only the program itself may end
    _, status = os.waitpid(program_pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code != 0:
        _end_with_parent(int(sys.argv[1]))
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(own_pid, -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    main()

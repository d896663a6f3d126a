"""Becomes another program, which ends with the process that started it. Run by its path; imports nothing of ours.

``python guard.py PARENT_PID PROGRAM ARGUMENT...``: a task's process that is killed has no time to stop its children.
"""

from __future__ import annotations

import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _end_with_parent(parent_pid: int) -> None:
    """Have the system kill this process when its parent ends (Linux; elsewhere a write to nobody ends it)."""
    if sys.platform != "linux":
        return
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:  # it ended before that
        sys.exit(1)


if __name__ == "__main__":
    _end_with_parent(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])

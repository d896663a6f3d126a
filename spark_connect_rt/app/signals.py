"""SIGTERM and SIGINT: the first asks the worker to stop in order, the second ends the process as it stands."""

from __future__ import annotations

import os
import signal
import sys
import threading
from types import FrameType

SIGNAL_EXIT_BASE = 128  # a shell's exit code for a process that a signal ended


def stop_asked() -> threading.Event:
    """Return what the first signal sets. Main thread only.

    The second signal is for whoever will not wait for the drain: nothing more is committed or left; the group finds
    out by the session timeout, as after kill -9.
    """
    asked = threading.Event()

    def heard(number: int, _frame: FrameType | None) -> None:
        if not asked.is_set():
            asked.set()
            return
        # No logging: the signal may have come in the middle of it, holding its lock.
        sys.stderr.write(f"signal {number} for the second time: the process ends at once\n")
        sys.stderr.flush()
        os._exit(SIGNAL_EXIT_BASE + number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, heard)
    return asked

"""What ``ps`` shows of a forked process: else it would show as the one it was forked from.

The kernel shows the memory that held the arguments of the last exec; it is overwritten in place, so a title is cut to
that length.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

_ARG_START = 48  # field of /proc/PID/stat, and the next one: see proc(5)
_PR_SET_NAME = 15  # of linux/prctl.h


def set_title(title: str) -> None:
    """Show ``title``, words separated by spaces, as this process's command line, the first as its name. Linux only."""
    words = title.split(" ")
    with contextlib.suppress(OSError, ValueError, IndexError):
        name = os.path.basename(words[0]).encode()[:15]
        ctypes.CDLL(None).prctl(_PR_SET_NAME, ctypes.c_char_p(name), 0, 0, 0)
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        start, end = (int(fields[number - 3]) for number in (_ARG_START, _ARG_START + 1))
        if 0 < start < end:
            shown = "\0".join(words).encode()[: end - start - 1]
            ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)

"""Gives back to the system what work has freed: malloc keeps free pages between those in use, for the next burst.

Fifty tasks of a slot that had read 1 MB each kept 90 MiB, 12 after this. Owns when it is worth its price: while
nothing moves, and now and then under load if much has gathered. A check takes 20 µs of CPU, a return 1-6 ms.
"""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Callable

import pyarrow as pa

_MIB = 1 << 20
AT_REST_BYTES = 8 * _MIB  # grown by so much since the last return
AT_WORK_BYTES = 16 * _MIB
AT_WORK_APART_S, AT_WORK_MOST_APART_S = 2.0, 64.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class FreedMemory:
    """Asked once a second by one thread of a slot's process."""

    def __init__(
        self, resident_bytes: Callable[[], int] | None = None, give_back: Callable[[], None] | None = None
    ) -> None:
        """Take what measures the process and what returns free memory; by default this process, glibc and Arrow."""
        self._resident_bytes = resident_bytes or resident
        self._give_back = give_back or _giver()
        self._settled_bytes = self._least_bytes = self._resident_bytes()  # since the last return at rest, and since any
        self._moved = 0
        self._apart_s = AT_WORK_APART_S
        self._not_before_s = -math.inf

    def look(self, now_s: float, moved: int) -> None:
        """Return memory if it is time. ``moved``: a count that rises while there is work; ``now_s``: monotonic."""
        at_rest, self._moved = moved == self._moved, moved
        before_bytes = self._resident_bytes()
        self._settled_bytes = min(self._settled_bytes, before_bytes)
        self._least_bytes = min(self._least_bytes, before_bytes)
        if at_rest:
            if before_bytes - self._settled_bytes >= AT_REST_BYTES:
                self._return()
                self._settled_bytes = self._least_bytes
            return
        grown_bytes = before_bytes - self._least_bytes
        if grown_bytes >= AT_WORK_BYTES and now_s >= self._not_before_s:
            self._return()
            was_free = before_bytes - self._least_bytes >= grown_bytes / 2  # else most of what has grown is in use
            self._apart_s = AT_WORK_APART_S if was_free else min(2 * self._apart_s, AT_WORK_MOST_APART_S)
            self._not_before_s = now_s + self._apart_s

    def _return(self) -> None:
        self._give_back()
        self._least_bytes = self._resident_bytes()


def resident() -> int:
    """Return how many bytes of this process are in memory; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def _giver() -> Callable[[], None]:
    """Return what gives free memory back: Arrow's allocator, and malloc where it is glibc's."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform.startswith("linux") else None

    def give_back() -> None:
        pa.default_memory_pool().release_unused()
        if trim is not None:
            trim(0)

    return give_back

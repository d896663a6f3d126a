"""Keeps a client library's log short: one that cannot connect says so some twenty times a second, in the same words."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

EACH_S = 30.0
MOST = 1_000  # different lines that are remembered; then all are forgotten
_NUMBERS = re.compile(r"\d+")


class RepeatedLines(logging.Filter):
    """Lets a line pass once in so many seconds, numbers aside; the next one says how many were left out. Any thread."""

    def __init__(self, each_s: float = EACH_S, clock_s: Callable[[], float] = time.monotonic) -> None:
        """Take the time between two lines that are alike, s."""
        super().__init__()
        self._each_s = each_s
        self._clock_s = clock_s
        self._seen: dict[str, tuple[float, int]] = {}  # line -> when it passed last, how many were left out since

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the line is to be written."""
        text, now_s = record.getMessage(), self._clock_s()
        alike = _NUMBERS.sub("#", text)
        passed_s, left_out = self._seen.get(alike, (now_s - self._each_s, 0))
        if now_s - passed_s < self._each_s:
            self._seen[alike] = (passed_s, left_out + 1)
            return False
        if len(self._seen) >= MOST:
            self._seen.clear()
        self._seen[alike] = (now_s, 0)
        if left_out:
            record.msg, record.args = "%s (and %d more like it since the last one)", (text, left_out)
        return True

"""Time, as an argument."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall clock and monotonic clock, both ms."""

    def now_ms(self) -> int:
        """Return ms since the epoch."""

    def monotonic_ms(self) -> int:
        """Return ms of a clock that never goes back."""


class SystemClock:
    """Port Clock by the machine's own clocks."""

    def now_ms(self) -> int:
        """See Clock."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """See Clock."""
        return time.monotonic_ns() // 1_000_000


SYSTEM_CLOCK = SystemClock()

"""The machine's clocks (port Clock)."""

from __future__ import annotations

import time


class SystemClock:
    """Wall clock and monotonic clock of this machine."""

    def now_ms(self) -> int:
        """Return ms since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return ms of a clock that never goes back."""
        return time.monotonic_ns() // 1_000_000

"""Time, as an argument."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Wall clock and monotonic clock, both ms."""

    def now_ms(self) -> int:
        """Return ms since the epoch."""

    def monotonic_ms(self) -> int:
        """Return ms of a clock that never goes back."""

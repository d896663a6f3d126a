"""How many records a test source may have sent by now (Java ``ThroughputThrottler``). Pure."""

from __future__ import annotations

LONGEST_WAIT_MS = 100


def records_allowed(throughput: float, elapsed_ms: int) -> int | None:
    """Return how many records may be sent in the first ``elapsed_ms``; None: any number.

    The first is sent at once. ``throughput`` is records/s: 0 sends no second one, below 0 is no limit.
    """
    return None if throughput < 0 else 1 + int(throughput * max(0, elapsed_ms) / 1000)


def wait_for_next_ms(throughput: float, elapsed_ms: int, sent: int) -> int:
    """Return how long to wait before another record is allowed, ms: at least 1, at most ``LONGEST_WAIT_MS``."""
    if throughput <= 0:
        return LONGEST_WAIT_MS if throughput == 0 else 1
    due_ms = int(sent * 1000 / throughput) - elapsed_ms
    return min(LONGEST_WAIT_MS, max(1, due_ms))

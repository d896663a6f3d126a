"""How many records a test source may have sent by now (Java ``ThroughputThrottler``). Pure."""

from __future__ import annotations

import math

LONGEST_WAIT_MS = 100
HANDOVER_MS = 500  # between handovers at low rates: each costs 5 to 6 ms of CPU time, however few its records
_SOON_MS, _SOON_RECORDS = 100, 1_000  # so many records are worth a handover sooner, but not before 100 ms


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


def wait_for_handover_ms(throughput: float, elapsed_ms: int, sent: int, handed_ms: int, most: int) -> int:
    """Return how long to wait until records are worth a poll's costs, in ms: 0 if they are due now, at most 500.

    A poll costs the same for 1 record as for 50. Records therefore wait until ``HANDOVER_MS`` have passed since the
    last handover, or until 1,000 records are due and 100 ms have passed, or until ``most`` records are due. The rate
    over time stays exact.

    Args:
        throughput: records/s, as of ``records_allowed``.
        sent: the records handed over so far.
        handed_ms: ``elapsed_ms`` of the last handover. A value of -500 or less means: none yet.
        most: how many records one poll may return.
    """
    if throughput < 0:
        return 0
    if throughput == 0:
        return HANDOVER_MS if sent else 0
    first_ms, last_ms = (math.ceil((sent + more) * 1000 / throughput) for more in (0, max(0, most - 1)))
    apart_ms = min(HANDOVER_MS, max(_SOON_MS, int(_SOON_RECORDS * 1000 / throughput)))
    due_ms = min(last_ms, max(first_ms, handed_ms + apart_ms))
    return min(HANDOVER_MS, max(0, due_ms - elapsed_ms))

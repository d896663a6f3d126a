"""How often a task polls a file that grows.

Frequent polls deliver single lines quickly. But each batch has a fixed cost, whatever its number of lines, and a task
that finds lines at every poll would send dozens of tiny batches a second. So batches are rationed: some in a row at
once, few a second in the long run, half as many where several tasks share the process. Rationed tasks poll at the same
instants. So the batches of one slot's tasks go through Spark, the driver and the offset topic together.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable

RECENT_LOOKS = 100  # after data so many looks that find none, then the task settles down
MANY, RECENT_LOOKS_OF_MANY = 100, 5  # threads: of some fifty tasks, whose polls would take the processor from new ones
EAGER_WAIT_MS, CALM_WAIT_MS = 20, 100
RESTS_AFTER_S = 20.0  # without data; then it polls at the instants that rationed tasks share
CROWD = 500  # threads of a process, two a task: with more, those that rest look half as often; so 1,000 cost little
BATCHES_AT_ONCE = 10.0
BATCHES_PER_S = 2.0  # for long
COMPANY, IN_COMPANY_PER_S = 12, 1.0  # threads: of some five tasks; then as often as Java's task looks


class LookPace:
    """The waits of one task: a token bucket.

    It waits only after a poll that found nothing, never while it is behind.
    """

    def __init__(
        self, now_s: Callable[[], float] = time.monotonic, neighbours: Callable[[], int] = threading.active_count
    ) -> None:
        """``now_s`` is a monotonic clock, ``neighbours`` counts those that share the processor: a thread is a task."""
        self._now_s = now_s
        self._neighbours = neighbours
        self._eager_looks = 0  # left
        self._batches_left, self._counted_s = BATCHES_AT_ONCE, now_s()
        self._per_s = BATCHES_PER_S  # read once a batch, not at each poll of a thousand tasks
        self._caught_up = False
        self._found_s = now_s()

    def looked(self, found: bool, caught_up: bool = False) -> None:
        """Note a poll. ``caught_up``: it returned a little, and that was all there was."""
        self._caught_up = caught_up
        if not found:
            self._eager_looks = max(0, self._eager_looks - 1)
            return
        neighbours = self._neighbours()
        self._eager_looks = RECENT_LOOKS if neighbours <= MANY else RECENT_LOOKS_OF_MANY
        self._found_s = now_s = self._now_s()
        gained = (now_s - self._counted_s) * self._per_s
        self._per_s = BATCHES_PER_S if neighbours <= COMPANY else IN_COMPANY_PER_S
        self._batches_left = max(0.0, min(BATCHES_AT_ONCE, self._batches_left + gained) - 1.0)
        self._counted_s = now_s

    @property
    def calm(self) -> bool:
        """Return whether the last polls found nothing, so that another thread may check for the task."""
        return not self._eager_looks

    def rests(self) -> bool:
        """Return, once after a poll that caught up, whether to wait although it found data: batches are rationed."""
        caught_up, self._caught_up = self._caught_up, False
        return caught_up and self._missing_ms() > EAGER_WAIT_MS

    def wait_ms(self) -> int:
        """Return how long to wait, ms, after a poll that found nothing, or a rest."""
        if not self._eager_looks:
            now_s = self._now_s()
            if now_s - self._found_s < RESTS_AFTER_S:
                return CALM_WAIT_MS
            return next_shared_ms(now_s * 1000, 1 if self._neighbours() <= CROWD else 2)
        missing_ms = self._missing_ms()
        if missing_ms <= EAGER_WAIT_MS:
            return EAGER_WAIT_MS
        return max(EAGER_WAIT_MS, shared_wait_ms(self._now_s() * 1000, missing_ms, 1000 / self._per_s))

    def _missing_ms(self) -> float:
        """Return the time until one more batch may be sent; below 0: it may."""
        gained = (self._now_s() - self._counted_s) * self._per_s
        return 1000 * (1.0 - self._batches_left - gained) / self._per_s


def shared_wait_ms(now_ms: float, wait_ms: float, apart_ms: float = 1000 / BATCHES_PER_S) -> int:
    """Return the wait that ends nearest to ``wait_ms`` at one of the instants that all tasks share, so far apart."""
    return math.ceil(round((now_ms + wait_ms) / apart_ms) * apart_ms - now_ms)


def next_shared_ms(now_ms: float, each: int = 1) -> int:
    """Return the wait to the next of the instants that all tasks share, or the one after if that is close.

    Args:
        now_ms: of the clock that all of them have.
        each: wait for so many of these instants, not for one.
    """
    return shared_wait_ms(now_ms, each * 1000 / BATCHES_PER_S)

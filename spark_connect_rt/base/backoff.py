"""How long to wait before the next try: exponential, with an upper bound and jitter.

Follows Java's ``org.apache.kafka.common.utils.ExponentialBackoff``: a thousand tasks that failed at the same instant do
not try again at the same instant. Pure: chance is an argument.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

JITTER = 0.2  # of Kafka's clients (CommonClientConfigs.RETRY_BACKOFF_JITTER)
_EXPONENT_MOST = 60  # beyond it a wait of any unit has long reached its bound


@dataclass(frozen=True, slots=True)
class Backoff:
    """The waits between tries. ``first`` and ``longest`` are in one unit of the caller's choice, as is the answer.

    Example:
        >>> Backoff(first=100, longest=1_000).wait(failures=3, chance=0.5)
        400.0
    """

    first: float
    longest: float
    jitter: float = JITTER
    factor: float = 2.0

    def wait(self, failures: int, chance: float) -> float:
        """Return how long to wait after so many failures in a row, 1 being the first. Never more than ``longest``.

        ``chance`` is a number from 0 to 1, as ``random.random()`` gives it. It spreads the wait evenly from
        ``1 - jitter`` to ``1 + jitter`` times its exact length; 0.5 is the exact length.
        """
        exact = min(self.longest, self.first * float(self.factor ** min(max(0, failures - 1), _EXPONENT_MOST)))
        return min(self.longest, exact * (1 + self.jitter * (2 * chance - 1)))


# Deterministic jitter: spreads events that would happen at one instant, the same way each time it is called.
#
# For decisions that a tick makes and a simulation repeats.


def chance_of(*names: object) -> float:
    """Return a number from 0 to below 1 that the names' texts determine: a worker, an item, a count of attempts.

    Example:
        >>> 0 <= chance_of("worker-1:8083", "orders", 3) < 1
        True
    """
    return zlib.crc32("\0".join(map(str, names)).encode("utf-8", "surrogatepass")) / 2**32

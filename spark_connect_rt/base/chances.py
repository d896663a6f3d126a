"""Chance without a source of it: spreads what would happen at one instant, the same way each time it is asked.

For decisions that a tick makes and a simulation repeats.
"""

from __future__ import annotations

import zlib


def chance_of(*names: object) -> float:
    """Return a number from 0 to below 1 that the names' texts determine: a worker, an item, a count of attempts.

    Example:
        >>> 0 <= chance_of("worker-1:8083", "orders", 3) < 1
        True
    """
    return zlib.crc32("\0".join(map(str, names)).encode("utf-8", "surrogatepass")) / 2**32

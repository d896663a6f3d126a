"""Load over a day, made up: records a second by the second, the same each time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

DAY_S = 24 * 3600
Curve = Callable[[int], float]


def office_day(seed: int, peak: float = 20_000.0) -> Curve:
    """Return a day that is quiet at night, full at noon, with bursts of minutes and noise."""
    chance = random.Random(seed)
    bursts = [(chance.randrange(DAY_S), chance.randrange(120, 900), chance.uniform(0.1, 0.6)) for _ in range(12)]
    noise = [chance.uniform(0.9, 1.1) for _ in range(997)]

    def at(second: int) -> float:
        base = 0.05 + 0.95 * max(0.0, math.sin((second / DAY_S - 0.25) * 2 * math.pi)) ** 2
        burst = sum(height for start, length, height in bursts if start <= second < start + length)
        return peak * (base + burst) * noise[second % len(noise)]

    return at


def steady(rate: float, noise: float = 0.15) -> Curve:
    """Return a load that stays, with noise."""
    return lambda second: rate * (1 + noise * math.sin(second * 1.7) * math.cos(second * 0.31))

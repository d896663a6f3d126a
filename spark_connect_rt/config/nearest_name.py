"""Which known name a misspelled one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable

_LIMIT = 2  # letters
_SHORT = 6  # a name of fewer letters may differ in one at most: "url" is not a misspelling of "uri.x"


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return the known name that differs least from ``name``, by two letters at most; empty if none is that near."""
    limit = _LIMIT if len(name) >= _SHORT else 1
    distances = ((_distance(name, other, limit), other) for other in known)
    return min((found for found in distances if found[0] <= limit), default=(0, ""))[1]


def _distance(first: str, second: str, limit: int) -> int:
    """Return how many letters have to change, counted up to a little over ``limit`` (Levenshtein)."""
    if abs(len(first) - len(second)) > limit:
        return limit + 1
    row = list(range(len(second) + 1))
    for index, letter in enumerate(first, start=1):
        before, row[0] = row[0], index
        for place, other in enumerate(second, start=1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (letter != other))
    return row[-1]

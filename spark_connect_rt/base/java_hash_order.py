"""The order in which a Java HashMap yields string keys: part of the bytes of offset keys and REST bodies.

Owns: String.hashCode and the bucket order. A table starts with 16 buckets and doubles past three quarters
full; within a bucket the order of insertion holds.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

V = TypeVar("V")

REMEMBERED_KEYS = 64
INSERTED_MOST = 200  # names; where more were added, all are sorted


@lru_cache(maxsize=16_384)
def java_string_hash(text: str) -> int:
    """Return ``String.hashCode`` as an unsigned 32-bit number. The same keys are asked for all the time."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for index in range(0, len(units), 2):
        value = (value * 31 + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value


def java_hash_order(keys: Iterable[str], *, sized: bool = False) -> list[str]:
    """Return the keys in the order a HashMap filled in the given order yields them.

    ``sized``: the map was made as ``new HashMap<>(number of keys)``, so its table starts smaller than 16.
    """
    inserted = tuple(dict.fromkeys(keys))
    return list(_remembered(inserted, sized) if len(inserted) <= REMEMBERED_KEYS else _ordered(inserted, sized))


def _ordered(inserted: tuple[str, ...], sized: bool) -> tuple[str, ...]:
    capacity = 1 << max(0, len(inserted) - 1).bit_length() if sized else 16
    while len(inserted) * 4 > capacity * 3:
        capacity *= 2
    return tuple(_in_buckets(inserted, capacity))


_remembered = lru_cache(maxsize=1_024)(_ordered)  # configurations of one class have the same settings


def hash_order_of_copy(copied: Iterable[str], keys: Iterable[str]) -> list[str]:
    """Return ``keys`` in the order of ``new HashMap<>(copied)`` after it was changed to hold these.

    The copy's table is sized for the copied entries, so it is smaller than that of a map that grew.
    """
    inserted = list(dict.fromkeys(keys))
    return _in_buckets(inserted, _capacity_of_copy(len(list(copied)), len(inserted)))


def _capacity_of_copy(copied: int, count: int) -> int:
    capacity = 1 << max(0, int(copied / 0.75 + 1) - 1).bit_length()
    while count * 4 > capacity * 3:
        capacity *= 2
    return capacity


class NamesInHashOrder:
    """Caches ``hash_order_of_copy(names, names)`` of sorted names while names are added. Any thread."""

    def __init__(self) -> None:
        # Capacity, names, their buckets and names in order. Replaced whole, never changed.
        self._last: tuple[int, frozenset[str], Sequence[tuple[int, str]]] = (0, frozenset(), ())

    def of(self, names: Collection[str]) -> list[str]:
        """Return the names in order; ``names`` are sorted, each once."""
        capacity, known, before = self._last
        now, bits = frozenset(names), _capacity_of_copy(len(names), len(names)) - 1
        added = now - known
        if bits != capacity - 1 or len(now) != len(known) + len(added) or len(added) > INSERTED_MOST:
            places = sorted((_spread(name) & bits, name) for name in names)  # in one bucket, too
        else:
            places = list(before)
            for name in added:
                insort(places, (_spread(name) & bits, name))
        self._last = (bits + 1, now, places)
        return [name for _, name in places]


def in_java_hash_order(mapping: Mapping[str, V]) -> dict[str, V]:
    """Return the mapping with its keys in HashMap order."""
    keys = tuple(mapping)
    if len(keys) < 2:
        return dict(mapping)
    order = _remembered if len(keys) <= REMEMBERED_KEYS else _ordered
    return {key: mapping[key] for key in order(keys, False)}


def _in_buckets(inserted: Sequence[str], capacity: int) -> list[str]:
    """Return the keys by bucket; in one bucket the order of insertion holds."""
    bits = capacity - 1
    buckets = [spread & bits for spread in map(_spread, inserted)]
    return [inserted[at] for at in sorted(range(len(buckets)), key=buckets.__getitem__)]


@lru_cache(maxsize=16_384)
def _spread(key: str) -> int:
    """Return ``HashMap.hash``: the upper bits of the hash code count in small tables, too."""
    value = java_string_hash(key)
    return value ^ value >> 16

"""The rows that benchmarks of tables write: 10 columns, and texts of 100 characters.

Numbers are exact in JSON and in every type that a table may have for them, so that tables of two writers compare equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.data import schema as s
from spark_connect_rt.api.data.logical import timestamp_schema
from spark_connect_rt.api.data.schema import Schema, struct_of
from spark_connect_rt.api.records import SinkBatch

BATCH = 5_000
DEAD, HOT_KEYS = -1, 500
UTC = pa.timestamp("ms", "UTC")
COLUMNS: tuple[tuple[str, Schema, pa.DataType], ...] = (
    ("id", s.INT64, pa.int64()),
    ("customer", s.STRING, pa.string()),
    ("region", s.OPTIONAL_STRING, pa.string()),
    ("amount", s.FLOAT64, pa.float64()),
    ("rate", s.OPTIONAL_FLOAT32, pa.float32()),
    ("count", s.INT32, pa.int32()),
    ("open", s.BOOLEAN, pa.bool_()),
    ("at", timestamp_schema(), UTC),
    ("note", s.OPTIONAL_STRING, pa.string()),
    ("version", s.INT64, pa.int64()),
)
NAMES = tuple(name for name, *_ in COLUMNS)
ROW = struct_of([(name, schema) for name, schema, _ in COLUMNS])
KEY = struct_of({"id": s.INT64})
ENVELOPE = struct_of({"before": ROW.as_optional(), "after": ROW.as_optional(), "op": s.STRING})
TEXT_ROW = struct_of({"text": s.STRING})


Numbers = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


def rows(count: int, ids: Numbers | None = None, versions: Numbers | None = None) -> list[pa.Array]:
    """Return the columns of `count` rows. `ids` None: a permutation of 0 to `count`. `versions` None: random."""
    random = np.random.default_rng(2)
    numbers = pa.array(random.permutation(count) if ids is None else ids)
    regions = pa.array(["north", "south", "east", "west", None])
    columns = {
        "id": numbers,
        "customer": pc.binary_join_element_wise("customer-", numbers.cast(pa.string()), ""),
        "region": regions.take(pa.array(random.integers(0, 5, count))),
        "amount": pa.array(random.integers(1, 100_000, count) / 100),  # JSON in columns has no exponents
        "rate": pa.array((random.integers(0, 400_000, count) / 4).astype(np.float32)),
        "count": pa.array(random.integers(0, 1000, count), pa.int32()),
        "open": pa.array(random.random(count) < 0.5),
        "at": pa.array(random.integers(1_700_000_000_000, 1_800_000_000_000, count)).cast(UTC),
        "note": pc.binary_join_element_wise("note ", pa.array(random.integers(0, 2**40, count)).cast(pa.string()), ""),
        "version": pa.array(random.integers(0, 2**60, count) if versions is None else versions),
    }
    return [columns[name] for name in NAMES]


def texts(count: int) -> pa.Array:
    """Return texts of 100 random printable characters."""
    letters = np.random.default_rng(3).integers(33, 127, count * 100, np.uint8)
    ends = np.arange(0, count * 100 + 1, 100).astype(np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(letters)])


def struct_of_rows(columns: Sequence[pa.Array]) -> pa.StructArray:
    """Return the columns of `rows` as one column of structs."""
    return pa.StructArray.from_arrays(list(columns), list(NAMES))


def batches(whole: SinkBatch) -> list[SinkBatch]:
    """Return a batch in pieces of the size in which records are consumed."""
    return [whole.slice(first, BATCH) for first in range(0, len(whole.offsets), BATCH)]


# Changes by key


@dataclass(frozen=True)
class KeyedChanges:
    """Changes of one commit: keys, the version that each row gets, and which of them are deletions."""

    ids: Numbers
    versions: Numbers
    deletes: Mask


class KeyedHistory:
    """Changes of a table of many keys, and the rows that it has after them.

    Of the changes of a commit, 20 % are of 500 hot keys, 2 % of new keys, and 10 % are deletions. The table begins with
    the keys from 0 to `keys`, each with the version of its number.
    """

    def __init__(self, keys: int, changes: int) -> None:
        """Make a history of commits of `changes` each."""
        self.keys, self.changes = keys, changes
        self._random = np.random.default_rng(4)
        self._versions = np.arange(keys)
        self._commits = 0

    def first_rows(self) -> Iterator[list[pa.Array]]:
        """Yield the columns of the rows that the table begins with, in 20 pieces."""
        step = self.keys // 20
        for first in range(0, self.keys, step):
            ids = np.arange(first, first + step)
            yield rows(step, ids, ids)

    def next(self) -> KeyedChanges:
        """Return the changes of the next commit."""
        fresh, count = self.changes // 50, self.changes
        ids = self._random.integers(0, self.keys, count)
        hot = self._random.random(count) < 0.2
        ids[hot] = self._random.integers(0, HOT_KEYS, int(hot.sum()))
        ids[self._random.permutation(count)[:fresh]] = np.arange(fresh) + self.keys + self._commits * fresh
        versions = np.arange(count) + self.keys + self._commits * count
        deletes = self._random.random(count) < 0.1
        self._commits += 1
        found = np.full(self.keys + self._commits * fresh, DEAD)
        found[: len(self._versions)] = self._versions
        found[ids] = np.where(deletes, DEAD, versions)  # of a key that is there twice, the last one stays
        self._versions = found
        return KeyedChanges(ids, versions, deletes)

    def live(self) -> tuple[int, int, int]:
        """Return how many rows the table has now, the sum of their keys and the sum of their versions."""
        ids = np.flatnonzero(self._versions != DEAD)
        return len(ids), int(ids.sum()), int(self._versions[ids].sum())

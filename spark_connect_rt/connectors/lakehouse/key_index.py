"""Exact index of a table's keys: key -> the data file and row that hold it. Signatures first, the parts follow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Positions = npt.NDArray[np.int64]
ROW_BITS = 40
DEAD = -1


def positions_of(file_number: int, rows: npt.NDArray[np.int64]) -> Positions:
    """Return `file_number << ROW_BITS | row` for rows of one data file."""
    raise NotImplementedError


def encode_keys(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Return key columns as one array: int64 for a single whole number, date or time, else large_binary.

    Raises DataError: a key is null, or a column's type cannot be a key.
    """
    raise NotImplementedError


@dataclass(frozen=True, slots=True)
class MovedFile:
    """A data file whose live rows were copied, in order, into another one by a compaction."""

    number: int
    into: int
    first_row: int
    dead_rows: Positions


class KeyIndex:
    """Key -> position, or DEAD. 20 bytes of memory a key (16 for int64 keys), key bytes in a file. One thread."""

    def __init__(self, folder: Path, *, integers: bool, hash_bits: int = 64) -> None:
        """Keep keys below `folder`, which exists. `integers`: keys are int64 arrays."""

    def __len__(self) -> int:
        """Return how many keys have a live row."""
        raise NotImplementedError

    def build(self, parts: Iterable[tuple[pa.Array, Positions]]) -> None:
        """Fill an empty index from (encoded keys, positions) of live rows, each key once. Raises DataError if not."""

    def last_of_each(self, keys: pa.Array) -> npt.NDArray[np.int64]:
        """Return the rows of `keys` that are the last ones of their key, ascending."""
        raise NotImplementedError

    def swap(self, keys: pa.Array, positions: Positions) -> Positions:
        """Set the position of each key (all different) and return the former ones. `swap` back undoes it."""
        raise NotImplementedError

    def find(self, keys: pa.Array) -> Positions:
        """Return the position of each key."""
        raise NotImplementedError

    def move_files(self, moved: Sequence[MovedFile]) -> None:
        """Follow a compaction: positions in these files become positions in the files that they went into."""

    def drop_files(self, numbers: Sequence[int]) -> int:
        """Make the rows of these files dead, and return how many."""
        raise NotImplementedError

    def drop_positions(self, positions: Positions) -> int:
        """Make these rows dead, and return how many were live."""
        raise NotImplementedError

    def close(self) -> None:
        """Delete the index's files."""

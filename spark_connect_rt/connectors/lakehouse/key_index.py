"""Exact index of a table's keys: key -> the data file and row that hold it.

An upsert needs the row that it replaces, and the index finds it without reading the table. A key takes 20 bytes of
memory, or 16 if keys are whole numbers. The bytes of the keys are in a file.

- Keys are sorted by a 64-bit hash. A hash that matches counts only if the bytes of the key match, too.
- Two keys with the same hash are rare. The first has a slot, later ones are in a dictionary (the overflow).
- New keys are gathered in a small second level, which is merged into the first when it has grown.
- A key that was deleted keeps its slot as DEAD until a merge. A slot with an overflow stays, so that the overflow is
  always found through it.

Keys of a single whole number are their own hash: exact without bytes and overflow.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.errors import DataError

Positions = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]
Hashes = npt.NDArray[Any]  # uint64, or int64 where keys are their own hash

ROW_BITS = 40
DEAD = -1
_ROW_MASK = (1 << ROW_BITS) - 1
_LONG_WORDS = 32  # longer keys are packed and hashed each by itself
_LEAST_MERGE, _MERGE_SHARE = 100_000, 16
_PIECE = 1 << 20  # rows that a pass over all positions takes at once
_MOST_SORTED_PIECES = 16
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 / golden ratio
_MIX = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))  # Steele, Lea, Flood: splitmix64


def positions_of(file_number: int, rows: Rows) -> Positions:
    """Return `file_number << ROW_BITS | row` for rows of one data file."""
    return rows.astype(np.int64, copy=False) | np.int64(file_number << ROW_BITS)


def files_and_rows(positions: Positions) -> tuple[Positions, Rows]:
    """Return file numbers and rows of positions, none of them DEAD."""
    return positions >> ROW_BITS, positions & _ROW_MASK


# Keys as one column


def is_whole_number(kind: pa.DataType) -> bool:
    """Return whether keys of a single column of this type are whole numbers, which the index stores as they are."""
    return bool(pa.types.is_temporal(kind) or pa.types.is_boolean(kind) or _fits_long(kind))


def _fits_long(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and kind != pa.uint64()


def encode_keys(columns: Sequence[pa.Array | pa.ChunkedArray]) -> pa.Array:
    """Return key columns as one array: int64 for a single whole number, date or time, else large_binary.

    Equal keys have equal bytes and different keys have different ones, if all columns have the table's types.

    Raises:
        DataError: a key is null, or values of a column's type cannot be keys.
    """
    plain = [_plain(column) for column in columns]
    if any(column.null_count for column in plain):
        raise DataError("a key is null. Records need a value for every key column")
    if len(plain) == 1 and is_whole_number(plain[0].type):
        return _as_long(plain[0])
    pieces: list[pa.Array] = []
    for column in plain:
        piece = _as_bytes(column)
        if len(plain) > 1 and _has_any_length(column.type):
            pieces.append(_fixed(pc.binary_length(piece).to_numpy().astype("<u4").view(np.uint8), 4))
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else pc.binary_join_element_wise(*pieces, pa.scalar(b"", pa.large_binary()))


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array.cast(array.type.value_type) if pa.types.is_dictionary(array.type) else array


def _as_long(column: pa.Array) -> pa.Array:
    if column.type in (pa.date32(), pa.time32("s"), pa.time32("ms")):
        column = column.view(pa.int32())
    elif pa.types.is_temporal(column.type):
        column = column.view(pa.int64())
    return column.cast(pa.int64())


def _has_any_length(kind: pa.DataType) -> bool:
    return bool(_is_text(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _as_bytes(column: pa.Array) -> pa.Array:
    kind = column.type
    if is_whole_number(kind):
        return _fixed(_as_long(column).to_numpy().view(np.uint8), 8)
    if _is_text(kind):
        return column.cast(pa.large_string()).view(pa.large_binary())
    if _has_any_length(kind):
        return column.cast(pa.large_binary())
    if pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        width = kind.bit_width // 8
        whole = np.frombuffer(column.buffers()[1] or b"", np.uint8)
        return _fixed(whole[column.offset * width : (column.offset + len(column)) * width], width)
    raise DataError(f"a column of {kind} cannot be a key. Use whole numbers, text, bytes, decimals, dates or times")


def _fixed(data: npt.NDArray[np.uint8], width: int) -> pa.Array:
    offsets = np.arange(len(data) // width + 1, dtype=np.int64) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.large_binary(), len(offsets) - 1, buffers)


# Keys as words of 64 bits: compared and hashed for many keys at once


class _Packed(NamedTuple):
    """Keys of bytes. Each is its length in bytes, then its bytes, filled up with zeros to whole words."""

    words: Words
    starts: Rows
    counts: Rows
    """Words of each key without the length."""


def _packed(keys: pa.Array) -> _Packed:
    size = len(keys)
    offsets = np.frombuffer(keys.buffers()[1], np.int64, size + 1, keys.offset * 8) if size else np.zeros(1, np.int64)
    lengths = np.diff(offsets)
    counts = (lengths + 7) >> 3
    starts = np.cumsum(counts + 1) - (counts + 1)
    words = np.zeros(int((counts + 1).sum()), np.uint64)
    words[starts] = lengths.view(np.uint64)
    first = int(offsets[0])
    data = np.zeros(int(offsets[-1]) - first + 8, np.uint8)
    if len(data) > 8:
        data[:-8] = np.frombuffer(keys.buffers()[2], np.uint8)[first : offsets[-1]]
    at_any_byte = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    begins = offsets[:-1] - first
    for number, rows in _by_word(counts):
        word = at_any_byte[begins[rows] + 8 * number]
        missing = np.maximum(8 * (number + 1) - lengths[rows], 0)
        words[starts[rows] + 1 + number] = word & (np.uint64(0xFFFFFFFFFFFFFFFF) >> (8 * missing).astype(np.uint64))
    for row in np.flatnonzero(counts > _LONG_WORDS).tolist():
        padded = np.zeros(int(counts[row]) * 8, np.uint8)
        padded[: lengths[row]] = data[begins[row] : begins[row] + lengths[row]]
        words[starts[row] + 1 : starts[row] + 1 + counts[row]] = padded.view("<u8")
    return _Packed(words, starts, counts)


def _by_word(counts: Rows) -> Iterable[tuple[int, Any]]:
    """Yield each word number with the rows that have that word, long keys left out."""
    usual = counts <= _LONG_WORDS
    most, least = int(counts.max(initial=0, where=usual)), int(counts.min(initial=_LONG_WORDS))
    for number in range(most):
        everyone = number < least and bool(usual.all())
        yield number, slice(None) if everyone else np.flatnonzero(usual & (counts > number))


def _mixed(words: Words) -> Words:
    for shift, factor in _MIX:
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))


def _hashes(keys: _Packed) -> Words:
    hashes = _mixed(keys.words[keys.starts] + _SPREAD)
    for number, rows in _by_word(keys.counts):
        hashes[rows] = _mixed(hashes[rows] * _SPREAD ^ keys.words[keys.starts[rows] + 1 + number])
    for row in np.flatnonzero(keys.counts > _LONG_WORDS).tolist():
        digest = hashlib.blake2b(_key_bytes(keys.words, keys.starts[row]), digest_size=8).digest()
        hashes[row] = int.from_bytes(digest, "little")
    return hashes


def _key_bytes(words: Words, start: int) -> bytes:
    length = int(words[start])
    return words[start + 1 : start + 1 + ((length + 7) >> 3)].tobytes()[:length]


def _equal(left: Words, left_starts: Rows, right: Words, right_starts: Rows) -> Mask:
    """Return for each pair of packed keys whether they are equal."""
    same = np.asarray(left[left_starts] == right[right_starts])
    number = 1
    while True:
        ends_before = ((right[right_starts] + np.uint64(7)) >> np.uint64(3)) < number
        open_rows = np.flatnonzero(same & ~ends_before)
        if not len(open_rows):
            return same
        if number > _LONG_WORDS:
            return _equal_tails(same, open_rows, left, left_starts, right, right_starts)
        same[open_rows] = left[left_starts[open_rows] + number] == right[right_starts[open_rows] + number]
        number += 1


def _equal_tails(same: Mask, rows: Rows, left: Words, left_starts: Rows, right: Words, right_starts: Rows) -> Mask:
    for row in rows.tolist():
        same[row] = _key_bytes(left, left_starts[row]) == _key_bytes(right, right_starts[row])
    return same


class _KeyLog:
    """The packed keys of all slots, in a file without a name that is mapped into memory and only ever grows."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115  # closed with the index
        self._words: Words = np.zeros(0, np.uint64)
        self.size = 0  # words
        self.keys = 0

    @property
    def words(self) -> Words:
        if len(self._words) < self.size:
            self._file.flush()
            self._words = np.memmap(self._file, np.uint64, "r", shape=(self.size,))
        return self._words

    def append(self, keys: _Packed, rows: Rows) -> npt.NDArray[np.uint32]:
        """Add keys, and return the first word of each."""
        sizes = keys.counts[rows] + 1
        ends = np.cumsum(sizes)
        if not len(ends):
            return np.zeros(0, np.uint32)
        if self.size + ends[-1] >= 1 << 32:
            raise DataError("the keys of the table take more than 32 GiB. Use a shorter key")
        if ends[-1] == len(keys.words) and (np.diff(rows) > 0).all():
            words = keys.words
        else:
            words = keys.words[np.repeat(keys.starts[rows] - (ends - sizes), sizes) + np.arange(ends[-1])]
        self._file.seek(self.size * 8)
        self._file.write(words.data)
        starts = (ends - sizes + self.size).astype(np.uint32)
        self.size += int(ends[-1])
        self.keys += len(rows)
        return starts

    def kept(self, starts: npt.NDArray[np.uint32]) -> tuple[_KeyLog, npt.NDArray[np.uint32]]:
        """Return a new log with these keys only, and where each begins in it."""
        log, moved = _KeyLog(self._folder), np.empty(len(starts), np.uint32)
        words = self.words
        for begin in range(0, len(starts), _PIECE):
            piece = starts[begin : begin + _PIECE].astype(np.int64)
            counts = ((words[piece] + np.uint64(7)) >> np.uint64(3)).astype(np.int64)
            moved[begin : begin + len(piece)] = log.append(_Packed(words, piece, counts), np.arange(len(piece)))
        return log, moved

    def close(self) -> None:
        self._words = np.zeros(0, np.uint64)
        self._file.close()


# The index


@dataclass(slots=True)
class _Level:
    """Slots in the order of their hashes, each hash once. `starts` are the keys' places in the log, empty for int64."""

    hashes: Hashes
    positions: Positions
    starts: npt.NDArray[np.uint32]

    def find(self, hashes: Hashes) -> tuple[Rows, Mask]:
        """Return the slot of each hash, and whether it has that hash."""
        if not len(self.hashes):
            return np.zeros(len(hashes), np.int64), np.zeros(len(hashes), bool)
        slots = np.searchsorted(self.hashes, hashes)
        slots[slots == len(self.hashes)] -= 1
        return slots, np.asarray(self.hashes[slots] == hashes)

    def only(self, keep: Mask) -> _Level:
        if keep.all():
            return self
        starts = self.starts[keep] if len(self.starts) else self.starts
        return _Level(self.hashes[keep], self.positions[keep], starts)

    @property
    def memory_bytes(self) -> int:
        arrays = (self.hashes, self.positions, self.starts)
        return sum(array.nbytes for array in arrays if not isinstance(array, np.memmap))


class _Sorted(NamedTuple):
    """Keys in the order of their hashes. `order` gives their place among the keys that were given."""

    hashes: Hashes
    order: Rows
    packed: _Packed | None
    doubles: Mask
    """Whether the hash is that of the key before it."""


class KeyIndex:
    """Key -> position, or DEAD. One thread.

    A position is `positions_of(file number, row)`. The caller numbers the files.
    """

    def __init__(
        self, folder: Path, *, integers: bool, hash_bits: int = 64, memory_limit_bytes: int | None = None
    ) -> None:
        """Create an empty index.

        Args:
            folder: where its files lie. They have no names, so nothing is left when the process dies.
            integers: keys are int64 arrays, otherwise large_binary. `encode_keys` returns one of both.
            hash_bits: fewer in tests, so that keys collide.
            memory_limit_bytes: above it, the slots are in mapped files, too.
        """
        self._folder = folder
        self._integers = integers
        self._drop_bits = np.uint64(64 - hash_bits)
        self._limit = memory_limit_bytes
        self._log = _KeyLog(folder)
        self._main, self._recent = self._empty(), self._empty()
        self._overflow: dict[bytes, int] = {}
        self._overflow_hashes: set[int] = set()
        self._live = 0

    def __len__(self) -> int:
        """Return how many keys have a live row."""
        return self._live

    @property
    def memory_bytes(self) -> int:
        """Return the bytes of memory that the slots take, without what the kernel caches of mapped files."""
        return self._main.memory_bytes + self._recent.memory_bytes

    @property
    def disk_bytes(self) -> int:
        """Return the bytes of the file of keys."""
        return self._log.size * 8

    @property
    def collisions(self) -> int:
        """Return how many keys are in the overflow."""
        return len(self._overflow)

    def build(self, parts: Iterable[tuple[pa.Array, Positions]]) -> int:
        """Fill an empty index with the keys of live rows, encoded, and their positions.

        Returns how many rows have a key that another row has, too. Of these the index holds the last one.
        """
        hashes, positions, starts = list[Hashes](), list[Positions](), list[npt.NDArray[np.uint32]]()
        for keys, places in parts:
            if self._integers:
                hashes.append(keys.to_numpy())
            else:
                packed = _packed(keys)
                hashes.append(_hashes(packed) >> self._drop_bits)
                starts.append(self._log.append(packed, np.arange(len(keys))))
            positions.append(places)
        if not hashes:  # files without rows, as other writers may leave them
            return 0
        return self._fill(hashes, positions, starts)

    def _fill(self, hashes: list[Hashes], positions: list[Positions], starts: list[npt.NDArray[np.uint32]]) -> int:
        total, at, repeated = sum(map(len, hashes)), 0, 0
        level = self._allocated(total)
        for chosen in _hash_ranges(hashes, total):
            piece = np.concatenate([column[rows] for column, rows in zip(hashes, chosen, strict=True)])
            order = np.argsort(piece, kind="stable")
            piece = piece[order]
            places = np.concatenate([column[rows] for column, rows in zip(positions, chosen, strict=True)])[order]
            begins = np.zeros(0, np.uint32)
            if not self._integers:
                begins = np.concatenate([column[rows] for column, rows in zip(starts, chosen, strict=True)])[order]
            keep, same = self._first_of_hash(piece, places, begins)
            repeated += same
            end = at + int(keep.sum())
            level.hashes[at:end], level.positions[at:end] = piece[keep], places[keep]
            if not self._integers:
                level.starts[at:end] = begins[keep]
            at = end
        self._main = _Level(level.hashes[:at], level.positions[:at], level.starts[:at])
        self._live = at + len(self._overflow)
        return repeated

    def _first_of_hash(self, hashes: Hashes, positions: Positions, starts: npt.NDArray[np.uint32]) -> tuple[Mask, int]:
        """Return which slots to keep, and how many rows have a key that another one has.

        Sets the position of a slot to that of the last row with its key. Other keys of its hash go to the overflow.
        """
        keep = np.ones(len(hashes), bool)
        keep[1:] = hashes[1:] != hashes[:-1]
        slots = np.flatnonzero(keep)
        repeated = 0
        for row in np.flatnonzero(~keep).tolist():
            slot = slots[np.searchsorted(slots, row) - 1]
            key = b"" if self._integers else _key_bytes(self._log.words, int(starts[row]))
            if self._integers or key == _key_bytes(self._log.words, int(starts[slot])):
                positions[slot] = positions[row]
                repeated += 1
                continue
            repeated += key in self._overflow
            self._overflow[key] = int(positions[row])
            self._overflow_hashes.add(int(hashes[row]))
        return keep, repeated

    def last_of_each(self, keys: pa.Array) -> Rows:
        """Return the rows of `keys` that are the last ones of their key, ascending."""
        found = self._sorted(keys)
        if not _same_as_before(found).all():
            return np.array(sorted({key: row for row, key in enumerate(keys.to_pylist())}.values()), np.int64)
        is_last = np.ones(len(found.order), bool)
        is_last[:-1] = ~found.doubles[1:]
        return np.sort(found.order[is_last])

    def find(self, keys: pa.Array) -> Positions:
        """Return the position of each key, DEAD for unknown and deleted ones."""
        return self._visit(self._sorted(keys), None)

    def swap(self, keys: pa.Array, positions: Positions) -> Positions:
        """Set the position of each key, and return the former ones. DEAD deletes a key.

        To undo a swap, swap the returned positions back. Raises ValueError: a key is given twice.
        """
        found = self._sorted(keys)
        if _same_as_before(found).any():
            raise ValueError("keys of a swap must be different")
        before = self._visit(found, positions)
        self._live += int((before == DEAD).sum()) - int((positions == DEAD).sum())
        if len(self._recent.hashes) > max(_LEAST_MERGE, len(self._main.hashes) // _MERGE_SHARE):
            self._merge()
        return before

    def _sorted(self, keys: pa.Array) -> _Sorted:
        packed = None if self._integers else _packed(keys)
        hashes: Hashes = keys.to_numpy() if packed is None else _hashes(packed) >> self._drop_bits
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        doubles = np.zeros(len(hashes), bool)
        doubles[1:] = hashes[1:] == hashes[:-1]
        return _Sorted(hashes, order, packed, doubles)

    def _visit(self, keys: _Sorted, positions: Positions | None) -> Positions:
        """Return the position of each key, and set it to a new one if there are some."""
        found = np.full(len(keys.order), DEAD, np.int64)
        pending, collided = np.ones(len(found), bool), np.zeros(len(found), bool)
        for level in (self._main, self._recent):
            slots, hit = level.find(keys.hashes)
            rows = np.flatnonzero(hit & pending)
            if not len(rows):
                continue
            same = self._same_keys(level, slots[rows], keys, rows)
            hits = rows[same]
            at = keys.order[hits]
            found[at] = level.positions[slots[hits]]
            if positions is not None:
                level.positions[slots[hits]] = positions[at]
            pending[rows], collided[rows[~same]] = False, True
        if positions is not None:
            collided |= self._insert(keys, pending, positions)
        for row in np.flatnonzero(collided).tolist():
            position = None if positions is None else int(positions[keys.order[row]])
            found[keys.order[row]] = self._visit_overflow(keys, row, position)
        return found

    def _same_keys(self, level: _Level, slots: Rows, keys: _Sorted, rows: Rows) -> Mask:
        if keys.packed is None:
            return np.ones(len(rows), bool)
        starts = level.starts[slots].astype(np.int64)
        return _equal(self._log.words, starts, keys.packed.words, keys.packed.starts[keys.order[rows]])

    def _insert(self, keys: _Sorted, pending: Mask, positions: Positions) -> Mask:
        """Give new keys a slot. Returns those whose hash belongs to another new key."""
        collided = pending & keys.doubles
        has_double = np.zeros(len(pending), bool)
        has_double[:-1] = collided[1:]
        fresh = np.flatnonzero(pending & ~collided & ((positions[keys.order] != DEAD) | has_double))
        if len(fresh):
            at = keys.order[fresh]
            starts = np.zeros(0, np.uint32) if keys.packed is None else self._log.append(keys.packed, at)
            self._recent = self._merged(self._recent, _Level(keys.hashes[fresh], positions[at], starts))
        return collided

    def _visit_overflow(self, keys: _Sorted, row: int, position: int | None) -> int:
        assert keys.packed is not None
        key = _key_bytes(keys.packed.words, int(keys.packed.starts[keys.order[row]]))
        before = self._overflow.get(key, DEAD)
        if position == DEAD:
            self._overflow.pop(key, None)
        elif position is not None:
            self._overflow[key] = position
            self._overflow_hashes.add(int(keys.hashes[row]))
        return before

    def _merge(self) -> None:
        """Put the second level into the first, without slots that are dead."""
        main, recent = (level.only(self._is_needed(level)) for level in (self._main, self._recent))
        self._main, self._recent = self._merged(main, recent), self._empty()
        if self._log.keys > 2 * len(self._main.hashes) + _LEAST_MERGE:
            old = self._log
            self._log, self._main.starts[:] = old.kept(self._main.starts)
            old.close()

    def _is_needed(self, level: _Level) -> Mask:
        needed: Mask = level.positions != DEAD
        if self._overflow_hashes:
            needed |= np.isin(level.hashes, np.array(sorted(self._overflow_hashes), level.hashes.dtype))
        return needed

    def _merged(self, level: _Level, other: _Level) -> _Level:
        """Return the slots of two levels that have no hash in common."""
        if not len(other.hashes):
            return level
        merged = self._allocated(len(level.hashes) + len(other.hashes))
        at = np.searchsorted(level.hashes, other.hashes) + np.arange(len(other.hashes))
        rest = np.ones(len(merged.hashes), bool)
        rest[at] = False
        pairs = [(merged.hashes, level.hashes, other.hashes), (merged.positions, level.positions, other.positions)]
        if not self._integers:
            pairs.append((merged.starts, level.starts, other.starts))
        for target, first, second in pairs:
            target[at] = second
            target[rest] = first
        return merged

    def _allocated(self, slots: int) -> _Level:
        slot_bytes = 16 if self._integers else 20
        is_large = self._limit is not None and slots * slot_bytes > self._limit
        make: Callable[[int, Any], npt.NDArray[Any]] = self._mapped if is_large and slots else np.empty
        starts = np.empty(0, np.uint32) if self._integers else make(slots, np.uint32)
        return _Level(make(slots, np.int64 if self._integers else np.uint64), make(slots, np.int64), starts)

    def _mapped(self, count: int, kind: Any) -> npt.NDArray[Any]:
        with tempfile.TemporaryFile(dir=self._folder) as file:  # without a name: gone with its mapping
            return np.memmap(file, kind, "w+", shape=(count,))

    def _empty(self) -> _Level:
        return self._allocated(0)

    # -- other changes of the table

    def drop_files(self, numbers: Collection[int]) -> int:
        """Make the rows of these files dead, and return how many were live."""
        gone = np.array(sorted(numbers), np.int64)
        return self._drop(lambda positions: np.isin(positions >> ROW_BITS, gone))

    def drop_positions(self, positions: Positions) -> int:
        """Make these rows dead, and return how many were live."""
        return self._drop(lambda held: np.isin(held, positions) & (held != DEAD))

    def _drop(self, is_gone: Callable[[Positions], Mask]) -> int:
        before = self._live

        def drop(positions: Positions) -> None:
            gone = is_gone(positions)
            positions[gone] = DEAD
            self._live -= int(gone.sum())

        self._change(drop)
        return before - self._live

    def _change(self, change: Callable[[Positions], None]) -> None:
        """Have all positions changed in place, a piece at a time, so that little memory is needed."""
        for level in (self._main, self._recent):
            for begin in range(0, len(level.positions), _PIECE):
                change(level.positions[begin : begin + _PIECE])
        if self._overflow:
            held = np.array(list(self._overflow.values()), np.int64)
            change(held)
            pairs = zip(self._overflow, held.tolist(), strict=True)
            self._overflow = {key: position for key, position in pairs if position != DEAD}

    def close(self) -> None:
        """Free the index's files and memory."""
        self._main, self._recent = self._empty(), self._empty()
        self._log.close()


def _same_as_before(keys: _Sorted) -> Mask:
    """Return, for each key with the hash of the key before it, whether the keys are equal."""
    rows = np.flatnonzero(keys.doubles)
    if keys.packed is None:
        return np.ones(len(rows), bool)
    starts = keys.packed.starts[keys.order]
    return _equal(keys.packed.words, starts[rows - 1], keys.packed.words, starts[rows])


def _hash_ranges(hashes: Sequence[Hashes], total: int) -> Iterable[list[Any]]:
    """Yield, range of hashes by range, the rows of each column in it: sorting a range at a time takes less memory."""
    ranges = min(_MOST_SORTED_PIECES, total // _PIECE + 1)
    if ranges == 1:
        yield [slice(None)] * len(hashes)
        return
    sample = np.sort(np.concatenate([column[:: max(1, len(column) // 10_000)] for column in hashes]))
    bounds = [sample[len(sample) * number // ranges] for number in range(1, ranges)]
    number_of = [
        np.searchsorted(np.array(bounds, column.dtype), column, side="right").astype(np.int8) for column in hashes
    ]
    for number in range(ranges):
        yield [np.flatnonzero(numbers == number) for numbers in number_of]

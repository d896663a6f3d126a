"""Proof that each state of a table is a state that its source had. Pure.

The source's changes are known in order, and so is the topic partition of each key. A state of the table is right if,
for each partition, its rows are those after some prefix of that partition's changes, and no prefix is shorter than one
that an earlier state had.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = tuple[Any, ...]
"""The values of a row behind its key."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a row: the number of its transaction, its key, and the row. None: the row is deleted."""

    transaction: int
    key: int
    row: Row | None


@dataclass(slots=True)
class _Partition:
    """The changes of one topic partition, and the state after the first `applied` of them."""

    changes: list[Change] = field(default_factory=list)
    state: dict[int, Row] = field(default_factory=dict)
    applied: int = 0

    def advance_to(self, rows: Mapping[int, Row]) -> bool:
        """Apply changes until the state is `rows`. Return whether that happened."""
        wrong = {key for key in self.state.keys() | rows.keys() if self.state.get(key) != rows.get(key)}
        while wrong and self.applied < len(self.changes):
            change = self.changes[self.applied]
            if change.row is None:
                self.state.pop(change.key, None)
            else:
                self.state[change.key] = change.row
            self.applied += 1
            if self.state.get(change.key) == rows.get(change.key):
                wrong.discard(change.key)
            else:
                wrong.add(change.key)
        return not wrong

    def is_at_boundary(self) -> bool:
        """Return whether no transaction is applied in part."""
        at = self.applied
        return at in (0, len(self.changes)) or self.changes[at - 1].transaction != self.changes[at].transaction


class PrefixCheck:
    """Compares states of a table with the changes, the oldest state first."""

    def __init__(self, changes: Iterable[Change], partition_of: Callable[[int], int]) -> None:
        """Take the changes in order, and the topic partition of each key."""
        self._partition_of = partition_of
        self._partitions: dict[int, _Partition] = {}
        for change in changes:
            self._partitions.setdefault(partition_of(change.key), _Partition()).changes.append(change)
        self.states = self.at_boundaries = 0

    def see(self, rows: Mapping[int, Row]) -> None:
        """Check the next state: key -> row. Raises AssertionError if it is no state of the source."""
        parts: dict[int, dict[int, Row]] = {number: {} for number in self._partitions}
        for key, row in rows.items():
            parts.setdefault(self._partition_of(key), {})[key] = row
        for number, part in sorted(parts.items()):
            partition = self._partitions.get(number, _Partition())
            before = partition.applied
            assert partition.advance_to(part), (
                f"state {self.states}: {len(part)} rows of partition {number} are not the state after any of its "
                f"changes from {before} on, of {len(partition.changes)}"
            )
        self.states += 1
        self.at_boundaries += all(partition.is_at_boundary() for partition in self._partitions.values())

    def visible_transactions(self) -> int:
        """Return the number of the last transaction that the state has whole, with all transactions before it."""
        missing = [
            partition.changes[partition.applied].transaction
            for partition in self._partitions.values()
            if partition.applied < len(partition.changes)
        ]
        last = max(partition.changes[-1].transaction for partition in self._partitions.values())
        return min(missing) - 1 if missing else last

    def is_complete(self) -> bool:
        """Return whether the last state has all changes."""
        return all(partition.applied == len(partition.changes) for partition in self._partitions.values())


@dataclass(slots=True)
class RandomChanges:
    """Transactions on a table of accounts: half of the changes are updates, the others inserts, deletes and new keys.

    Attributes:
        chance: decides.
        has_extra: whether the table has its later column.
    """

    chance: random.Random
    has_extra: bool = False
    rows: dict[int, Row] = field(default_factory=dict)
    log: list[Change] = field(default_factory=list)
    transactions: int = 0
    _keys: list[int] = field(default_factory=list)
    _next_key: int = 1

    def transaction(self, size: int) -> str:
        """Return the SQL of the next transaction of so many changes, and add these to the log."""
        self.transactions += 1
        statements = []
        while size > 0:
            draw = self.chance.random()
            kind = self._insert if draw < 0.25 or len(self._keys) < 10 else self._update
            if kind == self._update and draw >= 0.75:
                kind = self._delete if draw < 0.95 else self._move
            statements.append(kind())
            size -= 1
        return "\n".join(statements)

    def _row(self) -> Row:
        number = len(self.log)
        extra = number % 1000 if self.has_extra else None
        return (number, self.chance.randrange(1_000_000), f"note {self.chance.randrange(10**9)}", extra)

    def _put(self, key: int, row: Row) -> None:
        self.rows[key] = row
        self.log.append(Change(self.transactions, key, row))

    def _take(self, at: int) -> int:
        """Remove the key at a place from those that are there."""
        key = self._keys[at]
        self._keys[at] = self._keys[-1]
        self._keys.pop()
        del self.rows[key]
        self.log.append(Change(self.transactions, key, None))
        return key

    def _new_key(self) -> int:
        self._keys.append(self._next_key)
        self._next_key += 1
        return self._keys[-1]

    def _insert(self) -> str:
        key, row = self._new_key(), self._row()
        self._put(key, row)
        return f"INSERT INTO accounts VALUES ({key}, {_values(row, self.has_extra)});"

    def _update(self) -> str:
        key, row = self.chance.choice(self._keys), self._row()
        self._put(key, row)
        return f"UPDATE accounts SET {_assignments(row, self.has_extra)} WHERE id = {key};"

    def _delete(self) -> str:
        return f"DELETE FROM accounts WHERE id = {self._take(self.chance.randrange(len(self._keys)))};"

    def _move(self) -> str:
        """Give a row another key. The topic has it as the former key's delete, and the new key's row."""
        former = self._take(self.chance.randrange(len(self._keys)))
        key, row = self._new_key(), self._row()
        self._put(key, row)
        return f"UPDATE accounts SET id = {key}, {_assignments(row, self.has_extra)} WHERE id = {former};"


COLUMNS = ("seq", "amount", "note", "extra")


def _values(row: Sequence[Any], has_extra: bool) -> str:
    shown = [str(row[0]), str(row[1]), f"'{row[2]}'", *([str(row[3])] if has_extra else [])]
    return ", ".join(shown)


def _assignments(row: Sequence[Any], has_extra: bool) -> str:
    names = COLUMNS if has_extra else COLUMNS[:-1]
    return ", ".join(
        f"{name} = {value}" for name, value in zip(names, _values(row, has_extra).split(", "), strict=True)
    )

"""The rows of the quickstart's table and their changes. Pure: a transaction is a function of its number.

Each transaction inserts, updates and deletes orders, and gives one of them another key. It marks every row that it
writes with its number, and always writes some. So the highest number among the rows of a copy says which transactions
have reached the copy.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

DATABASE, TABLE = "shop", "orders"
COLUMNS = ("id", "customer", "item", "amount", "status", "change", "changed_at")
FIRST_ROWS = 1_000
INSERTS, UPDATES = 5, 3
CREATE = f"""
CREATE TABLE IF NOT EXISTS {TABLE} (
  id bigint PRIMARY KEY,
  customer text NOT NULL,
  item text NOT NULL,
  amount numeric(10, 2) NOT NULL,
  status text NOT NULL,
  change bigint NOT NULL,
  changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
)
"""
FILL = f"""
INSERT INTO {TABLE} (id, customer, item, amount, status, change)
SELECT i, 'customer ' || i % 97, (ARRAY['tea', 'coffee', 'bread', 'apples'])[1 + i % 4], i % 400 / 4.0, 'new', 0
FROM generate_series(1, {FIRST_ROWS}) i
"""
READ = f"SELECT {', '.join(COLUMNS)} FROM {TABLE} ORDER BY id"
_INSERT = f"INSERT INTO {TABLE} (id, customer, item, amount, status, change) VALUES (%s, %s, %s, %s, 'new', %s)"
_UPDATE = f"UPDATE {TABLE} SET status = %s, amount = %s, change = %s, changed_at = clock_timestamp() WHERE id = %s"
_MOVE = f"UPDATE {TABLE} SET id = %s, change = %s, changed_at = clock_timestamp() WHERE id = %s"
_DELETE = f"DELETE FROM {TABLE} WHERE id = %s"
_ITEMS, _STATES = ("tea", "coffee", "bread", "apples"), ("packed", "sent", "paid")

Statement = tuple[str, tuple[Any, ...]]
"""SQL with %s for its parameters, and the parameters."""


@dataclass(slots=True)
class OrderBook:
    """The keys that the table has, and the number of the last transaction."""

    keys: list[int] = field(default_factory=list)
    number: int = 0

    def next_transaction(self) -> list[Statement]:
        """Return the statements of the next transaction, and count it as done."""
        self.number += 1
        chance = random.Random(self.number)
        first = max(self.keys, default=0) + 1
        statements = [_insert(key, self.number, chance) for key in range(first, first + INSERTS)]
        chosen = chance.sample(range(len(self.keys)), min(UPDATES + 2, len(self.keys)))
        statements += [_update(self.keys[at], self.number, chance) for at in chosen[:UPDATES]]
        if len(chosen) == UPDATES + 2:
            moved, deleted = chosen[UPDATES:]
            new_key = first + INSERTS
            statements.append((_MOVE, (new_key, self.number, self.keys[moved])))
            statements.append((_DELETE, (self.keys[deleted],)))
            self.keys[moved] = new_key
            del self.keys[deleted]
        self.keys += range(first, first + INSERTS)
        return statements


def book_of(rows: Sequence[Sequence[Any]]) -> OrderBook:
    """Return the book of a table with these rows, whose columns are `COLUMNS`."""
    at = COLUMNS.index("change")
    return OrderBook([int(row[0]) for row in rows], max((int(row[at]) for row in rows), default=0))


def _insert(key: int, number: int, chance: random.Random) -> Statement:
    customer, item = f"customer {chance.randrange(97)}", chance.choice(_ITEMS)
    return _INSERT, (key, customer, item, chance.randrange(40_000) / 100, number)


def _update(key: int, number: int, chance: random.Random) -> Statement:
    return _UPDATE, (chance.choice(_STATES), chance.randrange(40_000) / 100, number, key)

"""Tasks that do not know of each other write one table: its rows are exactly the records below its stored offsets.

A history moves partitions between tasks without telling the old owner, loses answers, crashes tasks, lets rivals commit
between the check and the commit, and lets other writers append and compact. With either half of the guard removed, the
same histories find repeated or lost rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse import table_writer
from spark_connect_rt.connectors.lakehouse.changes import DELETE, OP, TRUNCATE, UPSERT, after_truncate
from spark_connect_rt.connectors.lakehouse.guard import Check, CommitVerdict, stored_after
from spark_connect_rt.connectors.lakehouse.keyed_rows import KeyedRows
from spark_connect_rt.connectors.lakehouse.table_port import TableCommit
from spark_connect_rt.connectors.lakehouse.table_writer import TableCommitter, WriterParts
from spark_connect_rt.errors import FencedError, RetriableError
from spark_connect_rt.testing.memory_table import MemoryTable, MemoryTableStore

SCHEMA = pa.schema(
    [pa.field("key", pa.string(), False), pa.field("partition", pa.int64()), pa.field("offset", pa.int64())]
)
CHANGES = pa.schema([pa.field(OP, pa.string()), *(column.with_nullable(True) for column in SCHEMA)])
KEYS = 6  # of a partition
HASH_BITS = 6
PARTITIONS, TASKS, STEPS = 4, 3, 120
FOREIGN = -1


@dataclass
class History:
    """One random history of a table."""

    seed: int
    keyed: bool = False
    truncates: bool = False
    """Whether some records are truncates, which only a topic with a single partition can have."""
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.table = MemoryTable()
        self.now_ms = 0
        MemoryTableStore(self.table).create(SCHEMA, [])
        self.table.on_commit = self.on_commit
        self.partitions = 1 if self.truncates else PARTITIONS
        self.group = dict.fromkeys(range(self.partitions), 0)
        self.owner: dict[int, int] = {}
        self.held: list[set[int]] = [set() for _ in range(TASKS)]
        self.busy: set[int] = set()
        self.indexes: list[KeyedRows | None] = []
        self.writers = [self.new_writer() for _ in range(TASKS)]

    def new_writer(self) -> TableCommitter:
        ids = self.random
        parts = WriterParts(
            lambda: self.now_ms, lambda: self.now_ms, self.wait, ids.random, lambda: f"{ids.getrandbits(48):x}"
        )
        index = KeyedRows("t", ["key"], hash_bits=HASH_BITS) if self.keyed else None
        self.indexes.append(index)
        return TableCommitter(MemoryTableStore(self.table), parts, index)

    def wait(self, wait_ms: int) -> None:
        self.now_ms += wait_ms

    def on_commit(self, commit: TableCommit) -> str | None:
        """Let a rival commit first, or lose the answer."""
        self.counts["truncates"] += commit.truncates
        chance = self.random.random()
        rivals = [task for task in range(TASKS) if task not in self.busy]
        if chance < 0.3 and rivals:
            self.commit(self.random.choice(rivals))
        elif chance < 0.4:
            self.foreign_change()
        return "lost" if chance > 0.9 else "never" if chance > 0.8 else None

    def foreign_change(self) -> None:
        if self.keyed:
            self.table.compact_foreign()
        else:
            self.table.append_foreign(pa.table([["f"], [FOREIGN], [0]], schema=SCHEMA))

    def run(self) -> None:
        steps: list[Callable[[], None]] = [self.move, self.read, self.commit_some, self.crash]
        for step in self.random.choices(steps, [3, 9, 4, 1], k=STEPS):
            states = len(self.table.states)
            step()
            if len(self.table.states) != states:
                self.check()
        self.table.on_commit = lambda commit: None
        for task in range(TASKS):
            self.commit(task)
        self.check()
        self.counts["builds"] += sum(index.builds for index in self.indexes if index is not None)
        for index in self.indexes:
            if index is not None:
                index.close()

    def move(self) -> None:
        """Assign a partition to a task; the old owner is often not informed."""
        partition, task = self.random.randrange(self.partitions), self.random.randrange(TASKS)
        old = self.owner.get(partition)
        if old is not None and self.random.random() < 0.5:
            self.commit(old)
            if partition in self.held[old] and self.random.random() < 0.5:
                safe = self.writers[old].safe_offsets()[TopicPartition("t", partition)]
                self.group[partition] = max(self.group[partition], safe)
            self.writers[old].release([TopicPartition("t", partition)])
            self.held[old].discard(partition)
        self.assign(partition, task)

    def assign(self, partition: int, task: int) -> None:
        self.writers[task].resume({TopicPartition("t", partition): self.group[partition]}, {"t": "T"})
        self.held[task].add(partition)
        self.owner[partition] = task

    def read(self) -> None:
        task = self.random.randrange(TASKS)
        if not self.held[task]:
            return
        partition = self.random.choice(sorted(self.held[task]))
        place, count = TopicPartition("t", partition), self.random.randint(1, 5)
        start = max(0, self.writers[task].next_offset(place) - self.random.choice([0, 0, 3]))  # some come again
        offsets = np.arange(start, start + count, dtype=np.int64)
        changes = [self.change_of(partition, offset) for offset in offsets.tolist()]
        has_row = np.array([change is not None for change in changes])
        rows = pa.Table.from_pylist([change for change in changes if change is not None], schema=CHANGES)
        if not self.keyed:
            rows = rows.drop_columns([OP]).cast(SCHEMA)
        self.writers[task].add(place, rows, offsets[has_row], start + count)

    def commit_some(self) -> None:
        self.commit(self.random.randrange(TASKS))

    def commit(self, task: int) -> None:
        self.busy.add(task)
        try:
            report = self.writers[task].commit(500)
        except RetriableError:
            self.counts["impatient"] += 1
        except FencedError:
            self.crash_of(task)
        else:
            self.counts["commits"] += report.landed
            self.counts["races"] += report.lost_races
            self.counts["fenced"] += len(report.fenced)
        finally:
            self.busy.discard(task)

    def crash(self) -> None:
        self.crash_of(self.random.randrange(TASKS))

    def crash_of(self, task: int) -> None:
        self.counts["crashes"] += 1
        self.writers[task] = self.new_writer()
        lost, self.held[task] = self.held[task], set()
        for partition in sorted(lost):
            if self.owner[partition] == task:
                self.assign(partition, self.random.choice([other for other in range(TASKS) if other not in self.busy]))

    def check(self) -> None:
        """Compare rows with stored offsets."""
        rows = self.table.rows()
        found = Counter((row["partition"], row["offset"]) for row in rows.to_pylist() if row["partition"] != FOREIGN)
        stored = {place.partition: at.end for (_, place), at in self.table.states[-1].offsets.items()}
        expected: Counter[tuple[int, int]] = Counter()
        for partition, end in stored.items():
            changes = [change for offset in range(end) if (change := self.change_of(partition, offset)) is not None]
            if self.keyed:
                changes = _rows_of(changes)
            expected.update((partition, change["offset"]) for change in changes)
        assert found == expected, f"seed {self.seed}"

    def change_of(self, partition: int, offset: int) -> dict[str, Any] | None:
        if self.truncates and random.Random(-offset - 1).random() < 0.08:
            return {OP: TRUNCATE}
        return change_of(partition, offset)


def _rows_of(changes: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that changes by key lead to."""
    rows: dict[str, dict[str, Any]] = {}
    for change in changes:
        if change[OP] == TRUNCATE:
            rows.clear()
        elif change[OP] == DELETE:
            rows.pop(change["key"], None)
        else:
            rows[change["key"]] = change
    return list(rows.values())


def change_of(partition: int, offset: int) -> dict[str, Any] | None:
    """Return what the record at an offset does; None: it has no row. The same at each call."""
    chance = random.Random(partition * 1000 + offset)
    if offset % 7 == 0:
        return None
    op = DELETE if chance.random() < 0.2 else UPSERT
    return {OP: op, "key": f"{partition}-{chance.randrange(KEYS)}", "partition": partition, "offset": offset}


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_rows_are_the_records_below_the_stored_offsets(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 25):
        history = History(seed)
        history.run()
        counts += history.counts
    for kind, least in {"commits": 250, "races": 100, "fenced": 25, "crashes": 100}.items():
        assert counts[kind] >= least, counts


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_rows_by_key_are_the_last_changes_below_the_stored_offsets(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 20):
        history = History(seed, keyed=True)
        history.run()
        counts += history.counts
    for kind, least in {"commits": 200, "races": 80, "fenced": 20, "crashes": 80}.items():
        assert counts[kind] >= least, counts


def test_truncates_remove_exactly_the_earlier_rows() -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        history = History(seed, keyed=True, truncates=True)
        history.run()
        counts += history.counts
    for kind, least in {"commits": 250, "races": 80, "fenced": 20, "crashes": 80, "truncates": 60}.items():
        assert counts[kind] >= least, counts


def test_truncate_without_the_removal_of_earlier_rows_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writer, "after_truncate", lambda changes: (after_truncate(changes)[0], False))
    assert _breaks(range(20), keyed=True, truncates=True)


def _breaks(seeds: range, *, keyed: bool = False, truncates: bool = False) -> bool:
    for seed in seeds:
        try:
            History(seed, keyed, truncates).run()
        except AssertionError:
            return True
    return False


def test_without_the_check_of_stored_offsets_rows_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writer, "check", lambda *_: Check(CommitVerdict.WRITE))
    assert _breaks(range(20))


def test_without_the_condition_on_the_parent_rows_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MemoryTable.__init__

    def unguarded(table: MemoryTable) -> None:
        made(table)
        table.guarded = False

    monkeypatch.setattr(MemoryTable, "__init__", unguarded)
    assert _breaks(range(20))


def test_without_the_offsets_of_the_group_rows_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writer, "stored_after", lambda *given: replace(stored_after(*given), group_at=()))
    assert _breaks(range(20))


def test_without_the_undo_of_the_index_rows_are_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(rows: KeyedRows) -> None:
        rows._swapped = None

    monkeypatch.setattr(KeyedRows, "undo", forget)
    assert _breaks(range(20), keyed=True)

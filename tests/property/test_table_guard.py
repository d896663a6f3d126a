"""Tasks that do not know of each other write one table: its rows are exactly the records below its stored offsets.

A history moves partitions between tasks without telling the old owner, loses answers, crashes tasks, lets rivals commit
between the check and the commit, and lets other writers append and compact. With either half of the guard removed, the
same histories find repeated or lost rows.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse import table_writer
from spark_connect_rt.connectors.lakehouse.guard import Check, Verdict
from spark_connect_rt.connectors.lakehouse.table_port import TableCommit
from spark_connect_rt.connectors.lakehouse.table_writer import TableWriter, WriterParts
from spark_connect_rt.errors import FencedError, RetriableError
from spark_connect_rt.testing.memory_table import MemoryTable, MemoryTableStore

SCHEMA = pa.schema([pa.field("partition", pa.int64()), pa.field("offset", pa.int64())])
PARTITIONS, TASKS, STEPS = 4, 3, 120
FOREIGN = -1


@dataclass
class History:
    """One random history of a table."""

    seed: int
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.table = MemoryTable()
        self.now_ms = 0
        MemoryTableStore(self.table).create(SCHEMA, [])
        self.table.on_commit = self.on_commit
        self.group = dict.fromkeys(range(PARTITIONS), 0)
        self.owner: dict[int, int] = {}
        self.held: list[set[int]] = [set() for _ in range(TASKS)]
        self.busy: set[int] = set()
        self.writers = [self.new_writer() for _ in range(TASKS)]

    def new_writer(self) -> TableWriter:
        ids = self.random
        parts = WriterParts(lambda: self.now_ms, self.wait, ids.random, lambda: f"{ids.getrandbits(48):x}")
        return TableWriter(MemoryTableStore(self.table), parts)

    def wait(self, wait_ms: int) -> None:
        self.now_ms += wait_ms

    def on_commit(self, commit: TableCommit) -> str | None:
        """Let a rival commit first, or lose the answer."""
        chance = self.random.random()
        rivals = [task for task in range(TASKS) if task not in self.busy]
        if chance < 0.3 and rivals:
            self.commit(self.random.choice(rivals))
        elif chance < 0.4:
            self.table.append_foreign(pa.table([[FOREIGN], [0]], schema=SCHEMA))
        return "lost" if chance > 0.9 else "never" if chance > 0.8 else None

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

    def move(self) -> None:
        """Assign a partition to a task; the old owner is often not informed."""
        partition, task = self.random.randrange(PARTITIONS), self.random.randrange(TASKS)
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
        rows = pa.table([pa.array([partition] * count), pa.array(offsets)], schema=SCHEMA)
        self.writers[task].add(place, rows, offsets, start + count)

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
        found = Counter(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
        stored = {place.partition: at.end for (_, place), at in self.table.states[-1].offsets.items()}
        expected = Counter((partition, offset) for partition, end in stored.items() for offset in range(end))
        foreign = Counter({key: count for key, count in found.items() if key[0] == FOREIGN})
        assert found - foreign == expected, f"seed {self.seed}"


@pytest.mark.parametrize("first", range(0, 100, 25))
def test_rows_are_the_records_below_the_stored_offsets(first: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(first, first + 25):
        history = History(seed)
        history.run()
        counts += history.counts
    for kind, least in {"commits": 250, "races": 100, "fenced": 25, "crashes": 100}.items():
        assert counts[kind] >= least, counts


def _breaks(seeds: range) -> bool:
    for seed in seeds:
        try:
            History(seed).run()
        except AssertionError:
            return True
    return False


def test_without_the_check_of_stored_offsets_rows_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writer, "check", lambda *_: Check(Verdict.WRITE))
    assert _breaks(range(20))


def test_without_the_condition_on_the_parent_rows_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MemoryTable.__init__

    def unguarded(table: MemoryTable) -> None:
        made(table)
        table.guarded = False

    monkeypatch.setattr(MemoryTable, "__init__", unguarded)
    assert _breaks(range(20))


def test_without_the_points_of_the_group_rows_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.connectors.lakehouse.guard.KEPT_POINTS", 1)
    assert _breaks(range(20))

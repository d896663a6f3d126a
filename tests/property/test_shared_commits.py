"""Tasks that share commits: whichever task commits, rows are exactly the records below the table's stored offsets.

The histories are those of `test_table_guard.py` with tasks that offer parts. Tasks crash between their offer and the
commit, two of them commit at once, partitions move without their owner's knowledge, and answers get lost. With any
guard removed, the same histories find repeated, lost or deleted rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from spark_connect_rt.connectors.lakehouse import commit_parts, part_exchange, table_writer
from spark_connect_rt.connectors.lakehouse.commit_parts import CommitTurns, choose_parts
from spark_connect_rt.connectors.lakehouse.guard import Check, CommitVerdict
from spark_connect_rt.connectors.lakehouse.part_exchange import PartExchange
from spark_connect_rt.connectors.lakehouse.table_port import TableCommit
from spark_connect_rt.connectors.lakehouse.table_writer import TableCommitter, WriterParts
from spark_connect_rt.errors import FencedError, RetriableError
from spark_connect_rt.testing.memory_table import MemoryTable, MemoryTableStore
from tests.property.test_table_guard import TASKS, History

INTERVAL_MS = 1_000


class SharedHistory(History):
    """A random history of tasks that share commits."""

    def new_writer(self) -> TableCommitter:
        ids = self.random
        parts = WriterParts(
            lambda: self.now_ms, lambda: self.now_ms, self.wait, ids.random, lambda: f"{ids.getrandbits(48):x}"
        )
        exchange = PartExchange("t", f"{ids.getrandbits(48):x}", CommitTurns(INTERVAL_MS))
        return TableCommitter(MemoryTableStore(self.table), parts, exchange=exchange)

    def on_commit(self, commit: TableCommit) -> str | None:
        self.counts["shared"] += "," in commit.commit_id
        return super().on_commit(commit)

    def commit_some(self) -> None:
        """Let time pass while tasks do their steps. Some commit out of turn."""
        for _ in range(4):
            self.now_ms += self.random.randrange(INTERVAL_MS // 5)
            for task in range(TASKS):
                if self.random.random() < 0.7:
                    self.share(task)
        if self.random.random() < 0.1:
            self.commit(self.random.randrange(TASKS))

    def share(self, task: int) -> None:
        self.busy.add(task)
        try:
            report = self.writers[task].share(500)
        except RetriableError:
            self.counts["impatient"] += 1
        except FencedError:
            self.crash_of(task)
        else:
            self.counts["commits"] += report.landed and not report.by_other
            self.counts["by_other"] += report.by_other
            self.counts["races"] += report.lost_races
            self.counts["fenced"] += len(report.fenced)
        finally:
            self.busy.discard(task)


def run_histories(seeds: range) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        history = SharedHistory(seed)
        history.run()
        counts += history.counts
    return counts


@pytest.mark.parametrize("first", range(0, 80, 20))
def test_rows_are_the_records_below_the_stored_offsets(first: int) -> None:
    counts = run_histories(range(first, first + 20))
    least = {"commits": 150, "shared": 30, "by_other": 20, "races": 50, "fenced": 25, "crashes": 100}
    assert {kind: counts[kind] for kind in least if counts[kind] < least[kind]} == {}, counts


def breaks() -> bool:
    for seed in range(40):
        try:
            SharedHistory(seed).run()
        except AssertionError:
            return True
    return False


def commit_own_part_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(table_writer, "check", lambda *_: Check(CommitVerdict.WRITE))


def commit_parts_of_others_unchecked(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_parts, "check", lambda *_: Check(CommitVerdict.WRITE))


def commit_a_partition_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        part_exchange, "choose_parts", lambda stored, table_id, parts, _: choose_parts(stored, table_id, parts)
    )


@pytest.mark.parametrize(
    "remove",
    [
        commit_own_part_unchecked,
        commit_parts_of_others_unchecked,
        commit_a_partition_twice,
    ],
)
def test_histories_notice_the_removal_of_a_guard(
    remove: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    remove(monkeypatch)
    assert breaks()


def test_histories_notice_commits_without_the_condition_on_the_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    made = MemoryTable.__init__

    def unguarded(table: MemoryTable) -> None:
        made(table)
        table.guarded = False

    monkeypatch.setattr(MemoryTable, "__init__", unguarded)
    assert breaks()

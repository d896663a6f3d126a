"""Many tasks write one table while partitions move: rows are exact, and no task starves.

Tasks that append share commits from the fifth on. The same tasks without that show what it saves.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_connect_rt.connectors.lakehouse import commit_parts, sink_settings, sink_task, table_writer
from spark_connect_rt.connectors.lakehouse.commit_parts import PART_SUFFIX
from spark_connect_rt.connectors.lakehouse.guard import Check, CommitVerdict
from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore, LoadedIcebergTable
from spark_connect_rt.connectors.lakehouse.table_port import CommitResult, TableCommit
from spark_connect_rt.testing.memory_table import MemoryTable, MemoryTableStore
from tests.support.lakehouse_readers import duckdb_rows
from tests.support.table_crew import TableCrew, TaskKilled

TASKS, INTERVAL_MS, COMMIT_MS = 8, 2_000, 60
LONG_S = int(os.environ.get("CONNECTRT_TABLE_TASKS_SECONDS", "0"))
"""Virtual seconds of the story with moving partitions. `./test.sh long` sets two minutes, and 0 is its short form."""
MOST_INTERVALS = 4
NAME = "shop.orders"


def assert_exact(rows: pa.Table, ends: dict[int, int]) -> None:
    found = Counter(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))
    expected = Counter((partition, offset) for partition, end in ends.items() for offset in range(end))
    wrong = {"missing": sorted(expected - found)[:9], "repeated": sorted(found - expected)[:9]}
    assert wrong == {"missing": [], "repeated": []}


def assert_none_starves(crew: TableCrew) -> None:
    """Each task commits at least once in `MOST_INTERVALS` while it has rows, and often enough over the whole run."""
    assert max(crew.longest_wait_ms) <= MOST_INTERVALS * INTERVAL_MS, crew.longest_wait_ms
    least = crew.length_ms // (MOST_INTERVALS * INTERVAL_MS)
    commits = [context.metrics.counts["table-commits"] for context in crew.contexts]
    assert min(commits) >= least, commits


def memory_crew(seed: int, length_ms: int, tasks: int = TASKS, **more: Any) -> tuple[TableCrew, MemoryTable]:
    table = MemoryTable(NAME)
    crew = TableCrew(
        lambda name: MemoryTableStore(table, "crew"),
        seed,
        tasks=tasks,
        interval_ms=INTERVAL_MS,
        length_ms=length_ms,
        **more,
    )

    def on_commit(commit: TableCommit) -> None:
        crew.time.sleep(COMMIT_MS)  # others commit meanwhile

    table.on_commit = on_commit
    return crew, table


def ends_of(table: MemoryTable) -> dict[int, int]:
    return {place.partition: at.end for (_, place), at in table.states[-1].offsets.items()}


@pytest.fixture
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have each task commit for itself."""
    monkeypatch.setattr(sink_settings, "DIRECT_TASKS", 100)


@pytest.mark.usefixtures("direct")
@pytest.mark.parametrize("seed", range(3))
def test_eight_tasks_commit_directly(seed: int) -> None:
    crew, table = memory_crew(seed, 60_000)
    crew.run()
    assert_exact(table.rows(), ends_of(table))
    assert crew.counts["moves"] >= 40, crew.counts
    assert crew.counts["table-commits"] >= 150, crew.counts
    assert crew.counts["table-lost-races"] >= 30, crew.counts
    assert crew.counts["table-fenced-partitions"] >= 8, crew.counts
    assert len(table.rows()) >= 2_000
    assert_none_starves(crew)


@pytest.mark.parametrize("seed", range(2))
def test_sixteen_tasks_share_one_commit_in_each_interval(seed: int) -> None:
    crew, table = memory_crew(seed, 60_000, tasks=16)
    crew.run()
    assert_exact(table.rows(), ends_of(table))
    intervals = crew.length_ms // INTERVAL_MS
    commits_at_ms = sorted(at_ms for context in crew.contexts for at_ms in context.metrics.commits_at_ms)
    collections = {at_ms // INTERVAL_MS for at_ms in commits_at_ms}
    assert len(collections) >= intervals - 1, "an interval has no commit"
    assert crew.counts["moves"] >= 40, crew.counts
    # A task commits at once when it loses a partition, and once more when it ends.
    assert len(commits_at_ms) <= intervals + crew.counts["moves"] + 16
    # Rows that just miss a collection wait for the next, and one more for each move that fences their part.
    assert max(crew.longest_wait_ms) <= MOST_INTERVALS * INTERVAL_MS, crew.longest_wait_ms
    # Some have no partitions for a while, and a partition that moves takes the part away that it was in.
    assert min(context.metrics.landed for context in crew.contexts) >= intervals // 2


def test_sixteen_tasks_whose_partitions_stay_make_one_commit_an_interval() -> None:
    crew, table = memory_crew(1, 40_000, tasks=16, moves=False)
    crew.run()
    assert_exact(table.rows(), ends_of(table))
    intervals = crew.length_ms // INTERVAL_MS
    running = [at for context in crew.contexts for at in context.metrics.commits_at_ms if at < crew.length_ms]
    assert intervals - 1 <= len(running) <= intervals
    assert max(crew.longest_wait_ms) <= 1.5 * INTERVAL_MS, crew.longest_wait_ms
    assert {context.metrics.landed for context in crew.contexts} <= {intervals, intervals + 1}
    assert crew.counts["table-lost-races"] <= 16 * 15 // 2  # all commit at the end


@pytest.mark.parametrize("tasks", [8])
def test_partitions_move_while_tasks_die_and_sleep(tasks: int) -> None:
    length_ms = 1_000 * (LONG_S or 30)
    crew, table = troubled_crew(3, length_ms, tasks)
    crew.run()
    assert_exact(table.rows(), ends_of(table))
    minutes = length_ms / 60_000
    least = {"moves": 40, "kills": 10, "pauses": 5, "table-commits": 30, "table-fenced-partitions": 8}
    assert {kind: crew.counts[kind] for kind in least if crew.counts[kind] < least[kind] * minutes} == {}, crew.counts


def troubled_crew(seed: int, length_ms: int, tasks: int) -> tuple[TableCrew, MemoryTable]:
    """Return tasks that are killed before their commit, or paused for longer than two intervals, now and then."""
    crew, table = memory_crew(seed, length_ms, tasks, kill_chance=0.15)
    chance = random.Random(seed)

    def on_commit(commit: TableCommit) -> None:
        crew.time.sleep(COMMIT_MS)
        if crew.time.now_ms >= length_ms:
            return
        if chance.random() < 0.1:
            raise TaskKilled
        if chance.random() < 0.15:
            crew.pause(2 * INTERVAL_MS + 1_000)

    table.on_commit = on_commit
    return crew, table


def test_moving_partitions_notice_commits_that_are_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_writer, "check", lambda *_: Check(CommitVerdict.WRITE))
    monkeypatch.setattr(commit_parts, "check", lambda *_: Check(CommitVerdict.WRITE))
    crew, table = troubled_crew(3, 30_000, 8)

    def play() -> None:
        crew.run()
        assert_exact(table.rows(), ends_of(table))

    with pytest.raises(AssertionError):
        play()


@pytest.mark.usefixtures("direct")
def test_commits_at_the_same_time_lose_more_races(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost_races() -> int:
        crew, _ = memory_crew(7, 40_000)
        crew.run()
        return crew.counts["table-lost-races"]

    spread = lost_races()
    monkeypatch.setattr(sink_task, "commit_wait_ms", lambda interval_ms, *_: interval_ms)
    assert lost_races() > spread


@pytest.mark.parametrize("shared", [True, False])
def test_eight_tasks_share_a_table_of_a_sqlite_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    if not shared:
        monkeypatch.setattr(sink_settings, "DIRECT_TASKS", TASKS)

    def open_catalog() -> RememberingSqlCatalog:
        return RememberingSqlCatalog("lake", uri=f"sqlite:///{tmp_path / 'c.db'}", warehouse=(tmp_path / "w").as_uri())

    open_catalog().create_namespace("shop")
    crew = TableCrew(
        lambda name: IcebergTableStore(open_catalog, name, "crew"),
        1,
        tasks=TASKS,
        interval_ms=INTERVAL_MS,
        length_ms=14_000,
    )
    commit: Callable[[LoadedIcebergTable, TableCommit], CommitResult] = LoadedIcebergTable.commit

    def slow_commit(loaded: LoadedIcebergTable, change: TableCommit) -> CommitResult:
        crew.time.sleep(COMMIT_MS)
        return commit(loaded, change)

    monkeypatch.setattr(LoadedIcebergTable, "commit", slow_commit)
    crew.run()
    loaded = IcebergTableStore(open_catalog, NAME, "crew").load()
    assert loaded is not None
    rows = loaded.table.scan().to_arrow()
    assert_exact(rows, {place.partition: at.end for place, at in loaded.offsets.items()})
    assert len(duckdb_rows(loaded.table.metadata_location, '"partition", "offset"')) == len(rows) >= 400
    assert crew.counts["table-fenced-partitions"] >= 1, crew.counts
    if shared:
        assert max(crew.longest_wait_ms) <= MOST_INTERVALS * INTERVAL_MS, crew.longest_wait_ms
        assert 6 <= crew.counts["table-commits"] <= 30, crew.counts
        assert not list(tmp_path.rglob(f"*{PART_SUFFIX}"))
        return
    assert crew.counts["table-commits"] >= 40, crew.counts
    assert crew.counts["table-lost-races"] >= 5, crew.counts
    assert_none_starves(crew)

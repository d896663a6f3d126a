"""Eight tasks commit to one table while partitions move: rows are exact, and no task starves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from spark_connect_rt.connectors.lakehouse import sink_task
from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore, LoadedIcebergTable
from spark_connect_rt.connectors.lakehouse.table_port import CommitResult, TableCommit
from spark_connect_rt.testing.memory_table import MemoryTable, MemoryTableStore
from tests.support.lakehouse_readers import duckdb_rows
from tests.support.table_crew import TableCrew

TASKS, INTERVAL_MS, COMMIT_MS = 8, 2_000, 60
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


def memory_crew(seed: int, length_ms: int) -> tuple[TableCrew, MemoryTable]:
    table = MemoryTable(NAME)
    crew = TableCrew(
        lambda name: MemoryTableStore(table, "crew"), seed, tasks=TASKS, interval_ms=INTERVAL_MS, length_ms=length_ms
    )

    def on_commit(commit: TableCommit) -> None:
        crew.time.sleep(COMMIT_MS)  # others commit meanwhile

    table.on_commit = on_commit
    return crew, table


def ends_of(table: MemoryTable) -> dict[int, int]:
    return {place.partition: at.end for (_, place), at in table.states[-1].offsets.items()}


@pytest.mark.parametrize("seed", range(3))
def test_eight_tasks_share_a_table_in_memory(seed: int) -> None:
    crew, table = memory_crew(seed, 60_000)
    crew.run()
    assert_exact(table.rows(), ends_of(table))
    assert crew.counts["moves"] >= 40, crew.counts
    assert crew.counts["table-commits"] >= 150, crew.counts
    assert crew.counts["table-lost-races"] >= 30, crew.counts
    assert crew.counts["table-fenced-partitions"] >= 8, crew.counts
    assert len(table.rows()) >= 2_000
    assert_none_starves(crew)


def test_commits_at_the_same_time_lose_more_races(monkeypatch: pytest.MonkeyPatch) -> None:
    def lost_races() -> int:
        crew, _ = memory_crew(7, 40_000)
        crew.run()
        return crew.counts["table-lost-races"]

    spread = lost_races()
    monkeypatch.setattr(sink_task, "commit_wait_ms", lambda interval_ms, *_: interval_ms)
    assert lost_races() > spread


def test_eight_tasks_share_a_table_of_a_sqlite_catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def open_catalog() -> SqlCatalog:
        return SqlCatalog("lake", uri=f"sqlite:///{tmp_path / 'c.db'}", warehouse=(tmp_path / "w").as_uri())

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
    assert crew.counts["table-commits"] >= 40, crew.counts
    assert crew.counts["table-lost-races"] >= 5, crew.counts
    assert crew.counts["table-fenced-partitions"] >= 1, crew.counts
    assert_none_starves(crew)

"""Upkeep of Iceberg tables: rows and stored offsets stay the same, and other writers win."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyiceberg.table.snapshots import Snapshot

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse import iceberg_upkeep
from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_commit import SnapshotChange
from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore, LoadedIcebergTable
from spark_connect_rt.connectors.lakehouse.iceberg_upkeep import (
    MOST_BYTES,
    MOST_TRIES,
    CompactionReport,
    TableUpkeep,
    close_all,
    compact,
    expire_snapshots,
    find_orphans,
    is_due,
    plan_rewrites,
    remove_orphans,
)
from spark_connect_rt.connectors.lakehouse.table_port import (
    CommitResult,
    Committed,
    LiveFile,
    StoredOffset,
    TableCommit,
)
from spark_connect_rt.errors import RetriableError
from tests.contract.table_store_contract import PLACE, SCHEMA, rows_of
from tests.support.lakehouse_readers import duckdb_rows

NAME = "shop.orders"


class Lake:
    """A table with a commit for each id."""

    def __init__(self, folder: Path, partition_by: list[str]) -> None:
        warehouse = (folder / "warehouse").as_uri()
        self.catalog = RememberingSqlCatalog("lake", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=warehouse)
        self.store = IcebergTableStore(lambda: self.catalog, NAME, "sink", partition_by=partition_by)
        self.store.create(SCHEMA, ["id"])
        self.commits = 0

    def loaded(self) -> LoadedIcebergTable:
        loaded = self.store.load()
        assert loaded is not None
        return loaded

    def commit(self, *ids: int, dead: dict[str, list[int]] | None = None) -> list[str]:
        loaded = self.loaded()
        files = loaded.write(rows_of(*ids))
        self.commits += 1
        commit_id = f"c{self.commits}"
        gone = {path: np.array(rows, np.int64) for path, rows in (dead or {}).items()}
        offsets = {PLACE: StoredOffset(self.commits, "T", (commit_id,))}
        assert isinstance(loaded.commit(TableCommit(commit_id, offsets, (), files, gone)), Committed)
        return [file.path for file in files]

    def ids(self) -> list[int]:
        """Return the ids that DuckDB and pyiceberg read."""
        table = self.catalog.load_table(NAME)
        found: list[int] = sorted(table.scan().to_arrow()["id"].to_pylist())
        assert [row["id"] for row in duckdb_rows(table.metadata_location, order_by="id")] == found
        return found

    def snapshots(self) -> list[Snapshot]:
        return list(self.loaded().table.metadata.snapshots)

    def files(self) -> set[str]:
        return {path.name for path in Path(self.loaded().table.location().removeprefix("file://")).rglob("*.*")}


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, [])


def test_snapshots_expire_with_their_files_and_the_rows_stay(lake: Lake) -> None:
    first = lake.commit(1, 2, 3)[0]
    for number in range(4, 12):
        lake.commit(number)
    lake.commit(99, dead={first: [0]})
    compact(lake.store, 1)
    lake.commit(100)
    before = lake.files()
    assert expire_snapshots(lake.store, 1) == 11
    assert lake.ids() == [*range(2, 12), 99, 100]
    assert len(lake.loaded().table.metadata.snapshots) == 1
    assert lake.loaded().offsets[PLACE].end == lake.commits
    assert first.rpartition("/")[2] in before - lake.files()
    assert expire_snapshots(lake.store, 1) == 0


def test_last_own_snapshot_never_expires(lake: Lake) -> None:
    lake.commit(1)
    lake.commit(2)
    own = lake.loaded().snapshot
    for number in range(10, 15):
        lake.catalog.load_table(NAME).append(rows_of(number))
    expire_snapshots(lake.store, 1)
    kept = {str(snapshot.snapshot_id) for snapshot in lake.loaded().table.metadata.snapshots}
    assert kept == {own, lake.loaded().snapshot}
    assert lake.ids() == [1, 2, *range(10, 15)]


def test_last_snapshot_of_every_connector_and_branch_stays(lake: Lake) -> None:
    def commit(store: IcebergTableStore, number: int) -> str:
        loaded = store.load()
        assert loaded is not None
        offsets = {PLACE: StoredOffset(number, "T", (f"{store.connector}{number}",))}
        done = loaded.commit(TableCommit(f"{store.connector}{number}", offsets, (), loaded.write(rows_of(number))))
        assert isinstance(done, Committed)
        return done.snapshot

    lake.commit(1)
    other = IcebergTableStore(lambda: lake.catalog, NAME, "other")
    audit = IcebergTableStore(lambda: lake.catalog, NAME, "sink", branch="audit")
    idle = commit(other, 10)
    head = lake.loaded().snapshot
    assert head is not None
    lake.catalog.load_table(NAME).manage_snapshots().create_branch(int(head), "audit").commit()
    on_branch = commit(audit, 20)
    with lake.catalog.load_table(NAME).transaction() as foreign:  # the branch's head is another writer's then
        foreign.append(rows_of(21), branch="audit")
    for number in range(30, 36):
        lake.commit(number)
    expire_snapshots(lake.store, 1)
    kept = {str(snapshot.snapshot_id) for snapshot in lake.loaded().table.metadata.snapshots}
    assert {idle, on_branch} <= kept
    assert len(kept) == 4  # and the two heads


@pytest.mark.parametrize("partition_by", [[], ["bucket(2, id)"], ["truncate(10, id)"]])
def test_compaction_keeps_rows_and_offsets_and_removes_deletes(tmp_path: Path, partition_by: list[str]) -> None:
    lake = Lake(tmp_path, partition_by)
    paths = [path for start in range(0, 30, 5) for path in lake.commit(*range(start, start + 5))]
    lake.commit(100, dead={paths[0]: [0], paths[-1]: [0]})
    lake.commit(101, dead={paths[1]: [0]})
    before, offsets = lake.ids(), lake.loaded().offsets
    files = len(lake.loaded().live_files())
    report = compact(lake.store, 2)
    assert report.rewritten > 0
    assert lake.ids() == before
    loaded = lake.loaded()
    assert loaded.offsets == offsets
    assert not loaded.delete_files()
    assert len(loaded.live_files()) < files
    assert loaded.head is not None
    assert loaded.head.summary is not None
    assert loaded.head.summary.operation.value == "replace"
    assert compact(lake.store, 2).rewritten == 0


def commits_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch, commits: Iterable[Callable[[], object]]) -> None:
    """Have another writer make its next commit whenever the compaction is about to."""
    commit_change = LoadedIcebergTable.commit_change
    pending = iter(commits)

    def late(loaded: LoadedIcebergTable, change: SnapshotChange, *known: Any) -> CommitResult:
        if change.replaces and (commit := next(pending, None)) is not None:
            commit()
        return commit_change(loaded, change, *known)

    monkeypatch.setattr(LoadedIcebergTable, "commit_change", late)


@pytest.mark.parametrize("partition_by", [[], ["bucket(2, id)"]])
def test_rows_that_others_delete_meanwhile_are_deleted_in_the_new_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, partition_by: list[str]
) -> None:
    lake = Lake(tmp_path, partition_by)
    paths = [path for start in range(0, 20, 5) for path in lake.commit(*range(start, start + 5))]
    lake.commit(90, dead={paths[0]: [1]})
    stayed: list[int] = []

    def upsert(number: int) -> None:
        lake.commit(number, dead={paths[-1]: [number - 50], paths[0]: [0]})
        stayed[:] = lake.ids()

    commits_meanwhile(lake, monkeypatch, [lambda: upsert(50), lambda: lake.commit(70), lambda: upsert(51)])
    report = compact(lake.store, 2, at_most=1)
    assert report.lost_races == 3
    assert report.rewritten >= 2
    assert lake.ids() == stayed
    assert {50, 51, 70} <= set(stayed)
    assert compact(lake.store, 1).rewritten > 0
    assert lake.ids() == stayed
    assert not lake.loaded().delete_files()


def test_compaction_gives_way_to_another_that_took_its_files(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        lake.commit(number)
    files_before = lake.files()
    taken: list[str] = []

    def compact_as_other() -> None:
        table = lake.catalog.load_table(NAME)
        table.overwrite(table.scan().to_arrow())
        taken.extend(name for name in lake.files() - files_before if name.endswith(".parquet"))

    commits_meanwhile(lake, monkeypatch, [compact_as_other])
    report = compact(lake.store, 2)
    assert (report.rewritten, report.lost_races) == (0, 1)
    assert lake.ids() == [0, 1, 2, 3]
    left = {name for name in lake.files() - files_before if name.endswith(".parquet")}
    assert len(left) == 1, taken  # the other's file: that of the compaction is deleted


def test_compaction_gives_up_after_some_lost_races(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(4):
        lake.commit(number)
    commits_meanwhile(lake, monkeypatch, (lambda at=at: lake.commit(at) for at in range(100, 200)))
    report = compact(lake.store, 2)
    assert (report.rewritten, report.lost_races) == (0, MOST_TRIES)
    assert lake.ids() == [0, 1, 2, 3, *range(100, 100 + MOST_TRIES)]
    assert len(list(lake.loaded().live_files())) == 4 + MOST_TRIES


def test_compaction_gives_way_to_a_rollback(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    path = lake.commit(1, 2)[0]
    lake.commit(3)
    snapshot = lake.loaded().snapshot
    assert snapshot is not None
    lake.commit(4, dead={path: [0]})

    def roll_back() -> None:
        lake.catalog.load_table(NAME).manage_snapshots().rollback_to_snapshot(int(snapshot)).commit()

    commits_meanwhile(lake, monkeypatch, [roll_back])
    assert compact(lake.store, 1).rewritten == 0
    assert lake.ids() == [1, 2, 3]


def test_sink_on_an_older_state_loses_against_a_compaction(lake: Lake) -> None:
    path = lake.commit(1, 2)[0]
    lake.commit(3)
    before = lake.loaded()
    compact(lake.store, 1)
    late = TableCommit("late", dead_rows={path: np.array([0], np.int64)})
    assert not isinstance(before.commit(late), Committed)
    assert lake.ids() == [1, 2, 3]


def test_upkeep_is_due_by_the_counts_of_the_summary(lake: Lake) -> None:
    path = lake.commit(1, 2, 3)[0]
    assert is_due(lake.loaded(), 1, 3) == (False, False)
    lake.commit(4, dead={path: [0]})
    assert is_due(lake.loaded(), 1, 1) == (False, True)
    assert is_due(lake.loaded(), 1, 0) == (False, False)
    for number in range(5, 16):
        lake.commit(number)
    assert is_due(lake.loaded(), 1, 50) == (True, False)
    assert is_due(lake.loaded(), 0, 50) == (False, False)


def upkeep_of(lake: Lake, due: int = 2) -> TableUpkeep:
    return TableUpkeep(lambda: IcebergTableStore(lambda: lake.catalog, NAME, "sink"), 0, due)


def test_upkeep_that_is_due_runs_next_to_commits_and_keeps_the_rows(lake: Lake) -> None:
    upkeep, number, limit_s = upkeep_of(lake), 0, time.monotonic() + 60

    def is_compacted() -> bool:
        return any(shot.summary and shot.summary.operation.value == "replace" for shot in lake.snapshots())

    while not is_compacted():
        assert time.monotonic() < limit_s
        loaded = lake.loaded()
        commit = TableCommit(f"n{number}", files=loaded.write(rows_of(number)))
        if isinstance(loaded.commit(commit), Committed):
            number += 1
            upkeep.after_commit(lake.store, ())
            time.sleep(0.01 * number)  # ever slower, so that the upkeep wins in the end on any machine
    upkeep.close(30)
    assert lake.ids() == list(range(number))
    assert len(lake.loaded().live_files()) < number


def test_task_without_the_first_partition_does_the_upkeep_at_twice_the_amount(lake: Lake) -> None:
    upkeep, due_at = upkeep_of(lake, due=3), 0
    for number in range(20):
        lake.commit(number)
        upkeep.after_commit(lake.store, {TopicPartition(PLACE.topic, PLACE.partition + 1)})
        upkeep.close(30)
        if len(lake.loaded().live_files()) <= number:
            due_at = number + 1
            break
    assert due_at == 2 * 2 * 3  # small files count from twice the setting on


@pytest.mark.parametrize("error", [SystemExit(), RetriableError("the catalog is away"), KeyError("x")])
def test_upkeep_that_failed_begins_again_after_the_next_commit(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    calls: list[int] = []

    def fail(*_: object, **__: object) -> None:
        calls.append(1)
        raise error

    monkeypatch.setattr(iceberg_upkeep, "compact", fail)
    upkeep = upkeep_of(lake, due=1)
    for number in range(5):
        lake.commit(number)
        upkeep.after_commit(lake.store, {PLACE})
        upkeep.close(30)
    assert len(calls) == 4  # from the second commit on


def test_upkeep_that_hangs_stops_neither_commits_nor_the_end_of_the_task(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    monkeypatch.setattr(iceberg_upkeep, "compact", lambda *_, **__: released.wait(60) and CompactionReport())
    monkeypatch.setattr(iceberg_upkeep, "SLOW_UPKEEP_S", 0)
    upkeep = upkeep_of(lake, due=1)
    for number in range(5):
        lake.commit(number)
        upkeep.after_commit(lake.store, {PLACE})
    upkeep.close(0.01)
    released.set()
    assert lake.ids() == [0, 1, 2, 3, 4]
    assert "has run for more than" in caplog.text
    assert "continues although its task has ended" in caplog.text


def test_upkeeps_that_hang_are_awaited_together(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(iceberg_upkeep, "compact", lambda *_, **__: released.wait(60) and CompactionReport())
    upkeeps = [upkeep_of(lake, due=1) for _ in range(5)]
    for _ in range(2):
        lake.commit(lake.commits)
    for upkeep in upkeeps:
        upkeep.after_commit(lake.store, {PLACE})
    began_s = time.monotonic()
    close_all(upkeeps, 1.0)
    took_s = time.monotonic() - began_s
    released.set()
    close_all(upkeeps, 30.0)
    assert 1.0 <= took_s < 2.0


def test_orphans_are_old_files_without_a_name(lake: Lake) -> None:
    lake.commit(1)
    orphan = lake.loaded().write(rows_of(7))[0].path
    later = datetime.now(UTC) + timedelta(days=4)
    assert find_orphans(lake.store, timedelta(days=3)).paths == ()
    report = find_orphans(lake.store, timedelta(days=3), later)
    assert [Path(path).name for path in report.paths] == [Path(orphan).name]
    remove_orphans(lake.store, report)
    assert find_orphans(lake.store, timedelta(days=3), later).paths == ()
    assert lake.ids() == [1]


def test_rewrites_are_bounded_and_by_partition() -> None:
    third = MOST_BYTES // 3
    files = {f"f{number}": LiveFile(f"f{number}", 1, third // 8) for number in range(30)}
    partitions = {path: int(path[1:]) % 2 for path in files}
    rewrites = plan_rewrites(files, partitions, {}, MOST_BYTES, 5, deletes_due=False)
    assert all(rewrite.size <= MOST_BYTES for rewrite in rewrites)
    assert sorted(path for rewrite in rewrites for path in rewrite.paths) == sorted(files)
    assert all(len({partitions[path] for path in rewrite.paths}) == 1 for rewrite in rewrites)
    assert plan_rewrites(files, partitions, {}, MOST_BYTES, 16, deletes_due=False) == []
    dead = {"f3": np.array([0])}
    assert plan_rewrites(files, partitions, dead, MOST_BYTES, 16, deletes_due=False) == []
    assert [rewrite.paths for rewrite in plan_rewrites(files, partitions, dead, MOST_BYTES, 16, deletes_due=True)] == [
        ("f3",)
    ]


def test_compaction_writes_the_manifests_that_lose_files_as_one(lake: Lake) -> None:
    for number in range(8):
        lake.commit(number)
    assert compact(lake.store, 2).rewritten == 8
    head = lake.loaded().head
    assert head is not None
    manifests = head.manifests(lake.loaded().table.io)
    assert [(found.added_files_count, found.deleted_files_count) for found in manifests] == [(1, 0), (0, 8)]
    assert lake.ids() == list(range(8))


def test_many_manifests_are_merged(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spark_connect_rt.connectors.lakehouse.iceberg_commit.MERGED_FROM", 5)
    path = lake.commit(0, 1000)[0]
    lake.commit(1, dead={path: [1]})
    for number in range(2, 14):
        lake.commit(number)
        head = lake.loaded().head
        assert head is not None
        assert len(head.manifests(lake.loaded().table.io)) <= 7
    assert lake.ids() == list(range(14))

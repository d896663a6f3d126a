"""What may happen to a table and its tasks, each as a scenario that fails once its guard is removed.

A scenario plays with tasks on a real table of both formats, and compares the table's rows with the records. The
control runs the same scenario with the guard replaced by what one would do without it, and expects the comparison to
fail. `docs/explanation/table_scenarios.md` lists scenarios, guards and what the controls show.
"""

from __future__ import annotations

import itertools
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from pyiceberg.types import StringType

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse import commit_parts, guard, iceberg_table, sink_connector, table_writer
from spark_connect_rt.connectors.lakehouse.changes import DELETE, OP, UPSERT
from spark_connect_rt.connectors.lakehouse.commit_parts import CommitTurns
from spark_connect_rt.connectors.lakehouse.delta_sink import MergedRows
from spark_connect_rt.connectors.lakehouse.delta_table import DeltaTableStore, LoadedDeltaTable
from spark_connect_rt.connectors.lakehouse.guard import Check, CommitVerdict, ResumePoint, ResumeReason
from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.connectors.lakehouse.iceberg_table import IcebergTableStore, LoadedIcebergTable
from spark_connect_rt.connectors.lakehouse.iceberg_upkeep import (
    compact,
    expire_snapshots,
    find_orphans,
    remove_orphans,
)
from spark_connect_rt.connectors.lakehouse.keyed_rows import KeyedRows
from spark_connect_rt.connectors.lakehouse.known_deletes import KnownDeletes
from spark_connect_rt.connectors.lakehouse.part_exchange import PartExchange
from spark_connect_rt.connectors.lakehouse.part_folder import FilePartFolder
from spark_connect_rt.connectors.lakehouse.sink_connector import alter_stored
from spark_connect_rt.connectors.lakehouse.table_port import (
    CommitResult,
    Committed,
    LoadedTable,
    StoredOffset,
    TableCommit,
    TableStore,
    UnknownOutcome,
)
from spark_connect_rt.connectors.lakehouse.table_writer import CommitReport, TableCommitter, WriterParts
from spark_connect_rt.errors import ConnectError, ExternalError, RetriableError

TOPIC, NAME = "orders", "shop.orders"
PLACE, OTHER = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
SCHEMA = pa.schema([pa.field("id", pa.int64(), False), pa.field("name", pa.string())])
CHANGES = pa.schema([pa.field(OP, pa.string()), *(column.with_nullable(True) for column in SCHEMA)])
INTERVAL_MS, PATIENCE_MS = 1_000, 200
Hook = Callable[[TableCommit], str | None]


class Killed(BaseException):
    """The process dies here."""


class Lake(ABC):
    """One table of a format, its tasks, and the faults of its commits."""

    loaded_class: type[Any]

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        self.now_ms = 0
        self.ids = itertools.count()
        self.commits: list[TableCommit] = []
        self.hook: Hook = lambda commit: None
        """Called with the next commit once it was checked. Returns `lost` or `never` to lose its answer or request."""
        self.repeats_on_the_newest_state = False
        commit: Callable[[LoadedTable, TableCommit], CommitResult] = self.loaded_class.commit

        def with_hook(loaded: LoadedTable, change: TableCommit) -> CommitResult:
            hook, self.hook = self.hook, lambda commit: None
            fault = hook(change)
            if self.repeats_on_the_newest_state:
                loaded = loaded._store.load()  # type: ignore[attr-defined]
            if fault == "never":
                return UnknownOutcome(TimeoutError("the answer was lost"))
            result = commit(loaded, change)
            if isinstance(result, Committed):
                self.commits.append(change)
            return UnknownOutcome(TimeoutError("the answer was lost")) if fault == "lost" else result

        patch.setattr(self.loaded_class, "commit", with_hook)
        self.store().create(SCHEMA, ["id"])

    @abstractmethod
    def store(self) -> TableStore:
        """Return a store of the connector."""

    @abstractmethod
    def read(self) -> pa.Table:
        """Return the rows as another reader sees them."""

    @abstractmethod
    def append_foreign(self, rows: pa.Table) -> None:
        """Append rows as another writer."""

    @abstractmethod
    def compact_foreign(self) -> None:
        """Rewrite all files as another writer."""

    @abstractmethod
    def add_column(self, name: str) -> None:
        """Add a text column as another writer."""

    @abstractmethod
    def drop(self) -> None:
        """Drop the table with its files, and create it again."""

    def maintain(self) -> None:
        """Do the sink's own upkeep, if the format has any."""

    def index(self, store: TableStore) -> KeyedRows:
        """Return the index of a task with upserts."""
        return KeyedRows(NAME, ["id"])

    def rows(self) -> list[tuple[int, str]]:
        found = self.read()
        return sorted(zip(found["id"].to_pylist(), found["name"].to_pylist(), strict=True))

    def assert_no_file_twice(self) -> None:
        """Compare the files of all commits. Delta keeps each path once, so that its rows alone may be right."""
        paths = [new.path for commit in self.commits for new in commit.files]
        assert len(paths) == len(set(paths)), "a file is in two snapshots"

    def assert_rows(self, *offsets: int, name: str = "n") -> None:
        assert self.rows() == [(offset, f"{name}{offset}") for offset in sorted(offsets)]


class IcebergLake(Lake):
    loaded_class = LoadedIcebergTable
    branch = "main"

    def catalog(self) -> RememberingSqlCatalog:
        return RememberingSqlCatalog(
            "lake", uri=f"sqlite:///{self.folder / 'catalog.db'}", warehouse=(self.folder / "warehouse").as_uri()
        )

    def store(self) -> IcebergTableStore:
        return IcebergTableStore(self.catalog, NAME, "sink", branch=self.branch)

    def read(self) -> pa.Table:
        return self.catalog().load_table(NAME).scan().to_arrow()

    def append_foreign(self, rows: pa.Table) -> None:
        self.catalog().load_table(NAME).append(rows)

    def compact_foreign(self) -> None:
        table = self.catalog().load_table(NAME)
        table.overwrite(table.scan().to_arrow().cast(SCHEMA))

    def maintain(self) -> None:
        compact(self.store(), 1)
        expire_snapshots(self.store(), 1)

    def add_column(self, name: str) -> None:
        with self.catalog().load_table(NAME).update_schema() as update:
            update.add_column(name, StringType())

    def drop(self) -> None:
        self.catalog().purge_table(NAME)
        for path in self.folder.rglob("*.parquet"):
            path.unlink()
        self.store().create(SCHEMA, ["id"])


class DeltaLake(Lake):
    loaded_class = LoadedDeltaTable

    @property
    def path(self) -> str:
        return str(self.folder / "orders")

    def store(self) -> DeltaTableStore:
        return DeltaTableStore(self.path, "sink", name=NAME)

    def read(self) -> pa.Table:
        return DeltaTable(self.path).to_pyarrow_table()

    def append_foreign(self, rows: pa.Table) -> None:
        write_deltalake(self.path, rows, mode="append")

    def compact_foreign(self) -> None:
        DeltaTable(self.path).optimize.compact()

    def add_column(self, name: str) -> None:
        DeltaTable(self.path).alter.add_columns([Field.from_arrow(pa.field(name, pa.string()))])

    def drop(self) -> None:
        shutil.rmtree(self.path)
        self.store().create(SCHEMA, ["id"])

    def index(self, store: TableStore) -> KeyedRows:
        keyed = MergedRows(store)
        keyed.use_keys(["id"])
        return keyed


class Task:
    """A task of the connector, at the level of its writer."""

    def __init__(self, lake: Lake, *, upserts: bool = False, shares: bool = False) -> None:
        self.lake, self.upserts = lake, upserts
        number = next(lake.ids)
        parts = WriterParts(
            lambda: lake.now_ms, lambda: lake.now_ms, self._wait, lambda: 0.5, lambda: f"c{number}n{next(lake.ids)}"
        )
        store = lake.store()
        exchange = PartExchange(NAME, f"w{number}", CommitTurns(INTERVAL_MS)) if shares else None
        self.writer = TableCommitter(store, parts, lake.index(store) if upserts else None, exchange=exchange)

    def _wait(self, wait_ms: int) -> None:
        self.lake.now_ms += wait_ms

    def open(self, *places: TopicPartition, group: int = 0, topic_id: str | None = None) -> dict[TopicPartition, int]:
        found = self.writer.resume(dict.fromkeys(places, group), {TOPIC: topic_id} if topic_id else {})
        return {place: decision.start for place, decision in found.items()}

    def read(
        self, end: int, place: TopicPartition = PLACE, name: str = "n", op: str = UPSERT, first: int | None = None
    ) -> None:
        """Take the records up to an offset. The row of a record has its offset as id, 1000 more in the other one."""
        offsets = np.arange(self.writer.next_offset(place) if first is None else first, end, dtype=np.int64)
        ids = offsets + 1_000 * place.partition
        rows = pa.table({"id": ids, "name": [f"{name}{number}" for number in ids]}, schema=SCHEMA)
        if self.upserts:
            rows = pa.table([pa.repeat(op, len(offsets)), *rows.columns], schema=CHANGES)
        schema = self.writer.schema
        assert schema is not None
        self.writer.add(place, rows, offsets, end)

    def change(self, ids: Collection[int], name: str = "", op: str = UPSERT) -> None:
        """Take one record for each of these keys."""
        first = self.writer.next_offset(PLACE)
        names = [f"{name}{number}" for number in ids]
        rows = pa.table([pa.repeat(op, len(ids)), pa.array(ids, pa.int64()), names], schema=CHANGES)
        self.writer.add(PLACE, rows, np.arange(first, first + len(ids), dtype=np.int64), first + len(ids))

    def commit(self) -> CommitReport:
        return self.writer.commit(PATIENCE_MS)

    def commit_for_sure(self) -> None:
        """Commit as the worker does, which calls again after a retriable error."""
        for _ in range(10):
            try:
                if self.commit().landed:
                    return
            except RetriableError:
                continue
        raise AssertionError("no commit became visible")

    @property
    def safe(self) -> dict[TopicPartition, int]:
        """The offsets that the worker may commit for the group."""
        return self.writer.safe_offsets()


def share_for(lake: Lake, wait_ms: int, *tasks: Task) -> None:
    """Let time pass while tasks do their steps."""
    until_ms = lake.now_ms + wait_ms
    while lake.now_ms < until_ms:
        for task in tasks:
            task.writer.share(PATIENCE_MS)
        lake.now_ms += 50


# Scenarios


def zombie_with_old_offsets(lake: Lake) -> None:
    """A task is paused for longer than its group waits, and commits its rows after the new owner did."""
    zombie, owner = Task(lake), Task(lake)
    zombie.open(PLACE)
    zombie.read(4)
    owner.open(PLACE)
    owner.read(6)
    owner.commit_for_sure()
    fenced = zombie.commit().fenced
    lake.assert_rows(*range(6))
    assert fenced == {PLACE}


def zombie_between_check_and_commit(lake: Lake) -> None:
    """A task is paused right before its commit, which it has checked already."""
    zombie, owner = Task(lake), Task(lake)
    zombie.open(PLACE)
    zombie.read(4)

    def pause(commit: TableCommit) -> None:
        owner.open(PLACE)
        owner.read(6)
        owner.commit_for_sure()

    lake.hook = pause
    assert zombie.commit().fenced == {PLACE}
    lake.assert_rows(*range(6))


def answer_of_a_commit_is_lost(lake: Lake) -> None:
    """The commit is visible, and its task does not learn of it."""
    task = Task(lake)
    task.open(PLACE)
    task.read(4)
    lake.hook = lambda commit: "lost"
    task.commit_for_sure()
    task.read(6)
    task.commit_for_sure()
    lake.assert_no_file_twice()
    lake.assert_rows(*range(6))


def request_of_a_commit_is_lost(lake: Lake) -> None:
    """The request got no answer, and never arrived."""
    task = Task(lake)
    task.open(PLACE)
    task.read(4)
    lake.hook = lambda commit: "never"
    task.commit_for_sure()
    lake.assert_rows(*range(4))


def answer_is_lost_and_the_task_paused(lake: Lake) -> None:
    """A task whose commit is visible sleeps until the table has forgotten the id of that commit."""
    zombie, owner = Task(lake), Task(lake)
    zombie.open(PLACE)
    zombie.read(2)
    zombie.commit_for_sure()
    zombie.read(4)
    lake.hook = lambda commit: "lost"
    with pytest.raises(RetriableError):
        zombie.writer.commit(-1)
    owner.open(PLACE)
    for end in range(5, 5 + guard.KEPT_COMMITS + 1):
        owner.read(end)
        owner.commit_for_sure()
    assert zombie.commit().fenced == {PLACE}
    lake.assert_rows(*range(5 + guard.KEPT_COMMITS))


def two_committers_at_once(lake: Lake) -> None:
    """After a rebalance, two tasks commit the same parts."""
    first, second, third = (Task(lake, shares=True) for _ in range(3))
    for number, task in enumerate((first, second, third)):
        place = TopicPartition(TOPIC, number)
        task.open(place)
        task.read(4, place)
    share_for(lake, INTERVAL_MS - 50, first, second, third)

    def other_commits(commit: TableCommit) -> None:
        second.commit_for_sure()

    lake.hook = other_commits
    first.commit_for_sure()
    share_for(lake, INTERVAL_MS, third)
    lake.assert_no_file_twice()
    lake.assert_rows(*(number + 1_000 * partition for partition in range(3) for number in range(4)))


def committer_dies(lake: Lake) -> None:
    """The task that commits for all is killed before its commit. Another takes over within an interval."""
    first, second = Task(lake, shares=True), Task(lake, shares=True)
    first.open(PLACE)
    second.open(OTHER)
    first.read(4)
    second.read(4, OTHER)

    def die(commit: TableCommit) -> None:
        raise Killed

    lake.hook = die
    with pytest.raises(Killed):
        share_for(lake, 2 * INTERVAL_MS, first)
    began_ms = lake.now_ms
    share_for(lake, 2 * INTERVAL_MS, second)
    lake.assert_rows(*range(4), *range(1_000, 1_004))
    assert lake.now_ms - began_ms <= 2 * INTERVAL_MS
    replacement = Task(lake, shares=True)
    assert replacement.open(PLACE) == {PLACE: 4}, "the part of the killed task is in the table"


def committer_sleeps_and_wakes_up(lake: Lake) -> None:
    """The task that commits for all is paused between its check and its commit, for two intervals."""
    first, second = Task(lake, shares=True), Task(lake, shares=True)
    first.open(PLACE)
    second.open(OTHER)
    first.read(4)
    second.read(4, OTHER)
    share_for(lake, INTERVAL_MS - 50, first, second)

    def sleep(commit: TableCommit) -> None:
        share_for(lake, 2 * INTERVAL_MS, second)
        lake.assert_rows(*range(4), *range(1_000, 1_004))

    lake.hook = sleep
    first.commit_for_sure()
    first.read(6)
    share_for(lake, 2 * INTERVAL_MS, first, second)
    lake.assert_no_file_twice()
    lake.assert_rows(*range(6), *range(1_000, 1_004))


def part_of_a_killed_task_before_a_reset(lake: Lake) -> None:
    """A killed task leaves a part. Its connector's offsets are reset before the restart."""
    killed = Task(lake, shares=True)
    killed.open(PLACE, group=2)
    killed.read(4)
    share_for(lake, INTERVAL_MS - 50, killed)
    alter_stored(lake.store(), {PLACE: None})
    owner, other = Task(lake, shares=True), Task(lake, shares=True)
    owner.open(PLACE, group=0)
    other.open(OTHER)
    owner.read(6)
    other.read(2, OTHER)
    other.commit_for_sure()
    owner.commit()
    lake.assert_rows(*range(6), 1_000, 1_001)


def idle_partition(lake: Lake) -> None:
    """A partition and another task have no rows. Nobody waits for them."""
    task, idle = Task(lake, shares=True), Task(lake, shares=True)
    task.open(PLACE, OTHER)
    idle.open(TopicPartition(TOPIC, 2))
    task.read(4)
    task.writer.add(OTHER, None, np.zeros(0, np.int64), 7)  # records without rows
    share_for(lake, 2 * INTERVAL_MS, task, idle)
    lake.assert_rows(*range(4))
    assert task.safe == {PLACE: 4, OTHER: 7}


def catalog_fails_a_commit(lake: Lake) -> None:
    """The catalog refuses a request, and the task is restarted after that."""
    task = Task(lake)
    task.open(PLACE)
    task.read(4)

    def fail(commit: TableCommit) -> None:
        raise RetriableError("the catalog cannot be reached")

    lake.hook = fail
    with pytest.raises(RetriableError):
        task.commit()
    group = task.safe[PLACE]
    restarted = Task(lake)
    restarted.open(PLACE, group=group)
    restarted.read(6)
    restarted.commit_for_sure()
    lake.assert_rows(*range(6))


def fenced_commit_that_fails(lake: Lake) -> None:
    """Another task had a partition for a while. The call that is fenced by that ends with an error of the catalog."""
    task, other = Task(lake), Task(lake)
    task.open(PLACE, OTHER)
    task.read(4)
    task.read(6, OTHER)
    other.open(PLACE)
    other.read(2)
    other.commit_for_sure()

    def fail(commit: TableCommit) -> None:
        raise RetriableError("the catalog cannot be reached")

    lake.hook = fail
    with pytest.raises(RetriableError):
        task.commit()
    is_fenced = PLACE in task.writer.take_fenced()
    task.read(8, first=task.writer.next_offset(PLACE) if is_fenced else 4)  # else the consumer continues
    while task.writer.waiting_rows:  # first those of the commit that failed
        task.commit_for_sure()
    lake.assert_rows(*range(8), *range(1_000, 1_006))


def kill_between_file_and_commit(lake: Lake) -> None:
    """The process dies after it wrote a data file. The group's offsets are committed all the time."""
    task = Task(lake)
    task.open(PLACE)
    task.read(4)
    group: list[int] = []

    def die(commit: TableCommit) -> None:
        group.append(task.safe[PLACE])
        raise Killed

    lake.hook = die
    with pytest.raises(Killed):
        task.commit()
    assert len(list(lake.folder.rglob("*.parquet"))) == 1
    lake.assert_rows()
    restarted = Task(lake)
    restarted.open(PLACE, group=group[0])
    restarted.read(6)
    restarted.commit_for_sure()
    lake.assert_rows(*range(6))


def foreign_rewrite_of_upserted_rows(lake: Lake) -> None:
    """Another writer compacts and overwrites, the sink compacts and expires, and rows are replaced by key."""
    task = Task(lake, upserts=True)
    task.open(PLACE)
    for number, disturb in enumerate((lake.compact_foreign, lake.maintain, lake.compact_foreign)):
        task.change(range(4), f"{number}-")
        task.commit_for_sure()
        disturb()
        task.change(range(2), f"{number}+")
        lake.hook = lambda commit: lake.compact_foreign()
        task.commit_for_sure()
        task.change([3], op=DELETE)
        task.commit_for_sure()
        assert lake.rows() == [(0, f"{number}+0"), (1, f"{number}+1"), (2, f"{number}-2")]


def rollback_of_upserted_rows(lake: Lake) -> None:
    """The table goes back to a snapshot in which a replaced row lives, and the row is replaced again."""
    assert isinstance(lake, IcebergLake)
    task = Task(lake, upserts=True)
    task.open(PLACE)
    task.change(range(4), "a")
    task.commit_for_sure()
    table = lake.catalog().load_table(NAME)
    first = table.current_snapshot()
    assert first is not None
    task.change([1], "b")
    task.commit_for_sure()
    table.refresh().manage_snapshots().rollback_to_snapshot(first.snapshot_id).commit()
    assert (1, "a1") in lake.rows()
    task.change([1], "c")
    task.commit_for_sure()
    assert lake.rows() == [(0, "a0"), (1, "c1"), (2, "a2"), (3, "a3")]


def foreign_changes_before_a_restart(lake: Lake) -> None:
    """Other writers append and compact, old snapshots expire, and the task that restarts finds its offsets."""
    task = Task(lake)
    task.open(PLACE)
    task.read(4)
    task.commit_for_sure()
    lake.append_foreign(pa.table([[50], ["n50"]], schema=SCHEMA))
    lake.compact_foreign()
    lake.maintain()
    restarted = Task(lake)
    restarted.open(PLACE)
    restarted.read(6)
    restarted.commit_for_sure()
    lake.assert_rows(*range(6), 50)


def schema_changed_by_another_writer(lake: Lake) -> None:
    """A column is added while rows of the older schema wait for their commit."""
    task = Task(lake)
    task.open(PLACE)
    task.read(4)
    lake.add_column("note")
    task.commit_for_sure()
    lake.assert_rows(*range(4))
    assert lake.read()["note"].to_pylist() == [None] * 4


def table_dropped_and_created_again(lake: Lake) -> None:
    """A task has written a data file for a table that is dropped before its first commit."""
    task = Task(lake)
    task.open(PLACE)
    task.read(4)

    def fail(commit: TableCommit) -> None:
        raise RetriableError("the catalog cannot be reached")

    lake.hook = fail
    with pytest.raises(RetriableError):
        task.commit()
    lake.drop()
    task.commit_for_sure()
    lake.assert_rows(*range(4))


def branch_deleted(lake: Lake) -> None:
    """The branch that a task writes is deleted. The task says so, and rows go nowhere else."""
    assert isinstance(lake, IcebergLake)
    lake.append_foreign(pa.table([[50], ["n50"]], schema=SCHEMA))
    table = lake.catalog().load_table(NAME)
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    lake.branch = "audit"
    task = Task(lake)
    task.open(PLACE)
    task.read(2)
    task.commit_for_sure()
    lake.catalog().load_table(NAME).manage_snapshots().remove_branch("audit").commit()
    task.read(4)
    error: ConnectError | None = None
    try:
        task.commit()
    except ExternalError as raised:
        error = raised
    assert "branch audit does not exist" in str(error)
    assert "audit" not in lake.catalog().load_table(NAME).metadata.refs
    assert task.safe == {PLACE: 2}
    lake.assert_rows(50)


def topic_created_again(lake: Lake) -> None:
    """A topic is deleted and created again. Its records have the offsets of the old ones."""
    task = Task(lake)
    task.open(PLACE, topic_id="first")
    task.read(5)
    task.commit_for_sure()
    restarted = Task(lake)
    restarted.open(PLACE, topic_id="second")
    restarted.read(8, name="new")
    restarted.commit_for_sure()
    old, new = [(number, f"n{number}") for number in range(5)], [(number, f"new{number}") for number in range(8)]
    assert lake.rows() == sorted(old + new)


def group_reset_by_its_owner(lake: Lake) -> None:
    """The consumer group is moved to an offset where it never was. The task reads from there."""
    task = Task(lake)
    task.open(PLACE)
    for end in (5, 9):
        task.read(end)
        task.commit_for_sure()
    restarted = Task(lake)
    assert restarted.open(PLACE, group=3) == {PLACE: 3}
    restarted.read(9)
    restarted.commit_for_sure()
    lake.assert_rows(*range(9), *range(3, 9))


# Guards, and what stands in their place in the controls


def commit_unchecked(lake: Lake) -> None:
    """Commit without a look at the stored offsets and commit ids."""
    lake.patch.setattr(table_writer, "check", lambda *_: Check(CommitVerdict.WRITE))
    lake.patch.setattr(commit_parts, "check", lambda *_: Check(CommitVerdict.WRITE))


def commit_on_the_newest_state(lake: Lake) -> None:
    """Repeat a commit on the state that is there now, as libraries do by default."""
    lake.repeats_on_the_newest_state = True


def take_no_answer_for_success(lake: Lake) -> None:
    """Continue after a request without an answer."""
    commit = lake.loaded_class.commit

    def optimistic(loaded: LoadedTable, change: TableCommit) -> CommitResult:
        result = commit(loaded, change)
        return Committed("unknown") if isinstance(result, UnknownOutcome) else result

    lake.patch.setattr(lake.loaded_class, "commit", optimistic)


def delete_files_without_proof(lake: Lake) -> None:
    """Delete the data files of each fenced commit."""
    lake.patch.setattr(table_writer, "is_surely_absent", lambda *_: True)


def never_take_over(lake: Lake) -> None:
    """Leave commits to the first task."""
    lake.patch.setattr(CommitTurns, "turn_ms", lambda turns, rank: rank << 40)


def keep_parts(lake: Lake) -> None:
    """Leave the parts of killed tasks."""
    lake.patch.setattr(sink_connector, "_remove_parts", lambda *_: None)
    lake.patch.setattr(PartExchange, "claim", lambda *_: None)


def wait_for_every_partition(lake: Lake) -> None:
    """Commit only when each partition has rows."""
    make = TableCommitter._new_attempt
    lake.patch.setattr(
        TableCommitter,
        "_new_attempt",
        lambda writer: make(writer) if all(gathered.rows for gathered in writer._places.values()) else None,
    )


def group_ahead_of_the_table(lake: Lake) -> None:
    """Let the group follow the records, not the table."""
    lake.patch.setattr(
        TableCommitter, "safe_offsets", lambda writer: {place: at.end for place, at in writer._places.items()}
    )


def index_without_other_writers(lake: Lake) -> None:
    """Build the index of keys once."""
    catch_up = KeyedRows.catch_up
    lake.patch.setattr(KeyedRows, "catch_up", lambda keyed, loaded: None if keyed.builds else catch_up(keyed, loaded))


def index_without_deletes_that_went(lake: Lake) -> None:
    """Follow other states without a look at the deletes that they lack."""
    follow = KeyedRows._follow

    def forgetful(keyed: KeyedRows, *given: Any) -> bool:
        keyed._deletes = KnownDeletes()
        return follow(keyed, *given)

    lake.patch.setattr(KeyedRows, "_follow", forgetful)


def fences_of_calls_that_succeed(lake: Lake) -> None:
    """Hear of fenced partitions only from calls that return."""
    lake.patch.setattr(TableCommitter, "take_fenced", lambda _: frozenset())


def offsets_of_the_last_snapshot(lake: Lake) -> None:
    """Look for the offsets in the newest commit only."""
    if isinstance(lake, IcebergLake):
        ends_of = iceberg_table._ends_of

        def offsets(loaded: LoadedIcebergTable) -> dict[TopicPartition, StoredOffset]:
            ends = {} if loaded.head is None else ends_of(loaded._store, loaded.head)
            return {place: StoredOffset(end) for place, end in ends.items()}

        lake.patch.setattr(LoadedIcebergTable, "offsets", property(offsets))
    else:
        lake.patch.setattr(DeltaTable, "transaction_version", lambda table, app: None)


def rows_of_an_older_schema(lake: Lake) -> None:
    """Write rows as they were gathered."""
    lake.patch.setattr(table_writer, "conform", lambda rows, schema: rows)


def files_of_the_dropped_table(lake: Lake) -> None:
    """Commit data files to whichever table has the name."""
    write = TableCommitter._write

    def keep_files(writer: TableCommitter, loaded: LoadedTable, attempt: Any, upserts: pa.Table) -> None:
        if attempt.files:
            attempt.written_for = loaded.table_id
        write(writer, loaded, attempt, upserts)

    lake.patch.setattr(TableCommitter, "_write", keep_files)


def branch_from_nothing(lake: Lake) -> None:
    """Create a branch that is missing."""
    lake.patch.setattr(iceberg_table, "require_branch", lambda *_: None)


def topics_by_name(lake: Lake) -> None:
    """Know a topic by its name only."""
    lake.patch.setattr(guard, "_is_other_topic", lambda *_: False)


def table_wins_always(lake: Lake) -> None:
    """Read from the table's offset, wherever the group is."""

    def resume(stored: StoredOffset | None, position: int, *_: object) -> ResumePoint:
        return ResumePoint(stored, position if stored is None else stored.end, ResumeReason.IN_STEP)

    lake.patch.setattr(table_writer, "resume", resume)


BOTH, ICEBERG = (IcebergLake, DeltaLake), (IcebergLake,)
SCENARIOS: list[tuple[Callable[[Lake], None], Callable[[Lake], None], tuple[type[Lake], ...]]] = [
    (zombie_with_old_offsets, commit_unchecked, BOTH),
    (zombie_between_check_and_commit, commit_on_the_newest_state, BOTH),
    (answer_of_a_commit_is_lost, commit_unchecked, BOTH),
    (request_of_a_commit_is_lost, take_no_answer_for_success, BOTH),
    (answer_is_lost_and_the_task_paused, delete_files_without_proof, BOTH),
    (two_committers_at_once, commit_on_the_newest_state, BOTH),
    (committer_dies, never_take_over, BOTH),
    (committer_sleeps_and_wakes_up, commit_on_the_newest_state, BOTH),
    (part_of_a_killed_task_before_a_reset, keep_parts, BOTH),
    (idle_partition, wait_for_every_partition, BOTH),
    (catalog_fails_a_commit, group_ahead_of_the_table, BOTH),
    (fenced_commit_that_fails, fences_of_calls_that_succeed, BOTH),
    (kill_between_file_and_commit, group_ahead_of_the_table, BOTH),
    (foreign_rewrite_of_upserted_rows, index_without_other_writers, ICEBERG),
    (rollback_of_upserted_rows, index_without_deletes_that_went, ICEBERG),
    (foreign_changes_before_a_restart, offsets_of_the_last_snapshot, BOTH),
    (schema_changed_by_another_writer, rows_of_an_older_schema, ICEBERG),
    (table_dropped_and_created_again, files_of_the_dropped_table, BOTH),
    (branch_deleted, branch_from_nothing, ICEBERG),
    (topic_created_again, topics_by_name, BOTH),
    (group_reset_by_its_owner, table_wins_always, BOTH),
]
"""Scenario, the guard removed in its control, and the formats of the control. Both formats pass each scenario."""
CASES = [
    pytest.param(scenario, remove, lake, id=f"{scenario.__name__}-{lake.__name__}")
    for scenario, remove, lakes in SCENARIOS
    for lake in lakes
]
WRONG = (AssertionError, ConnectError, OSError, KeyError, ValueError)
"""What tells that rows are wrong: the comparison, or a table that cannot be read or written any more."""


@pytest.mark.parametrize(("scenario", "remove", "lake"), CASES)
def test_rows_are_right(
    scenario: Callable[[Lake], None],
    remove: Callable[[Lake], None],
    lake: type[Lake],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario(lake(tmp_path, monkeypatch))


@pytest.mark.parametrize(("scenario", "remove", "lake"), CASES)
def test_rows_are_wrong_without_the_guard(
    scenario: Callable[[Lake], None],
    remove: Callable[[Lake], None],
    lake: type[Lake],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = lake(tmp_path, monkeypatch)
    remove(made)
    with pytest.raises(WRONG):
        scenario(made)


@pytest.mark.parametrize("lake", BOTH)
@pytest.mark.parametrize("broken", [("write",), ("names",), ("read",), ("remove",), ("write", "names", "remove")])
def test_tasks_commit_for_themselves_where_parts_cannot_be_passed(
    lake: type[Lake], broken: Collection[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("no access to the folder of parts")

    made = lake(tmp_path, monkeypatch)
    for call in broken:
        monkeypatch.setattr(FilePartFolder, call, refuse)
    first, second = Task(made, shares=True), Task(made, shares=True)
    first.open(PLACE)
    second.open(OTHER)
    for end in (4, 6):
        first.read(end)
        second.read(end, OTHER)
        share_for(made, 2 * INTERVAL_MS, first, second)
        made.assert_rows(*range(end), *range(1_000, 1_000 + end))


def test_parts_and_files_of_killed_tasks_are_orphans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = IcebergLake(tmp_path, monkeypatch)
    killed = Task(made, shares=True)
    killed.open(PLACE)
    killed.read(4)
    share_for(made, INTERVAL_MS - 50, killed)
    later = datetime.now(UTC) + timedelta(days=4)
    report = find_orphans(made.store(), timedelta(days=3), later)
    assert sorted(Path(path).suffix for path in report.paths) == [".json", ".parquet"]
    remove_orphans(made.store(), report)
    restarted = Task(made, shares=True)
    restarted.open(PLACE)
    restarted.read(6)
    share_for(made, 2 * INTERVAL_MS, restarted)
    made.assert_rows(*range(6))

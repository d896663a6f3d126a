"""Upkeep of an Iceberg table: old snapshots expire, small files and position deletes are rewritten, orphans removed.

Each step is a commit on a loaded state, like the sink's own. If another writer is faster, it is tried again a few times
on the newer state. Stored offsets are never part of it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, RemoveSnapshotsUpdate, TableRequirement

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.iceberg_commit import KnownEntries, SnapshotChange, partition_of
from spark_connect_rt.connectors.lakehouse.iceberg_table import (
    IcebergTableStore,
    LoadedIcebergTable,
    discard_files,
    explained,
    file_system,
    writer_of,
)
from spark_connect_rt.connectors.lakehouse.known_deletes import KnownDeletes
from spark_connect_rt.connectors.lakehouse.table_port import Committed, LiveFile, LostRace, NewFile, Positions
from spark_connect_rt.errors import ConnectError

log = logging.getLogger(__name__)
SMALL_SHARE = 4  # a file is small below a quarter of the target size
MOST_BYTES = 64 << 20  # of files in one rewrite: it has to be short, or busy writers win every race
MOST_TRIES = 8  # of a commit: a further one costs a few small files
COMPACTION_PAUSE = 20  # commits
SLOW_UPKEEP_S = 600
MOST_MEMORY = 128 << 20  # of rows in memory: from here on, they are written to a file


def expired_snapshots(
    snapshots: Sequence[Snapshot], heads: Collection[int], keep: int, protected: Collection[int] = ()
) -> list[int]:
    """Return the snapshots to expire, oldest first. Pure.

    The newest `keep` snapshots stay, and so do heads of branches and tags, and `protected` ones.
    """
    oldest_first = sorted(snapshots, key=lambda snapshot: (snapshot.timestamp_ms, snapshot.sequence_number or 0))
    stay = {*heads, *protected, *(snapshot.snapshot_id for snapshot in oldest_first[-keep:])}
    return [snapshot.snapshot_id for snapshot in oldest_first if snapshot.snapshot_id not in stay]


def last_own_snapshots(snapshots: Sequence[Snapshot], heads: Collection[int]) -> set[int]:
    """Return the newest snapshot that each table sink made: on each branch, and of all. Pure.

    A sink whose last snapshot has expired would not notice a rollback.
    """
    by_id = {snapshot.snapshot_id: snapshot for snapshot in snapshots}
    newest_first = sorted(snapshots, key=lambda snapshot: snapshot.sequence_number or 0, reverse=True)
    return {
        snapshot.snapshot_id
        for history in (newest_first, *(_history(by_id, head) for head in heads))
        for snapshot in {writer_of(snapshot): snapshot for snapshot in reversed(history)}.values()
        if writer_of(snapshot) is not None
    }


def _history(by_id: Mapping[int, Snapshot], head: int) -> list[Snapshot]:
    """Return a snapshot and its ancestors, newest first, as far as they are known."""
    found: dict[int, Snapshot] = {}
    at: int | None = head
    while at is not None and at in by_id and at not in found:
        found[at] = by_id[at]
        at = by_id[at].parent_snapshot_id
    return list(found.values())


def _summary(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def expire_snapshots(store: IcebergTableStore, keep: int) -> int:
    """Expire all but the newest `keep` snapshots, and delete the files that only they named. Returns how many.

    Raises RetriableError or ExternalError of the catalog. Nothing expires if other writers were faster `MOST_TRIES`
    times.
    """
    for _ in range(MOST_TRIES if keep > 0 else 0):
        loaded = store.load()
        if loaded is None:
            break
        table, metadata = loaded.table, loaded.table.metadata
        heads = {reference.snapshot_id for reference in metadata.refs.values()}
        own = last_own_snapshots(metadata.snapshots, heads)
        expired = expired_snapshots(metadata.snapshots, heads, keep, own)
        if not expired:
            break
        requirements: list[TableRequirement] = [AssertTableUUID(uuid=metadata.table_uuid)]
        requirements += [
            AssertRefSnapshotId.model_validate({"ref": name, "snapshot-id": reference.snapshot_id})
            for name, reference in metadata.refs.items()
        ]
        update = RemoveSnapshotsUpdate.model_validate({"snapshot-ids": expired})
        try:
            table.catalog.commit_table(table, tuple(requirements), (update,))
        except CommitFailedException:
            continue
        except Exception as error:
            raise explained(store.name, error) from error
        discard_files(table, _files_of_expired(table, frozenset(expired)))
        log.info("table %s: %d snapshots expired", store.name, len(expired))
        return len(expired)
    return 0


def _files_of_expired(table: Table, expired: Collection[int]) -> set[str]:
    """Return the files that only expired snapshots name: manifest lists, manifests, data and delete files."""
    kept_manifests: dict[str, Any] = {}
    old_manifests: dict[str, Any] = {}
    files = set()
    for snapshot in table.metadata.snapshots:
        is_old = snapshot.snapshot_id in expired
        if is_old:
            files.add(snapshot.manifest_list)
        try:
            manifests = snapshot.manifests(table.io)
        except FileNotFoundError:
            continue
        (old_manifests if is_old else kept_manifests).update({found.manifest_path: found for found in manifests})
    only_old = {path: manifest for path, manifest in old_manifests.items() if path not in kept_manifests}
    files |= only_old.keys()
    named = {
        entry.data_file.file_path
        for manifest in only_old.values()
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    }
    if named:
        named -= {
            entry.data_file.file_path
            for manifest in kept_manifests.values()
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
        }
    return files | named


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Data files of one partition that are rewritten together."""

    paths: tuple[str, ...]
    size: int


def plan_rewrites(
    files: Mapping[str, LiveFile],
    partition_of: Mapping[str, Any],
    dead: Mapping[str, Positions],
    target_bytes: int,
    least_small: int,
    *,
    deletes_due: bool,
) -> list[Rewrite]:
    """Return which files to rewrite, at most `MOST_BYTES` in one rewrite. Pure.

    Files with dead rows are rewritten if `deletes_due`. Small files are rewritten where one partition has at least
    `least_small` of them.
    """
    groups: dict[Any, list[LiveFile]] = {}
    for path, file in files.items():
        groups.setdefault(partition_of[path], []).append(file)
    rewrites = []
    for members in groups.values():
        small = [file for file in members if file.size * SMALL_SHARE < target_bytes]
        chosen = {file.path: file for file in small} if len(small) >= max(2, least_small) else {}
        if deletes_due:
            chosen |= {file.path: file for file in members if file.path in dead}
        rewrites += _bounded(list(chosen.values()))
    return rewrites


def _bounded(files: Sequence[LiveFile]) -> list[Rewrite]:
    parts: list[list[LiveFile]] = []
    size = MOST_BYTES
    for file in files:
        if size + file.size > MOST_BYTES:
            parts.append([])
            size = 0
        parts[-1].append(file)
        size += file.size
    return [Rewrite(tuple(file.path for file in part), sum(file.size for file in part)) for part in parts]


@dataclass(slots=True)
class CompactionReport:
    """The work that compactions did, as counts of files and rows."""

    rewritten: int = 0
    written: int = 0
    removed_deletes: int = 0
    lost_races: int = 0
    rows: int = 0


def compact(store: IcebergTableStore, least: int, *, at_most: int = 1 << 30) -> CompactionReport:
    """Rewrite small files, and files with dead rows once the table has `least` delete files.

    Args:
        at_most: how many rewrites this call makes. Each is a commit.

    Raises RetriableError or ExternalError of the catalog.
    """
    report = CompactionReport()
    for _ in range(at_most):
        loaded = store.load()
        if loaded is None or loaded.snapshot is None:
            break
        files = loaded.live_files()
        deletes, dead = KnownDeletes().followed(loaded)
        partitions = {path: (file.detail.spec_id, partition_of(file.detail)) for path, file in files.items()}
        due = len(deletes) >= max(1, least)
        target_bytes = min(store.settings.target_bytes, MOST_BYTES)
        rewrites = plan_rewrites(files, partitions, dead, target_bytes, least, deletes_due=due)
        if not rewrites:
            finished = deletes.finished(files.keys()) if due else []
            if finished:  # another writer rewrote their data files and left them
                loaded.commit_change(SnapshotChange((), finished, replaces=True))
                report.removed_deletes += len(finished)
            break
        if not _rewrite(store, loaded, rewrites[0], deletes, dead, report):
            break
    return report


@dataclass(frozen=True, slots=True)
class _Rewritten:
    """A new file, and for each of its rows the number of the former file and the row in it."""

    file: NewFile
    numbers: Positions
    rows: Positions

    def dead_by(self, late: Mapping[int, Positions]) -> Positions:
        """Return the rows of this file that are dead if these rows of the former files are."""
        gone = np.zeros(len(self.rows), bool)
        for number, rows in late.items():
            gone |= (self.numbers == number) & np.isin(self.rows, rows)
        return np.flatnonzero(gone)


def _rewrite(
    store: IcebergTableStore,
    loaded: LoadedIcebergTable,
    rewrite: Rewrite,
    deletes: KnownDeletes,
    dead: Mapping[str, Positions],
    report: CompactionReport,
) -> bool:
    """Write the live rows of some files to new ones, and swap them in one commit. Returns whether that was done.

    Others commit meanwhile, and rows that they delete in the former files are deleted in the new ones. Without that, a
    table that several tasks upsert would never be compacted.
    """
    new = _write_again(loaded, rewrite.paths, dead)
    late: dict[str, Positions] = {}
    known: KnownEntries = {}
    won = False
    for _ in range(MOST_TRIES):
        finished = deletes.finished(loaded.live_files().keys() - set(rewrite.paths))
        late_files = _late_deletes(loaded, rewrite.paths, new, late)
        added = [*(part.file.detail for part in new), *late_files]
        result = loaded.commit_change(SnapshotChange(added, [*rewrite.paths, *finished], replaces=True), known)
        won = isinstance(result, Committed)
        if not isinstance(result, LostRace):
            break
        report.lost_races += 1
        discard_files(loaded.table, [file.file_path for file in late_files])
        newest = store.load()
        if newest is None or not _can_swap(loaded, newest, rewrite.paths) or deletes.lost(newest, rewrite.paths):
            break
        loaded = newest
        deletes, more = deletes.followed(loaded)
        for path, rows in more.items():
            late[path] = np.union1d(late[path], rows) if path in late else rows
    else:
        result = LostRace(f"it lost {MOST_TRIES} races")
    if isinstance(result, LostRace):
        discard_files(loaded.table, [part.file.path for part in new])
    if not won:
        log.info("table %s: a compaction gave way to another writer: %s", store.name, result)
        return False
    report.rewritten += len(rewrite.paths)
    report.written += len(new)
    report.removed_deletes += len(finished)
    report.rows += sum(part.file.rows for part in new)
    return True


def _write_again(
    loaded: LoadedIcebergTable, paths: Sequence[str], dead: Mapping[str, Positions]
) -> Sequence[_Rewritten]:
    """Write the live rows of files to new files, in their order."""
    made: list[_Rewritten] = []
    gathered: list[pa.RecordBatch] = []
    numbers: list[Positions] = []
    places: list[Positions] = []

    def write() -> None:
        number_of, row_of = np.concatenate(numbers), np.concatenate(places)
        for file in loaded.write(pa.Table.from_batches(gathered).cast(loaded.schema)):
            made.append(_Rewritten(file, number_of[file.source_rows], row_of[file.source_rows]))
        for part in (gathered, numbers, places):
            part.clear()

    for number, rows, batch in _live_batches(loaded, paths, dead):
        gathered.append(batch)
        numbers.append(np.full(len(rows), number, np.int64))
        places.append(rows)
        if sum(part.nbytes for part in gathered) >= MOST_MEMORY:
            write()
    if gathered:
        write()
    return made


def _live_batches(
    loaded: LoadedIcebergTable, paths: Sequence[str], dead: Mapping[str, Positions]
) -> Iterator[tuple[int, Positions, pa.RecordBatch]]:
    """Yield the live rows of files in their order: the number of the file, the rows in it, and their values."""
    for number, path in enumerate(paths):
        first, gone = 0, dead.get(path)
        for batch in loaded.read(path, loaded.schema.names):
            rows = np.arange(first, first + batch.num_rows, dtype=np.int64)
            first += batch.num_rows
            if gone is not None:
                is_live = ~np.isin(rows, gone)
                rows, batch = rows[is_live], batch.filter(pa.array(is_live))
            yield number, rows, batch


def _late_deletes(
    loaded: LoadedIcebergTable, paths: Sequence[str], new: Sequence[_Rewritten], late: Mapping[str, Positions]
) -> list[DataFile]:
    """Write the deletes of rows of new files whose former rows were deleted meanwhile."""
    by_number = {number: late[path] for number, path in enumerate(paths) if path in late}
    dead = {part.file.path: part.dead_by(by_number) for part in new} if by_number else {}
    details = {part.file.path: part.file.detail for part in new}
    return [file for file, _ in loaded.write_deletes({path: rows for path, rows in dead.items() if len(rows)}, details)]


def _can_swap(before: LoadedIcebergTable, newest: LoadedIcebergTable, paths: Sequence[str]) -> bool:
    """Return whether files can be swapped in a newer state as in the one that they were rewritten for."""
    same = before.table_id == newest.table_id and before.schema == newest.schema
    return same and before.table.spec() == newest.table.spec() and newest.live_files().keys() >= set(paths)


def is_due(loaded: LoadedIcebergTable, snapshots_kept: int, least: int) -> tuple[bool, bool]:
    """Return whether snapshots are to expire, and whether a compaction is due. Reads only the metadata.

    The summary's counters are a hint here. The manifests decide which files are rewritten.
    """
    metadata = loaded.table.metadata
    slack = max(10, snapshots_kept // 4)
    expire = snapshots_kept > 0 and len(metadata.snapshots) > snapshots_kept + slack
    summary = {} if loaded.head is None else _summary(loaded.head)
    delete_files, data_files = (int(summary.get(name, 0)) for name in ("total-delete-files", "total-data-files"))
    return expire, least > 0 and (delete_files >= least or data_files >= 2 * least)


class TableUpkeep:
    """Does the upkeep of a table that a task writes, in a separate thread with a separate store.

    A compaction takes seconds, and the task commits meanwhile. A thread lives as long as there is something to do. An
    error is logged, and the next commit begins again.
    """

    def __init__(self, open_store: Callable[[], IcebergTableStore], snapshots_kept: int, compact_files: int) -> None:
        """Take what opens the thread's store, and the settings `connectrt.table.snapshots.keep`, `.compact.files`."""
        self._open_store = open_store
        self._snapshots_kept, self._compact_files = snapshots_kept, compact_files
        self._commits = self._compact_at = 0
        self._thread: threading.Thread | None = None
        self._began_s = 0.0

    def after_commit(self, store: IcebergTableStore, own: Collection[TopicPartition]) -> None:
        """Begin what is due. The task of the table's first partition does it, others only at twice the amount.

        Args:
            store: of the task, to see the newest state.
            own: the partitions of the task.

        Raises RetriableError or ExternalError of the catalog.
        """
        self._commits += 1
        if self._thread is not None and self._thread.is_alive():
            if time.monotonic() - self._began_s > SLOW_UPKEEP_S:
                log.warning("table %s: its upkeep has run for more than %d s", store.name, SLOW_UPKEEP_S)
                self._began_s = time.monotonic()
            return
        loaded = store.load()
        if loaded is None:
            return
        share = 1 if min(loaded.offsets, default=None) in own else 2
        expire, rewrite = is_due(loaded, share * self._snapshots_kept, share * self._compact_files)
        rewrite = rewrite and self._commits >= self._compact_at
        if expire or rewrite:
            self._began_s = time.monotonic()
            self._thread = threading.Thread(
                target=self._work, args=(expire, rewrite), name=f"upkeep of {store.name}", daemon=True
            )
            self._thread.start()

    def _work(self, expire: bool, rewrite: bool) -> None:
        store = self._open_store()
        try:
            if expire:
                expire_snapshots(store, self._snapshots_kept)
            if rewrite:
                report = compact(store, self._compact_files, at_most=1)
                log.info("table %s: compaction: %s", store.name, report)
                # Nothing to rewrite: the manifests need not be read after every commit to find that out again.
                self._compact_at = self._commits + (1 if report.rewritten else COMPACTION_PAUSE)
        except ConnectError as error:
            log.warning("table %s: upkeep is tried again after the next commit: %s", store.name, error)
        except BaseException:
            log.exception("table %s: upkeep failed, and is tried again after the next commit", store.name)
        finally:
            store.close()

    def close(self, limit_s: float) -> None:
        """Wait until the thread has ended, at most `limit_s`. An unfinished step is not visible."""
        if self._thread is not None:
            self._thread.join(limit_s)
            if self._thread.is_alive():
                log.warning("upkeep of a table continues although its task has ended: %s", self._thread.name)


def close_all(upkeeps: Iterable[TableUpkeep], limit_s: float) -> None:
    """Close them, and wait at most `limit_s` for all of them together."""
    end_s = time.monotonic() + limit_s
    for upkeep in upkeeps:
        upkeep.close(max(0.0, end_s - time.monotonic()))


@dataclass(frozen=True, slots=True)
class OrphanReport:
    """Files below the table's folder that no snapshot names."""

    paths: tuple[str, ...] = ()
    size: int = 0
    kept: int = field(default=0)
    """Files that are named, or too young to be orphans."""


def find_orphans(store: IcebergTableStore, older_than: timedelta, now: datetime | None = None) -> OrphanReport:
    """Return files that no snapshot names and that are older than `older_than`.

    A writer's files have no name in the metadata until its commit, so `older_than` must be longer than any commit
    takes, retries included.
    """
    loaded = store.load()
    if loaded is None:
        return OrphanReport()
    table = loaded.table
    files, folder = file_system(table, table.location())
    named = {file_system(table, uri)[1].lstrip("/") for uri in _named_files(table)}
    before = (now or datetime.now(UTC)) - older_than
    orphans, size, kept = [], 0, 0
    for found in files.get_file_info(fs.FileSelector(folder, recursive=True)):
        if found.type != fs.FileType.File:
            continue
        is_old = found.mtime is not None and found.mtime < before
        if found.path.lstrip("/") in named or not is_old:
            kept += 1
            continue
        orphans.append(found.path)
        size += found.size or 0
    return OrphanReport(tuple(orphans), size, kept)


def remove_orphans(store: IcebergTableStore, orphans: OrphanReport) -> None:
    """Delete the files of a report."""
    loaded = store.load()
    if loaded is None:
        return
    files, _ = file_system(loaded.table, loaded.table.location())
    for path in orphans.paths:
        files.delete_file(path)


def _named_files(table: Table) -> set[str]:
    """Return every file that the metadata, the manifests or old versions of the metadata name."""
    metadata = table.metadata
    named = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    named |= {statistics.statistics_path for statistics in metadata.statistics}
    seen: set[str] = set()
    for snapshot in metadata.snapshots:
        named.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            named |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io)}
    return named | seen

"""The port between the table sinks and a table format.

`TableStore` reaches one table. `LoadedTable` is one state of it, and every commit names the state that it was made on.
`TableCommitter` (`table_writer.py`) is the only caller, on the thread of its task. Adapters: `iceberg_table.py`,
`delta_table.py`, and `testing/memory_table.py`. All pass `tests/contract/table_store_contract.py`.

The rules that make a commit exact:

- The rows and the offsets of a commit become visible together, or neither does.
- A commit is made on a loaded state. If the branch has moved since then, the commit changes nothing (`LostRace`).
- An adapter never repeats a commit by itself, because only the caller can check the stored offsets again.
- If the answer of a commit is lost, the adapter says so (`UnknownOutcome`). The caller loads the table and looks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.table_schema import Evolution

Positions = npt.NDArray[np.int64]
"""Row numbers within one data file, ascending, from 0."""
NO_ROWS: Positions = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class StoredOffset:
    """The memory of a table for one topic partition and one connector.

    Attributes:
        end: the next offset to write. Every record below it is in the table.
        topic_id: the id of the topic (KIP-516) that the offsets belong to. None if the brokers did not tell it.
        commits: ids of the last commits of this partition, newest last.
        group_at: where the consumer group can be without a reset by its owner, as (first offset, last offset, time of
            the commit in ms), oldest first. The group follows the table: before each commit, its offset was between
            the end of the commit before and the first record with a row.
    """

    end: int
    topic_id: str | None = None
    commits: tuple[str, ...] = ()
    group_at: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """The records of one topic partition in a commit: offsets from `start` up to, not including, `end`.

    `start` is -1 if the consumer group had no committed offset. `first_row` is the offset of the first record with a
    row, so the group's offset was at most this when the commit was made. `expected` is the stored offset that the range
    was read for. The commit is fenced if the table stores another.
    """

    expected: StoredOffset | None
    start: int
    end: int
    topic_id: str | None = None
    first_row: int | None = None


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file that `LoadedTable.write` has written, here or in another task, and no commit names yet.

    Attributes:
        path: its full URI.
        rows: how many rows it has.
        source_rows: for each row of the file, its row number in the table that was written. Empty if another task
            wrote it.
        size: bytes.
        detail: the adapter's own description, such as statistics.
    """

    path: str
    rows: int
    source_rows: Positions
    size: int = 0
    detail: Any = None


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file of a loaded state: full URI, rows including dead ones, bytes, and the adapter's description."""

    path: str
    rows: int
    size: int = 0
    detail: Any = None


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One change of a table: all of it becomes visible, or nothing.

    Attributes:
        commit_id: unique text for the audit trail, or several with commas between them. Each is stored with its
            offsets, so that a lost answer can be resolved by looking.
        offsets: the offsets that the table stores from now on, by topic partition. Others keep what they have.
        forgotten: partitions whose stored offset is removed.
        files: new data files.
        dead_rows: rows of live data files that are deleted: URI -> positions.
        changes: the same upserts and deletes as rows with a column `op`, for formats that merge by key. None: append.
        summary: text for the audit trail of the table.
        truncates: whether every row of the loaded state is removed in this commit, before `files` and `changes` are
            added. `dead_rows` is empty then.
    """

    commit_id: str
    offsets: Mapping[TopicPartition, StoredOffset] = field(default_factory=dict)
    forgotten: Collection[TopicPartition] = ()
    files: Sequence[NewFile] = ()
    dead_rows: Mapping[str, Positions] = field(default_factory=dict)
    changes: pa.Table | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    truncates: bool = False


@dataclass(frozen=True, slots=True)
class Committed:
    """The commit is the state of the branch now, or part of its history.

    Attributes:
        deletes: the name of each delete that it made, with the URIs of the data files that lost rows by it.
    """

    snapshot: str
    deletes: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LostRace:
    """Another writer changed the table since it was loaded. Nothing of the commit is visible, now or later."""

    reason: str


@dataclass(frozen=True, slots=True)
class UnknownOutcome:
    """The answer was lost, so the commit may be visible or not. `error` says what happened."""

    error: Exception


CommitResult = Committed | LostRace | UnknownOutcome


def dead_rows_by_file(dead: Iterable[tuple[str, str, Positions]]) -> Mapping[str, Positions]:
    """Return what `LoadedTable.dead_rows` yields by data file: each row once, ascending."""
    found: dict[str, list[Positions]] = {}
    for _, path, positions in dead:
        found.setdefault(path, []).append(positions)
    return {path: np.unique(np.concatenate(parts)) for path, parts in found.items()}


class PartFolder(Protocol):
    """Small files next to a table, through which the tasks of a connector pass parts of commits (`commit_parts.py`).

    Each connector and branch has its own. Methods raise OSError, RetriableError or ExternalError of the file system.
    """

    def names(self) -> Sequence[str]:
        """Return the names of all parts in order."""

    def read(self, name: str) -> bytes | None:
        """Return the content of a part. None: it was removed meanwhile."""

    def write(self, name: str, content: bytes) -> None:
        """Write a part. Readers see it completely, not at all, or torn, which they notice."""

    def remove(self, names: Collection[str]) -> None:
        """Remove parts. Those that are gone already are ignored."""


class LoadedTable(Protocol):
    """One state of a table. It does not change when the table does, and no method blocks on another writer.

    Methods raise RetriableError if the catalog or the file system cannot be reached, and ExternalError if it refuses.
    """

    @property
    def table_id(self) -> str:
        """Return the identity of the table. A table that was dropped and created again has another."""

    @property
    def snapshot(self) -> str | None:
        """Return the id of the snapshot at the head of the branch. None for a branch without a commit."""

    @property
    def schema(self) -> pa.Schema:
        """Return the current schema, in the order of the table's columns."""

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Return the columns that identify a row, as far as the table itself names them. Empty: it names none."""

    @property
    def offsets(self) -> Mapping[TopicPartition, StoredOffset]:
        """Return what the connector of this store has committed to this branch."""

    def rolled_back(self) -> Mapping[TopicPartition, int]:
        """Return the partitions whose last commit was rolled back, with the offset below which rows are left.

        After a rollback to an older snapshot the stored offsets stay, because they are not part of a snapshot. A format
        whose stored offsets go back with the rows returns nothing.
        """

    def live_files(self) -> Mapping[str, LiveFile]:
        """Return the data files of the snapshot by URI. Reads manifests."""

    def deletes(self) -> Set[str]:
        """Return the names of the deletes of the snapshot, each of which removes rows of one or more data files.

        A name stands for the same rows forever. Reads manifests.
        """

    def dead_rows(self, deletes: Collection[str]) -> Iterator[tuple[str, str, Positions]]:
        """Yield (delete, data file, rows) of these deletes. The data file may not be live any more."""

    def read(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of one data file in the order of its rows, dead rows included."""

    def write(self, rows: pa.Table) -> Sequence[NewFile]:
        """Write rows of exactly `schema` to new data files. Nothing is visible before a commit names them."""

    def parts(self) -> PartFolder:
        """Return the folder of parts of the store's connector and branch. Reads nothing."""

    def pack(self, file: NewFile) -> Mapping[str, Any]:
        """Return a file that `write` made as values of JSON, for another process. Its source rows are left out."""

    def unpack(self, packed: Mapping[str, Any]) -> NewFile:
        """Return the file that `pack` described, to commit it. Raises DataError if this state cannot contain it."""

    def commit(self, commit: TableCommit) -> CommitResult:
        """Try once to make `commit` the next state. Raises for errors after which the commit is surely not visible."""


class TableStore(Protocol):
    """Reaches one table of a catalog for one connector. One thread.

    Methods raise as `LoadedTable`.
    """

    name: str
    """The name of the table as users write it."""

    def load(self) -> LoadedTable | None:
        """Return the newest state, never a cached one. None: the table does not exist."""

    def create(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        """Create the table with `keys` as identifier columns, unless it exists."""

    def evolve(self, loaded: LoadedTable, evolution: Evolution) -> None:
        """Change the loaded table's schema: add, widen or relax columns.

        The change has no rows, and repeating it does nothing. Raises RetriableError if another writer
        changed the schema meanwhile.
        """

    def discard(self, files: Collection[str]) -> None:
        """Delete data files that no commit names. Files that are already gone are ignored."""

    def close(self) -> None:
        """Close the connections of the catalog."""

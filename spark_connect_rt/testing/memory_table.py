"""A table in memory behind the port of the table sinks (`connectors/lakehouse/table_port.py`).

It passes `tests/contract/table_store_contract.py`. A test can also lose answers, let another writer commit in between,
and read the rows of any snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.table_port import (
    NO_ROWS,
    CommitResult,
    Committed,
    LiveFile,
    LoadedTable,
    LostRace,
    NewFile,
    Positions,
    StoredOffset,
    TableCommit,
    UnknownOutcome,
)
from spark_connect_rt.connectors.lakehouse.table_schema import Evolution
from spark_connect_rt.errors import RetriableError


@dataclass(frozen=True, slots=True)
class MemoryState:
    """One state of a `MemoryTable`: a snapshot with its live files, deletes and stored offsets."""

    table_id: str
    snapshot: int
    schema: pa.Schema
    key_columns: tuple[str, ...] = ()
    files: Mapping[str, int] = field(default_factory=dict)
    deletes: frozenset[str] = frozenset()  # names of `MemoryTable.deletes`
    offsets: Mapping[tuple[str, TopicPartition], StoredOffset] = field(default_factory=dict)  # by connector


class MemoryTable:
    """The table itself, which any number of stores reach.

    Attributes:
        states: all states, oldest first.
        files: every data file that was written and not discarded, by path.
        deletes: the rows that each delete removes, by its name and the path of the data file.
        read_deletes: names of deletes in the order in which they were read.
        on_commit: called with each commit before it is applied. It may return "lost" (the answer is lost and the
            commit is applied), "never" (the answer is lost and the commit is not applied) or None.
        parts: parts of commits, by connector and name.
        guarded: whether a commit on an older state is refused. False shows what happens without the rule.
    """

    def __init__(self, name: str = "memory.table") -> None:
        self.name = name
        self.states: list[MemoryState] = []
        self.files: dict[str, pa.Table] = {}
        self.deletes: dict[str, Mapping[str, Positions]] = {}
        self.read_deletes: list[str] = []
        self.parts: dict[str, dict[str, bytes]] = {}
        self.on_commit: Callable[[TableCommit], str | None] = lambda commit: None
        self.guarded = True
        self.reachable = True
        self._numbers = iter(range(1, 1 << 62))  # 0 is the snapshot of a new table

    def number(self) -> int:
        """Return a number that this table has not used yet."""
        return next(self._numbers)

    def rows(self, at: int = -1) -> pa.Table:
        """Return the rows of a state, by default the newest one."""
        state = self.states[at]
        tables = []
        for path in state.files:
            rows = self.files[path]
            keep = np.ones(rows.num_rows, bool)
            for name in state.deletes:
                keep[self.deletes[name].get(path, NO_ROWS)] = False
            tables.append(rows.filter(pa.array(keep)))
        return pa.concat_tables(tables) if tables else state.schema.empty_table()

    def drop(self) -> None:
        """Drop the table. Its next creation has another identity."""
        self.states, self.files, self.parts = [], {}, {}

    def roll_back(self, steps: int) -> None:
        """Make the rows of an older state the newest ones, as another writer. The stored offsets stay."""
        older, newest = self.states[-1 - steps], self.states[-1]
        self.states.append(replace(older, snapshot=self.number(), offsets=newest.offsets))

    def append_foreign(self, rows: pa.Table) -> None:
        """Append rows as another writer, who knows nothing of stored offsets."""
        state = self.states[-1]
        path = f"memory://foreign/{self.number()}"
        self.files[path] = rows.cast(state.schema)
        self.states.append(replace(state, snapshot=self.number(), files={**state.files, path: rows.num_rows}))

    def compact_foreign(self) -> None:
        """Rewrite all files into one as another writer. Dead rows disappear, and positions change."""
        state, rows = self.states[-1], self.rows()
        path = f"memory://foreign/{self.number()}"
        self.files[path] = rows
        self.states.append(replace(state, snapshot=self.number(), files={path: rows.num_rows}, deletes=frozenset()))


class MemoryTableStore:
    """A `TableStore` of a `MemoryTable` for one connector."""

    def __init__(self, table: MemoryTable, connector: str = "sink") -> None:
        self.table = table
        self._connector = connector
        self.name = table.name
        self.loads = 0

    def load(self) -> LoadedMemoryTable | None:
        """Load the newest state from the catalog, or return None if the table does not exist."""
        self._require_reachable()
        self.loads += 1
        return LoadedMemoryTable(self.table, self.table.states[-1], self._connector) if self.table.states else None

    def create(self, schema: pa.Schema, keys: Sequence[str]) -> None:
        """Create the table with `keys` as identifier columns, unless it exists."""
        self._require_reachable()
        if not self.table.states:
            self.table.states.append(MemoryState(f"table-{self.table.number()}", 0, schema, tuple(keys)))

    def evolve(self, loaded: LoadedTable, evolution: Evolution) -> None:
        """Change the loaded table's schema: add, widen or relax columns."""
        self._require_reachable()
        state, schema = self.table.states[-1], evolution.schema
        if state.schema not in (loaded.schema, schema):
            raise RetriableError(f"{self.name}: another writer changed the schema")
        for path, rows in self.table.files.items():
            columns = [
                rows[name].cast(column.type) if name in rows.column_names else pa.nulls(rows.num_rows, column.type)
                for name, column in zip(schema.names, schema, strict=True)
            ]
            self.table.files[path] = pa.table(columns, schema=schema)
        self.table.states.append(replace(state, schema=schema))

    def discard(self, files: Collection[str]) -> None:
        """Delete data files that no commit names, and ignore files that are already gone."""
        for path in files:
            self.table.files.pop(path, None)

    def close(self) -> None:
        """Close the connections of the catalog."""

    def _require_reachable(self) -> None:
        if not self.table.reachable:
            raise RetriableError(f"{self.name}: the catalog cannot be reached")


class MemoryPartFolder:
    """A `PartFolder` of a `MemoryTable`."""

    def __init__(self, parts: dict[str, bytes]) -> None:
        self._parts = parts

    def names(self) -> Sequence[str]:
        """Return the names of all parts in order."""
        return sorted(self._parts)

    def read(self, name: str) -> bytes | None:
        """Return the content of a part. None: it was removed meanwhile."""
        return self._parts.get(name)

    def write(self, name: str, content: bytes) -> None:
        """Write a part, which every store of the connector can read from then on."""
        self._parts[name] = content

    def remove(self, names: Collection[str]) -> None:
        """Remove parts. Those that are gone already are ignored."""
        for name in names:
            self._parts.pop(name, None)


class LoadedMemoryTable:
    """A `LoadedTable` of a `MemoryTable`."""

    def __init__(self, table: MemoryTable, state: MemoryState, connector: str) -> None:
        self._table, self._state, self._connector = table, state, connector
        self.table_id = state.table_id
        self.schema = state.schema
        self.key_columns = state.key_columns
        self.offsets = {place: stored for (owner, place), stored in state.offsets.items() if owner == connector}
        self.snapshot = str(state.snapshot) if state.snapshot else None

    def rolled_back(self) -> Mapping[TopicPartition, int]:
        """Return nothing, because the stored offsets of a state go back with its rows."""
        return {}

    def live_files(self) -> Mapping[str, LiveFile]:
        """Return the data files of the snapshot by URI."""
        return {path: LiveFile(path, rows) for path, rows in self._state.files.items()}

    def deletes(self) -> Set[str]:
        """Return the names of the deletes of the snapshot, one for each commit with deleted rows."""
        return self._state.deletes

    def dead_rows(self, deletes: Collection[str]) -> Iterator[tuple[str, str, Positions]]:
        """Yield (delete, data file, rows) of these deletes."""
        for name in deletes:
            self._table.read_deletes.append(name)
            for path, positions in self._table.deletes[name].items():
                yield name, path, positions

    def read(self, path: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield columns of one data file in the order of its rows, dead rows included."""
        yield from self._table.files[path].select(list(columns)).to_batches()

    def write(self, rows: pa.Table) -> Sequence[NewFile]:
        """Write rows to new data files, which no reader sees before a commit names them."""
        if not rows.num_rows:
            return []
        path = f"memory://data/{self._table.number()}"
        self._table.files[path] = rows.cast(self.schema)
        return [NewFile(path, rows.num_rows, np.arange(rows.num_rows, dtype=np.int64), rows.nbytes)]

    def parts(self) -> MemoryPartFolder:
        """Return the parts of the store's connector."""
        return MemoryPartFolder(self._table.parts.setdefault(self._connector, {}))

    def pack(self, file: NewFile) -> Mapping[str, Any]:
        """Return a new file as values of JSON."""
        return {"path": file.path, "rows": file.rows, "size": file.size}

    def unpack(self, packed: Mapping[str, Any]) -> NewFile:
        """Return the file that `pack` described."""
        return NewFile(packed["path"], packed["rows"], NO_ROWS, packed["size"])

    def commit(self, commit: TableCommit) -> CommitResult:
        """Try once to make `commit` the next state of the branch, and return the outcome."""
        if not self._table.reachable:
            raise RetriableError(f"{self._table.name}: the catalog cannot be reached")
        fault = self._table.on_commit(commit)
        head = self._table.states[-1]
        if self._table.guarded and (head.snapshot, head.table_id) != (self._state.snapshot, self.table_id):
            return LostRace(f"{self._table.name}: the branch has moved")
        if fault != "never":
            self._apply(head, commit)
        if fault is not None:
            return UnknownOutcome(TimeoutError("the answer was lost"))
        made = self._table.states[-1].deletes - head.deletes
        return Committed(str(self._table.states[-1].snapshot), {name: commit.dead_rows.keys() for name in made})

    def _apply(self, head: MemoryState, commit: TableCommit) -> None:
        if missing := commit.dead_rows.keys() - head.files.keys():
            raise AssertionError(f"rows of files that are not live are deleted: {sorted(missing)}")
        for new in commit.files:
            if any(new.path in state.files for state in self._table.states):
                raise AssertionError(f"{new.path} is added twice")
            if new.path not in self._table.files:
                raise AssertionError(f"{new.path} was deleted before its commit")
        deletes = frozenset() if commit.truncates else head.deletes
        live = {} if commit.truncates else head.files
        if commit.dead_rows:
            name = f"memory://deletes/{self._table.number()}"
            self._table.deletes[name] = dict(commit.dead_rows)
            deletes |= {name}
        offsets = {**head.offsets, **{(self._connector, place): at for place, at in commit.offsets.items()}}
        for place in commit.forgotten:
            offsets.pop((self._connector, place), None)
        files = {**live, **{new.path: new.rows for new in commit.files}}
        self._table.states.append(
            replace(head, snapshot=self._table.number(), files=files, deletes=deletes, offsets=offsets)
        )

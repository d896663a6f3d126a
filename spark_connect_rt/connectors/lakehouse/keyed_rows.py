"""Finds the rows of a table by key, in step with the table's snapshots.

An upsert needs to know where the older row of its key is. `KeyIndex` knows that for one snapshot. This class brings it
to another one after commits of other writers, and takes its own changes back if a commit does not become visible.
"""

from __future__ import annotations

import logging
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.connectors.lakehouse.changes import OP, UPSERT
from spark_connect_rt.connectors.lakehouse.key_index import DEAD, ROW_BITS, KeyIndex, encode_keys, positions_of
from spark_connect_rt.connectors.lakehouse.known_deletes import KnownDeletes
from spark_connect_rt.connectors.lakehouse.table_port import Committed, LiveFile, LoadedTable, NewFile, Positions
from spark_connect_rt.errors import DataError, ExternalError

log = logging.getLogger(__name__)
_ROWS = (1 << ROW_BITS) - 1
_REBUILD_SHARE = 3  # a new index is cheaper once a third of the rows came from other writers


class KeyedRows:
    """The `RowIndex` of a table with key columns. One thread."""

    def __init__(
        self, table: str, key_columns: Sequence[str] = (), folder: Path | None = None, *, hash_bits: int = 64
    ) -> None:
        """Take the key of a table.

        Args:
            key_columns: names. Empty: `use_keys` tells them before the first change.
            folder: where the bytes of keys are kept while the task runs. None: a temporary folder.
            hash_bits: fewer than 64 make collisions, for tests.
        """
        self._table = table
        self._key_columns = list(key_columns)
        self._folder = Path(tempfile.mkdtemp(prefix="connectrt-keys-")) if folder is None else folder
        self._hash_bits = hash_bits
        self._index: KeyIndex | None = None
        self._state: tuple[str, str | None] | None = None  # the table and snapshot that the index stands for
        self._numbers: dict[str, int] = {}  # of every file that was ever live
        self._paths: list[str] = []
        self._live: dict[str, int] = {}  # rows of each live file
        self._deletes = KnownDeletes()
        self._swapped: tuple[pa.Array, Positions, dict[str, int]] | None = None
        self._unsure: tuple[Set[str], Set[str]] | None = None  # new files and files with dead rows of a lost answer
        self._folders = 0
        self.builds = 0
        """How often the whole table was read for its keys."""

    def use_keys(self, key_columns: Sequence[str]) -> None:
        """Set the key columns. Raises DataError if they are missing, or other ones are in use."""
        if not key_columns:
            raise DataError(
                f"table {self._table}: a change has no key. Set iceberg.tables.default-id-columns, or give records a "
                "key with fields."
            )
        if self._key_columns and set(self._key_columns) != set(key_columns):
            raise DataError(
                f"table {self._table}: the key columns changed from {', '.join(self._key_columns)} to "
                f"{', '.join(key_columns)}. Set iceberg.tables.default-id-columns."
            )
        self._key_columns = self._key_columns or list(key_columns)

    def __len__(self) -> int:
        """Return how many keys have a live row."""
        return 0 if self._index is None else len(self._index)

    def catch_up(self, loaded: LoadedTable) -> None:
        """Bring the index to this state, after commits of other writers.

        Logs a warning if the table has two rows of the same key.
        """
        assert self._swapped is None, "a change is neither confirmed nor undone"
        state = loaded.table_id, loaded.snapshot
        if self._index is not None and self._state == state:
            return
        live = loaded.live_files()
        new = [file for path, file in live.items() if path not in self._live]
        is_other = self._index is None or self._state is None or self._state[0] != loaded.table_id
        is_much = sum(file.rows for file in new) * _REBUILD_SHARE > sum(file.rows for file in live.values())
        if is_other or is_much or not self._follow(loaded, live, new):
            self._build(loaded, live)
        self._live = {path: file.rows for path, file in live.items()}
        self._state = state

    def _build(self, loaded: LoadedTable, live: Mapping[str, LiveFile]) -> None:
        self.builds += 1
        index = self._new_index(self._encode(loaded.schema.empty_table()))
        self._deletes, dead = KnownDeletes().followed(loaded)
        if live:
            self._warn_of(index.build(part for path in live for part in self._keys_of(loaded, path, dead.get(path))))

    def _warn_of(self, doubles: int) -> None:
        if doubles:
            log.warning(
                "table %s: %d rows have a key that another row has, too. Another writer appended them. A change of the "
                "key replaces only the last of these rows.",
                self._table,
                doubles,
            )

    def _follow(self, loaded: LoadedTable, live: Mapping[str, LiveFile], new: Sequence[LiveFile]) -> bool:
        """Apply changes of other writers: files that went, rows that were deleted, files that came.

        Only what came since is read. Returns False without a change if deletes went and files that they name stayed, as
        after a rollback. Some rows may live again then.
        """
        assert self._index is not None
        stayed = self._live.keys() & live.keys()
        if self._deletes.lost(loaded, stayed):
            return False
        if self._unsure is not None and self._unsure[1] & stayed:
            new_files = self._unsure[0]
            if not new_files or not new_files <= live.keys():  # nothing shows that its deletes are still there
                return False
        deletes, dead = self._deletes.followed(loaded)
        self._index.drop_files([self._number(path) for path in self._live if path not in live])
        gone_rows = [positions_of(self._number(path), rows) for path, rows in dead.items() if path in self._live]
        if gone_rows:
            self._index.drop_positions(np.concatenate(gone_rows))  # one pass over the index for all files
        doubles = 0
        for file in new:
            for keys, positions in self._keys_of(loaded, file.path, dead.get(file.path)):
                doubles += int((self._index.swap(keys, positions) != DEAD).sum())
        self._warn_of(doubles)
        # Not before: after an error, all of this is done once more.
        self._deletes = deletes
        self._unsure = None
        return True

    def _keys_of(self, loaded: LoadedTable, path: str, dead: Positions | None) -> Iterator[tuple[pa.Array, Positions]]:
        """Yield the keys of a file's live rows and their positions."""
        number, first = self._number(path), 0
        for batch in loaded.read(path, self._key_columns):
            rows = np.arange(first, first + batch.num_rows, dtype=np.int64)
            first += batch.num_rows
            keys = self._keys_in(batch)
            if dead is not None:
                is_live = ~np.isin(rows, dead)
                rows, keys = rows[is_live], keys.filter(pa.array(is_live))
            yield keys, positions_of(number, rows)

    def _keys_in(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the keys of rows that the table has. Raises ExternalError: one of them has none."""
        try:
            return self._encode(pa.Table.from_batches([batch]))
        except DataError as error:
            raise ExternalError(
                f"table {self._table} has rows that cannot be found by key ({', '.join(self._key_columns)}): {error}. "
                "Give these rows a key or delete them, or correct iceberg.tables.default-id-columns."
            ) from error

    def latest(self, changes: pa.Table) -> pa.Table:
        """Return only the last change of each key, in order."""
        keys = self._encode(changes)
        index = self._index or self._new_index(keys)
        rows = index.last_of_each(keys)
        return changes if len(rows) == changes.num_rows else changes.take(pa.array(rows))

    def replace(self, changes: pa.Table, files: Sequence[NewFile]) -> Mapping[str, Positions]:
        """Point the keys of `changes` at their new rows, and return the rows that are dead by that."""
        assert self._index is not None
        assert self._swapped is None, "a change is neither confirmed nor undone"
        keys = self._encode(changes)
        positions = np.full(changes.num_rows, DEAD, np.int64)
        upserts = np.flatnonzero(pc.equal(changes[OP], UPSERT).to_numpy())
        for file in files:
            rows = np.arange(file.rows, dtype=np.int64)
            positions[upserts[file.source_rows]] = positions_of(self._number(file.path), rows)
        former = self._index.swap(keys, positions)
        self._swapped = keys, former, {file.path: file.rows for file in files}
        return self._by_path(former[former != DEAD])

    def _by_path(self, positions: Positions) -> dict[str, Positions]:
        if not len(positions):
            return {}
        positions = np.sort(positions)
        numbers, starts = np.unique(positions >> ROW_BITS, return_index=True)
        parts = np.split(positions & _ROWS, starts[1:])
        return {self._paths[number]: rows for number, rows in zip(numbers.tolist(), parts, strict=True)}

    def undo(self) -> None:
        """Take the last `replace` back, unless it was confirmed."""
        swapped, self._swapped = self._swapped, None
        if swapped is not None:
            assert self._index is not None
            self._index.swap(swapped[0], swapped[1])

    def confirm(self, committed: Committed | None) -> None:
        """Keep the last `replace`, whose commit is this one. None: its answer was lost, although it is visible."""
        swapped, self._swapped = self._swapped, None
        if (
            swapped is None or self._state is None
        ):  # undone, though its commit landed: the next catch_up reads the files
            return
        self._live |= swapped[2]
        if committed is not None:
            self._state = self._state[0], committed.snapshot
            self._deletes = self._deletes.extended(committed.deletes)
            return
        self._state = self._state[0], "unknown"
        former = swapped[1]
        numbers = np.unique(former[former != DEAD] >> ROW_BITS)
        self._unsure = swapped[2].keys(), {self._paths[number] for number in numbers.tolist()}

    def close(self) -> None:
        """Delete the index and its folder."""
        if self._index is not None:
            self._index.close()
        self._index = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _new_index(self, keys: pa.Array) -> KeyIndex:
        if self._index is not None:
            self._index.close()
        self._folders += 1
        folder = self._folder / str(self._folders)
        folder.mkdir(parents=True)
        self._index = KeyIndex(folder, integers=pa.types.is_int64(keys.type), hash_bits=self._hash_bits)
        self._state, self._live, self._unsure = None, {}, None
        return self._index

    def _encode(self, rows: pa.Table) -> pa.Array:
        return encode_keys([rows[name] for name in self._key_columns])

    def _number(self, path: str) -> int:
        number = self._numbers.get(path)
        if number is None:
            number = self._numbers[path] = len(self._paths)
            self._paths.append(path)
        return number

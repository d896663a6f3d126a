"""The SQL catalog of pyiceberg, with commits whose cost does not grow with the number of snapshots.

pyiceberg reads and checks the whole metadata of a table with each load, three times for a commit, and copies all of it
once more. With 1,000 snapshots that is most of a commit. A metadata file never changes, so what was read once is still
right, and snapshots never change, so a copy of the metadata can share them.

SQLite locks the whole file while a statement has rows that were not fetched. pyiceberg leaves such statements to
Python's garbage collector, and meanwhile no other task can commit. So they end with the transaction here.
"""

from __future__ import annotations

import sqlite3
from typing import Any
from weakref import WeakSet

from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
from pyiceberg.table import CommitTableResponse, StagedTable, Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import TableRequirement, TableUpdate
from pyiceberg.typedef import Identifier
from sqlalchemy import create_engine

_MOST_TABLES = 64  # whose metadata is kept: a task with more tables reads some of it again
_LOCK_WAIT_S = 15  # for other writers of SQLite's file. Its own default is 5 s


class RememberingSqlCatalog(SqlCatalog):
    """A SQL catalog that asks the database for the newest metadata file, and reads only files that it does not know."""

    def __init__(self, name: str, **properties: str) -> None:
        """Connect as pyiceberg's catalog does."""
        self._known: dict[str, tuple[str, TableMetadata]] = {}  # table -> its last metadata file and the contents
        super().__init__(name, **properties)

    def _init_catalog(self) -> None:
        """Look for the catalog's tables; on SQLite with connections of ours from the first statement on."""
        if self.engine.dialect.name == "sqlite" and self.engine.url.database not in (None, "", ":memory:"):
            options = {"timeout": _LOCK_WAIT_S, "factory": _SqliteConnection}
            self.engine = create_engine(self.engine.url, connect_args=options)
        super()._init_catalog()

    def _convert_orm_to_iceberg(self, orm_table: IcebergTables) -> Table:
        """Return the table of a row of the catalog."""
        identifier = (*self.identifier_to_tuple(orm_table.table_namespace), orm_table.table_name)
        location, metadata = self._known.get(".".join(identifier), ("", None))
        if metadata is None or location != orm_table.metadata_location:
            table = super()._convert_orm_to_iceberg(orm_table)
            self._remember(identifier, table.metadata_location, table.metadata)
            return table
        io = self._load_file_io(metadata.properties, location)
        return Table(identifier, _copied(metadata), location, io, self)

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        """Commit, and remember the new metadata."""
        response = super().commit_table(table, requirements, updates)
        self._remember(table.name(), response.metadata_location, response.metadata)
        return response

    def _update_and_stage_table(
        self,
        current_table: Table | None,
        table_identifier: Identifier,
        requirements: tuple[TableRequirement, ...],
        updates: tuple[TableUpdate, ...],
    ) -> StagedTable:
        if current_table is not None:
            current_table.metadata = _copied(current_table.metadata)
        return super()._update_and_stage_table(current_table, table_identifier, requirements, updates)

    def _remember(self, identifier: Identifier, location: str, metadata: TableMetadata) -> None:
        self._known.pop(".".join(identifier), None)
        self._known[".".join(identifier)] = location, _copied(metadata)
        if len(self._known) > _MOST_TABLES:
            del self._known[next(iter(self._known))]


class _SqliteConnection(sqlite3.Connection):
    """A connection whose statements end with their transaction. SQLAlchemy's pool rolls back what it gets back."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cursors: WeakSet[sqlite3.Cursor] = WeakSet()

    def cursor(self, *arguments: Any, **options: Any) -> Any:
        made = super().cursor(*arguments, **options)
        self._cursors.add(made)
        return made

    def rollback(self) -> None:
        super().rollback()
        for cursor in list(self._cursors):
            cursor.close()


class _Shared(list[Any]):
    """A list of objects that never change. A deep copy shares them."""

    def __deepcopy__(self, memo: dict[int, Any]) -> _Shared:
        return _Shared(self)

    def __add__(self, other: list[Any]) -> _Shared:  # type: ignore[override]
        return _Shared([*self, *other])


def _copied(metadata: TableMetadata) -> TableMetadata:
    """Return a copy that shares the snapshots and the logs of them, which never change."""
    shared = ("snapshots", "snapshot_log", "metadata_log")
    lists = {name: _Shared(getattr(metadata, name)) for name in shared}
    return metadata.model_copy(update={**lists, "properties": dict(metadata.properties), "refs": dict(metadata.refs)})

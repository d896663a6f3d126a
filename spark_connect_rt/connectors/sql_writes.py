"""Writes rows into a table: one statement for many, by insert mode and dialect; PostgreSQL's COPY for large runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from zlib import crc32

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from spark_connect_rt.connectors.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql_queries import as_written
from spark_connect_rt.connectors.sql_rows import Rows, Shape
from spark_connect_rt.connectors.sql_sink_config import INSERT, UPDATE, UPSERT
from spark_connect_rt.connectors.sql_tables import TableId
from spark_connect_rt.connectors.sql_target import Target
from spark_connect_rt.connectors.sql_urls import POSTGRESQL
from spark_connect_rt.connectors.sql_values import conversion, converted_columns, csv_of

UPSERTS: dict[str, Any] = {"postgresql": postgresql.insert, "sqlite": sqlite.insert}
"""Dialects that can replace a row by its key, and how."""


class Writer:
    """Writes one task's rows within the transaction that its caller ends. One thread."""

    def __init__(self, database: SqlDatabase, mode: str, batch_size: int, copy_from_rows: int) -> None:
        """Take the settings; ``mode`` is ``insert.mode``."""
        self._database = database
        self._mode = mode
        self._batch_size = batch_size
        self._copy_from_rows = copy_from_rows if database.dialect == POSTGRESQL else None
        self._filled: set[str] = set()

    def begin(self) -> None:
        """A new transaction: temporary tables are empty."""
        self._filled.clear()

    def write(self, target: Target, run: Rows) -> None:
        """Write a run of rows, ``batch.size`` at a time. Raises the driver's errors."""
        database, shape = self._database, run.shape
        conversions = [
            conversion(schema, target.columns[name], database.zone, database.dialect)
            for name, schema in zip(shape.columns, shape.schemas, strict=True)
        ]
        for start in range(0, len(run.rows), self._batch_size):
            rows = run.rows[start : start + self._batch_size]
            columns = converted_columns(rows, conversions)
            if not (self._copies(len(rows)) and self._copy(target.table, shape, columns)):
                self._execute(target.table, shape, columns)

    def _copies(self, count: int) -> bool:
        return self._copy_from_rows is not None and count >= self._copy_from_rows

    def _execute(self, table: TableId, shape: Shape, columns: Sequence[Sequence[Any]]) -> None:
        names = [f"v{index}" for index in range(len(columns))]
        parameters = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        statement = write_statement(self._database.dialect, table, shape, self._mode)
        self._database.connection().execute(statement, parameters)

    def _copy(self, table: TableId, shape: Shape, columns: Sequence[Sequence[Any]]) -> bool:
        """Write by COPY; False: some value has no form for that, nothing was written."""
        data = csv_of(columns)
        if data is None:
            return False
        connection = self._database.connection()
        if not connection.in_transaction():
            connection.begin()  # it does not see what goes through the driver's own cursor
        words = CopyWords(table, shape)
        direct = self._mode == INSERT and not shape.deletes
        if not direct:
            connection.execute(as_written(words.make_stage()))
            if words.stage in self._filled:
                connection.execute(as_written(words.empty_stage()))
            self._filled.add(words.stage)
        with connection.connection.cursor() as cursor, cursor.copy(words.copy(direct)) as copy:  # type: ignore[attr-defined]
            copy.write(data)
        if not direct:
            connection.execute(as_written(words.from_stage(self._mode)))
        return True


def write_statement(dialect: str, table: TableId, shape: Shape, mode: str) -> Any:
    """Return the statement of one row; its values are the parameters v0, v1 ... in the order of the shape's columns."""
    target = sa.table(table.name, *map(sa.column, shape.columns), schema=table.schema)
    values: dict[str, Any] = {name: sa.bindparam(f"v{index}") for index, name in enumerate(shape.columns)}
    if shape.deletes:
        return sa.delete(target).where(*(target.c[name] == values[name] for name in shape.keys))
    others = {name: value for name, value in values.items() if name not in shape.keys}
    if mode == UPDATE:
        statement = sa.update(target).where(*(target.c[name] == values[name] for name in shape.keys))
        return statement.values(others or {name: values[name] for name in shape.keys})
    if mode != UPSERT:
        return sa.insert(target).values(values)
    insert = UPSERTS[dialect](target).values(values)
    keys = list(shape.keys)
    if not others:
        return insert.on_conflict_do_nothing(index_elements=keys)
    return insert.on_conflict_do_update(index_elements=keys, set_={name: insert.excluded[name] for name in others})


class CopyWords:
    """The SQL of one shape's way through a temporary table. PostgreSQL only; every name is quoted."""

    def __init__(self, table: TableId, shape: Shape) -> None:
        """Take where the rows go."""
        self._shape = shape
        self._table = ".".join(_quoted(part) for part in table if part)
        self._columns = _listed(shape.columns)
        # One for each table and set of columns, kept for the session: making one costs catalog rows.
        self.stage = f"connectrt_stage_{crc32(f'{self._table}({self._columns})'.encode()):08x}"

    def make_stage(self) -> str:
        """Return the statement that makes the temporary table; it is there already but for the first time."""
        return (
            f"CREATE TEMPORARY TABLE IF NOT EXISTS {self.stage} ON COMMIT DELETE ROWS "
            f"AS SELECT {self._columns} FROM {self._table} WITH NO DATA"
        )

    def copy(self, direct: bool) -> str:
        """Return the COPY, into the table itself or into the temporary one."""
        return f"COPY {self._table if direct else self.stage} ({self._columns}) FROM STDIN (FORMAT csv)"

    def from_stage(self, mode: str) -> str:
        """Return the statement that takes the rows on."""
        shape = self._shape
        same = " AND ".join(f"t.{_quoted(name)} = s.{_quoted(name)}" for name in shape.keys)
        if shape.deletes:
            return f"DELETE FROM {self._table} t USING {self.stage} s WHERE {same}"
        others = [_quoted(name) for name in shape.columns if name not in shape.keys]
        if mode == UPDATE:
            changes = ", ".join(f"{name} = s.{name}" for name in others or map(_quoted, shape.keys))
            return f"UPDATE {self._table} t SET {changes} FROM {self.stage} s WHERE {same}"
        changes = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        conflict = f"ON CONFLICT ({_listed(shape.keys)}) DO " + (f"UPDATE SET {changes}" if changes else "NOTHING")
        return f"INSERT INTO {self._table} ({self._columns}) SELECT {self._columns} FROM {self.stage} {conflict}"

    def empty_stage(self) -> str:
        """Return the statement after which the next rows of the same transaction may come."""
        return f"DELETE FROM {self.stage}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(names: Sequence[str] | Iterator[str]) -> str:
    return ", ".join(_quoted(name) for name in names)

"""Writes rows into a table: one statement for many, by insert mode and dialect; PostgreSQL's COPY for large runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from spark_connect_rt.base.adaptive_fallback import AdaptiveFallback
from spark_connect_rt.connectors.sql.sql_batches import ShapeColumns
from spark_connect_rt.connectors.sql.sql_copy import CopyWords
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_rows import RowShape, TableRows
from spark_connect_rt.connectors.sql.sql_settings import POSTGRESQL
from spark_connect_rt.connectors.sql.sql_sink_config import INSERT, UPDATE, UPSERT
from spark_connect_rt.connectors.sql.sql_tables import TableId
from spark_connect_rt.connectors.sql.sql_target import Target
from spark_connect_rt.connectors.sql.sql_texts import text_column
from spark_connect_rt.connectors.sql.sql_values import Convert, CsvRows, conversion, converted_arrays, converted_columns
from spark_connect_rt.errors import DataError

_SAVEPOINT = "connectrt_copy"
# A row would be written twice: two keys that differ in Python are equal for the column's type.
_ONE_KEY_TWICE = ("21000", "23505")
Columns = Sequence[pa.Array | Sequence[Any]]
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
        self._tries: dict[str, AdaptiveFallback] = {}
        self._has_savepoint = False

    def begin(self) -> None:
        """A new transaction: temporary tables are empty."""
        self._filled.clear()
        self._has_savepoint = False

    def write(self, target: Target, run: TableRows) -> None:
        """Write a run of rows, ``batch.size`` at a time. Raises the driver's errors, DataError: a value has no form."""
        conversions = self._conversions(target, run.shape)
        for start in range(0, len(run.rows), self._batch_size):
            rows = run.rows[start : start + self._batch_size]
            self._write(target, run.shape, converted_columns(rows, conversions), len(rows))

    def write_columns(self, target: Target, run: ShapeColumns) -> None:
        """Write rows that are columns, as ``write``. Raises as ``write``."""
        conversions = self._conversions(target, run.shape)
        count = len(run.columns[0])
        for start in range(0, count, self._batch_size):
            columns = [column.slice(start, self._batch_size) for column in run.columns]
            some = min(self._batch_size, count - start)
            self._write(target, run.shape, converted_arrays(columns, conversions), some)

    def _conversions(self, target: Target, shape: RowShape) -> list[Convert | None]:
        database = self._database
        return [
            _named(target, name, conversion(schema, target.columns[name], database.zone, database.dialect))
            for name, schema in zip(shape.columns, shape.schemas, strict=True)
        ]

    def _write(self, target: Target, shape: RowShape, columns: Columns, count: int) -> None:
        if self._database.dialect != POSTGRESQL:
            lists = [column.to_pylist() if isinstance(column, pa.Array) else column for column in columns]
            self._execute(target.table, shape, lists)
            return
        texts = [_texts(target, name, column) for name, column in zip(shape.columns, columns, strict=True)]
        copies = self._copy_from_rows is not None and count >= self._copy_from_rows
        if not (copies and self._copy(target, shape, texts)):
            self._execute(target.table, shape, [column.cast(pa.string()).to_pylist() for column in texts])

    def _execute(self, table: TableId, shape: RowShape, columns: Sequence[Sequence[Any]]) -> None:
        names = [f"v{index}" for index in range(len(columns))]
        parameters = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        statement = write_statement(self._database.dialect, table, shape, self._mode)
        self._database.connection().execute(statement, parameters)

    def _copy(self, target: Target, shape: RowShape, columns: Sequence[pa.Array]) -> bool:
        """Write by COPY. False: its effect would differ from that of statements, or it is impossible.

        Nothing was written then.
        """
        if target.copied is None or target.copied.barred.intersection(shape.columns):
            return False
        data = CsvRows(columns)
        connection = self._database.connection()
        if not connection.in_transaction():
            connection.begin()  # it does not notice calls of the driver's own cursor
        words = CopyWords(target.table, shape, target.copied)
        if self._mode == INSERT and not shape.deletes:
            self._copy_into(words.copy(direct=True), data)
            return True
        return self._went_straight(words, shape, data) or self._went_by_stage(words, shape, data)

    def _copy_into(self, copy_words: str, data: CsvRows) -> None:
        driver: Any = self._database.connection().connection
        with driver.cursor() as cursor, cursor.copy(copy_words) as copy:
            for piece in data:
                copy.write(piece)

    def _went_by_stage(self, words: CopyWords, shape: RowShape, data: CsvRows) -> bool:
        """Write by way of the temporary table; False: some key would be twice in one statement, so nothing was."""
        driver: Any = self._database.engine.dialect.dbapi
        empty = f"; {words.empty_stage()}" if words.stage in self._filled else ""
        unique = self._mode == UPDATE and not shape.deletes
        self._execute_all(f"{self._savepoint()}; {words.make_stage(unique)}{empty}")
        self._filled.add(words.stage)
        try:
            self._copy_into(words.copy(direct=False), data)
            self._execute_all(words.from_stage(self._mode))
        except driver.Error as error:
            if shape.deletes or error.sqlstate not in _ONE_KEY_TWICE:
                raise
            self._execute_all(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            return False
        return True

    def _went_straight(self, words: CopyWords, shape: RowShape, data: CsvRows) -> bool:
        """Upsert by a plain COPY, as no key is in the table; False: it is not to be tried, or one was."""
        tries = self._tries.setdefault(words.stage, AdaptiveFallback())
        if self._mode != UPSERT or shape.deletes or not tries.due():
            return False
        self._execute_all(f"{words.check_upsert()}; {self._savepoint()}")
        driver: Any = self._database.engine.dialect.dbapi
        try:
            self._copy_into(words.copy(direct=True), data)
        except driver.Error:  # if it was not a key, the way through the temporary table fails as well and reports it
            self._execute_all(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
            tries.failed()
            return False
        tries.worked()
        return True

    def _savepoint(self) -> str:
        """Return the statements that make the savepoint; the last one of a transaction goes with its end."""
        release = f"RELEASE SAVEPOINT {_SAVEPOINT}; " if self._has_savepoint else ""
        self._has_savepoint = True
        return f"{release}SAVEPOINT {_SAVEPOINT}"

    def _execute_all(self, statements: str) -> None:
        """Execute all in one round trip."""
        driver: Any = self._database.connection().connection
        with driver.cursor() as cursor:
            cursor.execute(statements, prepare=False)  # several at once cannot be prepared


def _named(target: Target, name: str, convert: Convert | None) -> Convert | None:
    """Return a conversion whose errors name table and column."""
    if convert is None:
        return None

    def converted(value: Any) -> Any:
        try:
            return convert(value)
        except (DataError, ValueError, OverflowError) as error:
            raise DataError(f"column {name} of table {target.table}: {error}") from error

    return converted


def _texts(target: Target, name: str, column: pa.Array | Sequence[Any]) -> pa.Array:
    try:
        return text_column(column, target.columns[name])
    except DataError as error:
        raise DataError(f"column {name} of table {target.table}: {error}") from error


def write_statement(dialect: str, table: TableId, shape: RowShape, mode: str) -> Any:
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

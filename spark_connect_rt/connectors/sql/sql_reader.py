"""Reads one table or query piece by piece: in Arrow columns from the start (ADBC), or from the driver's rows.

ADBC's are read ahead by a thread of their own (``sql_ahead``). A piece is a record batch of the plan's columns, and
MOMENT where the mode has timestamps.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from spark_connect_rt.api.data.logical import timestamp_schema
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.connectors.sql.sql_ahead import PiecesAhead
from spark_connect_rt.connectors.sql.sql_columns import (
    UTC_TIME,
    SourceColumn,
    arrow_column,
    column_of_values,
)
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_progress import Progress, completed_moment
from spark_connect_rt.connectors.sql.sql_queries import MOMENT, ReadPlan
from spark_connect_rt.connectors.sql.sql_urls import adbc_uri
from spark_connect_rt.errors import DataError

ADBC: dict[str, tuple[str, Any, dict[str, str]]] = {  # dialect -> module of its ADBC driver, how its SQL is written
    # Sixteen times less than by default: the first rows go on while the database sends more, not 300,000 rows later.
    "postgresql": (
        "adbc_driver_postgresql.dbapi",
        postgresql.dialect(paramstyle="named"),  # type: ignore[no-untyped-call]
        {"adbc.postgresql.batch_size_hint_bytes": str(1 << 20)},
    ),
    "sqlite": (
        "adbc_driver_sqlite.dbapi",
        sqlite.dialect(paramstyle="named"),
        {"adbc.sqlite.query.batch_rows": "10000"},
    ),
}
Errant = Callable[[str, Exception, bytes | None], None]
MOST_ROW_OBJECTS = 10_000  # rows of Python objects at once: 100 bytes and more for each value
_MOMENT_COLUMN = SourceColumn(MOMENT, timestamp_schema(), UTC_TIME)


class NoArrowForm(Exception):
    """The ADBC driver cannot give these rows as columns: read them as rows; ``stays``: also at the next look."""

    def __init__(self, reason: str, stays: bool) -> None:
        super().__init__(reason)
        self.stays = stays


def has_adbc(dialect: str) -> bool:
    """Whether the database's ADBC driver is installed."""
    if dialect not in ADBC:
        return False
    with contextlib.suppress(ImportError):
        importlib.import_module(ADBC[dialect][0])
        return True
    return False


def columns_of(plan: ReadPlan) -> tuple[SourceColumn, ...]:
    """Return the columns of a piece."""
    return (*plan.columns, _MOMENT_COLUMN) if plan.timestamps else plan.columns


def arrow_pieces(
    database: SqlDatabase, plan: ReadPlan, statement: sa.Select[Any], most: int
) -> Iterator[pa.RecordBatch]:
    """Return pieces of at most ``most`` rows through ADBC. They raise NoArrowForm, also in the middle."""
    cancels: list[Callable[[], None]] = []

    def cancel() -> None:
        # A driver that cannot cancel reads on to the end of its batch.
        with contextlib.suppress(Exception):
            cancels[-1]()

    return PiecesAhead(_arrow_pieces(database, plan, statement, most, cancels.append), cancel)


def _arrow_pieces(
    database: SqlDatabase,
    plan: ReadPlan,
    statement: sa.Select[Any],
    most: int,
    can_cancel: Callable[[Callable[[], None]], None],
) -> Generator[pa.RecordBatch]:
    module_name, dialect, options = ADBC[database.dialect]
    module = importlib.import_module(module_name)
    text = str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
    columns = columns_of(plan)
    try:
        with (
            module.connect(adbc_uri(database.url)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.adbc_statement.set_options(**options)
            can_cancel(cursor.adbc_cancel)
            cursor.execute(text)
            for batch in cursor.fetch_record_batch():
                for start in range(0, batch.num_rows, most):
                    yield _converted(batch.slice(start, most), columns, plan)
    except (module.Error, pa.ArrowException) as error:
        # Whatever it is: the rows' way says it in the driver's words. A lost connection is no reason to stay there.
        raise NoArrowForm(str(error), stays=not isinstance(error, module.OperationalError)) from error


def _converted(batch: pa.RecordBatch, columns: Sequence[SourceColumn], plan: ReadPlan) -> pa.RecordBatch:
    arrays = [arrow_column(one, batch.column(index), plan.zone) for index, one in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, names=[one.name for one in columns])


def row_pieces(
    database: SqlDatabase, plan: ReadPlan, statement: sa.Select[Any], most: int, errant: Errant
) -> Iterator[pa.RecordBatch]:
    """Yield pieces of at most ``most`` rows through SQLAlchemy; rows with a value of another type go to ``errant``."""
    most = min(most, MOST_ROW_OBJECTS)
    with database.explained(f"cannot read {plan.name}"):
        connection = database.connection()
        result = connection.execution_options(stream_results=True, max_row_buffer=most).execute(statement)
        try:
            while rows := result.fetchmany(most):
                piece = _piece(rows, plan, errant)
                if piece.num_rows:
                    yield piece
        finally:
            result.close()
            connection.rollback()


def _piece(rows: Sequence[Sequence[Any]], plan: ReadPlan, errant: Errant) -> pa.RecordBatch:
    columns = columns_of(plan)
    try:
        return _batch(rows, columns, plan)
    except DataError:
        good = [row for row in rows if _is_good(row, columns, plan, errant)]
        return _batch(good, columns, plan)


def _batch(rows: Sequence[Sequence[Any]], columns: Sequence[SourceColumn], plan: ReadPlan) -> pa.RecordBatch:
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    arrays = [column_of_values(one, values[index], plan.zone) for index, one in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, names=[one.name for one in columns])


def _is_good(row: Sequence[Any], columns: Sequence[SourceColumn], plan: ReadPlan, errant: Errant) -> bool:
    try:
        _batch([row], columns, plan)
    except DataError as error:
        shown = {one.name: value for one, value in zip(columns, row, strict=True)}
        place = f"table {plan.name}"
        if plan.incrementing is not None:
            place += f" {plan.incrementing} {shown[plan.incrementing]}"
        errant(place, error, repr(shown).encode("utf-8", "replace"))
        return False
    return True


class PieceReader:
    """One look at a table: its pieces as source batches, each with the offset that is safe behind it."""

    def __init__(
        self, plan: ReadPlan, pieces: Iterator[pa.RecordBatch], partition: dict[str, str], topic: str, schema: Schema
    ) -> None:
        """Take what to read and where it goes."""
        self._plan = plan
        self._pieces = pieces
        self._next: pa.RecordBatch | None = None
        self._begun = False
        self._partition, self._topic, self._schema = partition, topic, schema

    def take(self, before: Progress) -> tuple[SourceBatch, Progress] | None:
        """Return the next piece and the progress behind it, None at the end. Raises as its way of reading."""
        if not self._begun:
            self._next, self._begun = next(self._pieces, None), True
        piece = self._next
        if piece is None:
            return None
        self._next = next(self._pieces, None)
        progress = self._progress(piece, before)
        values = pa.StructArray.from_arrays(
            piece.columns[: len(self._plan.columns)], names=[one.name for one in self._plan.columns]
        )
        return SourceBatch(self._partition, progress.offset(), self._topic, values, self._schema), progress

    def _progress(self, piece: pa.RecordBatch, before: Progress) -> Progress:
        plan = self._plan
        number = None if plan.incrementing is None else int(piece.column(plan.incrementing)[-1].as_py())
        if not plan.timestamps:
            return Progress(number)
        last = _moment(piece, -1)
        if number is not None:
            return Progress(number, last)
        following = None if self._next is None else _moment(self._next, 0)
        if following is None or following > last:
            return Progress(None, last)
        moments = piece.column(MOMENT).unique().to_pylist()
        return Progress(None, completed_moment([*sorted(moments)], following, before.moment))

    def close(self) -> None:
        """Give up what was not taken."""
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def _moment(piece: pa.RecordBatch, index: int) -> dt.datetime:
    moment: dt.datetime = piece.column(MOMENT)[index].as_py()
    return moment

"""Reads one table or query piece by piece: in Arrow columns from the start (ADBC), or from the driver's rows.

A separate thread reads ADBC's pieces ahead (``sql_ahead``).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from decimal import Decimal
from typing import Any, Self

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_pieces import RowsPiece, piece_of_batch, piece_of_rows
from spark_connect_rt.connectors.sql.sql_progress import SqlProgress, completed_moment
from spark_connect_rt.connectors.sql.sql_queries import MOMENT, ReadPlan
from spark_connect_rt.connectors.sql.sql_settings import adbc_uri
from spark_connect_rt.errors import ConnectError

# Pieces of a result that a thread reads ahead of the task: database, driver and converter work at the same time.
#
# Owns the thread and the pieces that the task has not taken yet. The thread opens the result, reads it and closes it.
# Its errors are raised in place of the next piece, so a poll waits and fails as if it read by itself.


PIECES_AHEAD = 2
_CLOSE_LIMIT_S = 5.0
log = logging.getLogger(__name__)
Pieces = Generator[Any]


class PiecesAhead:
    """An iterator of pieces, at most ``PIECES_AHEAD`` of them in memory. One thread takes and closes."""

    def __init__(self, pieces: Pieces, cancel: Callable[[], None]) -> None:
        """Start the thread, which begins to read.

        Args:
            pieces: run and closed by the thread alone.
            cancel: ends a read that waits for the database; ``close`` calls it from another thread. May raise nothing.
        """
        self._pieces, self._cancel = pieces, cancel
        self._changed = threading.Condition()  # of the following
        self._read: deque[Any] = deque()
        self._failure: BaseException | None = None
        self._ended = self._closed = False
        self._thread = threading.Thread(target=self._run, name="sql-ahead", daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        """Return this iterator of pieces."""
        return self

    def __next__(self) -> Any:
        """Wait for the next piece and return it. Raises the error of reading it, or StopIteration."""
        with self._changed:
            self._changed.wait_for(lambda: self._read or self._ended)
            if self._read:
                self._changed.notify_all()
                return self._read.popleft()
            failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        raise StopIteration

    def close(self) -> None:
        """Drop the pieces not taken, and wait until the database's connection is closed, a few seconds at most."""
        with self._changed:
            self._closed = self._ended = True
            self._read.clear()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._cancel()
            self._thread.join(_CLOSE_LIMIT_S)
        if self._thread.is_alive():
            log.warning("the database does not answer, so a connection is closed in the background")

    # -- the thread

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            with contextlib.closing(self._pieces) as pieces:
                for piece in pieces:
                    if not self._hand_over(piece):
                        break
        except BaseException as error:  # noqa: BLE001 - it is raised where a piece is awaited
            failure = error
        with self._changed:
            self._failure = None if self._closed else failure
            self._ended = True
            self._changed.notify_all()

    def _hand_over(self, piece: Any) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._read) < PIECES_AHEAD)
            if not self._closed:
                self._read.append(piece)
                self._changed.notify_all()
            return not self._closed


ADBC: dict[str, tuple[str, Any, dict[str, str]]] = {  # dialect -> module of its ADBC driver, how its SQL is written.
    # Sixteen times less than by default, so that the first rows are available earlier, not after 300,000 rows.
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
_PAST_LONG = 2**63
_ANY = dt.datetime.min.replace(tzinfo=dt.UTC)  # the time of rows of which none can be read: maybe the last one's


class NoArrowForm(Exception):
    """The ADBC driver cannot return these rows as columns: read them as rows. ``stays``: also at the next poll."""

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


def arrow_pieces(database: SqlDatabase, plan: ReadPlan, statement: sa.Select[Any], most: int) -> Iterator[RowsPiece]:
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
) -> Generator[RowsPiece]:
    module_name, dialect, options = ADBC[database.dialect]
    module = importlib.import_module(module_name)
    text = str(statement.compile(dialect=dialect, compile_kwargs={"literal_binds": True}))
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
                    yield piece_of_batch(batch.slice(start, most), plan)
    except (module.Error, pa.ArrowException) as error:
        # The rows' way reports any error in the driver's words. A lost connection does not rule ADBC out.
        raise NoArrowForm(str(error), stays=not isinstance(error, module.OperationalError)) from error


def row_pieces(database: SqlDatabase, plan: ReadPlan, statement: sa.Select[Any], most: int) -> Iterator[RowsPiece]:
    """Yield pieces of at most ``most`` rows through SQLAlchemy. Raises ConnectError."""
    most = min(most, MOST_ROW_OBJECTS)
    with database.explained(f"cannot read {plan.name}"):
        connection = database.connection()
        result = connection.execution_options(stream_results=True, max_row_buffer=most).execute(statement)
        try:
            while rows := result.fetchmany(most):
                yield piece_of_rows(rows, plan)
        finally:
            result.close()
            connection.rollback()


class PieceReader:
    """One poll of a table: its pieces as source batches, each with the offset from which to resume after it."""

    def __init__(
        self,
        plan: ReadPlan,
        pieces: Iterator[RowsPiece],
        partition: dict[str, str],
        topic: str,
        schema: Schema,
        errant: Errant,
    ) -> None:
        """Take the plan, the pieces, their topic, and the receiver of reports about rejected rows."""
        self._plan = plan
        self._pieces = pieces
        self._next: RowsPiece | None = None
        self._begun = False
        self._partition, self._topic, self._schema = partition, topic, schema
        self._errant = errant

    def take(self, before: SqlProgress) -> tuple[SourceBatch | None, SqlProgress]:
        """Return the next piece that has good rows and the progress after it; at the end no piece.

        The progress includes rejected rows, so that the next poll does not reject them again. Raises as its way of
        reading, and any error of ``errant``.
        """
        if not self._begun:
            self._next, self._begun = next(self._pieces, None), True
            if self._next is not None:
                check_digits(self._plan, self._next.marks, before)
        while (piece := self._next) is not None:
            self._next = next(self._pieces, None)
            for refused_row in piece.refused:
                self._errant(refused_row.place, refused_row.error, refused_row.data)
            before = self._progress(piece.marks, before)
            if piece.rows.num_rows:
                return self._batch(piece.rows, before), before
        return None, before

    def _batch(self, rows: pa.RecordBatch, progress: SqlProgress) -> SourceBatch:
        values = pa.StructArray.from_arrays(
            rows.columns[: len(self._plan.columns)], names=[column.name for column in self._plan.columns]
        )
        return SourceBatch(self._partition, progress.offset(), self._topic, values, self._schema)

    def _progress(self, marks: pa.RecordBatch, before: SqlProgress) -> SqlProgress:
        plan = self._plan
        if not marks.num_columns or not marks.num_rows:
            return before
        number = None if plan.incrementing is None else whole_number(plan, marks.column(plan.incrementing))
        if not plan.timestamps:
            return SqlProgress(number)
        last = _moment(marks, -1)
        if number is not None:
            return SqlProgress(number, last)
        following = self._following()
        if following is None or following > last:  # else rows of the last time may still come
            return SqlProgress(None, last)
        moments = marks.column(MOMENT).unique().to_pylist()
        return SqlProgress(None, completed_moment([*sorted(moments)], following, before.moment))

    def _following(self) -> dt.datetime | None:
        return None if self._next is None else _moment(self._next.marks, 0) if self._next.marks.num_rows else _ANY

    def close(self) -> None:
        """Drop the pieces not taken."""
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()


def check_digits(plan: ReadPlan, marks: pa.RecordBatch, before: SqlProgress) -> None:
    """Check that a poll for rows after ``before`` begins with such a row. Raises ConnectError: it does not.

    In that case the column keeps more digits of a second than Python's times, and every poll would return its last row.
    """
    if not plan.timestamps or not marks.num_rows or before.moment is None or _moment(marks, 0) != before.moment:
        return
    number, known = plan.incrementing, before.incrementing
    if number is not None and (known is None or whole_number(plan, marks.column(number)[:1]) > known):
        return
    raise ConnectError(
        f"column {', '.join(plan.timestamps)} of {plan.name} has more digits of a second than an offset (6), so "
        "every poll would read rows again. Use another column, or a query that rounds it"
    )


def whole_number(plan: ReadPlan, column: pa.Array) -> int:
    """Return the last row's number. Raises ConnectError: a value is not a whole number of 64 bits."""
    if pa.types.is_integer(column.type):
        return int(column[-1].as_py())
    number = 0
    for value in column.to_pylist():
        try:
            number = int(Decimal(value))
            exact = number == Decimal(value) and -_PAST_LONG <= number < _PAST_LONG
        except (ArithmeticError, ValueError, TypeError):
            exact = False
        if not exact:
            raise ConnectError(
                f"{plan.name} has {value!r} in its incrementing column {plan.incrementing}, but an offset holds a "
                "64-bit integer. Use another column, or mode timestamp"
            )
    return number


def _moment(marks: pa.RecordBatch, index: int) -> dt.datetime:
    moment: dt.datetime = marks.column(MOMENT)[index].as_py()
    return moment

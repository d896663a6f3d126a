"""Tables or a query of a SQL database as records: bulk, incrementing, timestamp, timestamp+incrementing.

Settings and offsets carry the JDBC source's names, so configurations and offsets move over. A piece of a table is one
batch in Arrow columns; its offset is where reading resumes after its last row.
"""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from spark_connect_rt.api.connector import ExactlyOnceSupport, SourceConnector, SourceOffset
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.outside_checks import OutsideCheck
from spark_connect_rt.api.records import SourceBatch, SourceRecord
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.config.config_def import ConfigDef
from spark_connect_rt.connectors.record_times import timed
from spark_connect_rt.connectors.sql.sql_checks import source_findings
from spark_connect_rt.connectors.sql.sql_columns import row_schema
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_pieces import RowsPiece
from spark_connect_rt.connectors.sql.sql_plans import query_plan, table_plan
from spark_connect_rt.connectors.sql.sql_progress import (
    QUERY_PARTITION,
    SqlProgress,
    check_offsets,
    progress_of,
    table_partitions,
)
from spark_connect_rt.connectors.sql.sql_queries import ReadPlan, select_rows
from spark_connect_rt.connectors.sql.sql_reader import NoArrowForm, PieceReader, arrow_pieces, has_adbc, row_pieces
from spark_connect_rt.connectors.sql.sql_settings import problems_of
from spark_connect_rt.connectors.sql.sql_source_config import (
    BOTH,
    CONFIG,
    INCREMENTING,
    NO_LIMIT,
    QUERY_TASK,
    TABLES,
    check_together,
)
from spark_connect_rt.connectors.sql.sql_tables import (
    FoundTable,
    TableId,
    TableWatch,
    all_tables,
    dealt,
    known_names,
    read_tables,
    tables_of,
    tables_text,
    unmatched_names,
)
from spark_connect_rt.errors import ExternalError, RetriableError

log = logging.getLogger(__name__)


class SqlSourceConnector(SourceConnector):
    """Reads tables or a query of a SQL database, and new or changed rows as they appear.

    Divides the tables among tasks, and again when the list changes; a query is one task's.
    """

    _watch: TableWatch | None = None

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return SqlSourceTask

    def start(self, config: Mapping[str, str]) -> None:
        """Begin to watch for tables, unless a query is read. Raises BadConfigError."""
        super().start(config)
        self._values = CONFIG.parse(config)
        check_together(self._values)
        SqlDatabase(self._values)  # a URL or an unknown driver fails now
        if not self._values["query"].strip():
            every_ms: int = self._values["table.poll.interval.ms"]
            self._watch = TableWatch(self._look, every_ms, lambda: self.context.request_task_reconfiguration())
            self._watch.start(None)

    def _look(self) -> list[TableId]:
        return read_tables(self._found(), self._values, SqlDatabase(self._values).url.database)

    def _found(self) -> list[FoundTable]:
        database = SqlDatabase(self._values)
        try:
            return all_tables(database, self._values["schema.pattern"])
        finally:
            database.close()

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Divide the present tables among tasks. Raises RetriableError, ConnectError: they cannot be listed."""
        if self._watch is None:
            return [{**self.config, QUERY_TASK: "true"}]
        found, name = self._found(), SqlDatabase(self._values).url.database
        tables = read_tables(found, self._values, name)
        self._watch.note(tables)
        for sentence in unmatched_names(found, self._values, name):
            log.warning("table.whitelist: %s", sentence)
        if not tables:
            log.warning("no table to read yet, looking again every %d ms", self._values["table.poll.interval.ms"])
        return [{**self.config, TABLES: tables_text(share)} for share in dealt(tables, max_tasks)]

    def stop(self) -> None:
        """Stop watching the database for new tables."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check settings against each other, and the URL."""

        def check(values: dict[str, Any]) -> None:
            check_together(values)
            SqlDatabase(values)

        return problems_of(config, CONFIG, check)

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        """Log in, and list the tables that it would read."""
        return (lambda: source_findings(CONFIG.parse(config)),)

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        """Return SUPPORTED if a number identifies rows. A time alone, or nothing, does not identify the last row."""
        exact = config.get("mode", "").strip() in (INCREMENTING, BOTH)
        return ExactlyOnceSupport.SUPPORTED if exact else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(self, config: Mapping[str, str], offsets: Sequence[SourceOffset]) -> bool:
        """Check the new offsets. Raises ConnectError."""
        check_offsets(offsets)
        return True


@dataclass(slots=True)
class _Table:
    """One table of a task, or its query: its plan, its progress, and when it is due."""

    source: TableId | None  # None: the query
    partition: dict[str, str]
    progress: SqlProgress
    due_ms: int = 0
    plan: ReadPlan | None = None
    schema: Schema | None = None
    reader: PieceReader | None = None
    in_arrow: bool = True


class SqlSourceTask(SourceTask):
    """Polls its tables in turn, each again ``poll.interval.ms`` after its last row was read."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: int(time.monotonic() * 1000)) -> None:
        """Take the clock that waits are measured by."""
        self._clock_ms = clock_ms
        self._tables: list[_Table] = []
        self._database: SqlDatabase | None = None

    def start(self, config: Mapping[str, str]) -> None:
        """Resume where the last run ended; the first poll connects to the database. Raises BadConfigError."""
        self._values = CONFIG.parse(config)
        check_together(self._values)
        self._database = SqlDatabase(self._values)
        self._has_adbc = self._values["connectrt.sql.arrow"] and has_adbc(self._database.dialect)
        self._failures, self._retry_at_ms = 0, 0
        if QUERY_TASK in config:
            self._tables = [self._at_stored_offset(None, [dict(QUERY_PARTITION)])]
        else:
            self._tables = [
                self._at_stored_offset(table, self._partitions(table)) for table in tables_of(config[TABLES])
            ]

    def _partitions(self, table: TableId) -> list[dict[str, str]]:
        assert self._database is not None
        return table_partitions(known_names(table, self._database.dialect, self._database.url.database))

    def _at_stored_offset(self, source: TableId | None, partitions: list[dict[str, str]]) -> _Table:
        """Return a table at the offset of the first partition that has one, which stays its partition."""
        stored = self.context.offset_reader.offsets(partitions)
        pairs = zip(partitions, stored, strict=True)
        partition, offset = next((pair for pair in pairs if pair[1]), (partitions[0], None))
        return _Table(source, partition, progress_of(offset), in_arrow=self._has_adbc)

    @timed
    def poll(self) -> Sequence[SourceRecord | SourceBatch] | None:
        """Return one piece of the table that waits longest, None when none has any.

        Raises RetriableError: the database is away, it is asked again after ``connection.backoff.ms``; ConnectError.
        """
        now_ms = self._clock_ms()
        if now_ms < self._retry_at_ms:
            return None
        # A table that is being read stays the first until its end: the driver's one connection has one open result.
        for table in sorted(self._tables, key=lambda candidate: candidate.due_ms):
            if table.due_ms > now_ms:
                break
            try:
                batch = self._next_batch(table)
            except RetriableError as error:
                self._wait_after(error, now_ms)
            self._failures = 0
            if batch is not None:
                return [batch]
            table.due_ms = self._clock_ms() + self._values["poll.interval.ms"]
        return None

    def _wait_after(self, error: RetriableError, now_ms: int) -> NoReturn:
        """Raise the error to report for a failure. Raises ExternalError after the last of ``connection.attempts``."""
        self._failures += 1
        attempts: int = self._values["connection.attempts"]
        if attempts != NO_LIMIT and self._failures >= attempts:
            raise ExternalError(f"{error} (connection.attempts={attempts})") from error
        self._retry_at_ms = now_ms + self._values["connection.backoff.ms"]
        raise error

    def _next_batch(self, table: _Table) -> SourceBatch | None:
        try:
            taken = self._take(table, table.in_arrow)
        except NoArrowForm as error:
            log.info("%s is read row by row: %s", table.plan and table.plan.name, error)
            table.in_arrow = not error.stays
            taken = self._take(table, in_arrow=False)
        batch, table.progress = taken
        if batch is None:
            table.reader = None
        return batch

    def _take(self, table: _Table, in_arrow: bool) -> tuple[SourceBatch | None, SqlProgress]:
        """Return the next piece of the current poll, or of a new one; no piece at its end."""
        try:
            if table.reader is None:
                table.reader = self._open(table, in_arrow)
            return table.reader.take(table.progress)
        except Exception:
            reader, table.reader = table.reader, None
            if reader is not None:
                reader.close()
            raise

    def _open(self, table: _Table, in_arrow: bool) -> PieceReader:
        """Begin a poll of a table. Its columns are read again each time, as they may change."""
        database = self._database
        assert database is not None
        plan = (
            query_plan(database, self._values)
            if table.source is None
            else table_plan(database, table.source, self._values)
        )
        if table.schema is None or plan.columns != (table.plan and table.plan.columns):
            table.schema = row_schema(None if table.source is None else table.source.name, plan.columns)
        table.plan = plan
        prefix: str = self._values["topic.prefix"]
        topic = prefix if table.source is None else prefix + table.source.name
        pieces = self._pieces(table, plan, in_arrow)
        return PieceReader(plan, pieces, table.partition, topic, table.schema, self.context.report_errant)

    def _pieces(self, table: _Table, plan: ReadPlan, in_arrow: bool) -> Iterator[RowsPiece]:
        database, most = self._database, self._values["batch.max.rows"]
        assert database is not None
        end = None
        if plan.timestamps:
            now = database.now()
            end = now - dt.timedelta(milliseconds=self._values["timestamp.delay.interval.ms"])
            table.progress = self._begun(table.progress, now)
        statement = select_rows(plan, table.progress, end)
        if in_arrow:
            return arrow_pieces(database, plan, statement, most)
        return row_pieces(database, plan, statement, most)

    def _begun(self, progress: SqlProgress, now: dt.datetime) -> SqlProgress:
        """Return where a new table begins (``timestamp.initial``)."""
        initial = self._values["timestamp.initial"]
        if progress != SqlProgress() or initial is None:
            return progress
        begin = now if initial < 0 else dt.datetime.fromtimestamp(initial / 1000, dt.UTC)
        return SqlProgress(None, begin)

    def idle_wait_ms(self) -> int:
        """Return the time until a table is due, or the database is tried again."""
        due_ms = max(min(table.due_ms for table in self._tables), self._retry_at_ms)
        return max(1, due_ms - self._clock_ms())

    def stop(self) -> None:
        """Close the connection to the database."""
        for table in self._tables:
            if table.reader is not None:
                table.reader.close()
        if self._database is not None:
            self._database.close()

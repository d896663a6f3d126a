"""Records into tables of a SQL database: insert, upsert, update, delete; tables are made and grow if that is allowed.

Settings have the names that the JDBC sink's have. A ``put`` is one transaction: all of its records are in the tables,
or none is, so a batch that is refused may be put again in halves.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.outside_checks import OutsideCheck
from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.config_def import ConfigDef, Type, parse_value
from spark_connect_rt.connectors.sql.sql_batches import ShapeColumns, runs_of_batch
from spark_connect_rt.connectors.sql.sql_checks import sink_findings
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_rows import Row, RowReader, RowShape, runs_of
from spark_connect_rt.connectors.sql.sql_settings import problems_of
from spark_connect_rt.connectors.sql.sql_sink_config import CONFIG, INSERT, UPSERT, check_together
from spark_connect_rt.connectors.sql.sql_tables import TableId
from spark_connect_rt.connectors.sql.sql_target import Target, Targets, table_of
from spark_connect_rt.connectors.sql.sql_writes import UPSERTS, Writer
from spark_connect_rt.errors import BadConfigError, DataError, ExternalError, RetriableError

log = logging.getLogger(__name__)
Written = TypeVar("Written")
Refused = list[tuple[SinkRecord, DataError]]

LARGEST_PUT = 50_000
NO_SURE_ROLLBACK = ("mysql", "mariadb")


class SqlSinkConnector(SinkConnector):
    """Inserts, upserts, updates or deletes rows in the tables of a SQL database.

    Any number of tasks write to one database.
    """

    def config_def(self) -> ConfigDef:
        """Return the declarations of this connector's settings."""
        return CONFIG

    def task_class(self) -> type[Any]:
        """Return the class of its tasks."""
        return SqlSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        """Return the same configuration for every task."""
        return [dict(self.config) for _ in range(max_tasks)]

    def validate(self, config: Mapping[str, str]) -> Mapping[str, list[str]]:
        """Check settings against each other, and the URL."""

        def check(values: dict[str, Any]) -> None:
            database = checked_database(values)
            if not config.get("transforms", "").strip():  # one of these may rename topics
                for topic in parse_value(Type.LIST, config.get("topics", "")):
                    table_of(values["table.name.format"], topic, database.url.database)

        return problems_of(config, CONFIG, check)

    def outside_checks(self, config: Mapping[str, str]) -> Sequence[OutsideCheck]:
        """Log in, and find the tables unless they may be created."""
        renamed = bool(config.get("transforms", "").strip())
        return (lambda: sink_findings(CONFIG.parse(config), config.get("topics", ""), renamed),)

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Nothing is kept but the group's offsets."""
        return True


def checked_database(values: dict[str, Any]) -> SqlDatabase:
    """Return the database of settings that fit together. Raises BadConfigError."""
    check_together(values)
    database = SqlDatabase(values)
    if values["insert.mode"] == UPSERT and database.dialect not in UPSERTS:
        known = ", ".join(UPSERTS)
        raise BadConfigError({"insert.mode": [f"upsert is supported for {known}, not for {database.dialect}"]})
    return database


class SqlSinkTask(SinkTask):
    """Writes each ``put`` in one transaction."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: int(time.monotonic() * 1000)) -> None:
        """Take the clock that waits are measured by."""
        self._clock_ms = clock_ms
        self._database: SqlDatabase | None = None

    def start(self, config: Mapping[str, str]) -> None:
        """Take the settings; the database is met at the first put. Raises BadConfigError."""
        values = CONFIG.parse(config)
        self._values = values
        self._database = database = checked_database(values)
        self._reader = RowReader(
            values["pk.mode"], values["pk.fields"], values["fields.whitelist"], values["delete.enabled"]
        )
        self._targets = Targets(database, values["auto.create"], values["auto.evolve"])
        copy_from: int = values["connectrt.sql.copy.min.rows"]
        self._writer = Writer(database, values["insert.mode"], values["batch.size"], copy_from)
        self._failures, self._retry_at_ms = 0, 0

    def put(self, records: Sequence[SinkRecord]) -> None:
        """Write records.

        A record without a row goes to the errant record reporter, once the others are in their tables.

        Raises RetriableError: the database is unavailable. Raises DataError: it rejects records.
        Raises ExternalError: it rejects the work itself.
        """
        if not records:
            return
        refused = self._patiently(lambda: self._write(records))
        reporter = self.context.errant_record_reporter()
        for record, problem in refused:
            assert reporter is not None
            reporter.report(record, problem)

    def preview_put(self, records: Sequence[SinkRecord]) -> None:
        """Write as ``put`` in a transaction that is rolled back. It creates and changes no table.

        Raises as ``put``. Raises DataError: a table is missing or lacks a column. Raises NotImplementedError: tables of
        this database may have an engine without transactions.
        """
        assert self._database is not None
        if self._database.dialect in NO_SURE_ROLLBACK:
            raise NotImplementedError(f"{self._database.dialect} has tables that cannot roll back")
        self._targets = self._targets.as_they_are()
        try:
            refused = self._write(records, keep=False)
        finally:
            self._targets.forget()
        for _, problem in refused:
            raise problem

    def put_batch(self, batch: SinkBatch) -> bool:
        """Write columns of flat structs as ``put`` writes records; others go by records. Raises as ``put``."""
        runs = runs_of_batch(batch, self._reader, self._values["insert.mode"] != INSERT)
        if runs is None:
            return False
        self._patiently(lambda: self._write_columns(batch.topic, runs))
        return True

    def largest_put(self) -> int:
        """Return ten times the size of a read: each call is a transaction that has to reach the database's disk."""
        return LARGEST_PUT

    def takes_absent_values(self) -> bool:
        """Return whether deletions (records without a value) come in columns, too."""
        return bool(self._values["delete.enabled"])

    def reads_headers(self) -> bool:
        """Return False: no table has any."""
        return False

    def wants_partitions_apart(self) -> bool:
        """No: each call is a transaction."""
        return False

    def _patiently(self, write: Callable[[], Written]) -> Written:
        """Return the result of ``write``.

        After a temporary fault raise RetriableError, ``max.retries`` times in a row.
        """
        if self._clock_ms() < self._retry_at_ms:
            raise RetriableError("waiting for retry.backoff.ms")
        try:
            written = write()
        except RetriableError as error:
            self._targets.forget()
            self._wait_after(error)
        except Exception:
            self._targets.forget()
            raise
        self._failures = 0
        return written

    def _wait_after(self, error: RetriableError) -> NoReturn:
        self._failures += 1
        most: int = self._values["max.retries"]
        if self._failures > most:
            self._failures = 0
            raise ExternalError(f"{error} ({most + 1} attempts, max.retries={most})") from error
        self._retry_at_ms = self._clock_ms() + self._values["retry.backoff.ms"]
        raise error

    def _write(self, records: Sequence[SinkRecord], *, keep: bool = True) -> Refused:
        """Write all, or raise and write none; return the records that have no row. ``keep`` not: rolled back."""
        tables, refused = self._rows_by_table(records)
        replaces = self._values["insert.mode"] != INSERT
        self._write_runs([
            (table, run.shape, partial(self._writer.write, run=run))
            for table, pairs in tables.items()
            for run in runs_of(pairs, replaces)
        ], keep=keep)  # fmt: skip
        return refused

    def _write_columns(self, topic: str, runs: Sequence[ShapeColumns]) -> None:
        """Write all, or raise and write none."""
        table = self._table_of(topic)
        self._write_runs([(table, run.shape, partial(self._writer.write_columns, run=run)) for run in runs])

    def _write_runs(
        self, runs: Sequence[tuple[TableId, RowShape, Callable[[Target], None]]], *, keep: bool = True
    ) -> None:
        """Write runs in their order, in one transaction; a deletion from a table that is not there is nothing."""
        database = self._database
        assert database is not None
        # First every table, as a change of one would end the transaction of the rows.
        for table, shape, _ in runs:
            if not shape.deletes:
                self._targets.ready(table, shape)
        ready = [(self._targets.ready(table, shape), write) for table, shape, write in runs]
        self._writer.begin()
        with database.explained("does not accept records"):
            for target, write in ready:
                if target is not None:
                    write(target)
            if keep:
                database.connection().commit()
            else:
                database.connection().rollback()

    def _table_of(self, topic: str) -> TableId:
        assert self._database is not None
        return table_of(self._values["table.name.format"], topic, self._database.url.database)

    def _rows_by_table(
        self, records: Sequence[SinkRecord]
    ) -> tuple[dict[TableId, list[tuple[RowShape, Row]]], Refused]:
        by_topic: dict[str, list[tuple[RowShape, Row]]] = {}
        refused: Refused = []
        for record in records:
            try:
                row = self._reader.read(record)
            except DataError as error:
                if self.context.errant_record_reporter() is None:
                    raise
                refused.append((record, error))
                continue
            by_topic.setdefault(record.topic, []).append(row)
        tables: dict[TableId, list[tuple[RowShape, Row]]] = {}
        for topic, pairs in by_topic.items():
            tables.setdefault(self._table_of(topic), []).extend(pairs)
        return tables, refused

    def stop(self) -> None:
        """Close the connection to the database."""
        if self._database is not None:
            self._database.close()

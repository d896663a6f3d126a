"""Rows are read ahead by a thread: bounded, in order, and nothing of it is left when the task stops."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
import sqlalchemy as sa

from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_queries import ReadPlan
from spark_connect_rt.connectors.sql.sql_reader import PIECES_AHEAD, PiecesAhead, arrow_pieces
from spark_connect_rt.connectors.sql.sql_source import SqlSourceConnector
from spark_connect_rt.connectors.sql.sql_source_config import CONFIG
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.testing.connector_harness import SourceHarness
from tests.e2e.commands import until
from tests.integration.sql.conftest import Database

BACKENDS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


def ahead_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "sql-ahead"]


class Stream:
    """Five pieces, of which each says how many were made; then maybe an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.made, self.closed, self.cancelled, self._error = 0, False, 0, error

    def pieces(self) -> Iterator[pa.RecordBatch]:
        try:
            for number in range(5):
                self.made += 1
                yield pa.record_batch({"n": [number]})
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True

    def open(self) -> PiecesAhead:
        return PiecesAhead(self.pieces(), self.cancel)  # type: ignore[arg-type]

    def cancel(self) -> None:
        self.cancelled += 1


def numbers(pieces: Iterator[pa.RecordBatch]) -> list[int]:
    return [piece.column("n")[0].as_py() for piece in pieces]


def test_pieces_come_in_order_and_no_more_than_a_few_are_read_ahead() -> None:
    stream = Stream()
    pieces = stream.open()
    until(lambda: stream.made == PIECES_AHEAD + 1, 20, "two wait, the third is offered")
    assert len(pieces._read) == PIECES_AHEAD
    assert numbers(pieces) == [0, 1, 2, 3, 4]
    assert stream.closed
    pieces.close()
    assert not stream.cancelled  # it had ended


def test_an_error_comes_behind_the_pieces_before_it_and_once() -> None:
    pieces = Stream(ConnectError("broken")).open()
    assert numbers(next(pieces) for _ in range(5)) == [0, 1, 2, 3, 4]
    with pytest.raises(ConnectError, match="broken"):
        next(pieces)
    assert not list(pieces)


def test_closing_in_the_middle_closes_the_stream_and_ends_the_thread() -> None:
    stream = Stream()
    pieces = stream.open()
    next(pieces)
    pieces.close()
    assert (stream.closed, stream.cancelled, list(pieces)) == (True, 1, [])
    assert not ahead_threads()


def test_a_task_that_stops_in_the_middle_of_a_table_leaves_no_connection(postgres_database: Database) -> None:
    database = postgres_database
    database.run("CREATE TABLE orders (id BIGINT PRIMARY KEY)", "INSERT INTO orders SELECT generate_series(1, 60000)")
    settings = {"mode": "incrementing", "incrementing.column.name": "id", "batch.max.rows": "100"}
    with SourceHarness(
        SqlSourceConnector, {"connection.url": database.url, "topic.prefix": "t-", **settings}
    ) as source:
        assert [record.json()["id"] for record in source.poll()] == list(range(1, 101))
        assert ahead_threads()
    assert not ahead_threads()
    until(lambda: database.rows(BACKENDS) == [(0,)], 20, "both connections are closed")


def test_a_read_that_waits_for_the_database_is_cancelled(postgres_database: Database) -> None:
    database = SqlDatabase(CONFIG.parse({"connection.url": postgres_database.url, "mode": "bulk"}))
    pieces = arrow_pieces(database, ReadPlan("query", ()), sa.select(sa.func.pg_sleep(600)), 10)
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    until(lambda: postgres_database.rows(asleep) == [(1,)], 20, "it waits")
    pieces.close()  # type: ignore[attr-defined]
    assert not ahead_threads()
    until(lambda: postgres_database.rows(BACKENDS) == [(0,)], 20, "its connection is closed")

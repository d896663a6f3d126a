"""The SQL source on a real PostgreSQL and on SQLite: every mode, restarts, bad rows, a server that goes away."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from spark_connect_rt.api.connector import ExactlyOnceSupport
from spark_connect_rt.connectors.sql.sql_source import SqlSourceConnector
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError, RetriableError
from spark_connect_rt.testing.connector_harness import SourceHarness
from tests.e2e.commands import until
from tests.integration.sql.conftest import Database, stopped
from tests.support.postgres_server import PostgresServer

SUPPORTED, UNSUPPORTED = ExactlyOnceSupport.SUPPORTED, ExactlyOnceSupport.UNSUPPORTED
INCREMENTING = {"mode": "incrementing", "incrementing.column.name": "id"}
TIMES = {"mode": "timestamp", "timestamp.column.name": "changed"}
BOTH = {"mode": "timestamp+incrementing", "timestamp.column.name": "changed", "incrementing.column.name": "id"}
ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, changed TIMESTAMP NOT NULL, word VARCHAR(20))"


def harness(database: Database, **settings: Any) -> SourceHarness:
    config = {"connection.url": database.url, "topic.prefix": "db-", "poll.interval.ms": "1", **settings}
    return SourceHarness(SqlSourceConnector, {name.replace("__", "."): str(value) for name, value in config.items()})


def ids(records: list[Any]) -> list[int]:
    return [record.json()["id"] for record in records]


def until_ids(source: SourceHarness, wanted: list[int]) -> None:
    found: list[int] = []

    def complete() -> bool:
        found.extend(ids(source.poll()))
        return len(found) >= len(wanted)

    until(complete, 20, f"rows {wanted}", lambda: found)
    assert found == wanted


@pytest.mark.parametrize("arrow", ["true", "false"])
def test_new_rows_come_once_and_a_restart_resumes_behind_the_last(
    database: Database, arrow: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    database.run(ORDERS, *(f"INSERT INTO orders VALUES ({n}, '2024-01-01 10:00:00', 'w{n}')" for n in (-1, 1, 2, 3)))
    with harness(database, **INCREMENTING, **{"connectrt.sql.arrow": arrow, "batch.max.rows": 2}) as source:
        first = source.poll()
        assert ids(first) == [-1, 1]
        assert first[0].topic == "db-orders"
        assert first[0].json() == {"id": -1, "changed": 1704103200000, "word": "w-1"}
        source.restart()
        until_ids(source, [2, 3])
        database.run("INSERT INTO orders VALUES (7, '2024-01-01', 'late')")
        until_ids(source, [7])
        assert [offset for _, offset in source.offsets.all()] == [{"incrementing": 7}]
    assert "is read row by row" not in caplog.text


def test_unacknowledged_rows_are_read_again(database: Database) -> None:
    database.run(
        ORDERS, "INSERT INTO orders VALUES (1, '2024-01-01', 'a')", "INSERT INTO orders VALUES (2, '2024-01-01', 'b')"
    )
    with harness(database, **INCREMENTING) as source:
        assert ids(source.poll(durable=False)) == [1, 2]
        source.restart()
        until_ids(source, [1, 2])


def test_offsets_of_the_jdbc_source_are_taken_over_where_they_are(postgres_database: Database) -> None:
    database = postgres_database
    database.run(ORDERS, *(f"INSERT INTO orders VALUES ({n}, '2024-01-01', 'w')" for n in (1, 2, 3)))
    name = database.engine.url.database
    for partition in (
        {"protocol": "1", "table": "public.orders"},
        {"protocol": "1", "table": f"{name}.public.orders"},
        {"table": "orders"},
    ):
        source = harness(database, **INCREMENTING)
        source.offsets.put(partition, {"incrementing": 2})
        with source:
            until_ids(source, [3])
            assert source.offsets.all() == [(partition, {"incrementing": 3})]


@pytest.mark.parametrize("arrow", ["true", "false"])
def test_timestamp_mode_sees_changes_and_loses_none_of_one_time_in_two_pieces(database: Database, arrow: str) -> None:
    same = "2024-01-01 10:00:00.250000"
    database.run(
        ORDERS,
        "INSERT INTO orders VALUES (1, '2024-01-01 09:00:00', 'a')",
        *(f"INSERT INTO orders VALUES ({n}, '{same}', 'b')" for n in (2, 3, 4)),
    )
    with harness(database, **TIMES, **{"connectrt.sql.arrow": arrow, "batch.max.rows": 2}) as source:
        assert ids(source.poll()) == [1, 2]
        (offset,) = [offset for _, offset in source.offsets.all()]
        assert offset == {"timestamp": 1704099600000, "timestamp_nanos": 0}, "3 and 4 are of the same time as 2"
        source.restart()
        until_ids(source, [2, 3, 4])
        assert source.offsets.all()[0][1] == {"timestamp": 1704103200250, "timestamp_nanos": 250_000_000}
        database.run("UPDATE orders SET changed = '2024-01-02 00:00:00.500000', word = 'new' WHERE id = 1")
        until_ids(source, [1])


@pytest.mark.parametrize("arrow", ["true", "false"])
def test_timestamp_and_incrementing_distinguish_rows_of_one_time(database: Database, arrow: str) -> None:
    database.run(ORDERS, *(f"INSERT INTO orders VALUES ({n}, '2024-01-01 10:00:00', 'b')" for n in (1, 2, 3)))
    with harness(database, **BOTH, **{"connectrt.sql.arrow": arrow, "batch.max.rows": 2}) as source:
        assert ids(source.poll()) == [1, 2]
        source.restart()
        until_ids(source, [3])
        database.run("UPDATE orders SET changed = '2024-01-01 10:00:00.001' WHERE id = 2")
        until_ids(source, [2])
        assert source.offsets.all()[0][1]["incrementing"] == 2


@pytest.mark.parametrize("arrow", ["true", "false"])
@pytest.mark.parametrize("kind", ["TIMESTAMP", "TIMESTAMPTZ"])
def test_times_with_and_without_a_zone_are_asked_for_as_they_are_stored(
    postgres_database: Database, kind: str, arrow: str
) -> None:
    """Noon in Berlin, in a column of its wall clock's time and in one with a zone, is 10:00 of UTC."""
    postgres_database.run(f"CREATE TABLE orders (id INTEGER PRIMARY KEY, maybe {kind}, changed {kind} NOT NULL)")
    noon = "2024-07-01 12:00:00" if kind == "TIMESTAMP" else "2024-07-01 10\\:00\\:00+00"
    insert = "INSERT INTO orders VALUES ({}, NULL, '{}')"
    postgres_database.run(insert.format(1, noon))
    settings = {"db.timezone": "Europe/Berlin", "connectrt.sql.arrow": arrow, "batch.max.rows": 1}
    with harness(postgres_database, **{**BOTH, **settings, "timestamp.column.name": "maybe,changed"}) as source:
        assert [record.json()["changed"] for record in source.poll()] == [1719828000000]
        assert source.offsets.all()[0][1] == {"incrementing": 1, "timestamp": 1719828000000, "timestamp_nanos": 0}
        source.restart()
        postgres_database.run(insert.format(2, noon), insert.format(0, noon.replace("00", "01", 1)))
        until_ids(source, [2, 0])


def test_a_change_younger_than_the_delay_waits(database: Database) -> None:
    database.run(
        ORDERS,
        "INSERT INTO orders VALUES (1, '2024-01-01', 'old')",
        "INSERT INTO orders VALUES (2, CURRENT_TIMESTAMP, 'young')",
    )
    with harness(database, **TIMES, **{"timestamp.delay.interval.ms": 3_600_000}) as source:
        assert ids(source.poll_all()) == [1]


def test_bulk_reads_everything_at_each_poll_and_a_query_may_have_conditions(database: Database) -> None:
    database.run(
        ORDERS,
        *(f"INSERT INTO orders VALUES ({n}, '2024-01-01', '{w}')" for n, w in ((1, "a:b"), (2, "50%"), (3, "c"))),
    )
    with harness(database) as source:
        until_ids(source, [1, 2, 3])
        source.hosted.connector.stop()
    query = "SELECT id, word FROM orders WHERE word LIKE '%%:b' OR word = '50%' ORDER BY id"
    with harness(database, query=query, **{"topic.prefix": "asked", **INCREMENTING}) as source:
        records = source.poll_all()
        assert [(record.topic, record.json()) for record in records] == [
            ("asked", {"id": 1, "word": "a:b"}),
            ("asked", {"id": 2, "word": "50%"}),
        ]
        assert source.offsets.all() == [({"query": "query"}, {"incrementing": 2})]


def test_tables_are_dealt_to_tasks_and_a_new_one_is_found_while_running(database: Database) -> None:
    database.run(
        *(f"CREATE TABLE t{n} (id INTEGER PRIMARY KEY)" for n in range(3)),
        "CREATE TABLE other (id INTEGER PRIMARY KEY)",
    )
    database.run(*(f"INSERT INTO t{n} VALUES ({n})" for n in range(3)))
    settings = {"tasks.max": 2, "table.include.list": "t[0-9]", "table.poll.interval.ms": 20}
    with harness(database, **INCREMENTING, **settings) as source:
        assert len(source.tasks) == 2
        until_ids_of(source, {0, 1, 2})
        before = source.hosted.reconfigurations
        database.run("CREATE TABLE t9 (id INTEGER PRIMARY KEY)", "INSERT INTO t9 VALUES (9)")
        until(lambda: source.hosted.reconfigurations > before, 20, "the new table is told of")
        source.reconfigure()
        until_ids_of(source, {9})


def until_ids_of(source: SourceHarness, wanted: set[int]) -> None:
    found: set[int] = set()

    def complete() -> bool:
        found.update(ids(source.poll()))
        return found >= wanted

    until(complete, 20, f"rows {wanted}", lambda: found)
    assert found == wanted


def test_a_row_of_a_wrong_type_is_reported_and_the_others_are_delivered(sqlite_database: Database) -> None:
    sqlite_database.run(
        "CREATE TABLE loose (id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO loose VALUES (1, 1), (2, 'two'), (3, 3)"
    )
    with (
        harness(sqlite_database, **INCREMENTING) as strict,
        pytest.raises(DataError, match="table loose id 2: TASK_POLL"),
    ):
        strict.poll()
    with harness(sqlite_database, **INCREMENTING, **{"errors.tolerance": "all"}) as lax:
        assert ids(lax.poll_all()) == [1, 3]
        assert [errant.place for errant in lax.errants] == ["table loose id 2"]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"mode": "incrementing", "incrementing.column.name": "no"}, "orders has no column no"),
        ({"mode": "timestamp", "timestamp.column.name": "maybe"}, "may be null, so mode timestamp could miss rows"),
        ({"query": "SELECT nothing FROM nowhere", "topic.prefix": "q"}, "does not accept the query"),
    ],
)
def test_unreadable_table_fails_the_task_with_a_clear_error(
    database: Database, settings: dict[str, str], said: str
) -> None:
    database.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, maybe TIMESTAMP)")
    with harness(database, **settings) as source, pytest.raises(ConnectError, match=said) as failure:
        source.poll()
    assert not isinstance(failure.value, RetriableError)


def test_a_wrong_database_is_not_retriable(postgres_url: str) -> None:
    wrong = Database(postgres_url.replace("/test_", "/no_such_"))
    with pytest.raises(ConnectError, match="does not exist") as failure, harness(wrong, **INCREMENTING):
        pass
    assert not isinstance(failure.value, RetriableError)


def test_settings_that_do_not_fit_together_are_named_at_once(sqlite_database: Database) -> None:
    with pytest.raises(BadConfigError) as refused:
        harness(sqlite_database, mode="timestamp", **{"table.whitelist": "a", "table.exclude.list": "b"}).start()
    assert set(refused.value.problems) == {"timestamp.column.name", "table.exclude.list"}


@pytest.mark.parametrize("arrow", ["true", "false"])
def test_a_server_that_goes_away_is_waited_for_and_no_row_is_lost_or_repeated(
    postgres: PostgresServer, postgres_database: Database, arrow: str
) -> None:
    database = postgres_database
    database.run(ORDERS, *(f"INSERT INTO orders VALUES ({n}, '2024-01-01', 'w')" for n in (1, 2, 3)))
    settings = {"connection.backoff.ms": 1, "connectrt.sql.arrow": arrow}
    with harness(database, **INCREMENTING, **settings) as source:
        assert ids(source.poll()) == [1, 2, 3]
        with stopped(postgres):
            until(lambda: raises_retriable(source.poll), 30, "the loss is told as a passing one")
        database.run("INSERT INTO orders VALUES (4, '2024-01-01', 'w'), (5, '2024-01-01', 'w')")
        found: list[int] = []
        until(lambda: take(source, found) >= 2, 60, "the rest comes", lambda: found)
        assert found == [4, 5]


def raises_retriable(poll: Callable[[], object]) -> bool:
    try:
        poll()
    except RetriableError:
        return True
    return False


def take(source: SourceHarness, found: list[int]) -> int:
    if not raises_retriable(lambda: found.extend(ids(source.poll()))):
        return len(found)
    return 0


def test_only_modes_that_distinguish_rows_are_exactly_once() -> None:
    support = SqlSourceConnector().exactly_once_support
    assert [support({"mode": mode}) for mode in ("incrementing", "timestamp+incrementing")] == [SUPPORTED, SUPPORTED]
    assert [support(config) for config in ({"mode": "timestamp"}, {"mode": "bulk"}, {})] == [UNSUPPORTED] * 3


def test_no_thread_is_left_behind(sqlite_database: Database) -> None:
    sqlite_database.run(ORDERS)
    with harness(sqlite_database, **INCREMENTING, **{"table.poll.interval.ms": 10}):
        assert any(thread.name == "sql-table-watch" for thread in threading.enumerate())
    until(lambda: all(thread.name != "sql-table-watch" for thread in threading.enumerate()), 20, "the watch ends")

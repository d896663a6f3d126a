"""Which tables a source finds, and what a check says of names: partitions, views, other cases, other databases."""

from __future__ import annotations

from typing import Any

import pytest

from spark_connect_rt.api.outside_checks import Level
from spark_connect_rt.connectors.sql.sql_sink import SqlSinkConnector
from spark_connect_rt.connectors.sql.sql_source import SqlSourceConnector
from spark_connect_rt.errors import BadConfigError, ConnectError, DataError
from tests.integration.sql.conftest import Database
from tests.integration.sql.test_sql_sink import harness as sink_harness
from tests.integration.sql.test_sql_sink import send_orders
from tests.integration.sql.test_sql_source import harness

TABLES = [
    "CREATE TABLE part (id INT, w TEXT) PARTITION BY RANGE (id)",
    "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20) PARTITION BY RANGE (id)",
    "CREATE TABLE part_2a PARTITION OF part_2 FOR VALUES FROM (10) TO (20)",
    "INSERT INTO part VALUES (1, 'a'), (11, 'b')",
    'CREATE TABLE "Orders" ("ID" INT PRIMARY KEY, w TEXT)',
    "INSERT INTO \"Orders\" VALUES (5, 'o')",
    "CREATE MATERIALIZED VIEW mv AS SELECT * FROM part",
    "CREATE VIEW v AS SELECT * FROM part WHERE id = 1",
]


def read(database: Database, **settings: str) -> list[tuple[str, int]]:
    with harness(database, **settings, **{"poll.interval.ms": 3_600_000, "tasks.max": "1"}) as source:
        records = [record for _ in range(8) for record in source.poll()]
    return sorted((record.topic, record.json().get("id", record.json().get("ID"))) for record in records)


@pytest.mark.parametrize(
    ("kinds", "wanted"),
    [
        ("", [("db-Orders", 5), ("db-part_1", 1), ("db-part_2a", 11)]),
        ("PARTITIONED TABLE", [("db-part", 1), ("db-part", 11)]),
        ("TABLE,PARTITIONED TABLE", [("db-Orders", 5), ("db-part", 1), ("db-part", 11)]),
        ("MATERIALIZED VIEW,view", [("db-mv", 1), ("db-mv", 11), ("db-v", 1)]),
    ],
)
def test_each_row_comes_once_whatever_kinds_of_tables_are_read(
    postgres_database: Database, kinds: str, wanted: list[tuple[str, int]]
) -> None:
    postgres_database.run(*TABLES)
    assert read(postgres_database, **{"table.types": kinds}) == wanted


def test_a_foreign_table_is_a_separate_kind(postgres_database: Database) -> None:
    postgres_database.run(
        "CREATE FOREIGN DATA WRAPPER none", "CREATE SERVER far FOREIGN DATA WRAPPER none",
        "CREATE FOREIGN TABLE ft (id INT) SERVER far",
    )  # fmt: skip
    try:
        found = findings(SqlSourceConnector(), postgres_database, **{"table.whitelist": "ft"})
        assert (Level.WARNING, "ft is a FOREIGN TABLE. Add that to table.types, which is TABLE") in found
        found = findings(SqlSourceConnector(), postgres_database, **{"table.types": "foreign table"})
        assert (Level.OK, "it would read public.ft") in found
    finally:
        postgres_database.run("DROP FOREIGN DATA WRAPPER none CASCADE")


def test_an_unknown_kind_is_refused_with_the_known_ones(postgres_database: Database) -> None:
    with pytest.raises(BadConfigError, match=r"SYNONYM is not valid. Use TABLE, PARTITIONED TABLE, VIEW"):
        harness(postgres_database, **{"table.types": "TABLE,SYNONYM"}).start()


def findings(connector: Any, database: Database, **settings: str) -> list[tuple[Level, str]]:
    config = {"connection.url": database.url, **settings}
    return [(finding.level, finding.what) for look in connector.outside_checks(config) for finding in look()]


def test_a_check_names_the_table_or_column_that_is_meant(postgres_database: Database) -> None:
    postgres_database.run(*TABLES)
    found = findings(SqlSourceConnector(), postgres_database, **{"table.whitelist": "orders,mv"})
    assert (Level.WARNING, "no table has the name orders. There is public.Orders") in found
    assert (Level.WARNING, "mv is a MATERIALIZED VIEW. Add that to table.types, which is TABLE") in found
    position = {"mode": "incrementing", "incrementing.column.name": "id"}
    found = findings(SqlSourceConnector(), postgres_database, **{"table.whitelist": '"Orders"'}, **position)
    assert (Level.PROBLEM, "public.Orders has no column id (did you mean ID?). It has ID, w") in found
    query = {"query": 'SELECT * FROM "Orders"', "topic.prefix": "q", "mode": "incrementing"}
    with (
        harness(postgres_database, **query, **{"incrementing.column.name": "Orders.ID"}) as source,
        pytest.raises(ConnectError, match=r"query has no column Orders.ID \(did you mean ID\?\)"),
    ):
        source.poll()


def test_a_check_of_a_sink_names_the_table_and_column_of_another_case(postgres_database: Database) -> None:
    postgres_database.run('CREATE TABLE "Orders" ("ID" INT PRIMARY KEY, word VARCHAR(9))')
    for creates, level in (("true", Level.WARNING), ("false", Level.PROBLEM)):
        found = findings(SqlSinkConnector(), postgres_database, topics="orders", **{"auto.create": creates})
        assert (level, "table orders does not exist (did you mean Orders?)") in found
    with sink_harness(postgres_database, **{"table.name.format": '"Orders"'}) as sink:
        send_orders(sink, (1, "a"))
        with pytest.raises(DataError, match=r"has no column id \(did you mean ID\?\), and auto\.evolve is off"):
            sink.deliver()


def test_a_schema_pattern_that_nothing_uses_is_named(sqlite_database: Database) -> None:
    sqlite_database.run("CREATE TABLE t (id INTEGER PRIMARY KEY)")
    found = findings(SqlSourceConnector(), sqlite_database, **{"schema.pattern": "public"})
    assert (Level.WARNING, "schema.pattern has no effect: SQLite has no schemas") in found


def test_a_debezium_topic_is_refused_unless_it_names_the_database(postgres_database: Database) -> None:
    settings = {"connection.url": postgres_database.url, "topics": "srv.public.orders"}
    problems = SqlSinkConnector().validate(settings)
    assert list(problems) == ["table.name.format"]
    assert "topic srv.public.orders results in the name srv.public.orders" in problems["table.name.format"][0]
    assert SqlSinkConnector().validate({**settings, "transforms": "r"}) == {}, "which may rename it"
    found = findings(SqlSinkConnector(), postgres_database, topics="srv.public.orders")
    assert [level for level, what in found if "srv.public.orders" in what] == [Level.PROBLEM]
    database = postgres_database.engine.url.database
    with sink_harness(
        postgres_database, **{"auto.create": "true", "table.name.format": f"{database}.public.t"}
    ) as sink:
        send_orders(sink, (1, "a"))
        assert sink.deliver()
    assert postgres_database.rows("SELECT id FROM t") == [(1,)]


def test_a_server_that_became_a_standby_is_waited_for(postgres_database: Database) -> None:
    """Its refusals are of no record: none is dead, nothing is committed, and after the last retry the task fails."""
    name = postgres_database.engine.url.database
    postgres_database.run("CREATE TABLE orders (id INT PRIMARY KEY, word TEXT)")
    settings = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead", "max.retries": "1"}
    with sink_harness(postgres_database, **settings) as sink:
        send_orders(sink, (1, "a"))
        postgres_database.run(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        try:
            assert not sink.deliver()
            with pytest.raises(ConnectError, match=r"read-only transaction .*max\.retries=1"):
                sink.deliver()
        finally:
            off = f"ALTER DATABASE {name} SET default_transaction_read_only = off"
            postgres_database.run("SET TRANSACTION READ WRITE", off)
        assert sink.dead_letters() == []
        assert sink.commit() == {}

"""The SQL sink on a real PostgreSQL and on SQLite: every mode, tables made and grown, bad records, lost servers."""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import orjson
import pytest

from spark_connect_rt.api.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from spark_connect_rt.api.data.schema import (
    BOOLEAN,
    BYTES,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
    OPTIONAL_FLOAT64,
    OPTIONAL_STRING,
    STRING,
    Schema,
    struct_of,
)
from spark_connect_rt.api.data.schema import Type as ConnectType
from spark_connect_rt.api.data.schema_builder import SchemaBuilder
from spark_connect_rt.api.data.struct import Struct
from spark_connect_rt.api.outside_checks import Finding
from spark_connect_rt.api.records import SinkRecord
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.sql.sql_database import SqlDatabase
from spark_connect_rt.connectors.sql.sql_sink import SqlSinkConnector, SqlSinkTask
from spark_connect_rt.connectors.sql.sql_sink_config import CONFIG
from spark_connect_rt.errors import BadConfigError, DataError, ExternalError
from spark_connect_rt.testing.connector_harness import PLAIN_JSON
from spark_connect_rt.testing.sink_harness import SinkHarness
from tests.e2e.commands import until
from tests.integration.sql.conftest import Database, stopped
from tests.support.postgres_server import PostgresServer

WITH_SCHEMAS = {name: value.replace("false", "true") for name, value in PLAIN_JSON.items()}
BY_KEY = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id", "delete.enabled": "true"}
BY_VALUE = {"insert.mode": "upsert", "pk.mode": "record_value", "pk.fields": "id"}
TOLERANT = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
}
ORDER = struct_of({"id": INT32, "word": OPTIONAL_STRING})
ALWAYS_COPY = {"connectrt.sql.copy.min.rows": "1"}


def harness(database: Database, **settings: str) -> SinkHarness:
    config = {"connection.url": database.url, "topics": "orders", "retry.backoff.ms": "0", **settings}
    return SinkHarness(SqlSinkConnector, config, WITH_SCHEMAS)


def send_orders(sink: SinkHarness, *orders: tuple[int, str | None]) -> None:
    for number, word in orders:
        sink.send("orders", {"id": number, "word": word}, schema=ORDER)


@pytest.mark.parametrize("copy", [{}, ALWAYS_COPY], ids=["statement", "copy"])
def test_a_missing_table_is_made_and_rows_are_inserted(database: Database, copy: dict[str, str]) -> None:
    with harness(database, **{"auto.create": "true"}, **copy) as sink:
        send_orders(sink, (1, "a"), (2, None), (3, ""), (4, 'quo"te,\n%s \\x'))
        assert sink.deliver()
        assert sink.commit() == {TopicPartition("orders", 0): 4}
    assert database.rows("SELECT id, word FROM orders ORDER BY id") == [
        (1, "a"),
        (2, None),
        (3, ""),
        (4, 'quo"te,\n%s \\x'),
    ]


@pytest.mark.parametrize("copy", [{}, ALWAYS_COPY], ids=["statement", "copy"])
def test_upsert_keeps_the_last_of_each_key_and_a_redelivery_changes_nothing(
    database: Database, copy: dict[str, str]
) -> None:
    with harness(database, **BY_VALUE, **copy, **{"auto.create": "true", "batch.size": "2"}) as sink:
        send_orders(sink, (1, "a"), (2, "b"), (1, "c"), (3, "d"), (2, "e"))
        assert sink.deliver()
        sink.restart()  # nothing was committed: all of it comes again
        send_orders(sink, (3, "f"))
        assert sink.deliver()
    assert database.rows("SELECT id, word FROM orders ORDER BY id") == [(1, "c"), (2, "e"), (3, "f")]


@pytest.mark.parametrize("copy", [{}, ALWAYS_COPY], ids=["statement", "copy"])
def test_a_null_value_deletes_its_keys_row_in_the_order_of_the_records(
    database: Database, copy: dict[str, str]
) -> None:
    key = struct_of({"id": INT32})
    with harness(database, **BY_KEY, **copy, **{"auto.create": "true"}) as sink:

        def send(number: int, word: str | None) -> None:
            value = {"schema": ORDER, "value": {"id": number, "word": word}} if word else {"value": None}
            sink.send("orders", value["value"], schema=value.get("schema"), key={"id": number}, key_schema=key)

        for number, word in ((1, "a"), (2, "b"), (1, None), (3, "c"), (3, None), (3, "d"), (4, None)):
            send(number, word)
        assert sink.deliver()
        assert database.rows("SELECT id, word FROM orders ORDER BY id") == [(2, "b"), (3, "d")]
        send(2, None)
        assert sink.deliver()
    assert database.rows("SELECT id FROM orders") == [(3,)]


@pytest.mark.parametrize("copy", [{}, ALWAYS_COPY], ids=["statement", "copy"])
def test_update_changes_only_rows_that_are_there(database: Database, copy: dict[str, str]) -> None:
    database.run(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, word VARCHAR(20), kept VARCHAR(9))",
        "INSERT INTO orders VALUES (1, 'old', 'k')",
    )
    with harness(database, **{**BY_VALUE, "insert.mode": "update"}, **copy) as sink:
        send_orders(sink, (1, "new"), (2, "none"))
        assert sink.deliver()
    assert database.rows("SELECT * FROM orders") == [(1, "new", "k")]


def test_a_kafka_key_a_plain_key_and_a_name_with_schema_and_dots(database: Database) -> None:
    with harness(database, **{"insert.mode": "upsert", "pk.mode": "kafka", "auto.create": "true"}) as sink:
        send_orders(sink, (1, "a"))
        assert sink.deliver()
        sink.restart()
        assert sink.deliver()
    assert database.rows("SELECT * FROM orders") == [("orders", 0, 0, 1, "a")]
    with harness(
        database, **BY_KEY, **{"auto.create": "true", "table.name.format": '"my.${topic}"', "fields.whitelist": "word"}
    ) as sink:
        sink.send("orders", {"id": 5, "word": "w"}, schema=ORDER, key="k", key_schema=STRING)
        assert sink.deliver()
    assert database.rows('SELECT * FROM "my.orders"') == [("k", "w")]


EVERYTHING = struct_of({
    "id": INT64, "tiny": INT8, "single": FLOAT32, "double": FLOAT64, "yes": BOOLEAN, "raw": BYTES, "text": STRING,
    "money": decimal_schema(2), "day": date_schema(), "hour": time_schema(), "at": timestamp_schema(),
    "list": SchemaBuilder.array(INT32).build(), "inner": struct_of({"a": INT32}),
})  # fmt: skip
VALUES: dict[str, Any] = {
    "id": 1, "tiny": 7, "single": 1.5, "double": 2.25, "yes": True, "raw": b"\x00\xff", "text": "é",
    "money": Decimal("12.50"), "day": dt.date(2024, 2, 29), "hour": dt.time(10, 11, 12, 500_000),
    "at": dt.datetime(2024, 7, 1, 10, 0, 0, 123_000, tzinfo=dt.UTC), "list": [1, 2], "inner": {"a": 1},
}  # fmt: skip


@pytest.mark.parametrize("copy", [{}, ALWAYS_COPY], ids=["statement", "copy"])
def test_every_connect_type_has_a_column_and_comes_back_as_it_was(
    postgres_database: Database, copy: dict[str, str]
) -> None:
    settings = {"auto.create": "true", "db.timezone": "Europe/Berlin", **BY_VALUE, **copy}
    with harness(postgres_database, **settings) as sink:
        sink.send("orders", VALUES, schema=EVERYTHING)
        assert sink.deliver()
    (row,) = postgres_database.rows("SELECT * FROM orders")
    wanted = {**VALUES, "at": dt.datetime(2024, 7, 1, 12, 0, 0, 123_000), "list": "[1,2]", "inner": '{"a":1}'}
    assert dict(zip(VALUES, row, strict=True)) == wanted
    kinds = dict(
        postgres_database.rows(
            "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'orders'"
        )
    )
    assert [kinds[name] for name in ("id", "tiny", "single", "money", "at", "raw")] == [
        "bigint", "smallint", "real", "numeric", "timestamp without time zone", "bytea",
    ]  # fmt: skip


def test_values_go_into_columns_of_other_types_where_the_database_takes_them(postgres_database: Database) -> None:
    postgres_database.run("CREATE TABLE orders (id UUID PRIMARY KEY, tree JSONB, zoned TIMESTAMPTZ, list INT[])")
    schema = struct_of(
        {"id": STRING, "tree": STRING, "zoned": timestamp_schema(), "list": SchemaBuilder.array(INT32).build()}
    )
    at = dt.datetime(2024, 7, 1, 10, tzinfo=dt.UTC)
    with harness(postgres_database, **BY_VALUE) as sink:
        sink.send(
            "orders",
            {"id": "12345678-1234-1234-1234-123456789abc", "tree": '{"a": 1}', "zoned": at, "list": [3]},
            schema=schema,
        )
        assert sink.deliver()
    assert postgres_database.rows("SELECT tree->>'a', zoned = '2024-07-01 10:00:00+00', list FROM orders") == [
        ("1", True, [3])
    ]


def test_a_table_grows_by_fields_that_may_be_missing_and_by_no_others(database: Database) -> None:
    more = struct_of({"id": INT32, "price": OPTIONAL_FLOAT64, "state": Schema(ConnectType.STRING, default="new")})
    database.run("CREATE TABLE orders (id INTEGER PRIMARY KEY)", "INSERT INTO orders VALUES (1)")
    with harness(database, **BY_VALUE) as sink:
        sink.send("orders", {"id": 2, "price": 1.5, "state": "x"}, schema=more)
        with pytest.raises(DataError, match=r"table orders has no column price, state, and auto\.evolve is off"):
            sink.deliver()
    with harness(database, **BY_VALUE, **{"auto.evolve": "true"}) as sink:
        sink.send("orders", {"id": 2, "price": 1.5, "state": "x"}, schema=more)
        assert sink.deliver()
        sink.send("orders", {"id": 3, "must": "y"}, schema=struct_of({"id": INT32, "must": STRING}))
        with pytest.raises(DataError, match="cannot get column must"):
            sink.deliver()
    assert database.rows("SELECT id, price, state FROM orders ORDER BY id") == [(1, None, "new"), (2, 1.5, "x")]


def test_one_bad_record_is_dead_lettered_and_the_others_are_in_the_table(database: Database) -> None:
    database.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, word VARCHAR(20) CHECK (word <> 'bad'))")
    with harness(database, **BY_VALUE, **TOLERANT) as sink:
        send_orders(sink, *((number, "bad" if number == 617 else f"w{number}") for number in range(1_000)))
        sink.send("orders", {"word": "no id"}, schema=struct_of({"word": STRING}))
        assert sink.deliver()
        assert sink.commit() == {TopicPartition("orders", 0): 1_001}
        letters = sink.dead_letters()
    assert database.rows("SELECT count(*), sum(id) FROM orders") == [(999, sum(range(1_000)) - 617)]
    buried = [json.loads(letter["value"])["payload"] for letter in letters]
    assert sorted(buried, key=str) == [{"id": 617, "word": "bad"}, {"word": "no id"}]


def test_without_tolerance_a_bad_record_fails_and_nothing_of_its_batch_is_written(database: Database) -> None:
    database.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, word VARCHAR(20) NOT NULL)")
    with harness(database, **BY_VALUE) as sink:
        send_orders(sink, (1, "a"), (2, None))
        with pytest.raises(DataError, match=r"(?i)not.null"):
            sink.deliver()
    assert database.rows("SELECT count(*) FROM orders") == [(0,)]


def test_a_value_of_a_wrong_type_is_the_records_fault(postgres_database: Database) -> None:
    postgres_database.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, word INTEGER)")
    for copy in ({}, ALWAYS_COPY):
        with harness(postgres_database, **BY_VALUE, **TOLERANT, **copy) as sink:
            send_orders(sink, (1, "12"), (2, "two"), (3, "13"))
            assert sink.deliver()
            assert len(sink.dead_letters()) == 1
        assert postgres_database.rows("SELECT id, word FROM orders ORDER BY id") == [(1, 12), (3, 13)]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"insert.mode": "upsert"}, "pk.mode"),
        ({"delete.enabled": "true"}, "delete.enabled"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "pk.fields"),
        ({"connection.url": "jdbc:oracle:thin:@x"}, "connection.url"),
        ({"connection.url": "jdbc:sqlite::memory:"}, "connection.url"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(
    sqlite_database: Database, settings: dict[str, str], named: str
) -> None:
    with pytest.raises(BadConfigError) as refused:
        harness(sqlite_database, **settings).start()
    assert set(refused.value.problems) == {named}


def test_a_missing_table_and_a_missing_unique_key_fail_clearly(postgres_database: Database) -> None:
    with harness(postgres_database, **BY_VALUE, **TOLERANT) as sink:
        send_orders(sink, (1, "a"))
        with pytest.raises(ExternalError, match=r"no table orders, and auto\.create is off"):
            sink.deliver()
        postgres_database.run("CREATE TABLE orders (id INTEGER, word VARCHAR(20))")
        with pytest.raises(ExternalError, match="no unique or exclusion constraint"):
            sink.deliver()
        assert sink.dead_letters() == [], "no record is to blame"


def test_copied_upserts_of_new_and_known_keys_leave_the_last_of_each(postgres_database: Database) -> None:
    wanted: dict[int, str] = {}
    rounds = [range(5), range(5, 10), range(3, 8), range(10, 15), range(0, 15, 2), range(15, 20), range(19, 23)]
    with harness(postgres_database, **BY_VALUE, **ALWAYS_COPY, **{"auto.create": "true", "batch.size": "3"}) as sink:
        for number, keys in enumerate(rounds * 3):
            orders = {key + 30 * (number // len(rounds) % 2): f"{number}-{key}" for key in keys}
            wanted |= orders
            send_orders(sink, *orders.items())
            assert sink.deliver()
    assert dict(postgres_database.rows("SELECT id, word FROM orders")) == wanted


BY_RECORDS = {
    "columns": {},
    "records": {
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.DropHeaders",
        "transforms.drop.headers": "h",
    },
}


class ColumnsOnlyTask(SqlSinkTask):
    """Takes no records."""

    def put(self, records: Sequence[SinkRecord]) -> None:
        assert not records


class ColumnsOnly(SqlSinkConnector):
    """Proves that nothing went by records."""

    def task_class(self) -> type[Any]:
        return ColumnsOnlyTask


@pytest.mark.parametrize("copy", [{}, ALWAYS_COPY], ids=["statement", "copy"])
@pytest.mark.parametrize("seed", range(3))
def test_deletions_upserts_and_headers_go_by_columns_and_leave_what_records_leave(
    database: Database, copy: dict[str, str], seed: int
) -> None:
    chance, wanted, batches = random.Random(seed), dict[int, str](), []
    for number in range(12):
        rows = []
        for place in range(chance.randrange(1, 40)):
            key, word = chance.randrange(15), None if chance.random() < 0.4 else f"{number}-{place}"
            rows.append((key, word))
            wanted.pop(key, None)
            wanted |= {} if word is None else {key: word}
        batches.append(rows)
    for table, connector in (("columns", ColumnsOnly), ("records", SqlSinkConnector)):
        database.run(f"CREATE TABLE {table} (id INTEGER PRIMARY KEY, word VARCHAR(9))")
        config = {"connection.url": database.url, "topics": table, **BY_KEY, "batch.size": "7", **copy}
        with SinkHarness(connector, config | BY_RECORDS[table], PLAIN_JSON) as sink:
            for rows in batches:
                sink.topics.append([_change(table, key, word) for key, word in rows])
                assert sink.deliver()
        assert dict(database.rows(f"SELECT id, word FROM {table}")) == wanted


def _change(topic: str, key: int, word: str | None) -> dict[str, Any]:
    value = None if word is None else orjson.dumps({"word": word})
    headers = [{"key": "h", "value": b"1"}]
    return {"topic": topic, "partition": 0, "key": b"%d" % key, "value": value, "headers": headers}


def test_deletions_before_there_is_a_table_delete_nothing(database: Database) -> None:
    config = {"connection.url": database.url, "topics": "orders", **BY_KEY, "auto.create": "true"}
    with SinkHarness(SqlSinkConnector, config, WITH_SCHEMAS) as sink:
        sink.send("orders", None, key=1, key_schema=INT32)
        assert sink.deliver()
        sink.send("orders", None, key=1, key_schema=INT32)
        sink.send("orders", {"word": "w"}, schema=struct_of({"word": STRING}), key=2, key_schema=INT32)
        assert sink.deliver()
    assert database.rows("SELECT id, word FROM orders") == [(2, "w")]


@pytest.mark.parametrize("settings", [BY_VALUE, {**BY_VALUE, "insert.mode": "insert"}], ids=["upsert", "insert"])
@pytest.mark.parametrize("copy", [{}, ALWAYS_COPY], ids=["statement", "copy"])
def test_columns_and_records_leave_the_same_table(
    database: Database, settings: dict[str, str], copy: dict[str, str]
) -> None:
    """Records with headers have no column form for a transformation."""
    rows = [
        {"id": 1, "n": 1, "x": 1, "d": 0.1, "t": "é,\n", "y": True, "m": 1, "nil": None},
        {"id": 2, "n": None, "x": 2.5, "d": 1e300, "t": "", "y": False, "m": None, "nil": None},
        {"id": 3, "n": -5, "x": None, "d": None, "t": None, "y": None, "m": 1.5, "nil": None},
    ]
    if settings["insert.mode"] == "upsert":
        rows.append({**rows[0], "m": 2, "t": "last"})
    tables = {"columns": None, "records": [{"key": "h", "value": b"1"}]}
    for table, headers in tables.items():
        database.run(
            f"CREATE TABLE {table} (id BIGINT PRIMARY KEY, n INTEGER, x NUMERIC, d DOUBLE PRECISION, t TEXT, y BOOLEAN,"
            " m VARCHAR(9), nil INTEGER)"
        )
        config = {"connection.url": database.url, "topics": table, **settings, **copy, **BY_RECORDS[table]}
        with SinkHarness(SqlSinkConnector, config, PLAIN_JSON) as sink:
            sink.topics.append(
                [{"topic": table, "partition": 0, "value": orjson.dumps(row), "headers": headers} for row in rows]
            )
            assert sink.deliver()
    found = [database.rows(f"SELECT * FROM {table} ORDER BY id") for table in tables]
    assert found[0] == found[1]
    assert [row[0] for row in found[0]] == [1, 2, 3]


def test_no_plain_copy_goes_into_a_table_without_the_unique_key(postgres_database: Database) -> None:
    postgres_database.run("CREATE TABLE orders (id INTEGER, word VARCHAR(20), UNIQUE (id))")
    with harness(postgres_database, **BY_VALUE, **ALWAYS_COPY) as sink:
        send_orders(sink, (1, "a"), (2, "b"))
        assert sink.deliver()
        postgres_database.run("ALTER TABLE orders DROP CONSTRAINT orders_id_key")
        send_orders(sink, (2, "c"), (3, "d"))
        with pytest.raises(ExternalError, match="no unique or exclusion constraint"):
            sink.deliver()
    assert postgres_database.rows("SELECT id, word FROM orders ORDER BY id") == [(1, "a"), (2, "b")]


def test_view_without_copy_takes_upserts(postgres_database: Database) -> None:
    postgres_database.run(
        "CREATE TABLE kept (id INTEGER PRIMARY KEY, word TEXT)", "CREATE VIEW orders AS SELECT * FROM kept"
    )
    with harness(postgres_database, **BY_VALUE, **ALWAYS_COPY) as sink:
        send_orders(sink, (1, "a"), (2, "b"))
        assert sink.deliver()
        send_orders(sink, (2, "c"), (3, "d"))
        assert sink.deliver()
    assert postgres_database.rows("SELECT id, word FROM kept ORDER BY id") == [(1, "a"), (2, "c"), (3, "d")]


def test_a_second_unique_key_refuses_a_record_however_it_is_written(postgres_database: Database) -> None:
    postgres_database.run("CREATE TABLE orders (id INTEGER PRIMARY KEY, word TEXT UNIQUE)")
    with harness(postgres_database, **BY_VALUE, **ALWAYS_COPY, **TOLERANT) as sink:
        send_orders(sink, (1, "a"), (2, "b"), (3, "a"), (4, "d"))
        assert sink.deliver()
        assert [json.loads(letter["value"])["payload"]["id"] for letter in sink.dead_letters()] == [3]
    assert postgres_database.rows("SELECT id, word FROM orders ORDER BY id") == [(1, "a"), (2, "b"), (4, "d")]


def test_a_connection_lost_during_a_copy_is_a_passing_fault(postgres_database: Database) -> None:
    postgres_database.run(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, word TEXT)",
        "CREATE SEQUENCE calls",
        "CREATE FUNCTION die_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " IF nextval('calls') = 2 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF; RETURN NEW; END $$",
        "CREATE TRIGGER dies BEFORE INSERT ON orders FOR EACH ROW EXECUTE FUNCTION die_once()",
    )
    with harness(postgres_database, **BY_VALUE, **ALWAYS_COPY) as sink:
        send_orders(sink, (1, "a"), (2, "b"), (3, "c"))
        assert not sink.deliver()
        assert sink.deliver()
    assert postgres_database.rows("SELECT id, word FROM orders ORDER BY id") == [(1, "a"), (2, "b"), (3, "c")]


def test_a_lost_server_is_waited_for_and_a_restarted_one_gets_everything(
    postgres: PostgresServer, postgres_database: Database
) -> None:
    with harness(postgres_database, **BY_VALUE, **{"auto.create": "true", "max.retries": "100000"}) as sink:
        send_orders(sink, (1, "a"))
        assert sink.deliver()
        with stopped(postgres):
            send_orders(sink, (2, "b"), (3, "c"))
            assert not sink.deliver(), "a passing fault: the same records are asked for again"
        until(sink.deliver, 60, "the records are taken")
    assert postgres_database.rows("SELECT id FROM orders ORDER BY id") == [(1,), (2,), (3,)]


@pytest.mark.parametrize("tolerance", [{}, TOLERANT], ids=["none", "all"])
def test_after_the_last_retry_the_task_fails_and_no_record_is_to_blame(
    sqlite_database: Database, tolerance: dict[str, str]
) -> None:
    away = {"connection.url": "jdbc:postgresql://127.0.0.1:1/none?user=x", "max.retries": "1"}
    with harness(sqlite_database, **away, **BY_VALUE, **tolerance) as sink:
        send_orders(sink, (1, "a"), (2, "b"))
        assert not sink.deliver()
        with pytest.raises(ExternalError, match=r"2 attempts, max\.retries=1"):
            sink.deliver()
        assert sink.dead_letters() == []


def record(number: int, word: object) -> SinkRecord:
    return SinkRecord("orders", 0, number, value=Struct(ORDER, {"id": number, "word": word}), value_schema=ORDER)


def test_put_for_a_preview_writes_no_table_and_shows_misfits(database: Database) -> None:
    with harness(database, **{"auto.create": "true"}) as sink:
        send_orders(sink, (1, "a"))
        assert sink.deliver()
    task = SqlSinkTask()
    task.start({"connection.url": database.url, "topics": "orders", "auto.create": "true", "insert.mode": "insert"})
    try:
        task.context = NoReporter()  # type: ignore[assignment]
        task.preview_put([record(2, "b"), record(3, None)])
        task.preview_put([record(2, "b")])
        other = SinkRecord("others", 0, 0, value=Struct(ORDER, {"id": 1, "word": "x"}), value_schema=ORDER)
        with pytest.raises(ExternalError, match="no table others"):
            task.preview_put([other])
        wide = struct_of({"id": INT32, "more": STRING})
        with pytest.raises(DataError, match="no column more"):
            task.preview_put(
                [SinkRecord("orders", 0, 4, value=Struct(wide, {"id": 4, "more": "x"}), value_schema=wide)]
            )
    finally:
        task.stop()
    assert database.rows("SELECT id, word FROM orders ORDER BY id") == [(1, "a")]
    found = {(check.check, check.level.value) for check in sink_checks(database, "orders,others")}
    assert found == {("credentials", "ok"), ("table", "ok"), ("table", "problem")}
    (refused,) = sink_checks(database, "orders", url=f"{database.url}-gone/x")
    assert (refused.check, refused.level.value) == ("credentials", "problem")


class NoReporter:
    """A context without a dead letter queue."""

    def errant_record_reporter(self) -> None:
        return None


def sink_checks(database: Database, topics: str, url: str | None = None) -> list[Finding]:
    config = {"connection.url": url or database.url, "topics": topics}
    return [line for look in SqlSinkConnector().outside_checks(config) for line in look()]


def test_error_outside_the_driver_leaves_nothing_for_the_next_transaction(database: Database) -> None:
    database.run("CREATE TABLE orders (id INTEGER)")
    target = SqlDatabase(CONFIG.parse({"connection.url": database.url}))

    def fail_half_way() -> None:
        with target.explained("does not accept records"):
            target.connection().exec_driver_sql("INSERT INTO orders VALUES (1)")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    target.connection().exec_driver_sql("INSERT INTO orders VALUES (2)")
    target.connection().commit()
    target.close()
    assert database.rows("SELECT id FROM orders") == [(2,)]

"""Debezium's PostgreSQL source and JDBC sink, in the Java host and in Java Connect: equal topics, equal tables.

Both sources capture the same tables by a slot each, at the same time: their records speak of the same transactions.
The short form has 20,000 rows and 2,000 changes; ``./test.sh java`` has a million and 200,000.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from http import HTTPStatus

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.support.captured_database import PREFIX, CapturedDatabase, postgres_source
from tests.support.java_beside_ours import SIDES, JavaBesideOurs, whole
from tests.support.killed_in_mid_flow import kill_in_mid_flow
from tests.support.postgres_server import PostgresServer
from tests.support.sunk_tables import SunkTables
from tests.support.topic_content import Content

ROWS, CHANGES = (1_000_000, 200_000) if whole() else (20_000, 2_000)
ITEMS, NOTES = f"{PREFIX}.public.items", f"{PREFIX}.public.notes"
HEARTBEAT = f"__debezium-heartbeat.{PREFIX}"
NAME = "captured"
NOTES_ROWS = 100
SUNK = 100_000 if whole() else 1_000  # rows of the sink
LIMIT_S = 3600.0 if whole() else 120.0
pytestmark = pytest.mark.timeout(7200 if whole() else 300)


@pytest.fixture(scope="module")
def database(postgres: PostgresServer, both: JavaBesideOurs) -> Iterator[CapturedDatabase]:
    made = CapturedDatabase(postgres)
    made.fill(ROWS)
    made.make_slots(SIDES)
    both.create(NAME, {side: postgres_source(made, side) for side in SIDES})
    yield made
    made.close()


def test_a_snapshot_is_the_same(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    both.await_count(ITEMS, ROWS, LIMIT_S)
    both.await_count(NOTES, NOTES_ROWS)
    assert both.assert_equal(ITEMS) == ROWS
    assert both.assert_equal(NOTES) == NOTES_ROWS


def test_changes_of_rows_and_of_the_schema_are_the_same(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    database.change(CHANGES // 2)
    database.widen()
    database.change(CHANGES // 2)
    both.await_key(ITEMS, database.mark(), LIMIT_S)
    assert both.assert_equal(ITEMS) == ROWS + database.records_of(CHANGES) + 1
    last = both.reader.read(f"ours.{ITEMS}")[-1].value or b""
    assert b'"extra":7' in last


def test_heartbeats_and_a_signal_arrive(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    database.signal()
    both.await_count(NOTES, 2 * NOTES_ROWS)
    assert both.assert_equal(NOTES) == 2 * NOTES_ROWS
    assert both.assert_equal(HEARTBEAT) > 0


def test_a_heartbeat_lets_go_of_the_log_though_only_another_table_changes(
    both: JavaBesideOurs, database: CapturedDatabase
) -> None:
    """What heartbeats are for: without, the slot keeps PostgreSQL's log from the last captured change on."""
    database.run("CREATE TABLE others (id int); ALTER PUBLICATION dbz ADD TABLE others")
    database.run("INSERT INTO others SELECT generate_series(1, 1000)")
    ((written,),) = database.run("SELECT pg_current_wal_insert_lsn()")

    def let_go() -> int:
        database.run("INSERT INTO others VALUES (0)")
        found = "SELECT count(*) FROM pg_replication_slots WHERE slot_name = ANY(%s) AND confirmed_flush_lsn >= %s"
        ((count,),) = database.run(found, ([database.slot(side) for side in SIDES], written))
        return int(str(count))

    both.ours.rest.until(let_go, len(SIDES), LIMIT_S, f"slots that need nothing before {written}")


def test_debezium_metrics_and_logs_are_shown(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    rest, log = both.ours.rest, both.ours.log_file
    database.change(10)  # the lag is -1 until something has come
    lag = re.compile(
        rb'^debezium_postgres_milli_seconds_behind_source{connector="captured-ours"[^}]*} \d', re.MULTILINE
    )
    rest.until(lambda: bool(lag.search(rest.request("GET", "/admin/metrics").body)), True, LIMIT_S, "its bean")
    in_detail = re.compile(rb" DEBUG \S+ io\.debezium\.\S+ \[captured-ours\|task-0\] Flushing LSN to server")
    assert not in_detail.search(log.read_bytes())
    assert rest.request("PUT", "/admin/loggers/io.debezium", {"level": "DEBUG"}).status == HTTPStatus.OK
    rest.until(lambda: bool(in_detail.search(log.read_bytes())), True, LIMIT_S, "a line of the task that runs")
    assert rest.request("PUT", "/admin/loggers/io.debezium", {"level": "INFO"}).status == HTTPStatus.OK


def test_a_killed_jvm_costs_nothing(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    kill_in_mid_flow("host", both, database, ITEMS, 1_000, LIMIT_S)
    both.await_key(ITEMS, database.mark())
    both.assert_equal(ITEMS)


@pytest.fixture(scope="module")
def tables(postgres: PostgresServer, broker: EmbeddedKafka, both: JavaBesideOurs) -> SunkTables:
    tables = SunkTables(postgres, broker.bootstrap_servers, "upserts")
    for number in range(SUNK):
        tables.upsert(number, name=f"row {number}")
    tables.flush()
    both.create("jdbc", {side: tables.config(side) for side in SIDES})
    return tables


def await_rows(tables: SunkTables, count: int) -> None:
    deadline = time.monotonic() + LIMIT_S
    for side in SIDES:
        while len(rows := tables.rows(side)) != count:
            assert time.monotonic() < deadline, f"{side}: {len(rows)} rows, not {count}"
            time.sleep(0.3)
    assert tables.rows("ours") == tables.rows("java")


def test_upserts_deletes_and_new_columns_make_the_same_table(both: JavaBesideOurs, tables: SunkTables) -> None:
    await_rows(tables, SUNK)
    for number in range(0, SUNK, 2):
        tables.upsert(number, name=f"again {number}", price=number / 4)
    for number in range(1, SUNK, 10):
        tables.delete(number)
    tables.upsert(SUNK + 1, name="last")
    tables.flush()
    await_rows(tables, SUNK - SUNK // 10 + 1)
    assert len(tables.rows("ours")[0]) == 3


def test_unreadable_and_unwritable_records_become_dead_letters(both: JavaBesideOurs, tables: SunkTables) -> None:
    before = len(tables.rows("java"))
    tables.send_nonsense(SUNK + 2)
    tables.upsert(SUNK + 3, name="good")
    tables.flush()
    await_rows(tables, before + 1)
    both.await_count(f"dead.{tables.topic}", 1)
    assert both.assert_equal(f"dead.{tables.topic}", _without_words) == 1


def test_a_killed_jvm_costs_a_sink_nothing(both: JavaBesideOurs, tables: SunkTables) -> None:
    before = len(tables.rows("java"))
    for number in range(1_000):
        tables.upsert(2 * SUNK + number, name=f"killed {number}")
        if number == 500:
            tables.flush()
            both.kill_host("debezium-connector-jdbc")
    tables.flush()
    await_rows(tables, before + 1_000)


def _without_words(content: Content) -> Content:
    """Return a dead letter with the headers that say where and what: messages and traces are of each runtime."""
    kept = ("topic", "partition", "offset", "stage", "exception.class.name", "connector.name", "task.id")
    return Content(content.key, content.value, tuple(pair for pair in content.headers if pair[0].endswith(kept)))


def test_migrate_check_says_what_becomes_of_javas_group(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    file = both.java.directory / "worker.properties"
    words = [sys.executable, "-m", "spark_connect_rt", "migrate", "check", str(file), "-o", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    report = json.loads(done.stdout)
    assert done.returncode == 0, report
    assert {
        connector["name"]: (connector["runtime"], connector["kind"], connector["tasks"])
        for connector in report["connectors"]
    } == {
        f"{NAME}-java": ("java", "java", 1),
        "jdbc-java": ("java", "java", 1),
    }
    assert report["topics"][0] == {
        "name": "group members",
        "value": "1",
        "fate": "same",
        "why": f"1 Java worker: {both.java.rest.url}/",
    }

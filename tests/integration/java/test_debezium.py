"""Debezium PostgreSQL, unmodified, in the Java host and in Java Connect on the same changes: equal topics.

Both capture the same tables by a replication slot each, at the same time, so that their records speak of the same
transactions. The short form has 20,000 rows and 2,000 changes; ``./test.sh java`` has a million and 200,000.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_connect_rt.embedded.kafka import EmbeddedKafka
from tests.support.captured_database import PREFIX, WAL, CapturedDatabase, postgres_source
from tests.support.java_beside_ours import SIDES, JavaBesideOurs, whole
from tests.support.java_plugins import DEBEZIUM_POSTGRES, plugin_folder
from tests.support.postgres_server import PostgresServer
from tests.support.topic_content import differences, digests

ROWS, CHANGES = (1_000_000, 200_000) if whole() else (20_000, 2_000)
ITEMS, NOTES = f"{PREFIX}.public.items", f"{PREFIX}.public.notes"
HEARTBEAT = f"__debezium-heartbeat.{PREFIX}"
NAME = "captured"
NOTES_ROWS = 100
RECORDS_OF_TEN = 13  # ten changes: see CapturedDatabase
LIMIT_S = 2000.0 if whole() else 120.0
pytestmark = pytest.mark.timeout(3000 if whole() else 300)


@pytest.fixture(scope="module")
def database() -> Iterator[CapturedDatabase]:
    with PostgresServer(**WAL) as server:
        made = CapturedDatabase(server)
        made.fill(ROWS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def both(
    broker: EmbeddedKafka, database: CapturedDatabase, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaBesideOurs]:
    folder: Path = tmp_path_factory.mktemp("debezium")
    plugin_folder(folder / "plugins", "debezium-postgres", DEBEZIUM_POSTGRES)
    with JavaBesideOurs(folder, broker.bootstrap_servers, folder / "plugins", "debezium") as made:
        made.create(NAME, {side: postgres_source(database, side) for side in SIDES})
        yield made


def assert_equal(both: JavaBesideOurs, topic: str) -> int:
    """Compare both sides' topic by key; return how many records Java's has."""
    java, ours = (both.reader.read(f"{side}.{topic}") for side in SIDES)
    if digests(java) != digests(ours):
        raise AssertionError(f"{topic} differs:\n" + "\n".join(differences(java, ours)))
    return len(java)


def test_a_snapshot_is_the_same(both: JavaBesideOurs) -> None:
    both.await_count(ITEMS, ROWS, LIMIT_S)
    both.await_count(NOTES, NOTES_ROWS)
    assert assert_equal(both, ITEMS) == ROWS
    assert assert_equal(both, NOTES) == NOTES_ROWS


def test_changes_of_rows_and_of_the_schema_are_the_same(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    database.change(CHANGES // 2)
    database.widen()
    database.change(CHANGES // 2)
    both.await_key(ITEMS, database.mark(), LIMIT_S)
    assert assert_equal(both, ITEMS) == ROWS + CHANGES // 10 * RECORDS_OF_TEN + 1
    last = both.reader.read(f"ours.{ITEMS}")[-1].value or b""
    assert b'"extra":7' in last


def test_heartbeats_and_a_signal_arrive(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    database.signal()
    both.await_count(NOTES, 2 * NOTES_ROWS)
    assert assert_equal(both, NOTES) == 2 * NOTES_ROWS
    assert assert_equal(both, HEARTBEAT) > 0


@pytest.mark.parametrize("victim", ["host", "slot", "worker", "database"] if whole() else ["host", "slot"])
def test_nothing_is_lost_by_kill_9(victim: str, both: JavaBesideOurs, database: CapturedDatabase) -> None:
    database.change(500)
    kill(victim, both, database)
    database.change(500)
    both.await_key(ITEMS, database.mark())
    assert_equal(both, ITEMS)


def kill(victim: str, both: JavaBesideOurs, database: CapturedDatabase) -> None:
    match victim:
        case "host":
            both.await_new_host(both.kill_host())
        case "slot":
            both.kill_slot()
        case "worker":
            both.ours.kill()
            both.ours.start()
        case _:
            database.server.crash()
            database.server.start()


def test_offsets_of_each_resume_in_the_other(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    """Java Connect goes on where the Java host stopped, and the reverse: by the same offset topics."""
    both.await_key(ITEMS, database.mark())
    both.swap_groups()
    before = {side: both.reader.count(f"{side}.{ITEMS}") for side in SIDES}
    database.change(100)
    both.await_key(ITEMS, database.mark())
    assert_equal(both, ITEMS)
    for side in SIDES:
        added = both.reader.count(f"{side}.{ITEMS}") - before[side]
        assert added < 1000, f"{side}: {added} records, so a snapshot was taken again"

"""Debezium's PostgreSQL source: everything is killed in mid-flow, then each runtime goes on at the other's offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.captured_database import PREFIX, CapturedDatabase, postgres_source
from tests.support.java_beside_ours import SIDES, START_S, JavaBesideOurs, whole
from tests.support.postgres_server import PostgresServer

ROWS, CHANGES = (100_000, 20_000) if whole() else (2_000, 500)
ITEMS = f"{PREFIX}.public.items"
LIMIT_S = 900.0
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def database(postgres: PostgresServer, both: JavaBesideOurs) -> Iterator[CapturedDatabase]:
    made = CapturedDatabase(postgres)
    made.fill(ROWS)
    both.create("captured", {side: postgres_source(made, side) for side in SIDES})
    both.await_key(ITEMS, b'{"id":%d}' % ROWS)  # RUNNING is said before the snapshot: what changes before is in it
    yield made
    made.close()


@pytest.mark.parametrize("victim", ["host", "slot", "worker", "database"])
def test_nothing_is_lost_by_kill_9(victim: str, both: JavaBesideOurs, database: CapturedDatabase) -> None:
    database.change(CHANGES)
    kill(victim, both, database)
    database.change(CHANGES)
    both.await_key(ITEMS, database.mark(), LIMIT_S)
    both.assert_equal(ITEMS)


def test_a_moved_key_survives_a_kill_between_its_records(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    """Its delete, tombstone and insert share their place in the log; Debezium goes on behind it once that is stored."""
    for turn in range(6 if whole() else 3):
        first, count = 50_000_000 + turn * 10_000, both.reader.count(f"ours.{ITEMS}")
        moves = [
            f"INSERT INTO items (id, name) VALUES ({at}, 'm'); UPDATE items SET id = id + 5000 WHERE id = {at}"
            for at in range(first, first + 1_000)
        ]
        for at in range(0, len(moves), 20):
            database.run("; ".join(moves[at : at + 20]))
        while both.reader.count(f"ours.{ITEMS}") < count + 200:
            time.sleep(0.01)
        both.kill_host("debezium-connector-postgres")
    both.await_key(ITEMS, database.mark(), LIMIT_S)
    both.assert_equal(ITEMS)


def kill(victim: str, both: JavaBesideOurs, database: CapturedDatabase) -> None:
    match victim:
        case "host":
            both.kill_host("debezium-connector-postgres")
        case "slot":
            both.kill_slot("debezium-connector-postgres")
        case "worker":
            both.ours.kill()
            both.ours.start(START_S)
        case _:
            database.close()
            database.server.crash()
            database.server.start()


def test_offsets_of_each_resume_in_the_other(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    """Java Connect goes on where the Java host stopped, and the reverse: by the same offset topics."""
    both.await_key(ITEMS, database.mark(), LIMIT_S)
    both.swap_groups()
    before = {side: both.reader.count(f"{side}.{ITEMS}") for side in SIDES}
    database.change(100)
    both.await_key(ITEMS, database.mark(), LIMIT_S)
    both.assert_equal(ITEMS)
    for side in SIDES:
        added = both.reader.count(f"{side}.{ITEMS}") - before[side]
        assert added < 1000, f"{side}: {added} records, so a snapshot was taken again"

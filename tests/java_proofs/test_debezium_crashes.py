"""Debezium's PostgreSQL source: everything is killed in mid-flow, then each runtime goes on at the other's offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psutil
import pytest

from tests.support.captured_database import PREFIX, CapturedDatabase, postgres_source
from tests.support.java_beside_ours import SIDES, JavaBesideOurs, whole
from tests.support.killed_in_mid_flow import DEBEZIUM, VICTIMS, kill_in_mid_flow
from tests.support.postgres_server import PostgresServer

ROWS, CHANGES = (100_000, 20_000) if whole() else (2_000, 500)
ITEMS = f"{PREFIX}.public.items"
SNAPSHOT = 1_000_000 if whole() else 200_000  # rows of the snapshot that is killed
LIMIT_S = 900.0
pytestmark = pytest.mark.timeout(3600)


def test_a_snapshot_killed_in_the_middle_is_taken_again_whole(both: JavaBesideOurs, postgres: PostgresServer) -> None:
    """Debezium begins a snapshot that has not ended anew; Java Connect, which takes it once, says what must be there.

    Ahead of the other stories: their source would be in the same JVM.
    """
    made, items = CapturedDatabase(postgres), "cut.public.items"
    made.fill(SNAPSHOT)
    configs = {side: postgres_source(made, side, topic_prefix="cut") for side in SIDES}
    both.ours.rest.create("cut-ours", configs["ours"])
    for victim in (both.host, both.slot):
        kill_amid_snapshot(victim, both)
    both.java.rest.create("cut-java", configs["java"])
    both.await_key(items, b'{"id":%d}' % SNAPSHOT, LIMIT_S)  # the last row: what changes before is in the snapshot
    made.change(100)
    both.await_key(items, made.mark(), LIMIT_S)
    count = both.assert_equal(items)
    print(f"{count} records of {SNAPSHOT} rows and {made.records_of(100) + 1} changes")
    for side in SIDES:
        both.worker(side).rest.delete(f"cut-{side}")
    made.close()


def kill_amid_snapshot(victim: Callable[[str], psutil.Process], both: JavaBesideOurs) -> None:
    topic, deadline = "ours.cut.public.items", time.monotonic() + LIMIT_S
    before = both.reader.count(topic)
    while both.reader.count(topic) < before + SNAPSHOT // 20:
        assert time.monotonic() < deadline, "no row arrives"
        time.sleep(0.02)
    victim(DEBEZIUM).kill()
    sent = both.reader.count(topic) - before
    print(f"{sent} of {SNAPSHOT} rows had arrived")
    assert sent < SNAPSHOT, "killed in mid-snapshot"


@pytest.fixture(scope="module")
def database(postgres: PostgresServer, both: JavaBesideOurs) -> Iterator[CapturedDatabase]:
    made = CapturedDatabase(postgres)
    made.fill(ROWS)
    both.create("captured", {side: postgres_source(made, side) for side in SIDES})
    both.await_key(ITEMS, b'{"id":%d}' % ROWS)  # RUNNING is said before the snapshot: what changes before is in it
    yield made
    made.close()


@pytest.mark.parametrize("victim", VICTIMS)
def test_nothing_is_lost_by_kill_9(victim: str, both: JavaBesideOurs, database: CapturedDatabase) -> None:
    kill_in_mid_flow(victim, both, database, ITEMS, 2 * CHANGES, LIMIT_S)
    both.await_key(ITEMS, database.mark(), LIMIT_S)
    both.assert_equal(ITEMS)


def test_a_moved_key_survives_a_kill_between_its_records(both: JavaBesideOurs, database: CapturedDatabase) -> None:
    """Its delete, tombstone and insert share their place in the log; Debezium goes on behind it once that is stored."""
    for turn in range(6 if whole() else 3):
        host = both.host(DEBEZIUM)  # and so nothing is on its way of the one that was killed before
        first, count = 50_000_000 + turn * 10_000, both.reader.count(f"ours.{ITEMS}")
        moves = [
            f"INSERT INTO items (id, name) VALUES ({at}, 'm'); UPDATE items SET id = id + 5000 WHERE id = {at}"
            for at in range(first, first + 1_000)
        ]
        for at in range(0, len(moves), 20):
            database.run("; ".join(moves[at : at + 20]))
        while both.reader.count(f"ours.{ITEMS}") < count + 200:
            time.sleep(0.01)
        host.kill()
        host.wait(LIMIT_S)  # while its memory is given back it is still among the processes
    both.await_key(ITEMS, database.mark(), LIMIT_S)
    both.assert_equal(ITEMS)


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
        assert added == database.records_of(100) + 1, f"{side}: {added} records, so some came twice"

"""Kills in mid-flow: at the kill the source had sent some of the changes, and not all of them.

Owns: which process of a Debezium source of ours to kill, when, and how it restarts.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.support.captured_database import CapturedDatabase
from tests.support.changes_meanwhile import ChangesMeanwhile
from tests.support.java_beside_ours import LIMIT_S, START_S, JavaBesideOurs

DEBEZIUM = "debezium-connector-postgres"  # the jar that distinguishes its JVM from others
TRIES = 3
VICTIMS = ("host", "slot", "worker", "database")


@dataclass
class _Flow:
    """The records in our topic for the changes since the start."""

    both: JavaBesideOurs
    database: CapturedDatabase
    topic: str

    def __post_init__(self) -> None:
        self._arrived, self._changed = self.both.reader.count(self.topic), self.database.changed

    def made(self) -> int:
        """Return how many records the committed changes are."""
        return self.database.records_of(self.database.changed - self._changed)

    def arrived(self) -> int:
        """Return how many offsets the topic has given out."""
        return self.both.reader.count(self.topic) - self._arrived

    def await_some(self, least: int, limit_s: float) -> None:
        """Wait until so many have arrived."""
        deadline = time.monotonic() + limit_s
        while self.arrived() < least:
            assert time.monotonic() < deadline, "no change arrives"
            time.sleep(0.02)

    def await_work(self, changes: ChangesMeanwhile) -> None:
        """Wait until changes are committed that have not arrived, or none are left to be made."""
        while self.made() <= self.arrived() and changes.going_on():
            time.sleep(0.002)


def kill_in_mid_flow(
    victim: str, both: JavaBesideOurs, database: CapturedDatabase, suffix: str, count: int, limit_s: float = LIMIT_S
) -> None:
    """Make ``count`` changes, and SIGKILL one of VICTIMS among them; returns when all are made.

    Fails unless the source had sent some of them. Also fails unless, after the kill, ``ours.suffix`` lacked records of
    changes that were committed before (of PostgreSQL: when the kill began). If they arrived just before the kill, all
    of it is repeated.

    Primary keys do not move while PostgreSQL is killed. If the crash comes between the two records of a move, Java
    Connect can lose the second one, so that it cannot say what is right; test_cdc_into_tables.py covers this.
    """
    database.moves_keys = victim != "database"
    try:
        assert any(_had_work(victim, both, database, suffix, count, limit_s) for _ in range(TRIES)), (
            f"{victim} had nothing to do when it was killed, {TRIES} times"
        )
    finally:
        database.moves_keys = True


def _had_work(
    victim: str, both: JavaBesideOurs, database: CapturedDatabase, suffix: str, count: int, limit_s: float
) -> bool:
    flow = _Flow(both, database, f"ours.{suffix}")
    with ChangesMeanwhile(database, count) as changes:
        flow.await_some(count // 10, limit_s)
        kill = _killer(victim, both, database)
        assert changes.go_on(), "killed in mid-flow"
        flow.await_work(changes)
        with changes.held():
            made, arrived = flow.made(), flow.arrived()
            kill()
            if victim == "database":  # records that it had sent arrive while its processes are killed, one by one
                database.server.start()
            else:
                arrived = flow.arrived()
        if victim == "worker":
            both.ours.start(START_S)
    print(f"{victim}: {arrived} of {made} records had arrived, {database.records_of(count)} were to come")
    if arrived >= made:
        both.await_key(suffix, database.mark(), limit_s)  # repeated records would count as the next round's
    return arrived < made


def _killer(victim: str, both: JavaBesideOurs, database: CapturedDatabase) -> Callable[[], None]:
    """Return the function that kills. It finds the processes in advance, which takes longer than some records do."""
    match victim:
        case "host":
            return partial(os.kill, both.host(DEBEZIUM).pid, signal.SIGKILL)
        case "slot":
            return partial(os.kill, both.slot(DEBEZIUM).pid, signal.SIGKILL)
        case "worker":
            return both.ours.kill
        case _:
            return database.crash

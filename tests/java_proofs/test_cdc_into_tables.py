"""PostgreSQL through Debezium into Iceberg and Delta while everything is killed: every state was one of the source.

Two workers of a group run Debezium exactly once, and both sinks with two tasks each. Task processes, JVMs, a worker and
the database are killed in mid-flow. A worker is frozen for longer than its groups wait. A column is added meanwhile.
In the end:

- the topic has each change once and in order;
- both tables equal the source row by row;
- every snapshot and version is, for each topic partition, the state after a prefix of its changes.

The delay from PostgreSQL's commit to the visible row is measured before the first kill, and the long form limits it.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.support.cdc_proof import (
    COMMIT_MS,
    SIZE,
    AccountsDatabase,
    Copies,
    Proof,
    assert_topic_is_the_log,
    prove,
    topic_log,
)
from tests.support.java_beside_ours import HOST_CLASS, whole
from tests.support.java_plugins import DEBEZIUM_POSTGRES, plugin_folder
from tests.support.postgres_server import PostgresServer
from tests.support.worker_process import SparkWorkerProcess

CHANGES = int(os.environ.get("CONNECTRT_CDC_CHANGES", "1000000" if whole() else "6000"))
ROUNDS = 20 if whole() else 6  # each kills or freezes something, in turns
CALM_S = 60.0 if whole() else 15.0  # of changes at a steady rate, whose delay is measured
CALM_EVERY_S = 0.1
LIMIT_S = 600.0
SESSION_MS = 6_000
VICTIMS = ("task", "host", "worker", "database", "frozen")
pytestmark = pytest.mark.timeout(7200)


class Group:
    """Two workers of a group."""

    def __init__(self, folder: Path, servers: str) -> None:
        plugin_folder(folder / "plugins", "postgres", DEBEZIUM_POSTGRES)
        properties = {
            "plugin.path": str(folder / "plugins"),
            "plugin.discovery": "service_load",
            "offset.flush.interval.ms": "1000",
            "exactly.once.source.support": "enabled",
            "session.timeout.ms": str(SESSION_MS),
            "heartbeat.interval.ms": "1000",
            "scheduled.rebalance.max.delay.ms": "0",
            "task.shutdown.graceful.timeout.ms": "3000",
        }
        self.workers = [
            SparkWorkerProcess(folder / f"worker{number}", servers, "cdc-proof", properties=properties)
            for number in (1, 2)
        ]

    def log_end(self) -> str:
        return "\n".join(worker.log_file.read_text(errors="replace")[-3000:] for worker in self.workers)

    def busy(self) -> list[SparkWorkerProcess]:
        """Return the workers that host a JVM of a source, else all that run."""
        hosting = [worker for worker in self.workers if self._jvms(worker)]
        return hosting or [worker for worker in self.workers if worker.pid]

    def _jvms(self, worker: SparkWorkerProcess) -> list[psutil.Process]:
        return [found for found in worker.processes() if _is_host(found) and found.ppid() != worker.pid]

    def jvms(self) -> list[psutil.Process]:
        """Return the JVMs that host a source's task."""
        return [found for worker in self.workers for found in self._jvms(worker)]

    def task_processes(self) -> list[psutil.Process]:
        """Return the Python processes that run tasks: those below a daemon of Spark."""
        found = []
        for worker in self.workers:
            for process in worker.processes()[1:]:
                parent = process.parent()
                if parent is not None and _is_python(process) and _is_python(parent) and parent.pid != worker.pid:
                    found.append(process)
        return found


def _is_host(process: psutil.Process) -> bool:
    try:
        return HOST_CLASS in process.cmdline()
    except psutil.Error:
        return False


def _is_python(process: psutil.Process) -> bool:
    try:
        return "python" in process.name() or "connectrt" in process.name()
    except psutil.Error:
        return False


class Faults:
    """Kills and freezes, and counts what it did."""

    def __init__(self, group: Group, database: AccountsDatabase, chance: random.Random) -> None:
        self._group, self._database, self._chance = group, database, chance
        self.done: Counter[str] = Counter()

    def cause(self, victim: str) -> None:
        """Kill or freeze one of VICTIMS, and start again what does not start by itself."""
        match victim:
            case "task":
                self._kill(self._group.task_processes(), victim)
            case "host":
                self._kill(self._group.jvms(), victim)
            case "worker":
                worker = self._chance.choice(self._group.busy())
                worker.kill()
                self.done[victim] += 1
                worker.start(LIMIT_S)
            case "database":
                self._database.server.crash()
                self.done[victim] += 1
                self._database.server.start()
            case _:
                worker = self._chance.choice(self._group.busy())
                os.kill(worker.pid, signal.SIGSTOP)
                time.sleep(2 * SESSION_MS / 1000)
                os.kill(worker.pid, signal.SIGCONT)
                self.done[victim] += 1

    def _kill(self, processes: list[psutil.Process], victim: str) -> None:
        if processes:
            self._chance.choice(processes).kill()
            self.done[victim] += 1


@pytest.fixture
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(wal_level="logical", max_wal_size="8GB", synchronous_commit="on") as server:
        yield server


def make_changes(database: AccountsDatabase, transactions: int, every_s: float = 0.0) -> None:
    for _ in range(transactions):
        database.transact()
        if every_s:
            time.sleep(every_s)


def test_every_state_of_both_tables_was_a_state_of_the_source(
    broker: EmbeddedKafka, postgres: PostgresServer, tmp_path: Path
) -> None:
    database, copies = AccountsDatabase(postgres), Copies(tmp_path / "lake")
    group = Group(tmp_path, broker.bootstrap_servers)
    faults = Faults(group, database, random.Random(3))

    def both() -> tuple[int, int]:
        return len(copies.iceberg_rows()), len(copies.delta_rows())

    def in_step() -> bool:
        of_database = database.totals()
        if any(totals != of_database for totals in copies.totals()):
            return False
        rows = database.rows()
        return copies.iceberg_rows() == rows == copies.delta_rows()

    try:
        for worker in group.workers:
            worker.launch()
        for worker in group.workers:
            worker.await_answer("/health", LIMIT_S)
        rest = group.workers[0].rest
        with copies.watched():
            rest.create("proof-source", database.source_config())
            rest.await_states("proof-source", "RUNNING", ["RUNNING"], LIMIT_S)
            database.transact()
            for name, config in copies.sink_configs().items():
                rest.create(f"proof-{name}", config)
            until(lambda: min(both()) > 0, LIMIT_S, "the first rows are in both tables", group.log_end, 1.0)
            first_calm = database.changes.transactions + 1
            make_changes(database, round(CALM_S / CALM_EVERY_S), CALM_EVERY_S)
            calm = range(first_calm, database.changes.transactions + 1)
            until(in_step, LIMIT_S, "both tables are in step before the first kill", group.log_end, 0.5)
            began_s = time.monotonic()
            left = max(ROUNDS, (CHANGES - len(database.changes.log)) // SIZE)
            for number in range(ROUNDS):
                maker = threading.Thread(target=make_changes, args=(database, left // ROUNDS), daemon=True)
                maker.start()
                time.sleep(0.5)
                faults.cause(VICTIMS[number % len(VICTIMS)])
                maker.join()
                if number == ROUNDS // 2:
                    database.widen()
            until(in_step, LIMIT_S, "both tables equal the source", group.log_end, 1.0)
            took_s = time.monotonic() - began_s
        print(f"{len(database.changes.log)} changes in {took_s:.0f} s; {dict(faults.done)}")
        assert set(faults.done) == set(VICTIMS)
        assert len(database.changes.log) >= min(CHANGES, 1_000_000)
    finally:
        for worker in group.workers:
            worker.stop()
            worker.rest.close()
        database.close()
    check_proofs(proofs_of(database, copies, broker.bootstrap_servers, calm), len(calm))


def check_proofs(proofs: dict[str, Proof], transactions: int) -> None:
    for name, proof in proofs.items():
        print(proof.line(name))
        assert proof.states >= 10
        assert len(proof.late_s) > transactions // 2
    if whole():  # the short form runs next to other tests, which take the processor from it
        assert proofs["iceberg"].quantile_s(0.99) <= COMMIT_MS / 1000 + 2


def proofs_of(database: AccountsDatabase, copies: Copies, servers: str, calm: range) -> dict[str, Proof]:
    log = database.changes.log
    partition_of = assert_topic_is_the_log(log, topic_log(servers))
    states = {"iceberg": copies.iceberg_states(), "delta": copies.delta_states()}
    return {
        name: prove(found, log, partition_of.__getitem__, database.committed_s, calm) for name, found in states.items()
    }

"""A PostgreSQL table whose changes are numbered, its copies in Iceberg and Delta, and when each state became visible.

Owns: the database and its transactions, which survive a crash of the server; the watch of both tables; the comparison
of every state with the changes.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import psycopg
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, TopicPartition
from deltalake import DeltaTable
from pyiceberg.table import StaticTable

from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from tests.support.change_log import COLUMNS, Change, PrefixCheck, RandomChanges, Row
from tests.support.postgres_server import PostgresServer

Totals = tuple[int, int]
"""The number of rows, and the sum of a column."""

PREFIX = "proof"
TOPIC = f"{PREFIX}.public.accounts"
PARTITIONS = 3
SIZE = 20  # changes of a transaction
COMMIT_MS = 1_000
_CREATE = """
CREATE TABLE accounts (id bigint PRIMARY KEY, seq bigint NOT NULL, amount bigint NOT NULL, note text NOT NULL);
CREATE TABLE ledger (number bigint PRIMARY KEY);
CREATE PUBLICATION proof FOR TABLE accounts;
"""
_JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
_RESTARTS = {
    "errors.restart.policy": "backoff",
    "errors.restart.delay.ms": "500",
    "errors.restart.delay.max.ms": "2000",
    "errors.restart.max": "1000",
    "errors.restart.poison": "0",
}


class AccountsDatabase:
    """Makes transactions, each of which is committed exactly once, also when the server is killed meanwhile."""

    def __init__(self, server: PostgresServer, seed: int = 1) -> None:
        self.server = server
        self.name = server.create_database("accounts").rpartition("/")[2]
        self.changes = RandomChanges(random.Random(seed))
        self.committed_s: dict[int, float] = {}
        self._session: psycopg.Connection[Any] | None = None
        self._connect().execute(_CREATE)

    def _connect(self) -> psycopg.Connection[Any]:
        if self._session is None or self._session.closed or self._session.broken:
            self._session = psycopg.connect(
                host="127.0.0.1", port=self.server.port, user="postgres", dbname=self.name, autocommit=True
            )
        return self._session

    def _asked(self, sql: str) -> psycopg.Cursor[Any]:
        """Run a statement that may run twice. It waits for a server that is down, or was killed since the last one."""
        while True:
            try:
                return self._connect().execute(sql.encode())
            except psycopg.OperationalError:
                time.sleep(0.05)

    def transact(self, size: int = SIZE) -> None:
        """Commit the next transaction of so many changes. It waits for a server that is down."""
        statements = self.changes.transaction(size)
        number = self.changes.transactions
        sql = f"BEGIN;\n{statements}\nINSERT INTO ledger VALUES ({number});\nCOMMIT;"
        while True:
            try:
                session = self._connect()
                if not session.execute("SELECT 1 FROM ledger WHERE number = %s", (number,)).fetchone():
                    session.execute(sql.encode())
                break
            except psycopg.OperationalError:
                time.sleep(0.05)
        self.committed_s[number] = time.time()

    def widen(self) -> None:
        """Add a column, which later rows have a value in."""
        self._asked("ALTER TABLE accounts ADD COLUMN IF NOT EXISTS extra bigint")
        self.changes.has_extra = True

    def rows(self) -> dict[int, Row]:
        """Return the rows of the table."""
        names = COLUMNS if self.changes.has_extra else COLUMNS[:-1]
        found = self._asked(f"SELECT id, {', '.join(names)} FROM accounts").fetchall()
        return {row[0]: (*row[1:], *([] if self.changes.has_extra else [None])) for row in found}

    def totals(self) -> Totals:
        """Return how many rows there are, and the sum of a column in which each change puts a new value."""
        found = self._asked("SELECT count(*), coalesce(sum(seq), 0)::bigint FROM accounts").fetchone()
        assert found is not None
        return found[0], found[1]

    def close(self) -> None:
        """Close the connection."""
        if self._session is not None:
            self._session.close()

    def source_config(self) -> dict[str, str]:
        """Return the configuration of Debezium's source, exactly once."""
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": "postgres",
            "database.password": "postgres",
            "database.dbname": self.name,
            "topic.prefix": PREFIX,
            "plugin.name": "pgoutput",
            "slot.name": self.name,
            "publication.name": "proof",
            "publication.autocreate.mode": "disabled",
            "table.include.list": "public.accounts",
            "poll.interval.ms": "50",
            "retriable.restart.connector.wait.ms": "1000",
            "errors.max.retries": "100",
            "exactly.once.support": "required",
            "transaction.boundary": "poll",
            **_RESTARTS,
            "topic.creation.default.partitions": str(PARTITIONS),
            "topic.creation.default.replication.factor": "1",
            **_JSON,
        }


@dataclass
class Copies:
    """The same topic in an Iceberg and a Delta table below a folder."""

    folder: Path
    iceberg_times: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "iceberg").mkdir(parents=True)
        self._catalog = RememberingSqlCatalog("lake", **self._properties())

    def _properties(self) -> dict[str, str]:
        folder = self.folder / "iceberg"
        return {"uri": f"sqlite:///{folder / 'catalog.db'}", "warehouse": folder.as_uri()}

    def sink_configs(self) -> dict[str, dict[str, str]]:
        """Return the configurations of both sinks: every state is kept, and only committed records are read."""
        shared = {
            "tasks.max": "2",
            "topics": TOPIC,
            "iceberg.tables": "bank.accounts",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.control.commit.interval-ms": str(COMMIT_MS),
            "connectrt.table.snapshots.keep": "0",
            "consumer.override.isolation.level": "read_committed",
            "consumer.override.session.timeout.ms": "6000",
            "consumer.override.heartbeat.interval.ms": "1000",
            **_RESTARTS,
            **_JSON,
        }
        catalog = {f"iceberg.catalog.{name}": value for name, value in self._properties().items()}
        return {
            "iceberg": {
                **shared,
                "connector.class": "IcebergSink",
                "iceberg.catalog": "lake",
                "iceberg.catalog.type": "sql",
                **catalog,
            },
            "delta": {**shared, "connector.class": "DeltaSink", "delta.root": str(self.folder / "delta")},
        }

    @property
    def _delta_path(self) -> Path:
        return self.folder / "delta" / "bank" / "accounts"

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Remember when each snapshot of Iceberg became visible. Delta's log says it itself."""
        ended = threading.Event()

        def watch() -> None:
            last = None
            while not ended.wait(0.05):
                location = self._location()
                seen_s = time.time()
                if location is not None and location != last:
                    last = location
                    metadata = orjson.loads(Path(location.removeprefix("file://")).read_bytes())
                    if (snapshot := metadata.get("current-snapshot-id")) not in (None, -1):
                        self.iceberg_times.setdefault(snapshot, seen_s)

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _location(self) -> str | None:
        if not self._catalog.table_exists("bank.accounts"):
            return None
        location: str = self._catalog.load_table("bank.accounts").metadata_location
        return location

    def iceberg_rows(self) -> dict[int, Row]:
        """Return the rows of the Iceberg table as it is. Empty: it does not exist yet."""
        location = self._location()
        if location is None:
            return {}
        return rows_of(StaticTable.from_metadata(location).scan().to_arrow())

    def delta_rows(self) -> dict[int, Row]:
        """Return the rows of the Delta table as it is. Empty: it does not exist yet."""
        path = str(self._delta_path)
        return rows_of(DeltaTable(path).to_pyarrow_table()) if DeltaTable.is_deltatable(path) else {}

    def totals(self) -> tuple[Totals, Totals]:
        """Return `AccountsDatabase.totals` of both tables: a comparison of all rows costs as much as the sinks."""
        location = self._location()
        iceberg = None if location is None else StaticTable.from_metadata(location).scan(selected_fields=("seq",))
        path = str(self._delta_path)
        delta = DeltaTable(path).to_pyarrow_table(columns=["seq"]) if DeltaTable.is_deltatable(path) else None
        return totals_of(None if iceberg is None else iceberg.to_arrow()), totals_of(delta)

    def iceberg_states(self) -> Iterator[tuple[float | None, dict[int, Row]]]:
        """Yield when each snapshot became visible, if that was seen, and its rows, the oldest first."""
        table = self._catalog.load_table("bank.accounts")
        for snapshot in sorted(table.metadata.snapshots, key=lambda found: found.sequence_number or 0):
            rows = rows_of(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow())
            yield self.iceberg_times.get(snapshot.snapshot_id), rows

    def delta_states(self) -> Iterator[tuple[float | None, dict[int, Row]]]:
        """Yield when each version became visible, and its rows, the oldest first."""
        last = DeltaTable(str(self._delta_path)).version()
        for version in range(1, last + 1):
            visible_s = (self._delta_path / "_delta_log" / f"{version:020}.json").stat().st_mtime
            yield visible_s, rows_of(DeltaTable(str(self._delta_path), version=version).to_pyarrow_table())


def totals_of(table: pa.Table | None) -> Totals:
    """Return `AccountsDatabase.totals` of a table."""
    return (0, 0) if table is None else (len(table), pc.sum(table["seq"]).as_py() or 0)


def rows_of(table: pa.Table) -> dict[int, Row]:
    """Return the rows of a table by key. Raises AssertionError if a key is there twice."""
    columns = [table[name].to_pylist() if name in table.column_names else [None] * len(table) for name in COLUMNS]
    rows = dict(zip(table["id"].to_pylist(), zip(*columns, strict=True), strict=True))
    assert len(rows) == len(table), f"{len(table) - len(rows)} rows have a key that is there twice"
    return rows


def topic_log(servers: str) -> list[list[tuple[int, Row | None]]]:
    """Return the committed changes of the topic, by partition: (key, row). Tombstones are left out."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "proof-reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])
    found: list[list[tuple[int, Row | None]]] = [[] for _ in range(PARTITIONS)]
    at_end: set[int] = set()
    while len(at_end) < PARTITIONS:
        for message in consumer.consume(10_000, 1.0):
            if message.error() is not None:
                at_end.add(message.partition())
            elif message.value() is not None:
                value = orjson.loads(message.value())
                row = value["after"] and tuple(value["after"].get(name) for name in COLUMNS)
                found[message.partition()].append((orjson.loads(message.key())["id"], row))
    consumer.close()
    return found


def assert_topic_is_the_log(log: Sequence[Change], topic: Sequence[Sequence[tuple[int, Row | None]]]) -> dict[int, int]:
    """Check that each partition has its changes in order, each once. Return the partition of each key."""
    partition_of = {key: number for number, part in enumerate(topic) for key, _ in part}
    wanted: list[list[tuple[int, Row | None]]] = [[] for _ in topic]
    for change in log:
        assert change.key in partition_of, f"key {change.key} is not in the topic"
        wanted[partition_of[change.key]].append((change.key, change.row))
    for number, (part, found) in enumerate(zip(wanted, topic, strict=True)):
        wrong = next((at for at, pair in enumerate(zip(part, found, strict=False)) if pair[0] != pair[1]), None)
        assert wrong is None, f"partition {number}, change {wrong}: {found[wrong or 0]}, not {part[wrong or 0]}"
        assert len(part) == len(found), f"partition {number}: {len(found)} changes, not {len(part)}"
    return partition_of


@dataclass(frozen=True)
class Proof:
    """What the states of a table show: how many there are, and how late each transaction was, in seconds."""

    states: int
    at_boundaries: int
    late_s: Sequence[float]

    def line(self, name: str) -> str:
        """Return the figures as text."""
        ordered = sorted(self.late_s)
        figures = [f"p{part * 100:g} {ordered[math.ceil(part * len(ordered)) - 1]:.2f} s" for part in (0.5, 0.99, 1)]
        return (
            f"{name}: {self.states} states are states of the source ({self.at_boundaries} between two transactions in "
            f"every partition); {len(ordered)} transactions visible after {', '.join(figures) if ordered else '-'}"
        )

    def quantile_s(self, part: float) -> float:
        """Return the nearest-rank quantile of the delays."""
        ordered = sorted(self.late_s)
        return ordered[math.ceil(part * len(ordered)) - 1]


def prove(
    states: Iterator[tuple[float | None, dict[int, Row]]],
    log: Sequence[Change],
    partition_of: Callable[[int], int],
    committed_s: dict[int, float],
    measured: range,
) -> Proof:
    """Check every state of a table, and return how late the transactions `measured` were.

    Raises AssertionError for a state that the source never had, and for a last state without all changes.
    """
    check = PrefixCheck(log, partition_of)
    late_s: list[float] = []
    seen = 0
    for visible_s, rows in states:
        check.see(rows)
        visible = check.visible_transactions()
        if visible_s is not None:
            late_s += [visible_s - committed_s[number] for number in range(seen + 1, visible + 1) if number in measured]
        seen = max(seen, visible)
    assert check.is_complete(), f"after {check.states} states, not every change is in the table"
    return Proof(check.states, check.at_boundaries, late_s)

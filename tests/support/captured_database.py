"""A PostgreSQL database that Debezium captures, and a script of changes to it that is the same in every run.

Owns: tables, rows and changes by number, the source's configuration. Every change is a function of its number.
"""

from __future__ import annotations

from collections.abc import Sequence

import psycopg

from tests.support.postgres_server import PostgresServer

PREFIX = "db"
CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter.schemas.enable": "false",
}
WAL = {
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "fsync": "off",
    # Of two scans of a large table at once the second would begin in the middle: another row is the snapshot's first.
    "synchronize_seqscans": "off",
}
_TABLES = """
CREATE TABLE items (id int PRIMARY KEY, name text NOT NULL, price numeric(12, 2), at timestamptz, note text);
CREATE TABLE notes (id int PRIMARY KEY, body text);
CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));
ALTER TABLE items REPLICA IDENTITY FULL;
CREATE PUBLICATION dbz FOR TABLE items, notes, signals;
"""
_FILL = """
INSERT INTO items
SELECT i, 'item ' || i, i * 1.25, timestamptz '2026-01-01' + i * interval '1 second', repeat('n', mod(i, 40))
FROM generate_series(%s::int, %s::int) i
"""
BATCH = 20  # changes of one transaction


class CapturedDatabase:
    """One database of a server; ``close`` ends the connection."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server
        self.name = server.create_database("captured").rpartition("/")[2]
        self._connection: psycopg.Connection[tuple[object, ...]] | None = None
        self.changed = 0  # changes that are committed
        self.moves_keys = True  # False: updates in the place of moves
        self._marks = 0
        self.run(_TABLES)

    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Run one statement in a separate transaction; return its rows."""
        if self._connection is None:
            self._connection = psycopg.connect(
                host="127.0.0.1", port=self.server.port, user="postgres", dbname=self.name, autocommit=True
            )
        cursor = self._connection.execute(statement, values or None)  # type: ignore[arg-type]
        return cursor.fetchall() if cursor.description else []

    def fill(self, rows: int) -> None:
        """Insert items 1 to ``rows``, which a snapshot reads."""
        self.run(_FILL, (1, rows))
        self.run("INSERT INTO notes SELECT i, 'note ' || i FROM generate_series(1, 100) i")

    def slot(self, side: str) -> str:
        """Return the name of a source's slot. Slots belong to the server, whose other databases have some, too."""
        return f"{self.name}_{side}"

    def make_slots(self, sides: Sequence[str]) -> None:
        """Make the slots of the sources beforehand: one that is made waits for the end of another source's snapshot."""
        for side in sides:
            self.run("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", (self.slot(side),))

    def change(self, count: int) -> None:
        """Make the next changes: inserts, updates, moves of a primary key and deletes, BATCH to a transaction."""
        end = self.changed + count
        while self.changed < end:
            size = min(BATCH, end - self.changed)
            self.run("\n".join(_change(number, self.moves_keys) for number in range(self.changed, self.changed + size)))
            self.changed += size

    def records_of(self, changes: int) -> int:
        """Return how many records so many changes, a multiple of ten, are: a move is three, a delete two."""
        return changes // 10 * (13 if self.moves_keys else 11)

    def widen(self) -> None:
        """Change the schema in mid-flow: one column more, one other type."""
        self.run(
            "ALTER TABLE items ADD COLUMN extra int DEFAULT 7; ALTER TABLE items ALTER COLUMN note TYPE varchar(200)"
        )

    def signal(self) -> None:
        """Ask for an incremental snapshot of ``notes`` by Debezium's signal table."""
        data = '{"data-collections": ["public.notes"], "type": "incremental"}'
        self.run("INSERT INTO signals VALUES ('ask-1', 'execute-snapshot', %s)", (data,))

    def mark(self) -> bytes:
        """Insert a row after all changes so far; return the key of its record."""
        self._marks += 1
        self.run("INSERT INTO items (id, name) VALUES (%s, 'mark')", (90_000_000 + self._marks,))
        return b'{"id":%d}' % (90_000_000 + self._marks)

    def crash(self) -> None:
        """SIGKILL the server. After its next start ``run`` works at once."""
        self.close()
        self.server.crash()

    def close(self) -> None:
        """Close the connection; ``run`` opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _change(number: int, moves_keys: bool) -> str:
    """Return the SQL of one change: of ten, five inserts, three updates, a move of the key, a delete."""
    new = 10_000_000 + number
    match number % 10:
        case 0 | 2 | 4 | 6 | 8:
            return (
                f"INSERT INTO items (id, name, price, note) VALUES ({new}, 'new {number}', {number}.5, 'ä {number}');"
            )
        case 9:
            return f"DELETE FROM items WHERE id = {new - 3};"
        case 5 if moves_keys:
            return f"UPDATE items SET id = id + 20000000 WHERE id = {new - 3};"
        case _:
            return f"UPDATE items SET name = 'changed {number}' WHERE id = {new - 1};"


def postgres_source(database: CapturedDatabase, side: str, **more: str) -> dict[str, str]:
    """Return the configuration of a Debezium source; its topics are routed to ``side.db...`` by Kafka's RegexRouter.

    The two sides of a comparison have one prefix, so that their records are equal, and separate slots and topics.
    """
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(database.server.port),
        "database.user": "postgres",
        "database.password": "postgres",
        "database.dbname": database.name,
        "topic.prefix": PREFIX,
        "plugin.name": "pgoutput",
        "slot.name": database.slot(side),
        "publication.name": "dbz",
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.items,public.notes",
        "signal.data.collection": "public.signals",
        "heartbeat.interval.ms": "500",
        "retriable.restart.connector.wait.ms": "1000",
        "errors.max.retries": "20",
        "transforms": "side",
        "transforms.side.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.side.regex": "(.*)",
        "transforms.side.replacement": f"{side}.$1",
        **CONVERTERS,
        **{name.replace("_", "."): value for name, value in more.items()},
    }

"""A PostgreSQL table with a column of each kind that Debezium describes in a different way, and its rows as a lake has.

Owns: the table, the source that captures it, and the values that each column must have in Iceberg and Delta.
"""

from __future__ import annotations

import datetime as dt
import struct
from typing import Any

import psycopg

NAME = "kinds"
TOPIC = f"{NAME}.public.{NAME}"
DEAD = f"{NAME}-dead"
CREATE = f"""
CREATE TYPE mood AS ENUM ('sad', 'happy');
CREATE TABLE {NAME} (
  id int PRIMARY KEY, small smallint, exact numeric(12, 3), free numeric, zoned timestamptz, local timestamp, day date,
  clock time, zoned_clock timetz, state mood, doc json, docb jsonb, uid uuid, numbers int[], words text[], raw bytea,
  span interval, place point, single real, flag boolean, bits bit(9), cash money, big text, many int[]
);
CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32), data varchar(2048));
CREATE PUBLICATION {NAME} FOR TABLE {NAME}, signals;
"""
_VALUES = (
    "1234.567, 98765432109876543210.0123456789, '2026-11-27 19:39:53.123456+01', '2026-11-27 18:39:53.123456', "
    "'2026-11-27', '18:39:53.123456', '18:39:53.123456+01', 'happy', '{\"a\": 1}', '{\"b\": 2}', "
    "'6f2c1a9e-8a34-4c10-9a55-0c7a1a2b3c4d', '{1,2,NULL}', '{a,NULL,c}', '\\x00ff', '1 day 2 seconds', '(1.5,2.5)', "
    "1.5, true, B'100000001', '12.34'"
)
# Too large for a page, and random, so that it does not become small by compression.
_BIG = "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 300))"
_MANY = "(SELECT array_agg((random() * 2000000000)::int) FROM generate_series(1, 3000))"
READ = f"""
SELECT id, small, exact, free::text AS free, zoned, local, day, clock, zoned_clock, state::text AS state,
  doc::text AS doc, docb::text AS docb, uid::text AS uid, numbers, words, raw,
  (extract(epoch FROM span) * 1000000)::bigint AS span, place[0] AS x, place[1] AS y, single, flag,
  bits::int AS bits, cash::numeric AS cash, big, many
FROM {NAME} ORDER BY id
"""


def insert(session: psycopg.Connection[Any], key: int) -> None:
    """Insert a row with all values, some of them large."""
    session.execute(f"INSERT INTO {NAME} VALUES ({key}, {key}, {_VALUES}, {_BIG}, {_MANY})".encode())


def insert_nulls(session: psycopg.Connection[Any], key: int) -> None:
    """Insert a row of which only the key is set."""
    session.execute(f"INSERT INTO {NAME} (id) VALUES ({key})".encode())


def wanted(session: psycopg.Connection[Any], *, has_time: bool) -> list[dict[str, Any]]:
    """Return the rows as a table must have them. Without a type for times, they are microseconds since midnight."""
    cursor = session.execute(READ.encode())
    names = [column.name for column in cursor.description or ()]
    return [_in_a_table(dict(zip(names, row, strict=True)), has_time) for row in cursor.fetchall()]


def _in_a_table(row: dict[str, Any], has_time: bool) -> dict[str, Any]:
    x, y, clock, zoned = row.pop("x"), row.pop("y"), row["clock"], row["zoned_clock"]
    row["place"] = None if x is None else struct.pack("<BIdd", 1, 1, x, y)  # well-known binary
    row["bits"] = None if row["bits"] is None else row["bits"].to_bytes(2, "little")
    if zoned is not None:
        moment = dt.datetime.combine(dt.date(2000, 1, 1), zoned).astimezone(dt.UTC)
        row["zoned_clock"] = f"{moment:%H:%M:%S.%f}Z"
    if row["zoned"] is not None:
        row["zoned"] = row["zoned"].astimezone(dt.UTC)
    if clock is not None and not has_time:
        row["clock"] = ((clock.hour * 60 + clock.minute) * 60 + clock.second) * 1_000_000 + clock.microsecond
    return row


def source_config(host: str, port: int, user: str, password: str, database: str) -> dict[str, str]:
    """Return the configuration of Debezium's source: truncates are records, and a table takes signals."""
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "tasks.max": "1",
        "database.hostname": host,
        "database.port": str(port),
        "database.user": user,
        "database.password": password,
        "database.dbname": database,
        "topic.prefix": NAME,
        "plugin.name": "pgoutput",
        "slot.name": NAME,
        "publication.name": NAME,
        "publication.autocreate.mode": "disabled",
        "table.include.list": f"public.{NAME}",
        "signal.data.collection": "public.signals",
        "skipped.operations": "none",
        "poll.interval.ms": "50",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        **CONVERTERS,
    }


CONVERTERS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "true",
    "value.converter.schemas.enable": "true",
}
"""Both converters write schemas, from which the types are known."""
UNWRAP = {
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
    "transforms.unwrap.delete.tombstone.handling.mode": "rewrite",
}
LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": DEAD,
    "errors.deadletterqueue.topic.replication.factor": "1",
    "errors.deadletterqueue.context.headers.enable": "true",
}


def resnapshot(session: psycopg.Connection[Any], name: str) -> None:
    """Ask Debezium for a snapshot of the table while changes continue."""
    data = f'{{"data-collections": ["public.{NAME}"], "type": "incremental"}}'
    session.execute("INSERT INTO signals VALUES (%s, 'execute-snapshot', %s)", (name, data))

"""Upserts, deletes and invalid records for Debezium's JDBC sink, and the table that must result."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import psycopg
from confluent_kafka import Producer

from tests.support.captured_database import CONVERTERS
from tests.support.postgres_server import PostgresServer, jdbc_url

_TYPES = {int: "int32", str: "string", float: "double"}


class SunkTables:
    """A database with a table for each side, and the topic that fills them."""

    def __init__(self, server: PostgresServer, bootstrap_servers: str, topic: str) -> None:
        self.topic = topic
        self._url = server.create_database("sunk")
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "enable.idempotence": True})

    def upsert(self, key: int, **fields: Any) -> None:
        """Send a row with its schema; a new name among ``fields`` is a new column."""
        self._send(key, _struct({"id": key, **fields}))

    def delete(self, key: int) -> None:
        """Send a tombstone for the key."""
        self._send(key, None)

    def send_nonsense(self, key: int) -> None:
        """Send a value that is not valid JSON."""
        self._producer.produce(self.topic, b"no json", _struct({"id": key}))

    def flush(self) -> None:
        """Wait until all is in the topic."""
        assert self._producer.flush(30) == 0

    def _send(self, key: int, value: bytes | None) -> None:
        self._producer.produce(self.topic, value, _struct({"id": key}))
        self._producer.poll(0)

    def rows(self, side: str) -> list[tuple[Any, ...]]:
        """Return the table of a side by its key; empty when it is not there yet."""
        with psycopg.connect(self._url.replace("+psycopg", "")) as connection:
            made = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (f"{side}_sunk",)).fetchone()
            if not made or not made[0]:
                return []
            return connection.execute(f"SELECT * FROM {side}_sunk ORDER BY id").fetchall()  # type: ignore[arg-type]

    def config(self, side: str, **more: str) -> Mapping[str, str]:
        """Return the sink's configuration of a side."""
        return {
            "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
            "topics": self.topic,
            "connection.url": jdbc_url(self._url).partition("?")[0],
            "connection.username": "postgres",
            "connection.password": "postgres",
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "schema.evolution": "basic",
            "collection.name.format": f"{side}_sunk",
            "errors.tolerance": "all",
            "errors.deadletterqueue.topic.name": f"{side}.dead.{self.topic}",
            "errors.deadletterqueue.topic.replication.factor": "1",
            **CONVERTERS,
            "key.converter.schemas.enable": "true",
            "value.converter.schemas.enable": "true",
            **{name.replace("_", "."): value for name, value in more.items()},
        }


def _struct(payload: Mapping[str, Any]) -> bytes:
    fields = [{"field": name, "type": _TYPES[type(value)], "optional": name != "id"} for name, value in payload.items()]
    schema = {"type": "struct", "optional": False, "fields": fields}
    return json.dumps({"schema": schema, "payload": payload}).encode()

"""Debezium MariaDB, unmodified, in the Java host and in Java Connect: equal topics; its schema history is in Kafka.

3.5.0.Final is the newest that resolves: of 3.7.0 Maven Central has PostgreSQL's connector only. The server is Debian's
MariaDB 10.11; there is no MySQL server in any registry, so Debezium MySQL was not run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spark_connect_rt.embedded.kafka import EmbeddedKafka
from tests.support.captured_database import CONVERTERS
from tests.support.java_beside_ours import SIDES, JavaBesideOurs
from tests.support.java_plugins import DEBEZIUM_MARIADB, plugin_folder
from tests.support.mariadb_server import MariaDbServer
from tests.support.topic_content import Content, normalised

pytestmark = pytest.mark.timeout(600)
ROWS = 2_000
TOPIC = "shop.shop.items"
_OF_A_CONNECTION = re.compile(rb'"(thread|pos|row|file|gtid)":(?:"[^"]*"|null|\d+)')


def config(server: MariaDbServer, servers: str, side: str, number: int) -> dict[str, str]:
    return {
        "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "debezium",
        "database.password": "debezium",
        "database.server.id": str(5400 + number),
        "topic.prefix": "shop",
        "database.include.list": "shop",
        "schema.history.internal.kafka.bootstrap.servers": servers,
        "schema.history.internal.kafka.topic": f"history-{side}",
        "transforms": "side",
        "transforms.side.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.side.regex": "(.*)",
        "transforms.side.replacement": f"{side}.$1",
        **CONVERTERS,
    }


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    with MariaDbServer() as server:
        server.run("CREATE DATABASE shop; CREATE TABLE shop.items (id int PRIMARY KEY, name varchar(50))")
        values = ",".join(f"({number},'item {number}')" for number in range(ROWS))
        server.run(f"INSERT INTO shop.items VALUES {values}")
        yield server


@pytest.fixture(scope="module")
def both(broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBesideOurs]:
    folder: Path = tmp_path_factory.mktemp("mariadb")
    plugin_folder(folder / "plugins", "mariadb", DEBEZIUM_MARIADB)
    with JavaBesideOurs(folder, broker.bootstrap_servers, folder / "plugins", "mariadb") as made:
        yield made


def test_snapshot_changes_and_a_new_column_are_the_same(
    both: JavaBesideOurs, server: MariaDbServer, broker: EmbeddedKafka
) -> None:
    servers = broker.bootstrap_servers
    both.create("shop", {side: config(server, servers, side, number) for number, side in enumerate(SIDES)})
    both.await_count(TOPIC, ROWS)
    server.run("UPDATE shop.items SET name = 'changed' WHERE id < 500; DELETE FROM shop.items WHERE id >= 1900")
    both.kill_host("debezium-connector-mariadb")
    server.run("ALTER TABLE shop.items ADD COLUMN price decimal(10, 2) DEFAULT 1.5")
    server.run("INSERT INTO shop.items VALUES (9999, 'z', 2)")
    both.await_key(TOPIC, b'{"id":9999}')
    both.assert_equal(TOPIC, _of_any_connection)


def _of_any_connection(one: Content) -> Content:
    """Return a record without its place in the log, of which a snapshot's is where the log stood then."""
    found = normalised(one)
    return replace(found, value=found.value and _OF_A_CONNECTION.sub(rb'"\1":0', found.value))

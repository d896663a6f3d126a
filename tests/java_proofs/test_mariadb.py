"""Debezium MariaDB and MySQL, unmodified, in the Java host and in Java Connect: equal topics; schema history in Kafka.

3.5.0.Final is the newest that resolves: of 3.7.0 Maven Central has PostgreSQL's connector only. The server is Debian's
MariaDB 10.11 for both, which speaks MySQL's protocol: no MySQL that Debezium still supports was found in Debian or npm.

Only MariaDB's connector is killed. Killed behind a transaction, MySQL's loses the first row of the next one in Java
Connect, too, because it stores "row": 1 with the place behind it, and then skips one row there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.support.captured_database import CONVERTERS
from tests.support.java_beside_ours import LIMIT_S, SIDES, JavaBesideOurs
from tests.support.java_plugins import DEBEZIUM_MARIADB, DEBEZIUM_MYSQL, plugin_folder
from tests.support.mariadb_server import MariaDbServer
from tests.support.topic_content import Content, normalised

pytestmark = pytest.mark.timeout(3000)
ROWS = 2_000
NAMES = {"mariadb": "MariaDbConnector", "mysql": "MySqlConnector"}
_OF_A_CONNECTION = re.compile(rb'"(thread|pos|row|file|gtid)":(?:"[^"]*"|null|\d+)')


def config(kind: str, server: MariaDbServer, servers: str, side: str) -> dict[str, str]:
    return {
        "connector.class": f"io.debezium.connector.{kind}.{NAMES[kind]}",
        "tasks.max": "1",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "debezium",
        "database.password": "debezium",
        "database.server.id": str(5400 + 2 * list(NAMES).index(kind) + SIDES.index(side)),
        "database.ssl.mode": "disabled" if kind == "mysql" else "disable",
        "topic.prefix": kind,
        "database.include.list": f"of_{kind}",
        "schema.history.internal.kafka.bootstrap.servers": servers,
        "schema.history.internal.kafka.topic": f"history-{kind}-{side}",
        "transforms": "side",
        "transforms.side.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.side.regex": "(.*)",
        "transforms.side.replacement": f"{side}.$1",
        **CONVERTERS,
    }


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDbServer]:
    with MariaDbServer() as server:
        values = ",".join(f"({number},'item {number}')" for number in range(ROWS))
        for kind in NAMES:
            server.run(
                f"CREATE DATABASE of_{kind}; CREATE TABLE of_{kind}.items (id int PRIMARY KEY, name varchar(50))"
            )
            server.run(f"INSERT INTO of_{kind}.items VALUES {values}")
        yield server


@pytest.fixture(scope="module")
def both(broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBesideOurs]:
    folder: Path = tmp_path_factory.mktemp("mariadb")
    plugin_folder(folder / "plugins", "mariadb", DEBEZIUM_MARIADB)
    plugin_folder(folder / "plugins", "mysql", DEBEZIUM_MYSQL)
    with JavaBesideOurs(folder, broker.bootstrap_servers, folder / "plugins", "mariadb") as made:
        yield made


@pytest.mark.parametrize("kind", NAMES)
def test_snapshot_changes_and_a_new_column_are_the_same(
    kind: str, both: JavaBesideOurs, server: MariaDbServer, broker: EmbeddedKafka
) -> None:
    topic, servers, database = f"{kind}.of_{kind}.items", broker.bootstrap_servers, f"of_{kind}"
    both.create(kind, {side: config(kind, server, servers, side) for side in SIDES})
    both.await_count(topic, ROWS)
    server.run("INSERT INTO items VALUES (9998, 'y')", database)
    both.await_key(topic, b'{"id":9998}')
    await_end_of_snapshot(both, f"{kind}-ours")  # a kill before it would begin another one, which reads later rows
    server.run("UPDATE items SET name = 'changed' WHERE id < 500; DELETE FROM items WHERE id >= 1900", database)
    if kind == "mariadb":
        both.kill_host("debezium-connector-mariadb")
    server.run("ALTER TABLE items ADD COLUMN price decimal(10, 2) DEFAULT 1.5", database)
    server.run("INSERT INTO items VALUES (9999, 'z', 2)", database)
    both.await_key(topic, b'{"id":9999}')
    both.assert_equal(topic, _of_any_connection)


def await_end_of_snapshot(both: JavaBesideOurs, name: str) -> None:
    """Wait until a connector of ours has stored an offset behind its snapshot."""

    def is_stored() -> bool:
        found = both.ours.rest.request("GET", f"/connectors/{name}/offsets").json()["offsets"]
        return bool(found) and not any("snapshot" in entry["offset"] for entry in found)

    until(is_stored, LIMIT_S, "the offset behind the snapshot is stored", every_s=0.2)


def _of_any_connection(content: Content) -> Content:
    """Return a record without its place in the log, of which a snapshot's is where the log stood then."""
    found = normalised(content)
    return replace(found, value=found.value and _OF_A_CONNECTION.sub(rb'"\1":0', found.value))

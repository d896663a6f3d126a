"""Iceberg tables of a PostgreSQL catalog and of a REST catalog keep the contract of the port.

The REST catalog is Apache Iceberg's own server in a JVM, behind a door that asks for OAuth2 client credentials.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa
from pyiceberg.catalog import Catalog, load_catalog

from spark_connect_rt.base import hidden_values
from spark_connect_rt.connectors.lakehouse.catalog_settings import catalog_of
from spark_connect_rt.connectors.lakehouse.iceberg_sink import IcebergSinkConnector, checked_settings, make_store
from spark_connect_rt.connectors.lakehouse.table_port import Committed, StoredOffset, TableStore, UnknownOutcome
from spark_connect_rt.engine.startup.java_home import Java
from spark_connect_rt.errors import ExternalError, RetriableError
from spark_connect_rt.testing.sink_harness import SinkHarness
from tests.contract.table_store_contract import PLACE, TableStoreContract, new_commit, rows_of
from tests.support.iceberg_rest_catalog import CatalogDoor, RestCatalogServer
from tests.support.lakehouse_readers import duckdb_rows
from tests.support.postgres_server import PostgresServer, jdbc_url
from tests.unit.connectors.lakehouse.settling import settle

CLIENT, SECRET = "sink", "s3cret-of-the-sink"


class CatalogContract(TableStoreContract):
    """The contract on a catalog that settings describe. The table has a new name in each test."""

    settings: Mapping[str, str]

    def config(self, connector: str = "sink") -> dict[str, str]:
        return {"name": connector, "topics": "orders", "iceberg.tables": self.name, **self.settings}

    def new_store(self, connector: str = "sink") -> TableStore:
        config = self.config(connector)
        return make_store(config, checked_settings(config), self.name)

    def catalog(self) -> Catalog:
        name, properties = catalog_of(self.settings)
        return load_catalog(name, **properties)

    @pytest.fixture(autouse=True)
    def named(self) -> None:
        self.name = f"shop_{uuid.uuid4().hex[:8]}.orders"

    def read_rows(self) -> list[dict[str, Any]]:
        table = self.catalog().load_table(self.name)
        rows = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
        if table.metadata.current_snapshot_id is not None:
            assert duckdb_rows(table.metadata_location, order_by="id") == rows
        return rows

    def append_foreign(self, rows: pa.Table) -> None:
        self.catalog().load_table(self.name).append(rows)


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with PostgresServer(fsync="off") as server:
        yield server.create_database("catalog")


class TestPostgresCatalog(CatalogContract):
    @pytest.fixture(autouse=True)
    def made(self, database: str, tmp_path_factory: pytest.TempPathFactory) -> None:
        self.settings = {
            "iceberg.catalog.type": "jdbc",
            "iceberg.catalog.uri": jdbc_url(database).partition("?")[0],
            "iceberg.catalog.jdbc.user": "postgres",
            "iceberg.catalog.jdbc.password": SECRET,
            "iceberg.catalog.warehouse": tmp_path_factory.mktemp("warehouse").as_uri(),
        }

    def test_catalog_that_is_away_is_tried_again_and_named_without_its_password(self) -> None:
        self.settings = {**self.settings, "iceberg.catalog.uri": "jdbc:postgresql://127.0.0.1:1/catalog"}
        with pytest.raises(RetriableError, match="connection") as raised:
            self.new_store().load()
        assert SECRET not in hidden_values.without_secrets(str(raised.value))

    @pytest.mark.parametrize(
        ("name", "value", "reason"),
        [
            ("jdbc.user", "stranger", 'role "stranger" does not exist'),
            ("uri", "jdbc:postgresql://{server}/nowhere", 'database "nowhere" does not exist'),
        ],
    )
    def test_wrong_login_is_refused_at_once(self, database: str, name: str, value: str, reason: str) -> None:
        server = database.rpartition("@")[2].partition("/")[0]
        self.settings = {**self.settings, f"iceberg.catalog.{name}": value.format(server=server)}
        with pytest.raises(ExternalError, match=reason):
            self.new_store().load()

    def test_missing_privilege_is_refused_at_once_and_changes_nothing(self, store: TableStore, database: str) -> None:
        self.append(store, rows_of(1))
        with sa.create_engine(database).begin() as session:
            session.execute(sa.text("DROP ROLE IF EXISTS reader"))
            session.execute(sa.text("CREATE ROLE reader LOGIN"))
            session.execute(sa.text("GRANT pg_read_all_data TO reader"))
        self.settings = {**self.settings, "iceberg.catalog.jdbc.user": "reader"}
        reader = self.loaded(self.new_store())
        files = reader.write(rows_of(2))
        with pytest.raises(ExternalError, match="permission denied"):
            reader.commit(new_commit(files=files))
        assert [row["id"] for row in self.read_rows()] == [1]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, java: Java) -> Iterator[RestCatalogServer]:
    with RestCatalogServer(tmp_path_factory.mktemp("rest"), java) as server:
        yield server


@pytest.fixture
def door(server: RestCatalogServer) -> Iterator[CatalogDoor]:
    with CatalogDoor(server.url, clients={CLIENT: SECRET}) as door:
        yield door


def rest_settings(door: CatalogDoor, **changed: str) -> dict[str, str]:
    return {
        "iceberg.catalog.type": "rest",
        "iceberg.catalog.uri": door.url,
        "iceberg.catalog.credential": f"{CLIENT}:{SECRET}",
        **{f"iceberg.catalog.{name.replace('_', '-')}": value for name, value in changed.items()},
    }


class TestRestCatalog(CatalogContract):
    @pytest.fixture(autouse=True)
    def made(self, door: CatalogDoor) -> None:
        self.door = door
        self.settings = rest_settings(door)

    def test_new_token_is_fetched_when_the_old_one_has_expired(self, store: TableStore) -> None:
        self.append(store, rows_of(1))
        issued = self.door.rules.issued
        self.door.revoke()
        self.append(store, rows_of(2))
        assert self.door.rules.issued == issued + 1
        assert [row["id"] for row in self.read_rows()] == [1, 2]

    def test_expired_token_does_not_repeat_a_commit(self, store: TableStore) -> None:
        loaded = self.loaded(store)
        files = loaded.write(rows_of(1))
        self.door.revoke()
        assert isinstance(loaded.commit(new_commit(files=files, offsets={PLACE: StoredOffset(1)})), Committed)
        assert [row["id"] for row in self.read_rows()] == [1]

    @pytest.mark.parametrize("fault", ["lost_answers", "lost_requests"])
    def test_commit_without_an_answer_is_unknown_and_can_be_looked_for(self, store: TableStore, fault: str) -> None:
        loaded = self.loaded(store)
        commit = new_commit(files=loaded.write(rows_of(1)), offsets={PLACE: StoredOffset(1)})
        setattr(self.door.rules, fault, 1)
        assert isinstance(loaded.commit(commit), UnknownOutcome)
        assert self.door.rules.commits == 1  # not repeated without asking
        assert self.loaded(store).offsets == ({PLACE: StoredOffset(1)} if fault == "lost_answers" else {})


def test_sink_writes_with_a_bearer_token_and_fails_with_a_wrong_login(
    server: RestCatalogServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    name = f"shop_{uuid.uuid4().hex[:8]}.orders"
    with CatalogDoor(server.url, tokens={SECRET}) as door:
        config = {
            "name": "sink",
            "topics": "orders",
            "iceberg.tables": name,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": "1",
            "iceberg.catalog.type": "rest",
            "iceberg.catalog.uri": door.url,
            "iceberg.catalog.token": SECRET,
        }
        with SinkHarness(IcebergSinkConnector, config) as sink:
            sink.send("orders", {"id": 1})
            settle(sink)
            assert sink.commit() == {PLACE: 1}
            door.rules.refused = "POST .*/tables/orders"  # a commit
            sink.send("orders", {"id": 2})
            assert "ForbiddenError: ForbiddenException: this principal may not do that" in failure_of(sink)
            assert sink.commit() == {PLACE: 1}
            door.rules.refused = ""
            sink.restart()
            sink.send("orders", {"id": 3})
            settle(sink)
            assert sink.commit() == {PLACE: 3}
            rows = load_catalog("rest", type="rest", uri=server.url).load_table(name).scan().to_arrow()
            assert sorted(rows["id"].to_pylist()) == [1, 2, 3]  # nothing was lost
            door.rules.refused = "POST .*/tables/orders"
            assert problems_of(config) == [f"table {name}: the catalog refuses: ForbiddenError"]
            door.rules.refused = ""
            assert problems_of(config) == []
            door.revoke()
            sink.send("orders", {"id": 4})
            assert "UnauthorizedError" in failure_of(sink)
        wrong = {**config, "iceberg.catalog.token": "wr0ng-token"}
        assert problems_of(wrong) == [f"table {name}: the catalog refuses: UnauthorizedError"]
    with CatalogDoor(server.url, clients={CLIENT: "another"}) as door:
        wrong = {**config, "iceberg.catalog.uri": door.url, "iceberg.catalog.credential": f"{CLIENT}:{SECRET}"}
        del wrong["iceberg.catalog.token"]
        assert problems_of(wrong) == [f"table {name}: the catalog refuses: OAuthError"]
        door.rules.away = True
        assert problems_of(wrong) == [f"table {name}: ConnectionError"]
    formatter = hidden_values.MaskingFormatter()
    assert not any(SECRET in formatter.format(record) for record in caplog.records)


def failure_of(sink: SinkHarness) -> str:
    """Deliver until the task fails, and return what it says, as a status shows it."""
    for _ in range(1000):
        try:
            sink.deliver()
        except ExternalError as error:
            return hidden_values.without_secrets(str(error))
    raise AssertionError("the task does not fail")


def problems_of(config: Mapping[str, str]) -> list[str]:
    """Return the beginnings of what `connectrt check` complains about, and require that they hold no secret."""
    found = [finding for check in IcebergSinkConnector().outside_checks(config) for finding in check()]
    problems = [finding.what for finding in found if finding.level.value == "problem"]
    assert not any(SECRET in hidden_values.without_secrets(problem) for problem in problems)
    return [":".join(problem.split(":")[: 3 if "refuses" in problem else 2]) for problem in problems]

"""Databases for the SQL connectors: one real PostgreSQL for the session, emptied for each test, and SQLite."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from spark_connect_rt.connectors.sql.sql_settings import sqlalchemy_url
from tests.support.postgres_server import PostgresServer, jdbc_url


class Database:
    """One database: its URL as a JDBC configuration has it, and SQL to prepare it and to look at it."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.engine = sa.create_engine(sqlalchemy_url(url), poolclass=sa.NullPool)

    def run(self, *statements: str) -> None:
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def rows(self, query: str) -> list[tuple[object, ...]]:
        with self.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]


@contextmanager
def stopped(server: PostgresServer) -> Iterator[None]:
    """Stop the server as a crash would; start it again in any case: it is every test's."""
    server.stop(signal.SIGQUIT)
    try:
        yield
    finally:
        server.start()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(fsync="off") as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres: PostgresServer) -> str:
    return jdbc_url(postgres.create_database())


@pytest.fixture
def postgres_database(postgres_url: str) -> Database:
    """The one database, emptied: a new one for each test would be a copy of 7 MB in 300 files."""
    database = Database(postgres_url)
    others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    database.run(f"{others} AND pid <> pg_backend_pid()", "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return database


@pytest.fixture
def sqlite_database(tmp_path: Path) -> Database:
    return Database(f"jdbc:sqlite:{tmp_path / 'test.db'}")


@pytest.fixture(params=["postgresql", "sqlite"])
def database(request: pytest.FixtureRequest) -> Database:
    name = "postgres_database" if request.param == "postgresql" else "sqlite_database"
    found = request.getfixturevalue(name)
    assert isinstance(found, Database)
    return found

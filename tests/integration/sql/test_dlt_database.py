"""DltSource and dlt's own SQL source against a real PostgreSQL: Arrow pages, the cursor, a server that goes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from spark_connect_rt.api.records import SourceBatch
from spark_connect_rt.connectors.python_sources.dlt_source import DltSourceConnector
from spark_connect_rt.testing.connector_harness import SourceHarness
from tests.integration.sql.conftest import Database, stopped
from tests.support.postgres_server import PostgresServer

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:dlt.*")  # its SQL source warns of its own argument
ROWS = 5_000


def harness(database: Database, **settings: str) -> SourceHarness:
    url = database.engine.url.set(drivername="postgresql+psycopg").render_as_string(hide_password=False)
    return SourceHarness(
        DltSourceConnector,
        {
            "dlt.source": "sql_database",
            "dlt.arguments": '{"backend": "pyarrow", "chunk_size": 1000}',
            "dlt.config.sources.sql_database.credentials": url,
            "dlt.config.sources.sql_database.items.incremental.cursor_path": "id",
            "dlt.config.sources.sql_database.items.incremental.row_order": "asc",
            "dlt.resources": "items",
            "batch.max.rows": "1000",
            "poll.interval.ms": "0",
            "dlt.retry.backoff.ms": "1",
            **settings,
        },
    )


@pytest.fixture
def items(postgres_database: Database) -> Database:
    postgres_database.run(
        "CREATE TABLE items (id BIGINT PRIMARY KEY, name TEXT, price NUMERIC(10, 2), at TIMESTAMPTZ, tags JSONB)",
        "INSERT INTO items SELECT n, 'n' || n, n / 4.0, now(), '{\"a\": 1}' FROM generate_series(1, 5000) AS n",
        "CREATE TABLE others (id BIGINT)",
    )
    return postgres_database


def test_pages_follow_the_column_and_restarts_resume_after_them(items: Database) -> None:
    with harness(items) as source:
        (piece,) = source.tasks[0].poll() or ()
        assert isinstance(piece, SourceBatch)
        assert len(piece.values) == 1_000
        source.restart()
        found = [*source.poll(), *source.poll()]
        source.poll(durable=False)
        source.restart()
        for _ in range(6):
            found += source.poll()
        assert Counter(record.json()["id"] for record in found) == Counter(range(1, ROWS + 1))
        assert found[0].key == b'{"id":1}'
        assert found[0].json()["tags"] == '{"a":1}'
        items.run("ALTER TABLE items ADD COLUMN size INT", "INSERT INTO items (id, size) VALUES (6000, 5)")
        later = [record.json() for _ in range(3) for record in source.poll()]
        assert [(row["id"], row["size"]) for row in later] == [(6000, 5)]


def test_a_server_that_goes_is_waited_for_and_nothing_is_lost(items: Database, postgres: PostgresServer) -> None:
    with harness(items, **{"dlt.retries.max": "50"}) as source:
        clock = [1e9]
        source.tasks[0].clock = lambda: clock[0]  # type: ignore[attr-defined]
        found: list[Any] = source.poll()
        with stopped(postgres):
            for _ in range(3):
                found += source.poll()
                clock[0] += 60
        for _ in range(9):
            found += source.poll()
            clock[0] += 60
        counts = Counter(record.json()["id"] for record in found)
    assert set(counts) == set(range(1, ROWS + 1))

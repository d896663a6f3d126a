"""A real tap, from its package, reads a real PostgreSQL: killed in mid-flow, and what its schema becomes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import psycopg
import pytest

from spark_connect_rt.testing.connector_harness import ProducedRecord
from tests.integration.programs.kill_story import killed_twice_and_counted
from tests.integration.programs.program_runs import harness, poll_to_end
from tests.integration.programs.real_programs import tap_postgres
from tests.support.postgres_server import PostgresServer

ROWS = 40_000  # the tap says its state every 10,000 rows
TABLE = "create table orders (id bigint primary key, name text, price float, at timestamptz, doc jsonb)"
FILL = """
insert into orders select n, 'order ' || n, n / 4.0, timestamptz '2026-01-01' + n * interval '1 s', '{"a": 1}'
from generate_series(%s::int, %s::int) n
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with PostgresServer(fsync="off") as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create_database().replace("+psycopg", "")


def test_rows_and_new_columns_and_new_rows_follow(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(TABLE)
        database.execute(FILL, (1, 500))
        tap = tap_postgres(url)
        schemas = {"value.converter": "org.apache.kafka.connect.json.JsonConverter", "singer.times": "timestamp"}
        with harness(tap.kind, "", tap.config, {**tap.settings, **schemas}) as source:
            found = poll_to_end(source)
            assert ids_of(found) == list(range(1, 501))
            value = found[0].json()
            assert value["payload"] == {"at": 1_767_225_601_000, "doc": '{"a":1}', **FIRST}
            assert value["schema"]["version"] == 1
            database.execute("alter table orders add column paid boolean")
            database.execute(FILL.replace("orders", "orders (id, name, price, at, doc)"), (501, 600))
            source.restart()
            again = poll_to_end(source)
            assert ids_of(again) == list(range(500, 601))  # the tap asks for the last key and all behind it
            assert again[1].json()["schema"]["version"] == 2
            assert again[1].json()["payload"]["paid"] is None


FIRST = {"id": 1, "name": "order 1", "price": 0.25}


def ids_of(found: Sequence[ProducedRecord]) -> list[int]:
    return [record.json()["payload"]["id"] for record in found]


def test_killed_in_mid_flow_it_loses_nothing(url: str, tmp_path: Path) -> None:
    with psycopg.connect(url, autocommit=True) as database:
        database.execute(TABLE)
        database.execute(FILL, (1, ROWS))
        database.execute("update orders set name = repeat('x', 1000)")  # more than the tap can be ahead by
    records, again = killed_twice_and_counted(
        tmp_path, tap_postgres(url), "of.public-orders", range(1, ROWS + 1), 11_000
    )
    assert records == ROWS
    assert again < 2 * 21_000

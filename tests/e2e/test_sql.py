"""PostgreSQL to Kafka to PostgreSQL through a real worker that is killed on the way: equal tables at the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.support.postgres_server import PostgresServer, jdbc_url
from tests.support.worker_process import SparkWorkerProcess
from tests.topics import count_records

START_S = 240.0
ROWS = 20_000
pytestmark = pytest.mark.timeout(4 * START_S)  # the worker starts twice
TABLE = "id BIGINT PRIMARY KEY, word TEXT, price NUMERIC(12,2), changed TIMESTAMP NOT NULL"
FILL = """INSERT INTO {name} SELECT n, 'word ' || n, n / 7.0, timestamp '2024-01-01' + n * interval '1 second'
 FROM generate_series({first}, {last}) n"""
# What the JDBC connectors' users write; only the class's name is of another house.
SOURCE = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
    "mode": "timestamp+incrementing",
    "timestamp.column.name": "changed",
    "incrementing.column.name": "id",
    "table.whitelist": "orders",
    "topic.prefix": "sql-",
    "poll.interval.ms": "200",
    "batch.max.rows": "1000",
    "transforms": "key,id",
    "transforms.key.type": "org.apache.kafka.connect.transforms.ValueToKey",
    "transforms.key.fields": "id",
    "transforms.id.type": "org.apache.kafka.connect.transforms.ExtractField$Key",
    "transforms.id.field": "id",
}
SINK = {
    "connector.class": "io.confluent.connect.jdbc.JdbcSinkConnector",
    "topics": "sql-orders",
    "table.name.format": "copies",
    "insert.mode": "upsert",
    "pk.mode": "record_key",
    "pk.fields": "id",
    "delete.enabled": "true",
    "auto.create": "true",
}
CONVERTERS = {f"{side}.converter": "org.apache.kafka.connect.json.JsonConverter" for side in ("key", "value")}


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer(fsync="off") as server:
        yield server


class Tables:
    def __init__(self, url: str) -> None:
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)

    def run(self, statement: str) -> None:
        with self._engine.begin() as connection:
            connection.execute(sa.text(statement))

    def changed(self, name: str) -> int:
        """Return how many rows the update has reached: cheap to ask again and again."""
        with self._engine.connect() as connection:
            return int(connection.execute(sa.text(f"SELECT count(*) FROM {name} WHERE word = 'changed'")).scalar_one())

    def fingerprint(self, name: str) -> tuple[object, ...]:
        """Return count and a digest of every row in order; nothing for a table that is not there yet."""
        digest = (
            f"SELECT count(*), md5(string_agg(concat_ws('|', id, word, price, changed), ',' ORDER BY id)) FROM {name}"
        )
        with self._engine.connect() as connection:
            if not sa.inspect(connection).has_table(name):
                return ()
            return tuple(connection.execute(sa.text(digest)).one())


def test_a_table_is_copied_through_kafka_and_a_killed_worker_loses_nothing(
    postgres: PostgresServer, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    url = postgres.create_database()
    tables = Tables(url)
    tables.run(f"CREATE TABLE orders ({TABLE})")
    tables.run(FILL.format(name="orders", first=1, last=ROWS))
    worker = SparkWorkerProcess(tmp_path / "worker", broker.bootstrap_servers, "e2e-sql")
    worker.start(START_S)
    try:
        for name, config in (("sql-in", SOURCE), ("sql-out", SINK)):
            worker.rest.create(name, {**config, **CONVERTERS, "connection.url": jdbc_url(url)})

        def told() -> str:
            return worker.log_file.read_text(errors="replace")[-3000:]

        until(lambda: bool(tables.fingerprint("copies")), START_S, "the sink writes", told)
        worker.kill()
        # Connect's timestamps have milliseconds.
        now = "date_trunc('milliseconds', now() AT TIME ZONE 'UTC')"
        tables.run(f"UPDATE orders SET word = 'changed', changed = {now} WHERE id % 10 = 0")
        worker.start(START_S)

        def equal() -> bool:
            return tables.changed("copies") == ROWS // 10 and tables.fingerprint("copies") == tables.fingerprint(
                "orders"
            )

        until(equal, START_S, "the tables are equal", lambda: (tables.fingerprint("copies"), told()))
        assert tables.fingerprint("copies")[0] == ROWS
        records, changed = count_records(broker.bootstrap_servers, "sql-orders"), ROWS // 10
        print(f"rows {ROWS}, changed {changed}, records in the topic {records}")
        assert ROWS <= records <= 2 * ROWS + changed, "what the kill repeats is less than everything"
        (offset,) = worker.rest.request("GET", "/connectors/sql-in/offsets").json()["offsets"]
        assert offset["partition"] == {"protocol": "1", "table": "public.orders"}
        assert set(offset["offset"]) == {"incrementing", "timestamp", "timestamp_nanos"}
    finally:
        worker.stop()

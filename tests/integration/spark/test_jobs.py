"""The pipelines of ``jobs/``: run, run again, what is new is there once."""

from __future__ import annotations

import csv
import importlib
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.connectors.sql.sql_settings import sqlalchemy_url
from tests.contract.compacted_log_contract import fresh_name
from tests.integration.kafka.stored_group import Group
from tests.support.postgres_server import PostgresServer, jdbc_url

ROOT = Path(__file__).resolve().parents[3]
SPARK = {"spark.master": "local[2]"}


@pytest.fixture
def job(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Callable[..., None]]:
    monkeypatch.syspath_prepend(str(ROOT / "jobs"))
    return lambda name: importlib.import_module(name).main  # type: ignore[no-any-return]


def test_flights_become_a_delta_table(job: Callable[[str], Callable[..., None]], tmp_path: Path) -> None:
    file, table = tmp_path / "flights.csv", str(tmp_path / "table")
    file.write_text("flight,carrier,dep_delay\n1545,UA,2\n1714,UA,NA\n")
    for more, rows in (("", 2), ("", 2), ("1141,AA,-4\n", 3)):
        with file.open("a") as handle:
            handle.write(more)
        job("flights_to_delta")(str(file), table, str(tmp_path / "checkpoint"))
        assert DeltaTable(table).to_pyarrow_table().num_rows == rows
    found = DeltaTable(table).to_pyarrow_table().sort_by("flight").to_pylist()
    assert [tuple(row.values()) for row in found] == [(1141, "AA", -4), (1545, "UA", 2), (1714, "UA", None)]


def test_a_table_goes_through_kafka_into_parquet(
    job: Callable[[str], Callable[..., None]], spark: SparkSession, broker: EmbeddedKafka, tmp_path: Path
) -> None:
    orders = fresh_name("orders").replace("-", "_")
    with PostgresServer(fsync="off") as server:
        url = jdbc_url(server.create_database())
        engine = sa.create_engine(sqlalchemy_url(url), poolclass=sa.NullPool)
        with engine.begin() as connection:
            connection.execute(
                sa.text(f"CREATE TABLE {orders} (id SERIAL PRIMARY KEY, price NUMERIC(9, 2), name TEXT)")
            )
        for price, name in ((1.5, "a"), (2.25, None)):
            with engine.begin() as connection:
                connection.execute(
                    sa.text(f"INSERT INTO {orders} (price, name) VALUES (:p, :n)"), {"p": price, "n": name}
                )
            job("postgres_to_parquet")(url, orders, broker.bootstrap_servers, str(tmp_path))
    found = spark.read.parquet(str(tmp_path / "table")).orderBy("id").collect()
    assert [(row.id, float(row.price), row.name) for row in found] == [(1, 1.5, "a"), (2, 2.25, None)]


def test_offsets_of_a_group_are_reported(
    job: Callable[[str], Callable[..., None]], broker: EmbeddedKafka, tmp_path: Path
) -> None:
    group = Group(broker.bootstrap_servers, tmp_path)
    group.fill()
    job("offsets_report")(str(group.properties), str(tmp_path / "report"))
    (file,) = (tmp_path / "report").glob("*.csv")
    with file.open(newline="") as handle:
        rows = [(row["connector"], row["state"], row["partitions"], row["deleted"]) for row in csv.DictReader(handle)]
    assert rows == [("files", "RUNNING", "5", "false"), ("gone", "", "5", "true")]

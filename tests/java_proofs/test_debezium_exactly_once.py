"""Debezium's PostgreSQL source, exactly once: killed in mid-flow, a reader of committed data sees each change once.

Java Connect captures the same changes with the same settings and is not killed; only PostgreSQL's crash is one of both.
Both write BEGIN and END of each of PostgreSQL's transactions, too: a count that began anew would show in every record.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.support.captured_database import CapturedDatabase, postgres_source
from tests.support.java_beside_ours import SIDES, JavaBesideOurs, whole
from tests.support.java_plugins import DEBEZIUM_POSTGRES, plugin_folder
from tests.support.killed_in_mid_flow import VICTIMS, kill_in_mid_flow
from tests.support.postgres_server import PostgresServer
from tests.support.topic_content import normalised

ROWS, CHANGES = (20_000, 10_000) if whole() else (500, 1_000)
PREFIX = "once"  # other tests of the broker fill topics of the usual prefix
ITEMS, TRANSACTIONS = f"{PREFIX}.public.items", f"{PREFIX}.transaction"
ASKED = {"exactly.once.support": "required", "transaction.boundary": "poll"}
SUPPORTED = {"exactly_once_source_support": "enabled", "scheduled_rebalance_max_delay_ms": "0"}
LIMIT_S = 900.0
pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def both(broker: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaBesideOurs]:
    folder = tmp_path_factory.mktemp("exactly-once")
    plugin_folder(folder / "plugins", "postgres", DEBEZIUM_POSTGRES)
    with JavaBesideOurs(folder, broker.bootstrap_servers, folder / "plugins", "once", **SUPPORTED) as made:
        yield made


@pytest.fixture(scope="module")
def database(postgres: PostgresServer, both: JavaBesideOurs) -> Iterator[CapturedDatabase]:
    made = CapturedDatabase(postgres)
    made.fill(ROWS)
    more = {"provide_transaction_metadata": "true", "topic_prefix": PREFIX}
    both.create("once", {side: postgres_source(made, side, **more) | ASKED for side in SIDES})
    both.await_key(ITEMS, b'{"id":%d}' % ROWS)  # before a snapshot has ended, both would take it again
    yield made
    made.close()


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_kill_in_mid_flow_loses_and_repeats_nothing(
    victim: str, both: JavaBesideOurs, database: CapturedDatabase
) -> None:
    kill_in_mid_flow(victim, both, database, ITEMS, CHANGES, LIMIT_S)
    both.await_key(ITEMS, database.mark(), LIMIT_S)
    assert_each_once(both, ITEMS)
    assert_each_once(both, TRANSACTIONS)


def assert_each_once(both: JavaBesideOurs, suffix: str) -> None:
    """Both topics hold the same committed records, each key's in the same order, none of them twice."""
    both.assert_equal(suffix)
    held = {side: Counter(map(normalised, both.reader.read(f"{side}.{suffix}"))) for side in SIDES}
    assert held["ours"] == held["java"]
    twice = [content for content, count in held["ours"].items() if count > 1]
    assert twice == []


def test_boundaries_that_debezium_cannot_set_are_refused_as_java_refuses_them(
    both: JavaBesideOurs, database: CapturedDatabase
) -> None:
    config = {**postgres_source(database, "refused"), **ASKED, "transaction.boundary": "connector", "name": "refused"}
    said = {}
    for side in SIDES:
        answer = both.worker(side).rest.request(
            "PUT", "/connector-plugins/io.debezium.connector.postgresql.PostgresConnector/config/validate", config
        )
        values = (entry["value"] for entry in answer.json()["configs"])
        said[side] = {value["name"]: value["errors"] for value in values if value["errors"]}
    assert said["ours"] == said["java"]
    assert list(said["java"]) == ["transaction.boundary"]

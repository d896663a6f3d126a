"""DltSource (dlt's REST client, dlt's SQL source) and LakeflowSource in a real worker that is killed in mid-flow:
nothing is lost; with exactly-once nothing comes twice, without it what was not durable.
"""

from __future__ import annotations

import json
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Consumer, TopicPartition
from starlette.responses import JSONResponse, Response

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.e2e.commands import until
from tests.integration.http_service import Asked, HttpService
from tests.integration.kafka.http_and_kafka import JSON
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.integration.sql.conftest import Database
from tests.support.numbered_lines import create_topics
from tests.support.postgres_server import PostgresServer, jdbc_url
from tests.topics import CommittedReader

LIMIT_S = 60.0
pytestmark = pytest.mark.timeout(5 * LIMIT_S)
ROWS, PAGE = 3_000, 50
MOMENT_S = 0.2  # before each page, until
HURRY = threading.Event()  # is set; till then the last page does not come at all: nobody has read to the end
ENDLESS = {"poll.interval.ms": "500", "batch.max.rows": "50", **JSON}


def slow_pages(asked: Asked) -> Response:
    """Answer /tickets?since=&offset= and /people?after=, ``ROWS`` rows in pages."""
    if asked.path == "/people":
        after = int(asked.query["after"])
        _await_page(after)
        return JSONResponse([{"id": at} for at in range(after + 1, min(after + PAGE, ROWS) + 1)])
    since, start = int(asked.query.get("since", 1)), int(asked.query.get("offset", 0))
    _await_page(since + start)
    rows = [{"id": at, "name": f"n{at}"} for at in range(since, ROWS + 1)]
    return JSONResponse({"data": rows[start : start + PAGE], "total": len(rows)})


def _await_page(at: int) -> None:
    HURRY.wait(MOMENT_S if at < ROWS - PAGE else LIMIT_S)


@pytest.fixture(scope="module")
def services() -> Iterator[tuple[str, str]]:
    """Two addresses: a service answers one request at a time."""
    with HttpService(slow_pages) as first, HttpService(slow_pages) as second:
        yield first.url, second.url
        HURRY.set()


class Items:
    """A table whose rows come as the pages do: a policy of its reader's waits beside every ``PAGE``th row."""

    def __init__(self, database: Database) -> None:
        self._database = database
        url = database.engine.url.set(drivername="postgresql+psycopg", username="reader")
        self.url = url.render_as_string(hide_password=False)
        database.run(
            "CREATE TABLE items (id BIGINT PRIMARY KEY, name TEXT)",
            f"INSERT INTO items SELECT n, 'n' || n FROM generate_series(1, {ROWS}) AS n",
            "CREATE TABLE pace AS SELECT false AS hurry",
            f"""CREATE FUNCTION comes(at BIGINT) RETURNS BOOLEAN LANGUAGE plpgsql AS $$ BEGIN
                WHILE at % {PAGE} = 0 AND NOT (SELECT hurry FROM pace) LOOP
                    PERFORM pg_sleep({MOMENT_S});
                    EXIT WHEN at < {ROWS - PAGE};
                END LOOP;
                RETURN true;
            END $$""",
            "CREATE ROLE reader LOGIN",
            "GRANT SELECT ON items, pace TO reader",
            "ALTER TABLE items ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY slowly ON items USING (comes(id))",
        )

    def hurry(self, on: bool) -> None:
        """As HURRY; a query that runs sees it."""
        self._database.run(f"UPDATE pace SET hurry = {on}")


@pytest.fixture(scope="module")
def items() -> Iterator[Items]:
    with PostgresServer(fsync="off") as server:
        yield Items(Database(jdbc_url(server.create_database())))


def rest_api(url: str) -> dict[str, str]:
    endpoint = {
        "path": "tickets",
        "data_selector": "data",
        "params": {"since": "{incremental.start_value}"},
        "incremental": {"cursor_path": "id", "initial_value": 1, "row_order": "asc"},
        "paginator": {"type": "offset", "limit": PAGE, "total_path": "total"},
    }
    resources = [{"name": "tickets", "primary_key": "id", "endpoint": endpoint}]
    arguments = {"client": {"base_url": url}, "resources": resources}
    return {"connector.class": "DltSource", "dlt.source": "rest_api", "dlt.arguments": json.dumps(arguments)}


def sql_database(file: Path) -> dict[str, str]:
    return {
        "connector.class": "DltSource",
        "dlt.source": "sql_database",
        "dlt.arguments": '{"backend": "pyarrow", "chunk_size": 50}',
        "dlt.resources": "items",
        "dlt.config.sources.sql_database.credentials": f"${{file:{file}:items}}",
        "dlt.config.sources.sql_database.items.incremental.cursor_path": "id",
        "transaction.boundary": "connector",
    }


def lakeflow(url: str) -> dict[str, str]:
    return {
        "connector.class": "LakeflowSource",
        "lakeflow.class": "tests.unit.connectors.lakeflow_samples:Web",
        "lakeflow.tables": "people",
        "lakeflow.option.base_url": url,
        "lakeflow.option.token": "hush",
    }


def _written(servers: str, topic: str) -> int:
    """Return how much is in a topic, of open transactions, too: all items are one."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "written", "isolation.level": "read_uncommitted"})
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)[1]
        return end
    finally:
        consumer.close()


@pytest.mark.parametrize("exactly_once", [False, True], ids=["at_least_once", "exactly_once"])
def test_a_killed_worker_continues_and_nothing_is_lost(
    broker: EmbeddedKafka, tmp_path: Path, services: tuple[str, str], items: Items, exactly_once: bool
) -> None:
    group, servers = f"python-{uuid.uuid4().hex[:8]}", broker.bootstrap_servers
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"items={items.url}\n")
    given = {"tickets": rest_api(services[0]), "items": sql_database(secrets), "people": lakeflow(services[1])}
    HURRY.clear()
    items.hurry(False)
    topics = {name: f"{group}-{name}" for name in given}
    create_topics(servers, list(topics.values()))
    properties = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
        "offset.flush.interval.ms": "300",
        "exactly.once.source.support": "enabled" if exactly_once else "disabled",
    }
    worker = OurWorkerProcess(tmp_path / "worker", servers, group, properties=properties)

    readers = {name: CommittedReader(servers, topic) for name, topic in topics.items()}

    def ids(name: str) -> Counter[int]:
        return Counter(orjson.loads(value)["id"] for _, value in readers[name].more())

    def log_end() -> str:
        return worker.log_file.read_text(errors="replace")[-3000:]

    with worker:
        for name, config in given.items():
            worker.rest.create(name, {**ENDLESS, **config, "topic.prefix": f"{group}-"})
        for name, topic in topics.items():
            until(lambda topic=topic: _written(servers, topic) > 5 * PAGE, LIMIT_S, f"some of {name}", log_end)
        worker.kill()
        killed_at = {name: len(ids(name)) for name in given}
        assert max(killed_at.values()) < ROWS, "each was killed in mid-flow"
        HURRY.set()
        items.hurry(True)
        worker.start()
        for name in given:
            until(lambda name=name: len(ids(name)) == ROWS, LIMIT_S, f"every row of {name}", log_end)
        states = {name: worker.rest.states(name) for name in given}
        assert states == {name: ("RUNNING", ["RUNNING"]) for name in states}, log_end()
        assert str(secrets) in json.dumps(worker.rest.request("GET", "/connectors/items").json())
        assert worker.stop() == 0
    most = {name: max(max(ids(name).values()) for _ in range(5)) for name in given}  # what comes late, too
    for reader in readers.values():
        reader.close()
    assert set(most.values()) == {1} if exactly_once else max(most.values()) <= 2
    text = worker.log_file.read_text(errors="replace")
    assert items.url not in text
    assert "hush" not in text

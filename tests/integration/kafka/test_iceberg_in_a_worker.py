"""The Iceberg sink in two real workers that are killed and frozen: every record is in the table exactly once.

One worker is killed after a data file was written and before its commit. The other is frozen for longer than the group
waits, so that it wakes up as a zombie. Records arrive all the time.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Producer
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from tests.e2e.commands import until
from tests.integration.kafka.http_and_kafka import JSON
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.lakehouse_readers import duckdb_rows

LIMIT_S = 90.0
SESSION_MS = 6_000
PARTITIONS, KEYS = 4, 40
pytestmark = pytest.mark.timeout(6 * LIMIT_S)


class Lake:
    """A catalog in a folder, and two connectors that write one topic to it: appended and upserted."""

    def __init__(self, folder: Path, group: str) -> None:
        folder.mkdir(parents=True)
        self.database, self.warehouse = folder / "catalog.db", folder / "warehouse"
        self.topic = f"{group}-changes"
        SqlCatalog("iceberg", **self._catalog())  # makes its tables

    def _catalog(self) -> dict[str, str]:
        return {"uri": f"sqlite:///{self.database}", "warehouse": self.warehouse.as_uri()}

    def config(self, kind: str) -> dict[str, str]:
        upserts = {
            "iceberg.tables.upsert-mode-enabled": "true",
            "iceberg.tables.default-id-columns": "key",
        }
        return {
            "connector.class": "IcebergSink",
            "tasks.max": "2",
            "topics": self.topic,
            "iceberg.tables": f"shop.{kind}",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": "300",
            "iceberg.catalog.type": "sql",
            **{f"iceberg.catalog.{name}": value for name, value in self._catalog().items()},
            "consumer.override.session.timeout.ms": str(SESSION_MS),
            "consumer.override.heartbeat.interval.ms": "1000",
            **JSON,
            **(upserts if kind == "upserted" else {}),
        }

    def table(self, kind: str) -> Table | None:
        try:
            return SqlCatalog("iceberg", **self._catalog()).load_table(f"shop.{kind}")
        except NoSuchTableError:
            return None

    def rows(self, kind: str) -> list[tuple[str, int]]:
        """Return the rows: (key, n)."""
        table = self.table(kind)
        if table is None or table.metadata.current_snapshot_id is None:
            return []
        found = table.scan().to_arrow()
        return sorted(zip(found["key"].to_pylist(), found["n"].to_pylist(), strict=True))

    def data_files(self) -> set[Path]:
        return set(self.warehouse.rglob("data/*.parquet"))

    @contextmanager
    def without_commits(self) -> Iterator[None]:
        """Hold the catalog's write lock: tables can be read, and no commit succeeds."""
        session = sqlite3.connect(self.database, isolation_level=None, timeout=30)
        session.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            session.execute("ROLLBACK")
            session.close()


class Changes(threading.Thread):
    """Sends numbered changes of some keys until it is ended."""

    def __init__(self, servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5})
        self._topic, self._ended = topic, threading.Event()
        self.sent = 0

    def run(self) -> None:
        while not self._ended.wait(0.005):
            for _ in range(5):
                number, key = self.sent, f"k{self.sent % KEYS}"
                value = orjson.dumps({"key": key, "n": number})
                self._producer.produce(self._topic, value, key.encode(), partition=number % KEYS % PARTITIONS)
                self.sent += 1
            self._producer.poll(0)

    def end(self) -> None:
        self._ended.set()
        self.join()
        assert self._producer.flush(30) == 0

    def appended(self) -> list[tuple[str, int]]:
        return sorted((f"k{number % KEYS}", number) for number in range(self.sent))

    def upserted(self) -> list[tuple[str, int]]:
        return sorted(dict(sorted(self.appended(), key=lambda row: row[1])).items())


def test_killed_and_frozen_workers_write_every_record_exactly_once(broker: EmbeddedKafka, tmp_path: Path) -> None:
    group = f"iceberg-{uuid.uuid4().hex[:8]}"
    servers = broker.bootstrap_servers
    lake = Lake(tmp_path / "lake", group)
    admin = KafkaAdmin({"bootstrap.servers": servers})
    admin.create_topic(TopicSpec(lake.topic, PARTITIONS, 1, {}))
    admin.close()
    workers = [OurWorkerProcess(tmp_path / f"worker{number}", servers, group) for number in range(2)]
    changes = Changes(servers, lake.topic)

    def told() -> str:
        return "\n".join(worker.log_file.read_text(errors="replace")[-3000:] for worker in workers)

    def came(kind: str, least: int) -> None:
        until(lambda: len(lake.rows(kind)) >= least, LIMIT_S, f"{least} rows in {kind}", told)

    with workers[0], workers[1]:
        for kind in ("appended", "upserted"):
            workers[0].rest.create(f"{group}-{kind}", lake.config(kind))
        changes.start()
        came("appended", 500)
        came("upserted", KEYS)

        with lake.without_commits():
            before = lake.data_files()
            until(lambda: len(lake.data_files() - before) >= 2, LIMIT_S, "files without a commit", told)
            workers[0].kill()
            orphans = lake.data_files() - before
        workers[0].start()
        came("appended", len(lake.rows("appended")) + 500)
        assert orphans & lake.data_files(), "the kill left a data file without a commit"

        os.kill(workers[1].pid, signal.SIGSTOP)
        frozen_s = time.monotonic()
        came("appended", len(lake.rows("appended")) + 500)
        while time.monotonic() - frozen_s < 2 * SESSION_MS / 1000:
            time.sleep(0.1)
        os.kill(workers[1].pid, signal.SIGCONT)
        came("appended", len(lake.rows("appended")) + 500)

        changes.end()
        until(lambda: len(lake.rows("appended")) >= changes.sent, LIMIT_S, "every record", told)
        until(lambda: lake.rows("upserted") == changes.upserted(), LIMIT_S, "every key's last change", told)
        repeated = Counter(lake.rows("appended")) - Counter(changes.appended())
        assert not repeated, told()
        assert lake.rows("appended") == changes.appended()
        for kind in ("appended", "upserted"):
            table = lake.table(kind)
            assert table is not None
            assert len(table.metadata.snapshots) >= 10
            by_duckdb = duckdb_rows(table.metadata_location, "key, n", "key, n")
            assert [(row["key"], row["n"]) for row in by_duckdb] == lake.rows(kind)
        for worker in workers:
            assert worker.stop() == 0

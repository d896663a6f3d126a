"""The table sinks and the object store sink in two real workers that are killed and frozen: every record exactly once.

The tasks that append share commits. One worker is killed after a data file was written and before its commit. The
other is frozen for longer than the group waits, so that it wakes up as a zombie. Records arrive all the time. All sinks
share the workers.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import ClassVar

import orjson
import pyarrow as pa
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table import Table

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.connectors.lakehouse.iceberg_catalogs import RememberingSqlCatalog
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from tests.e2e.commands import until
from tests.integration.kafka.http_and_kafka import JSON
from tests.integration.kafka.mixed_worker import OurWorkerProcess
from tests.support.lakehouse_readers import duckdb_rows
from tests.support.s3_server import S3Server

LIMIT_S = 90.0
SESSION_MS = 6_000
PARTITIONS, KEYS = 4, 40
pytestmark = pytest.mark.timeout(6 * LIMIT_S)


KINDS = ("appended", "upserted")


class Lake(ABC):
    """Tables of one format, and the connectors that write a topic to them: appended and upserted."""

    name: ClassVar[str]
    kinds: ClassVar[tuple[str, ...]] = KINDS
    own_config: Mapping[str, str]

    def config(self, kind: str, topic: str) -> dict[str, str]:
        """Return the configuration of a connector."""
        upserts = {"iceberg.tables.upsert-mode-enabled": "true", "iceberg.tables.default-id-columns": "key"}
        return {
            "tasks.max": "2" if kind == "upserted" else "5",  # from the fifth on, tasks share commits
            "topics": topic,
            "iceberg.tables": f"shop.{kind}",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": "300",
            "consumer.override.session.timeout.ms": str(SESSION_MS),
            "consumer.override.heartbeat.interval.ms": "1000",
            **JSON,
            **self.own_config,
            **(upserts if kind == "upserted" else {}),
        }

    @abstractmethod
    def read(self, kind: str) -> pa.Table | None:
        """Return the rows of a table. None: it has none yet."""

    @abstractmethod
    def commits(self, kind: str) -> int:
        """Return how many commits a table has."""

    def rows(self, kind: str) -> list[tuple[str, int]]:
        """Return the rows: (key, n)."""
        found = self.read(kind)
        return [] if found is None else sorted(zip(found["key"].to_pylist(), found["n"].to_pylist(), strict=True))


class ObjectLake(Lake):
    """JSON lines in a bucket of a real S3 server. Its folders are read from the server's disk."""

    name = "objects"
    kinds = ("appended",)

    def __init__(self, s3: S3Server, bucket: str) -> None:
        self._folder = s3.buckets / bucket
        self.own_config = {
            "connector.class": "ObjectStoreSink",
            "path": s3.bucket(bucket),
            "format.class": "jsonl",
            "partitioner.class": "field",
            "partition.field.name": "key",
            "flush.size": "2000",
            "rotate.schedule.interval.ms": "2000",
            **s3.config,
        }

    def config(self, kind: str, topic: str) -> dict[str, str]:
        common = super().config(kind, topic)
        return {name: text for name, text in common.items() if not name.startswith("iceberg.")}

    def _files(self) -> list[Path]:
        return list(self._folder.rglob("*.json"))

    def read(self, kind: str) -> pa.Table | None:
        lines = [orjson.loads(line) for path in self._files() for line in path.read_bytes().splitlines()]
        return pa.Table.from_pylist(lines) if lines else None

    def commits(self, kind: str) -> int:
        return len(self._files())


class DeltaLake(Lake):
    """Delta tables below a folder."""

    name = "delta"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.own_config = {"connector.class": "DeltaSink", "delta.root": str(folder)}

    def _table(self, kind: str) -> DeltaTable:
        return DeltaTable(str(self._folder / "shop" / kind))

    def read(self, kind: str) -> pa.Table | None:
        try:
            return self._table(kind).to_pyarrow_table()
        except TableNotFoundError:
            return None

    def commits(self, kind: str) -> int:
        version: int = self._table(kind).version()
        return version


class IcebergLake(Lake):
    """Iceberg tables of a catalog in a folder."""

    name = "iceberg"

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.database, self.warehouse = folder / "catalog.db", folder / "warehouse"
        RememberingSqlCatalog("iceberg", **self._catalog())  # makes its tables
        with closing(sqlite3.connect(self.database)) as session:
            session.execute("PRAGMA journal_mode=WAL")  # else a frozen process that reads would block all commits
        catalog = {f"iceberg.catalog.{name}": value for name, value in self._catalog().items()}
        # This process reads the metadata that it found some commits ago, which may be many on a busy machine.
        kept = {"iceberg.tables.auto-create-props.write.metadata.previous-versions-max": "1000"}
        self.own_config = {"connector.class": "IcebergSink", "iceberg.catalog.type": "sql", **catalog, **kept}

    def _catalog(self) -> dict[str, str]:
        return {"uri": f"sqlite:///{self.database}", "warehouse": self.warehouse.as_uri()}

    def table(self, kind: str) -> Table | None:
        try:
            return RememberingSqlCatalog("iceberg", **self._catalog()).load_table(f"shop.{kind}")
        except NoSuchTableError:
            return None

    def read(self, kind: str) -> pa.Table | None:
        table = self.table(kind)
        return None if table is None or table.metadata.current_snapshot_id is None else table.scan().to_arrow()

    def commits(self, kind: str) -> int:
        table = self.table(kind)
        return 0 if table is None else len(table.metadata.snapshots)

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


@contextmanager
def frozen(worker: OurWorkerProcess, lake: IcebergLake) -> Iterator[None]:
    """Stop a worker's process for at least twice the time that its groups wait for it.

    It does not hold the write lock of the catalog's SQLite file then, which would stop every other writer.
    """
    with lake.without_commits():
        os.kill(worker.pid, signal.SIGSTOP)
    frozen_s = time.monotonic()
    yield
    while time.monotonic() - frozen_s < 2 * SESSION_MS / 1000:
        time.sleep(0.1)
    os.kill(worker.pid, signal.SIGCONT)


def assert_every_record_once(lake: Lake, changes: Changes, logged: Callable[[], str]) -> None:
    until(lambda: len(lake.rows("appended")) >= changes.sent, LIMIT_S, f"every record in {lake.name}", logged)
    if "upserted" in lake.kinds:
        until(lambda: lake.rows("upserted") == changes.upserted(), LIMIT_S, f"last changes in {lake.name}", logged)
    repeated = Counter(lake.rows("appended")) - Counter(changes.appended())
    assert not repeated, logged()
    assert lake.rows("appended") == changes.appended()
    assert min(lake.commits(kind) for kind in lake.kinds) >= 10


def assert_duckdb_reads_the_same(lake: IcebergLake, kind: str) -> None:
    table = lake.table(kind)
    assert table is not None
    by_duckdb = duckdb_rows(table.metadata_location, "key, n", "key, n")
    assert [(row["key"], row["n"]) for row in by_duckdb] == lake.rows(kind)


def test_killed_and_frozen_workers_write_every_record_exactly_once(
    broker: EmbeddedKafka, s3: S3Server, tmp_path: Path
) -> None:
    group, servers = f"tables-{uuid.uuid4().hex[:8]}", broker.bootstrap_servers
    topic = f"{group}-changes"
    iceberg = IcebergLake(tmp_path / "iceberg")
    lakes: tuple[Lake, ...] = (iceberg, DeltaLake(tmp_path / "delta"), ObjectLake(s3, group))
    admin = KafkaAdmin({"bootstrap.servers": servers})
    admin.create_topic(TopicSpec(topic, PARTITIONS, 1, {}))
    admin.close()
    workers = [OurWorkerProcess(tmp_path / f"worker{number}", servers, group) for number in range(2)]
    changes = Changes(servers, topic)

    def logged() -> str:
        return "\n".join(worker.log_file.read_text(errors="replace")[-3000:] for worker in workers)

    def await_rows(lake: Lake, kind: str, least: int) -> None:
        until(lambda: len(lake.rows(kind)) >= least, LIMIT_S, f"{least} rows in {lake.name} {kind}", logged)

    def await_more_rows() -> None:
        before = [len(lake.rows("appended")) for lake in lakes]
        for lake, rows in zip(lakes, before, strict=True):
            await_rows(lake, "appended", rows + 500)

    with workers[0], workers[1]:
        outputs = [(lake, kind) for lake in lakes for kind in lake.kinds]
        for lake, kind in outputs:
            workers[0].rest.create(f"{group}-{lake.name}-{kind}", lake.config(kind, topic))
        changes.start()
        for lake, kind in outputs:
            await_rows(lake, kind, 500 if kind == "appended" else KEYS)

        with iceberg.without_commits():
            before = iceberg.data_files()
            until(lambda: len(iceberg.data_files() - before) >= 2, LIMIT_S, "files without a commit", logged)
            workers[0].kill()
            orphans = iceberg.data_files() - before
        workers[0].start()
        await_more_rows()
        assert orphans & iceberg.data_files(), "the kill left a data file without a commit"

        with frozen(workers[1], iceberg):
            await_more_rows()
        await_more_rows()

        changes.end()
        for lake in lakes:
            assert_every_record_once(lake, changes, logged)
        for kind in KINDS:
            assert_duckdb_reads_the_same(iceberg, kind)
        for worker in workers:
            assert worker.stop() == 0

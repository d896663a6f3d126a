"""A Java Connect group with three connectors is changed worker by worker into ours under load, and back. Counted.

Debezium source, Debezium's JDBC sink, a file source; ``connectrt migrate check`` says beforehand what becomes of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from tests.support.captured_database import PREFIX, CapturedDatabase, postgres_source
from tests.support.java_beside_ours import FAST, START_S
from tests.support.java_connect import JavaConnect
from tests.support.java_plugins import all_plugins
from tests.support.postgres_server import PostgresServer
from tests.support.sunk_tables import SunkTables
from tests.support.topic_content import Content, TopicReader
from tests.support.worker_process import SparkWorkerProcess, WorkerProcess

GROUP = "moving"
Row = tuple[int, str, str | None]  # id, name, note
ROWS = 2_000
LIMIT_S = 900
pytestmark = pytest.mark.timeout(6000)
DELAY = {"scheduled.rebalance.max.delay.ms": "1000"}


class Load:
    """Lines into a file, changes into a database, rows into a topic, all the time; counts what it made."""

    def __init__(self, file: Path, database: CapturedDatabase, tables: SunkTables) -> None:
        self.lines = self.rows = 0
        self._file, self._database, self._tables = file, database, tables
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.05):
            with self._file.open("a") as handle:
                handle.writelines(f"line {self.lines + more}\n" for more in range(10))
            self.lines += 10
            self._database.change(10)
            self._tables.upsert(self.rows, name=f"row {self.rows}")
            self._tables.flush()
            self.rows += 1


@pytest.fixture
def workers(broker: EmbeddedKafka, tmp_path: Path) -> Iterator[dict[str, WorkerProcess]]:
    properties = {"plugin.path": str(all_plugins(tmp_path / "plugins")), **FAST, **DELAY}
    made: dict[str, WorkerProcess] = {}
    for name in ("java-1", "java-2"):
        made[name] = JavaConnect(tmp_path / name, broker.bootstrap_servers, GROUP, properties=properties)
    for name in ("ours-1", "ours-2"):
        made[name] = SparkWorkerProcess(tmp_path / name, broker.bootstrap_servers, GROUP, properties=properties)
    yield made
    for worker in made.values():
        worker.stop()
        worker.rest.close()


def checked(file: Path) -> tuple[int, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, "-m", "spark_connect_rt", "migrate", "check", str(file), "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_a_group_moves_worker_by_worker_and_back(
    workers: dict[str, WorkerProcess], broker: EmbeddedKafka, postgres: PostgresServer, tmp_path: Path
) -> None:
    database = CapturedDatabase(postgres)
    database.fill(ROWS)
    tables = SunkTables(postgres, broker.bootstrap_servers, "moving-upserts")
    lines = tmp_path / "lines.txt"
    lines.touch()
    workers["java-1"].start(START_S)
    workers["java-2"].start(START_S)
    rest = workers["java-1"].rest
    file_source = {"connector.class": "FileStreamSource", "file": str(lines), "topic": "moving.lines"}
    rest.create("lines", file_source)
    rest.create("rows", tables.config("java"))
    rest.create("captured", postgres_source(database, "moving"))
    reader = TopicReader(broker.bootstrap_servers)
    with Load(lines, database, tables) as load:
        all_run(workers["java-1"])
        code, report = checked(tmp_path / "java-1" / "worker.properties")
        assert code == 0, report
        assert {connector["name"]: connector["runtime"] for connector in report["connectors"]} == {  # type: ignore[attr-defined]
            "captured": "java",
            "lines": "python",
            "rows": "java",
        }
        for gone, come in (("java-1", "ours-1"), ("java-2", "ours-2"), ("ours-1", "java-1"), ("ours-2", "java-2")):
            workers[come].start(START_S)
            all_run(workers[come])
            workers[gone].stop()
            all_run(workers[come])
    expect_all(load, reader, database, tables)
    reader.close()
    database.close()


def all_run(worker: WorkerProcess) -> None:
    for name in ("lines", "rows", "captured"):
        worker.rest.await_states(name, "RUNNING", ["RUNNING"], LIMIT_S)
    time.sleep(2)  # load goes on in this constellation


def expect_all(load: Load, reader: TopicReader, database: CapturedDatabase, tables: SunkTables) -> None:
    """Everything that was made has arrived: each line, each row once with its value, each key's last change."""
    key, deadline = database.mark(), time.monotonic() + LIMIT_S
    items = f"moving.{PREFIX}.public.items"
    while key not in reader.last_keys(items) or len(tables.rows("java")) < load.rows:
        assert time.monotonic() < deadline, f"{len(tables.rows('java'))} of {load.rows} rows"
        time.sleep(0.3)
    wanted = [f"line {number}".encode() for number in range(load.lines)]
    while len(found := {content.value for content in reader.read("moving.lines")}) < load.lines:
        assert time.monotonic() < deadline, f"{len(found)} of {load.lines} lines"
        time.sleep(0.3)
    assert found == set(wanted)
    assert tables.rows("java") == [(number, f"row {number}") for number in range(load.rows)]
    last, rows = last_rows(reader.each(items)), current_rows(database)
    assert {key: (last.get(key), row) for key, row in rows.items() if last.get(key) != row} == {}, "a change was lost"
    assert {key: row for key, row in last.items() if row is not None and key not in rows} == {}, "a delete was lost"
    assert any(row is None for row in last.values()), "rows were deleted"


def last_rows(records: Iterable[Content]) -> dict[bytes | None, Row | None]:
    """Return what each key's last record says of its row; None: it is deleted."""
    last = {record.key: record.value for record in records}
    return {key: _after(json.loads(value)) if value is not None else None for key, value in last.items()}


def _after(change: dict[str, Any]) -> Row | None:
    after = change["after"]
    return after and (after["id"], after["name"], after["note"])


def current_rows(database: CapturedDatabase) -> dict[bytes, Row]:
    """Return the table's rows by the keys of their records."""
    rows = cast("list[Row]", database.run("SELECT id, name, note FROM items"))
    return {b'{"id":%d}' % row[0]: row for row in rows}


def test_a_lost_update_or_delete_would_be_seen() -> None:
    def record(name: str | None) -> Content:
        after = {"id": 1, "name": name, "note": None} if name else None
        return Content(b"1", json.dumps({"op": "u" if name else "d", "after": after}).encode(), ())

    changed, deleted, tombstone = record("changed"), record(None), Content(b"1", None, ())
    assert last_rows([record("new"), changed]) == {b"1": (1, "changed", None)}
    assert last_rows([record("new")]) != last_rows([record("new"), changed])
    assert last_rows([changed, deleted]) == last_rows([changed, deleted, tombstone]) == {b"1": None}

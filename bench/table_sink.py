"""The whole task of a table sink, alone: no Kafka, no worker, no converters. CPU seconds of its process.

The task gets the batches that the engine gives it, gathers them, writes Parquet files and commits to a real catalog.

``appends``: rows of 10 columns, and texts of 100 random characters, committed by the sink's own limit of bytes.
``upserts``: a table of 10,000,000 keys (Delta: 1,000,000) is opened for upserts. ``start_s`` is that, with the first
commit. After two more, 10 commits of 50,000 changes of 10 columns are measured: 20 % of them of 500 keys, 10 %
deletions, 2 % new keys. ``index_bytes``: of memory a key.
``commits``: a commit of 100 rows to a table of 1,000 snapshots, none of which expires.
``partitions``: 10,000 table partitions in one commit, and how much memory that takes.
Delta has no index of keys and no snapshots that a commit reads, so it has appends and upserts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from bench.table_data import KEY, NAMES, ROW, TEXT_ROW, KeyedChanges, KeyedHistory, batches, rows, struct_of_rows, texts
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.records import SinkBatch
from spark_connect_rt.api.task import NoPluginMetrics, SinkTaskContext
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.connectors.lakehouse.delta_sink import DeltaSinkTask
from spark_connect_rt.connectors.lakehouse.iceberg_sink import IcebergSinkTask
from spark_connect_rt.connectors.lakehouse.sink_task import TableSinkTask

PLACE = TopicPartition("t", 0)
TABLE = "bench.rows"
NEVER_MS = 10**9  # only the limit of bytes, and the end, commit
PARTS = ("appends", "upserts", "commits", "partitions")
ID_COLUMNS = "iceberg.tables.default-id-columns"
WARM, COMMITS, CHANGES = 3, 10, 50_000
KEYS = {"iceberg": 10_000_000, "delta": 1_000_000}
SNAPSHOTS = 1_000


def measured(part: str, table_format: str, short: bool) -> dict[str, Any]:
    """Return the figures of a part, measured in a separate process."""
    command = [sys.executable, "-m", "bench.table_sink", part, table_format, "short" if short else "long"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1])
    assert done.returncode == 0, done.stderr[-2000:]
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return figures


class _Context:
    """The part of a worker that table sinks ask: it has read nothing so far, and its brokers know every topic."""

    metrics = NoPluginMetrics()

    def positions(self) -> Mapping[TopicPartition, int]:
        return {PLACE: 0}

    def topic_ids(self, topics: Collection[str]) -> Mapping[str, str]:
        return dict.fromkeys(topics, "id")

    def partition_counts(self, topics: Collection[str]) -> Mapping[str, int]:
        return dict.fromkeys(topics, 1)

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict.fromkeys(partitions, 1 << 40)

    def offset(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Do nothing: the benchmark itself sends each record once."""


class Sink:
    """A table sink's task on a table in a folder."""

    def __init__(self, folder: Path, table_format: str, more: Mapping[str, str] | None = None) -> None:
        """Start the task. `more`: its settings, besides those of the table."""
        self.folder = folder
        self._format = table_format
        self._offset = 0
        self.now_ms = 0
        tasks: dict[str, type[TableSinkTask]] = {"iceberg": IcebergSinkTask, "delta": DeltaSinkTask}
        self.task = tasks[table_format](lambda: self.now_ms, lambda wait_ms: None)
        self.task.context = cast(SinkTaskContext, _Context())
        self.task.start({**self.settings(), **(more or {})})
        self.task.open([PLACE])

    def settings(self) -> dict[str, str]:
        """Return the settings of the table."""
        found = {
            "name": "bench",
            "topics": PLACE.topic,
            "tasks.max": "1",
            "iceberg.tables": TABLE,
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.control.commit.interval-ms": str(NEVER_MS),
        }
        if self._format == "delta":
            return {**found, "delta.root": str(self.folder / "delta")}
        return {
            **found,
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{self.folder / 'catalog.db'}",
            "iceberg.catalog.warehouse": (self.folder / "warehouse").as_uri(),
        }

    def batch(
        self, values: pa.Array, schema: Schema, keys: pa.Array | None = None, key_schema: Schema | None = None
    ) -> SinkBatch:
        """Return the next records of the topic."""
        first, self._offset = self._offset, self._offset + len(values)
        offsets = pa.array(np.arange(first, self._offset))
        return SinkBatch(PLACE.topic, PLACE.partition, offsets, values, schema, keys, key_schema)

    def put(self, given: Sequence[SinkBatch]) -> None:
        """Hand batches to the task."""
        for batch in given:
            assert self.task.put_batch(batch), "the records went one by one"

    def commit(self) -> None:
        """Have the interval end, and commit everything."""
        self.now_ms += NEVER_MS
        self.task.put([])
        assert self.task.pre_commit({PLACE: self._offset}) == {PLACE: self._offset}

    def close(self) -> None:
        """Stop the task."""
        self.task.close([PLACE])
        self.task.stop()


def live_rows(folder: Path, table_format: str) -> tuple[int, int, int]:
    """Return how many rows a table has, the sums of their ids and versions, by a reader that is not the sink."""
    names = ["id", "version"]
    if table_format == "delta":
        found = DeltaTable(str(folder / "delta" / TABLE.replace(".", "/"))).to_pyarrow_table(columns=names)
    else:
        found = _pyiceberg(folder).scan(selected_fields=tuple(names)).to_arrow()
    return found.num_rows, int(pc.sum(found["id"]).as_py()), int(pc.sum(found["version"]).as_py())


def _count_rows(folder: Path, table_format: str) -> int:
    if table_format == "delta":
        return int(DeltaTable(str(folder / "delta" / TABLE.replace(".", "/"))).to_pyarrow_dataset().count_rows())
    return int(_pyiceberg(folder).scan().count())


def _pyiceberg(folder: Path) -> Table:
    warehouse = (folder / "warehouse").as_uri()
    return SqlCatalog("iceberg", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=warehouse).load_table(TABLE)


def _appends(folder: Path, table_format: str, short: bool) -> dict[str, Any]:
    count = 20_000 if short else 1_500_000
    found: dict[str, Any] = {}
    for name in ("texts", "rows"):
        values, schema = (
            (pa.StructArray.from_arrays([texts(count)], ["text"]), TEXT_ROW)
            if name == "texts"
            else (struct_of_rows(rows(count)), ROW)
        )
        best = float("inf")
        for number in range(1 if short else 3):
            own = folder / f"{name}-{number}"
            own.mkdir()
            sink = Sink(own, table_format)
            given = batches(sink.batch(values, schema))
            began = time.process_time()
            sink.put(given)
            sink.commit()
            best = min(best, time.process_time() - began)
            assert _count_rows(own, table_format) == count
            sink.close()
        found[f"append_{name}"] = round(count / best)
    return found


class _Memory:
    """How much the process grows at most from here on.

    `ru_maxrss` does not say it: a process begins with the highest value of its parent.
    """

    def __init__(self) -> None:
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        self._before_kib = _status_kib("VmRSS")

    def grown_mib(self) -> int:
        return (_status_kib("VmHWM") - self._before_kib) >> 10


def _status_kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def _upserts(folder: Path, table_format: str, short: bool) -> dict[str, Any]:
    keys, changes = (50_000, 2_000) if short else (KEYS[table_format], CHANGES)
    history = KeyedHistory(keys, changes)
    loader = Sink(folder, table_format, {ID_COLUMNS: "id"})
    for columns in history.first_rows():
        loader.put(batches(loader.batch(struct_of_rows(columns), ROW)))
    loader.commit()
    loader.close()
    memory = _Memory()
    sink = Sink(folder, table_format, {ID_COLUMNS: "id", "iceberg.tables.upsert-mode-enabled": "true", "name": "keyed"})
    found: dict[str, Any] = {}
    elapsed = 0.0
    for number in range(WARM + COMMITS):  # the first one also reads the table's keys
        given = _keyed_batches(sink, history.next())
        began = time.process_time()
        sink.put(given)
        sink.commit()
        cpu_s = time.process_time() - began
        elapsed += cpu_s if number >= WARM else 0.0
        found.setdefault("start_s", round(cpu_s, 2))
    found["upserts"] = round(COMMITS * changes / elapsed)
    keyed = next(iter(sink.task._tables.values())).keyed
    if table_format == "iceberg":
        assert keyed is not None
        assert keyed._index is not None
        found["index_bytes"] = round(keyed._index.memory_bytes / len(keyed), 1)
        found["index_disk"] = round(keyed._index.disk_bytes / len(keyed), 1)
    found["grown_mib"] = memory.grown_mib()
    sink.close()
    assert live_rows(folder, table_format) == history.live()
    return found


def _keyed_batches(sink: Sink, changes: KeyedChanges) -> list[SinkBatch]:
    """Return changes as the records of a topic with keys: a deletion has no value."""
    values = struct_of_rows(rows(len(changes.ids), changes.ids, changes.versions))
    deletes = pa.array(changes.deletes)
    values = pa.StructArray.from_arrays(values.flatten(), list(NAMES), mask=deletes)
    keys = pa.StructArray.from_arrays([pa.array(changes.ids)], ["id"])
    return batches(sink.batch(values, ROW, keys, KEY))


def _commits(folder: Path, table_format: str, short: bool) -> dict[str, Any]:
    """Return the CPU of a commit, of the first 20 and of those after SNAPSHOTS."""
    snapshots, last = (20, 5) if short else (SNAPSHOTS, 20)
    sink = Sink(folder, table_format, {"connectrt.table.snapshots.keep": "0", "connectrt.table.compact.files": "0"})
    values = struct_of_rows(rows(100))
    costs = []
    for _ in range(snapshots + last):
        given = [sink.batch(values, ROW)]
        began = time.process_time()
        sink.put(given)
        sink.commit()
        costs.append(time.process_time() - began)
    sink.close()
    early, late = np.median(costs[2:22]) * 1000, np.median(costs[-last:]) * 1000
    return {"commit_ms": round(float(early), 1), "commit_1000_ms": round(float(late), 1)}


def _partitions(folder: Path, table_format: str, short: bool) -> dict[str, Any]:
    """Return the memory that a commit to many table partitions takes, and its rows a CPU second."""
    count, partitions = (20_000, 100) if short else (1_000_000, 10_000)
    sink = Sink(folder, table_format, {"iceberg.tables.default-partition-by": "count"})
    columns = rows(count)
    columns[NAMES.index("count")] = pa.array(np.arange(count) % partitions, pa.int32())
    given = batches(sink.batch(struct_of_rows(columns), ROW))
    began, memory = time.process_time(), _Memory()
    sink.put(given)
    sink.commit()
    elapsed = time.process_time() - began
    grown = memory.grown_mib()
    assert _count_rows(folder, table_format) == count
    sink.close()
    return {"partition_rows": round(count / elapsed), "partition_mib": grown}


def figures_of(part: str, folder: Path, table_format: str, short: bool) -> dict[str, Any]:
    """Measure a part with tables below an empty folder. Raises AssertionError if a table does not have the rows."""
    works = {"appends": _appends, "upserts": _upserts, "commits": _commits, "partitions": _partitions}
    return works[part](folder, table_format, short)


if __name__ == "__main__":
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory(prefix="connectrt-bench-") as name:
        print(json.dumps(figures_of(sys.argv[1], Path(name), sys.argv[2], sys.argv[3] == "short")))

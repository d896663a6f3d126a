"""Kafka -> Iceberg table: IcebergSink and Apache Iceberg's Java sink in Java Connect, in turns, one task each.

Four topics: strings of 100 characters, and rows of 10 columns as JSON without schema, JSON with schema, and Avro. Both
sinks commit every 5 seconds. A run counts from the request that creates the connector until every row is in a snapshot,
with the CPU seconds of all processes of the worker. It is ``exact`` if pyiceberg counts the rows that were produced in
the table, and DuckDB finds the same sum of their hashes in its files.

``rows_per_cpu_s`` is that of all four topics together. The sides alternate topic by topic, and the ratio of a topic is
the median of the ratios of its turns. The runs named ``own thread`` have no Kafka and no worker: see
bench/table_sink.py. Java's catalog is one of files, which pyiceberg does not have. Ours is SQLite.

Both workers commit the group's offsets each second. Java's sink hears of commits only when it is given records, or when
that interval ends: with the default of a minute it waits for it at the end of a topic (apache/iceberg#17593).
"""

from __future__ import annotations

import json
import sqlite3
import statistics
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
from pyiceberg.table import StaticTable

from bench import table_sink
from bench.lab import Lab
from bench.lake_forms import AVRO_CONVERTER, ContentRegistry, Contents, Given, contents_of, fill_topics
from bench.process_cost import CpuMeter
from bench.report import Result, Run
from tests.support.java_plugins import iceberg_folder, plugin_folder
from tests.support.worker_process import WorkerProcess

TARGET = 3.0  # times Java's rows a CPU second, of each form
INTERVAL_MS = 5_000
RUN_LIMIT_S = 600.0
AVRO_IN_JAVA = "io.apicurio:apicurio-registry-utils-converter:2.6.13.Final"
START_LIMIT_S = 600.0
FLUSH_MS = "1000"
LEAST: Mapping[str, tuple[str, float]] = {
    "append_texts": ("strings appended a CPU second, own thread", 400_000),
    "append_rows": ("rows of 10 columns appended a CPU second, own thread", 250_000),
    "upserts": ("changes a CPU second on a table of 10,000,000 keys", 150_000),
}
MOST: Mapping[str, tuple[str, float]] = {
    "index_bytes": ("bytes of memory a key", 64),
    "start_s": ("CPU s of the start on that table, with its first commit", 30),
    "commit_1000_ms": ("CPU ms of a commit at 1,000 snapshots", 100),
    "partition_mib": ("MiB of a commit to 10,000 partitions", 512),
}
OWN = "own thread"


def run(lab: Lab, short: bool) -> Result:
    """Have both fill tables from the four topics in turns, then measure the sink's own thread."""
    result = Result("iceberg", "rows of four topics a CPU second", "rows_per_cpu_s", True, f">={TARGET}_each_form")
    plugins = lab.folder / "iceberg-plugins"
    iceberg_folder(plugins)
    _avro_folder(plugins)
    with ContentRegistry() as registry:
        given = fill_topics(lab, registry, *((20_000, 5_000) if short else (3_000_000, 3_000_000)))
        _take_turns(result, lab, short, plugins, given)
    result.conclude()
    forms = {item.form: _paired(result, item.form) for item in given}
    for form, ratio in forms.items():
        result.note_ratio(f"rows a CPU second, {form}", ratio)
    result.note_ratio("rows a second, counted from the create request", result.ratio_of("rows_per_s"))
    exact = all(run.figures.get("exact", True) for run in result.runs)
    if not exact:
        result.notes.append("NOT EXACT: a table does not have the rows that were produced (see the runs)")
    own = _own_thread(result, short)
    result.met = exact and own and all(ratio is not None and ratio >= TARGET for ratio in forms.values())
    result.notes += lab.complaints
    for item in given:
        lab.delete_topic(item.topic)
    return result


def _paired(result: Result, figure: str) -> float | None:
    """Return the median of the ratios of ours to Java's, each of two runs that followed each other."""
    ratios = [
        ours / java for ours, java in zip(result.values("ours", figure), result.values("java", figure), strict=False)
    ]
    return statistics.median(ratios) if ratios else None


def _avro_folder(plugins: Path) -> None:
    """Make the folder of Java's Avro converter, with the service file that its jar lacks."""
    folder = plugin_folder(plugins, "avro", AVRO_IN_JAVA)
    with zipfile.ZipFile(folder / "services.jar", "w") as jar:
        jar.writestr("META-INF/services/org.apache.kafka.connect.storage.Converter", f"{AVRO_CONVERTER}\n")


def _take_turns(result: Result, lab: Lab, short: bool, plugins: Path, given: list[Given]) -> None:
    java = lab.java(plugin_path=str(plugins), plugin_discovery="service_load", offset_flush_interval_ms=FLUSH_MS)
    java.start(START_LIMIT_S)
    ours = lab.side("ours", offset_flush_interval_ms=FLUSH_MS)
    sides = [("java", java), *([("ours", ours)] if ours is not None else [])]
    if not short:
        result.runs += _turn(lab, [(f"{who} (warm-up)", worker) for who, worker in sides], given)
    for turn in range(1 if short else 4):
        control = [("java (control)", java)] if 0 < turn < 3 else []
        result.runs += _turn(lab, [*control, *sides], given)
    java.stop()
    if ours is not None:
        lab.done_with(ours)


def _turn(lab: Lab, sides: Sequence[tuple[str, WorkerProcess]], given: list[Given]) -> list[Run]:
    """Have each side fill a table from each topic; sides alternate, because a machine changes within minutes."""
    fills: dict[str, list[dict[str, Any]]] = {who: [] for who, _ in sides}
    for item in given:
        for who, worker in sides:
            table = _Table(lab, "java" if who.startswith("java") else "ours", lab.fresh("lake").replace("-", "_"))
            fills[who].append(table.fill(worker, item))
    return [_run_of(who, given, figures) for who, figures in fills.items()]


def _run_of(who: str, given: list[Given], fills: list[dict[str, Any]]) -> Run:
    rows, cpu_s = sum(item.contents.rows for item in given), sum(fill["cpu_s"] for fill in fills)
    figures = {
        "rows_per_cpu_s": round(rows / cpu_s),
        "rows_per_s": round(rows / sum(fill["wall_s"] for fill in fills)),
        **{item.form: round(item.contents.rows / fill["cpu_s"]) for item, fill in zip(given, fills, strict=True)},
        "cpu_s": round(cpu_s, 1),
        "exact": all(fill["exact"] for fill in fills),
    }
    return Run(who, figures)


class _Table:
    """A table that a connector fills."""

    def __init__(self, lab: Lab, side: str, name: str) -> None:
        self._lab, self._side, self._name = lab, side, name
        self._warehouse = lab.folder / f"warehouse-{name}"
        self._database = lab.folder / f"{name}.db"

    def fill(self, worker: WorkerProcess, given: Given) -> dict[str, Any]:
        """Have a worker fill the table, and delete the connector afterwards."""
        limit = time.monotonic() + RUN_LIMIT_S
        with CpuMeter(worker.processes) as meter:
            began = time.monotonic()
            worker.rest.create(self._name, self._config(given))
            while self._rows() < given.contents.rows and time.monotonic() < limit:
                time.sleep(0.05)
            wall_s = time.monotonic() - began
        worker.rest.delete(self._name)
        location = self._metadata_location()
        assert location is not None, f"{self._side}: no table after {wall_s:.0f} s; see {worker.log_file}"
        exact = _contents(location, given.sql) == given.contents
        return {"cpu_s": meter.used_s, "wall_s": wall_s, "exact": exact}

    def _config(self, given: Given) -> dict[str, str]:
        common = {
            "topics": given.topic,
            "tasks.max": "1",
            "iceberg.tables": f"bench.{self._name}",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",  # a field may be null in the first records
            "iceberg.control.commit.interval-ms": str(INTERVAL_MS),
            "iceberg.catalog.warehouse": self._warehouse.as_uri(),
            **given.settings,
            **given.of_side.get(self._side, {}),
        }
        if self._side == "java":
            control = f"control-{self._name}"
            self._lab.create_topic(control)
            return {
                **common,
                "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
                "iceberg.catalog.type": "hadoop",
                "iceberg.control.topic": control,
                "iceberg.kafka.bootstrap.servers": self._lab.bootstrap_servers,
            }
        return {
            **common,
            "connector.class": "IcebergSink",
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{self._database}",
        }

    def _metadata_location(self) -> str | None:
        """Return the newest metadata file of the table, None: there is no table yet."""
        if self._side == "java":
            folder = self._warehouse / "bench" / self._name / "metadata"
            hint = folder / "version-hint.text"
            return str(folder / f"v{hint.read_text().strip()}.metadata.json") if hint.exists() else None
        if not self._database.exists():
            return None
        with closing(sqlite3.connect(f"file:{self._database}?mode=ro", uri=True, timeout=30)) as database:
            try:
                found = database.execute("select metadata_location from iceberg_tables").fetchone()
            except sqlite3.OperationalError:  # the catalog is being made
                return None
        return None if found is None else str(found[0]).removeprefix("file://")

    def _rows(self) -> int:
        """Return how many rows the newest snapshot has, as its summary says."""
        try:
            location = self._metadata_location()
            metadata = {} if location is None else json.loads(Path(location).read_text(encoding="utf-8"))
        except (OSError, ValueError):  # replaced meanwhile
            return 0
        current = metadata.get("current-snapshot-id")
        for snapshot in metadata.get("snapshots", []):
            if snapshot["snapshot-id"] == current:
                return int(snapshot["summary"].get("total-records", 0))
        return 0


def _contents(metadata_location: str, sql: str) -> Contents | None:
    """Return the contents by DuckDB if pyiceberg counts as many rows, else None."""
    table = StaticTable.from_metadata(metadata_location)
    files = [task.file.file_path.removeprefix("file://").removeprefix("file:") for task in table.scan().plan_files()]
    with closing(duckdb.connect()) as session:
        found = contents_of(f"read_parquet({files!r}, union_by_name = true)", sql, session)
    return found if table.scan().count() == found.rows else None


def _own_thread(result: Result, short: bool) -> bool:
    """Measure the sink's task alone, note each target, and return whether all are met."""
    for _ in range(1 if short else 3):
        figures: dict[str, Any] = {}
        for part in table_sink.PARTS:
            figures |= table_sink.measured(part, "iceberg", short)
        result.runs.append(Run(OWN, figures))
    return all([*_noted(result, LEAST, "at least", lambda found, wanted: found >= wanted),
                *_noted(result, MOST, "at most", lambda found, wanted: found <= wanted)])  # fmt: skip


def _noted(
    result: Result, targets: Mapping[str, tuple[str, float]], word: str, is_met: Callable[[float, float], bool]
) -> list[bool]:
    outcome = []
    for figure, (what, wanted) in targets.items():
        found = result.median(OWN, figure)
        met = found is not None and is_met(found, wanted)
        outcome.append(met)
        result.notes.append(f"{what}: {found:,.0f}, target {word} {wanted:,.0f}: {'met' if met else 'MISSED'}")
    return outcome

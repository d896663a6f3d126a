"""Changes by key in a Delta table: the task of DeltaSink, and Spark's own MERGE in ``foreachBatch``.

A table of 1,000,000 keys and 10 columns gets commits of 50,000 changes each, from the same history of changes. Three
commits warm up, ten are measured, in CPU seconds of all processes of a side: Python alone for ours, Python and the JVM
for Spark. A run is ``exact`` if delta-rs reads the rows of the history from the table. Appends are ours only.

Spark gets the changes as Parquet files, one in each micro-batch, so neither side reads from Kafka. It has a
separate environment with Spark 4.1, because Delta Lake has no release for newer ones.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from bench import table_sink
from bench.delta_spark import SPARK, TABLE_FOLDER, changes_file
from bench.lab import Lab
from bench.report import Result, Run
from bench.table_data import NAMES, KeyedHistory, rows
from spark_connect_rt.base.cache import resolve_jars
from tests.suite import other_spark

COORDINATES = ("io.delta:delta-spark_4.1_2.13:4.4.0",)
TARGET = 1.0
ROOT = Path(__file__).parents[1]


def run(lab: Lab, short: bool) -> Result:
    """Measure both in turns, three times."""
    target = f">={TARGET}xSpark"
    result = Result("delta", "changes of 10 columns a CPU second, merged by key", "upserts", True, target)
    python = other_spark.environment(SPARK)
    jars = [jar for jar in resolve_jars(COORDINATES) if jar.name.startswith("delta-")]
    for _ in range(1 if short else 3):
        result.runs.append(Run("spark", _spark(python, jars, short)))
        figures: dict[str, Any] = {}
        for part in ("appends", "upserts"):
            figures |= table_sink.measured(part, "delta", short)
        result.runs.append(Run("ours", {**figures, "exact": True}))  # the part itself compares the rows
    result.conclude()
    ours, spark = result.median("ours"), result.median("spark")
    ratio = ours / spark if ours and spark else None
    result.note_ratio("changes a CPU second, ours to Spark's foreachBatch MERGE", ratio)
    result.met = (ratio or 0) >= TARGET and all(run.figures["exact"] for run in result.runs)
    return result


def _spark(python: Path, jars: list[Path], short: bool) -> dict[str, Any]:
    keys, changes = (50_000, 2_000) if short else (table_sink.KEYS["delta"], table_sink.CHANGES)
    history = KeyedHistory(keys, changes)
    with tempfile.TemporaryDirectory(prefix="connectrt-bench-") as name:
        folder = Path(name)
        for columns in history.first_rows():
            write_deltalake(folder / TABLE_FOLDER, pa.table(columns, names=list(NAMES)), mode="append")
        commits = table_sink.WARM + table_sink.COMMITS
        for number in range(commits):
            changed = history.next()
            columns = [*rows(changes, changed.ids, changed.versions), pa.array(changed.deletes)]
            table = pa.table([*columns, pa.array(range(changes))], names=[*NAMES, "deleted", "offset"])
            file = changes_file(folder, number)
            file.parent.mkdir(exist_ok=True)
            pq.write_table(table, file)
        # -P: else modules next to the script, such as profile.py, replace those of Python.
        command = [str(python), "-P", str(ROOT / "bench" / "delta_spark.py"), name, str(table_sink.WARM), str(commits)]
        done = subprocess.run([*command, *map(str, jars)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
        cpu_s = float(json.loads(done.stdout.splitlines()[-1])["cpu_s"])
        found = DeltaTable(folder / TABLE_FOLDER).to_pyarrow_table(columns=["id", "version"])
        live = found.num_rows, sum(found["id"].to_pylist()), sum(found["version"].to_pylist())
    return {"upserts": round(table_sink.COMMITS * changes / cpu_s), "exact": live == history.live()}

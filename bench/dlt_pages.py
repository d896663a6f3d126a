"""DltSource beside dlt's own pipeline: the same pages, as Arrow and as dicts; ``python -m bench.dlt_pages [ROWS]``.

No Kafka, no worker: ours polls the task and converts to JSON without schemas, dlt's pipeline extracts, normalizes and
loads to files of its ``filesystem`` destination. Each side in a process of its own, after a first small run; CPU is the
whole process's and its children's. Three times in turns; the medians are printed.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

ROWS, PAGE, WARM = 500_000, 5_000, 10_000
SIDES = ("ours arrow", "ours dicts", "ours dicts schemaless", "dlt arrow", "dlt dicts")
KINDS = ("arrow", "dicts")
START, SECOND = dt.datetime(2026, 1, 1, tzinfo=dt.UTC), dt.timedelta(seconds=1)


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """Return rows of six columns."""
    return [
        {
            "id": n,
            "name": f"customer {n}",
            "city": "Berlin",
            "amount": n / 8,
            "active": n % 2 == 0,
            "at": START + n * SECOND,
        }
        for n in range(first, first + count)
    ]


def pages(kind: str, count: int) -> Iterator[Any]:
    """Yield pages that are made before the clock starts: what a source costs is not asked here."""
    page = rows(0, PAGE)
    piece = pa.Table.from_pylist(page) if kind == "arrow" else page
    for _ in range(count // PAGE):
        yield piece


def _resources() -> dict[str, Any]:
    import dlt

    def resource_of(kind: str) -> Any:
        return dlt.resource(lambda count: pages(kind, count), name=kind)

    return {kind: resource_of(kind) for kind in KINDS}


if __name__ != "__main__":
    arrow, dicts = _resources().values()


def ours(kind: str, count: int, schemaless: bool) -> int:
    """Poll and convert; return the records."""
    from spark_connect_rt.connectors.python_sources.dlt_source import DltSourceConnector, DltSourceTask
    from spark_connect_rt.plugins.bundled_plugins import bundled_plugins
    from spark_connect_rt.records.pipeline.source_pipeline import SourcePipeline
    from spark_connect_rt.testing.connector_harness import PLAIN_JSON, MemoryOffsets

    config = {
        "dlt.source": f"bench.dlt_pages:{kind}",
        "dlt.arguments": json.dumps({"count": count}),
        "dlt.schemas": "none" if schemaless else "infer",
        "poll.interval.ms": "-1",
    }
    connector, task = DltSourceConnector(), DltSourceTask()
    connector.start(config)
    pipeline = SourcePipeline.from_config(config, PLAIN_JSON, bundled_plugins().class_of)
    task.context = type("Context", (), {"offset_reader": MemoryOffsets(), "transaction_context": None})()
    task.start(connector.task_configs(1)[0])
    found = 0
    while True:
        polled = task.poll() or ()
        found += sum(batch.records for batch in pipeline.convert(polled))
        if not polled and not task.has_more():
            return found


def theirs(kind: str, count: int, folder: Path) -> int:
    """Run dlt's pipeline; return the rows it says it loaded."""
    import dlt

    destination = dlt.destinations.filesystem(bucket_url=folder.as_uri())
    pipeline = dlt.pipeline(f"b{count}", pipelines_dir=str(folder / "p"), destination=destination, dataset_name="d")
    pipeline.run(
        (arrow if kind == "arrow" else dicts)(count), loader_file_format="parquet" if kind == "arrow" else None
    )
    return int(pipeline.last_trace.last_normalize_info.row_counts[kind])


def side(name: str, count: int) -> dict[str, float]:
    """Measure one side in this process."""
    who, kind, *more = name.split()
    with tempfile.TemporaryDirectory() as folder:

        def run(rows: int) -> int:
            return ours(kind, rows, bool(more)) if who == "ours" else theirs(kind, rows, Path(folder))

        run(WARM)
        before, cpu = time.perf_counter(), os.times()
        found = run(count)
        after, wall_s = os.times(), time.perf_counter() - before
    assert found == count, f"{found} of {count}"
    cpu_s = sum(after[:4]) - sum(cpu[:4])
    return {"records_per_s": count / wall_s, "cpu_us": 1e6 * cpu_s / count}


def main() -> None:
    """Run every side three times in turns, and print medians."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    found: dict[str, list[dict[str, float]]] = {name: [] for name in SIDES}
    for _ in range(3):
        for name in SIDES:
            command = [sys.executable, "-m", "bench.dlt_pages", "--side", name, str(count)]
            environment = {**os.environ, "RUNTIME__DLTHUB_TELEMETRY": "false", "RUNTIME__LOG_LEVEL": "CRITICAL"}
            text = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
            found[name].append(json.loads(text.splitlines()[-1]))
    for name, runs in found.items():
        rate, cpu = (statistics.median(run[key] for run in runs) for key in ("records_per_s", "cpu_us"))
        print(f"{name:24} {rate:12,.0f} records/s {cpu:8.2f} CPU us a record")


if __name__ == "__main__":
    if "--side" in sys.argv:
        at = sys.argv.index("--side")
        from bench.dlt_pages import side as measured  # the module that the source is named by

        print(json.dumps(measured(sys.argv[at + 1], int(sys.argv[at + 2]))))
    else:
        main()

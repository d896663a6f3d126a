"""Writes rows to an Iceberg table of many partitions in a separate process, and measures the memory of it.

Run as ``python -m tests.support.many_partitions FOLDER PARTITIONS COMMITS UPSERT``. Prints JSON: the greatest resident
memory of the process in MiB, before the first record and at the end, and the rows and files of the table.
"""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from spark_connect_rt.connectors.lakehouse.iceberg_sink import IcebergSinkConnector
from spark_connect_rt.testing.sink_harness import SinkHarness

TOPIC, NAME, TEXT = "orders", "shop.orders", "x" * 40


def peak_mib() -> int:
    """Return the greatest resident memory of this process so far, MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def main(folder: str, partitions: str, commits: str, upsert: str) -> None:
    """Write one row to each partition in each commit, and print the figures."""
    catalog = {
        "uri": f"sqlite:///{Path(folder) / 'catalog.db'}",
        "warehouse": (Path(folder) / "warehouse").as_uri(),
    }
    config = {
        "name": "lake-sink",
        "topics": TOPIC,
        "iceberg.tables": NAME,
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.tables.default-partition-by": "part",
        "iceberg.tables.default-id-columns": "id",
        "iceberg.tables.upsert-mode-enabled": upsert,
        "iceberg.control.commit.interval-ms": "3600000",
        "connectrt.table.compact.files": "0",
        "iceberg.catalog.type": "sql",
        **{f"iceberg.catalog.{name}": value for name, value in catalog.items()},
    }
    count = int(partitions)
    with SinkHarness(IcebergSinkConnector, config) as sink:
        before = peak_mib()
        for number in range(int(commits)):
            for part in range(count):
                sink.send(TOPIC, {"id": part, "part": part, "commit": number, "text": TEXT})
            sink.deliver()
            task: Any = sink.task
            task._commit(600_000)
        peak = peak_mib()
    table = SqlCatalog("iceberg", **catalog).load_table(NAME)
    scan = table.scan()
    files = len(list(scan.plan_files()))
    summary: Any = table.current_snapshot()
    deletes = int(summary.summary.additional_properties.get("total-delete-files", 0))
    print(json.dumps({"before": before, "peak": peak, "rows": scan.count(), "files": files, "deletes": deletes}))


if __name__ == "__main__":
    main(*sys.argv[1:])

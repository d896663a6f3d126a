"""The README's first command after a kill -9. The same of a worker's own processes is in tests/e2e/test_worker.py."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from spark_connect_rt.app.quickstart.embedded_kafka import free_ports
from tests.e2e.commands import get_json, launch, run, until
from tests.e2e.test_quickstart import FLIGHTS, quickstart, quickstart_folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with quickstart_folder(tmp_path) as made:
        yield made


def test_kill_9_in_mid_run_then_again_loses_nothing_and_duplicates_are_counted(folder: Path) -> None:
    (port,) = free_ports(1)
    folder.mkdir()
    victim = launch(quickstart(folder, port), folder / "first.log")

    def moved() -> int:
        progress = get_json(f"http://127.0.0.1:{port}/admin/progress")
        tasks = progress["tasks"] if isinstance(progress, dict) else []
        return max((int(task["records"]) for task in tasks), default=0)

    until(lambda: moved() > 0, 120, "the source moves records", lambda: (folder / "first.log").read_text()[-2000:])
    os.kill(victim.pid, signal.SIGKILL)
    victim.wait()

    again = run(quickstart(folder, port))
    table = pq.read_table(folder / "flights.table").to_pandas(ignore_metadata=True)
    keys = ["year", "month", "day", "sched_dep_time", "carrier", "flight", "origin", "dest", "tailnum", "time_hour"]
    duplicates = len(table) - FLIGHTS
    distinct = table.drop_duplicates(keys)
    print(f"rows {len(table)}, duplicates {duplicates}")
    assert len(distinct) == distinct_flights(folder, keys), again.stdout + again.stderr
    assert duplicates >= 0
    # A source repeats at most what it produced since its last committed offset: see the page on delivery guarantees.
    assert duplicates < FLIGHTS
    assert again.returncode == (1 if duplicates else 0), again.stdout + again.stderr


def distinct_flights(folder: Path, keys: list[str]) -> int:
    import pandas as pd

    return len(pd.read_csv(folder / "flights.csv", usecols=keys, na_values=["NA"], low_memory=False).drop_duplicates())

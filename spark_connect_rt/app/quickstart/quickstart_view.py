"""What the quickstart shows: a live table while it runs, a report when it is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from spark_connect_rt.app.quickstart.quickstart_connectors import SINK, SOURCE, TOPIC


@dataclass(frozen=True, slots=True)
class Counts:
    """What one run moved and what the table holds; carriers: (code, flights, mean departure delay in minutes)."""

    csv_rows: int
    table_rows: int
    moved_to_topic: int
    moved_to_table: int
    carriers: tuple[tuple[str, int, float], ...]


def progress_table(progress: Mapping[str, Any], _now_s: float) -> Table:
    """Return a table of this worker's connectors and tasks."""
    table = Table(title=f"{progress.get('worker_id', '')}  generation {progress.get('generation', '-')}")
    for column in ("task", "state", "records", "records/s", "lag", "skipped"):
        table.add_column(column, justify="left" if column in ("task", "state") else "right")
    for task in progress.get("tasks", []):
        lag = task.get("lag")
        table.add_row(
            f"{task['task']['connector']}-{task['task']['task']}",
            task["state"],
            f"{task['records']:,}",
            f"{task['records_per_s']:,.0f}",
            "-" if lag is None else f"{lag:,}",
            str(task["skipped"]),
        )
    return table


def final_report(
    console: Console, counts: Counts, url: str, bootstrap: str, table: Path, csv: Path, keep: bool
) -> bool:
    """Print the outcome; return whether the counts agree. ``keep``: worker and broker stay up."""
    if counts.moved_to_topic == 0:
        console.print("read 0 new records: the committed offset is at the end of the file")
    else:
        console.print(f"moved {counts.moved_to_topic:,} new records into topic {TOPIC}")
    console.print(f"appended {counts.moved_to_table:,} rows to the table {table}")
    carriers = Table(title="flights and mean departure delay per carrier")
    for column in ("carrier", "flights", "mean delay, min"):
        carriers.add_column(column, justify="left" if column == "carrier" else "right")
    for code, flights, delay in counts.carriers:
        carriers.add_row(code, f"{flights:,}", f"{delay:.1f}")
    console.print(carriers)
    agree = counts.table_rows == counts.csv_rows
    console.print(f"rows in the table: {counts.table_rows:,}   rows in the file: {counts.csv_rows:,}")
    if not agree:
        more = counts.table_rows > counts.csv_rows
        console.print(
            "the counts disagree: "
            + ("some records came twice (a crash between produce and offset commit)" if more else "rows are missing")
        )
    console.print("where to look next")
    asked = [
        f"{url}console in a browser",
        f"curl {url}connectors/{SOURCE}/status",
        f"curl {url}connectors/{SINK}/offsets",
    ]
    for line in (
        *(asked if keep else ["run it with --keep: worker, web console and Kafka stay up"]),
        f"append rows to {csv} and run this again: exactly those move",
        f"the table: spark.read.load('{table}')" + (f"   Kafka: {bootstrap}" if keep else ""),
    ):
        console.print("  " + line, soft_wrap=True)  # to be copied: no line breaks in it
    return agree

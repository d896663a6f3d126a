"""The display of the quickstart: a live table while it runs, a report when it is done."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn
from rich.table import Table

from spark_connect_rt.base.downloads import Downloads

# The quickstart's two connector configurations, as anybody would POST them.


SOURCE, SINK, TOPIC = "flights-source", "flights-table", "flights"

COLUMNS = {
    "year": "int32",
    "month": "int32",
    "day": "int32",
    "dep_time": "int32",
    "sched_dep_time": "int32",
    "dep_delay": "float64",
    "arr_time": "int32",
    "sched_arr_time": "int32",
    "arr_delay": "float64",
    "carrier": "string",
    "flight": "int32",
    "tailnum": "string",
    "origin": "string",
    "dest": "string",
    "air_time": "float64",
    "distance": "float64",
    "hour": "int32",
    "minute": "int32",
    "time_hour": "string",
}
_SPARK_TYPES = {"int32": "INT", "float64": "DOUBLE", "string": "STRING"}


def source_config(csv: Path) -> dict[str, str]:
    """Return the file source's configuration: one record a row, as schemaless JSON."""
    return {
        "connector.class": "DelimitedFileSource",
        "tasks.max": "1",
        "file": str(csv),
        "format": "csv",
        "topic": TOPIC,
        "schema": ",".join(f"{name}:{kind}" for name, kind in COLUMNS.items()),
        "null.values": "NA",
    }


def sink_config(table: Path, table_format: str) -> dict[str, str]:
    """Return the table sink's configuration."""
    return {
        "connector.class": "SparkTableSink",
        "tasks.max": "1",
        "topics": TOPIC,
        "spark.format": table_format,
        "path": str(table),
        "table.schema": ", ".join(f"{name} {_SPARK_TYPES[kind]}" for name, kind in COLUMNS.items()),
        "flush.size": "200000",
        "flush.interval.ms": "2000",
    }


KAFKA_BYTES = 44_200_000  # of the broker's jars
EVERY_S = 10.0


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of one run and of the table; carriers: (code, flights, mean departure delay in minutes)."""

    csv_rows: int
    table_rows: int
    moved_to_topic: int
    moved_to_table: int
    carriers: tuple[tuple[str, int, float], ...]


def progress_table(progress: Mapping[str, Any]) -> Table:
    """Return a table of this worker's connectors and tasks."""
    title = f"{progress.get('worker_id', '')}  generation {progress.get('generation', '-')}"
    table = Table(title=title, caption=progress_line(progress))
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


def has_moved(progress: Mapping[str, Any]) -> bool:
    """Return whether any task of this worker has moved a record."""
    return any(task["records"] for task in progress.get("tasks", []))


def progress_line(progress: Mapping[str, Any]) -> str:
    """Return in one line what this worker's tasks have moved, or what they are waiting for."""
    if not has_moved(progress):
        return "waiting for Spark to start the tasks (10 to 30 s)"
    moved = {task["task"]["connector"]: int(task["records"]) for task in progress["tasks"]}
    return f"{moved.get(SOURCE, 0):,} records in the topic, {moved.get(SINK, 0):,} rows in the table"


class Steps:
    """Lines of ``[ 12 s] what happened``, in seconds since the user's command began."""

    def __init__(
        self, console: Console, environment: Mapping[str, str], now_s: Callable[[], float] = time.time
    ) -> None:
        """Take where lines go; ``environment`` has the time at which spark-submit.sh began, if it did."""
        self._console, self._now_s = console, now_s
        self._began_s = _number(environment.get("CONNECTRT_BEGAN")) or now_s()
        self._shown: tuple[bool, float] | None = None

    def say(self, text: str) -> None:
        """Print a line with the seconds since the start."""
        self._console.print(
            f"[{int(self._now_s() - self._began_s):3d} s] {text}", markup=False, highlight=False, soft_wrap=True
        )

    def show(self, progress: Mapping[str, Any]) -> None:
        """Print how far the tasks are: when the first record moves, else every ten seconds."""
        moved, now_s = has_moved(progress), self._now_s()
        if self._shown is None or moved != self._shown[0] or now_s - self._shown[1] >= EVERY_S:
            self._shown = moved, now_s
            self.say(progress_line(progress))


def _number(text: str | None) -> float | None:
    try:
        return float(text or "")
    except ValueError:
        return None


@contextlib.contextmanager
def jar_downloads(console: Console) -> Iterator[Downloads]:
    """Give what shows the downloads of Kafka's jars as one bar; nothing is shown while nothing is downloaded."""
    columns = (TextColumn("  Kafka's jars"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    progress = Progress(*columns, console=console, transient=True)
    bar = progress.add_task("jars", total=KAFKA_BYTES)
    try:

        @contextlib.contextmanager
        def download(_name: str, _size_bytes: int) -> Iterator[Callable[[int], None]]:
            if console.is_terminal:
                progress.start()
            yield lambda count: progress.advance(bar, count)

        yield download
    finally:
        if console.is_terminal:  # elsewhere nothing was drawn, and it would print an empty line
            progress.stop()


@dataclass(frozen=True, slots=True)
class QuickstartResult:
    """A finished run: its counts and addresses. ``keep``: worker and broker stay up."""

    counts: Counts
    url: str
    bootstrap: str
    table: Path
    csv: Path
    keep: bool

    @property
    def agrees(self) -> bool:
        """Return whether the table holds as many rows as the file."""
        return self.counts.table_rows == self.counts.csv_rows


def report_lines(outcome: QuickstartResult) -> list[str]:
    """Return what a run moved, and whether table and file agree."""
    counts = outcome.counts
    if counts.moved_to_topic == 0:
        lines = ["read 0 new records: the committed offset is at the end of the file"]
    else:
        lines = [f"moved {counts.moved_to_topic:,} new records into topic {TOPIC}"]
    lines.append(f"appended {counts.moved_to_table:,} rows to the table {outcome.table}")
    lines.append(f"rows in the table: {counts.table_rows:,}   rows in the file: {counts.csv_rows:,}")
    if outcome.agrees:
        lines.append("OK: the table holds every row of the file, once")
    elif counts.table_rows > counts.csv_rows:
        lines.append(
            "the counts disagree: some records were delivered twice (a crash between produce and offset commit)"
        )
    else:
        lines.append("the counts disagree: rows are missing")
    return lines


def next_steps(outcome: QuickstartResult, command: str, again: str) -> list[str]:
    """Return the closing lines: the console, a command, a connector to try.

    ``command`` is how the command line is called here, ``again`` how this run was started.
    """
    url = "" if outcome.url == "http://127.0.0.1:8083/" else f" --url {outcome.url.rstrip('/')}"
    tried = "create orders connector.class=DatagenSource topic=orders datagen.rate=5"
    steps = [
        f"open the console   {outcome.url}console",
        f"ask for states     {command} get connectors{url}",
        f"try a connector    {command} {tried}{url}",
        f"follow events      {command} events{url}",
    ]
    if outcome.keep:
        kept = f"Everything stays up until Ctrl-C (Kafka: {outcome.bootstrap}). Next, in another terminal:"
        return [kept, *(f"  {step}" for step in steps)]
    return [
        "Next: start it again and keep it running",
        f"  {again} --keep",
        "and then",
        *(f"  {step}" for step in steps),
        f"Or append rows to {outcome.csv} and run it again: only those are moved.",
    ]


def carriers_table(counts: Counts) -> Table:
    """Return the flights of each carrier as Spark reads them from the table."""
    carriers = Table(title="flights and mean departure delay per carrier")
    for column in ("carrier", "flights", "mean delay, min"):
        carriers.add_column(column, justify="left" if column == "carrier" else "right")
    for code, flights, delay in counts.carriers:
        carriers.add_row(code, f"{flights:,}", f"{delay:.1f}")
    return carriers

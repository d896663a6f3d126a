"""A dedicated MirrorMaker: every flow of one file in one process (Java ``MirrorMaker``).

Owns what the flows share: the SparkSession, the internal REST server, the order of start and stop, what is shown. As
many processes as one likes may run with the same file; their workers form one group a flow.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from spark_connect_rt.app.logging_setup import set_up_logging
from spark_connect_rt.app.mirror.mirror_flow import FlowContext, RunningFlow
from spark_connect_rt.app.mirror.mirror_rest import FlowApplications, internal_servers
from spark_connect_rt.app.rest.rest_api import settled_listeners
from spark_connect_rt.app.serving import await_end, stop_asked
from spark_connect_rt.base.pandas_on_demand import load_pandas_on_demand
from spark_connect_rt.config.connectrt_config import ConnectrtEngineSettings, PluginSettings
from spark_connect_rt.config.worker_config import RestSettings, advertised, parse_listeners
from spark_connect_rt.connectors.mirror.maker_config import MirrorMakerConfig, SourceAndTarget
from spark_connect_rt.engine.process_plugins import providers_of
from spark_connect_rt.engine.startup.java_home import find_java
from spark_connect_rt.engine.startup.surroundings import require_surroundings
from spark_connect_rt.rest.listening.free_ports import FreePorts
from spark_connect_rt.rest.server import RestServers
from spark_connect_rt.runtime.values import TaskProgress, WorkerProgress

# The display of a dedicated MirrorMaker's flows: a live table, or log lines.


TELL_EVERY_S = 60.0
REDRAW_EVERY_S = 0.5
NOT_UP = "waits for its cluster"

Progress = Mapping[SourceAndTarget, WorkerProgress | None]

log = logging.getLogger(__name__)


def show(progress: Callable[[], Progress], console: Console, ended: threading.Event) -> None:
    """Keep a table of the flows on a terminal; elsewhere log a line for each, now and then. Returns at the end."""
    if not console.is_terminal:
        while not ended.wait(TELL_EVERY_S):
            for line in flow_lines(progress()):
                log.info("%s", line)
        return
    with Live(console=console, refresh_per_second=4, transient=True) as live:
        while not ended.wait(REDRAW_EVERY_S):
            live.update(flows_table(progress()))


def flows_table(progress: Progress) -> Table:
    """Return a row for each task of this process; a flow without one has its own row."""
    table = Table(title="MirrorMaker")
    for column in ("flow", "task", "state", "records", "records/s", "MB"):
        table.add_column(column, justify="left" if column in ("flow", "task", "state") else "right")
    for flow, worker in sorted(progress.items()):
        for task in worker.tasks if worker else ():
            moved = (f"{task.records:,}", f"{task.records_per_s:,.0f}", f"{task.data_bytes / 1e6:,.1f}")
            table.add_row(str(flow), str(task.task), task.state, *moved)
        if worker is None or not worker.tasks:
            table.add_row(str(flow), "-", NOT_UP if worker is None else "no task here", "-", "-", "-")
    return table


def flow_lines(progress: Progress) -> list[str]:
    """Return a sentence for each flow: its tasks of this process by state, and what they moved."""
    return [f"flow={flow} {_sentence(worker)}" for flow, worker in sorted(progress.items())]


def _sentence(worker: WorkerProgress | None) -> str:
    if worker is None:
        return NOT_UP
    tasks = worker.tasks
    rate, records = sum(task.records_per_s for task in tasks), sum(task.records for task in tasks)
    return f"{_states(tasks)}, {records:,} records, {rate:,.0f} records/s"


def _states(tasks: tuple[TaskProgress, ...]) -> str:
    names = [task.state for task in tasks]
    counted = [f"{names.count(name)} {name}" for name in dict.fromkeys(names)]
    return f"{len(tasks)} tasks here" + (f" ({', '.join(counted)})" if counted else "")


STOP_LIMIT_S = 120.0


def maker_config(raw: Mapping[str, str]) -> MirrorMakerConfig:
    """Return a file's configuration, its config providers ready. Raises BadConfigError."""
    return MirrorMakerConfig(raw, providers_of(raw).resolve)


class SharedSession:
    """The one SparkSession of a process; built when a flow first asks for it, in that flow's thread."""

    def __init__(self, raw: Mapping[str, str], flows: int) -> None:
        self._raw = dict(raw)
        self._flows = flows
        self._lock = threading.Lock()
        self._session: Any = None

    def get(self) -> Any:
        """Return the SparkSession of all flows, built at the first call."""
        from spark_connect_rt.engine.driver.spark_session import build_session
        from spark_connect_rt.engine.startup.session_conf import LOCAL_SLOTS

        with self._lock:
            if self._session is None:
                settings = dict(self._raw)
                if settings.get("spark.master") == "local[*]":
                    settings["spark.master"] = f"local[{LOCAL_SLOTS * self._flows}]"  # idle threads, not cores
                level = ConnectrtEngineSettings.of(settings).connectrt_spark_log_level
                self._session = build_session(settings, "mirror-maker", level, PluginSettings.of(settings).shipped)
            return self._session

    def stop(self) -> None:
        """End Spark, if it was ever begun."""
        with self._lock:
            session, self._session = self._session, None
        if session is None:
            return
        try:
            session.stop()
        except Exception as error:  # noqa: BLE001 - the JVM may be what ended the flows
            log.warning("Spark did not stop cleanly: %s", error)


class MirrorMaker:
    """All flows of a file. ``start`` returns at once; ``stop`` when all have drained."""

    def __init__(self, raw: Mapping[str, str], targets: Collection[str] = ()) -> None:
        """Take the file's settings; ``targets``: only flows to these. Raises BadConfigError with every problem."""
        self._raw = raw
        self.config = maker_config(raw)
        flows = self.config.flows(targets)
        self._session = SharedSession(raw, len(flows))
        applications = FlowApplications()
        self._servers: RestServers | None = None
        address = None
        if self.config.internal_rest:
            ports = FreePorts()
            rest = settled_listeners(RestSettings.of(raw), ports)
            address = advertised(rest, socket.getfqdn())
            self._servers = internal_servers(parse_listeners(rest.listeners), raw, applications, ports)
        around = FlowContext(self.config, self._session.get, applications, address)
        self.crashed = around.crashed
        self._flows = [RunningFlow(flow, around) for flow in flows]

    def start(self) -> None:
        """Start every flow. Raises StartupError: there is no Java, or the listener is taken."""
        require_surroundings(self._raw)
        os.environ["JAVA_HOME"] = str(find_java().home)
        if self._servers is not None:
            self._servers.start()
        for flow in self._flows:
            flow.start()

    def stop(self) -> None:
        """Stop every flow, all at the same time, then what they share."""
        for flow in self._flows:
            flow.ask_to_stop()
        end_s = time.monotonic() + STOP_LIMIT_S
        for flow in self._flows:
            flow.await_stopped(max(0.0, end_s - time.monotonic()))
        if self._servers is not None:
            self._servers.stop()
        self._session.stop()

    def progress(self) -> dict[SourceAndTarget, WorkerProgress | None]:
        """Return what each flow does now; None: it is not up yet."""
        return {flow.flow: flow.progress() for flow in self._flows}

    def failures(self) -> list[BaseException]:
        """Return what flows died of."""
        return [flow.failure for flow in self._flows if flow.failure is not None]


def run_mirror_maker(raw: Mapping[str, str], targets: Collection[str] = ()) -> int:
    """Run a file's flows until SIGTERM or SIGINT; return the exit code. Raises StartupError when a flow cannot run."""
    load_pandas_on_demand()
    ended, console = stop_asked(), Console()
    quiet = {"connectrt.log.level": "WARNING"} if console.is_terminal else {}  # the table has the screen
    set_up_logging({**quiet, **raw})
    maker = MirrorMaker(raw, targets)
    maker.start()
    threading.Thread(target=show, args=(maker.progress, console, ended), name="progress", daemon=True).start()
    try:
        code = await_end(ended, maker.crashed, "mirror-maker")
    finally:
        maker.stop()
    for failure in maker.failures():
        raise failure
    return code

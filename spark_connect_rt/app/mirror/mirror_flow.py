"""One flow of a dedicated MirrorMaker: a distributed worker without its own REST API (Java ``MirrorHerder``).

Its group and topics are at the target cluster. When it leads, it writes its connectors' configurations from the file.
"""

from __future__ import annotations

import logging
import socket
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from spark_connect_rt.app.deferred_runner import DeferredRunner
from spark_connect_rt.app.distributed import DistributedWorker, bring_up
from spark_connect_rt.app.mirror.mirror_rest import FlowApplications, FlowPeers
from spark_connect_rt.app.rest.rest_api import RestApi
from spark_connect_rt.app.wiring import spark_runner
from spark_connect_rt.base.exit_codes import EXIT_BROKER_UNREACHABLE, EXIT_TICK_CRASHED, exit_code_of
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.config.worker_config import Advertised
from spark_connect_rt.connectors.mirror.maker_config import CONNECTORS, MirrorMakerConfig, SourceAndTarget
from spark_connect_rt.engine.task_runner import TaskRunner
from spark_connect_rt.errors import ConnectError, NotFoundError, NotLeaderError, RetriableError, StartupError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.runtime.herder.herder_requests import PutConfig
from spark_connect_rt.runtime.values import WorkerProgress

LOOK_EVERY_S = 0.5
TRY_AGAIN_S = 5.0  # a cluster that cannot be reached keeps only its own flows waiting
WRITE_LIMIT_S = 90.0
DEFAULTS = {"errors.restart.policy": "backoff"}  # no user could restart a FAILED task by hand: there is no REST API

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class FlowContext:
    """The parts that the flows of one process share.

    ``address`` None: no internal REST, other processes cannot ask this one.
    """

    config: MirrorMakerConfig
    session: Callable[[], Any]  # returns the one SparkSession, waiting for it
    applications: FlowApplications
    address: Advertised | None = None
    crashed: threading.Event = field(default_factory=threading.Event)  # a flow ended without a request


class FlowWorker(DistributedWorker):
    """The worker of one flow."""

    def __init__(self, flow: SourceAndTarget, around: FlowContext) -> None:
        """Take the flow. Raises BadConfigError."""
        super().__init__({**DEFAULTS, **around.config.worker_settings(flow)})
        self._flow = flow
        self._around = around
        nowhere = Advertised("NOTUSED", f"{socket.getfqdn()}/{flow}/{uuid.uuid4()}")
        self.address = around.address or nowhere

    def _bind(self) -> None:
        """Bind nothing: all flows of a process share its listeners."""

    def _dependencies(self, admin: KafkaAdmin, runner: DeferredRunner) -> HerderDependencies:
        dependencies = super()._dependencies(admin, runner)
        can_ask = self._around.address is not None
        return replace(dependencies, peers=FlowPeers(dependencies.peers, self._flow, internal_rest=can_ask))

    def _new_runner(self) -> TaskRunner:
        return spark_runner(self.config, self._around.session, self.supervisor.failed)

    def _new_rest(self, dependencies: HerderDependencies, herder: DistributedHerder) -> RestApi | None:
        self._around.applications.add(self._flow, herder, dependencies.peers)
        return None


class RunningFlow:
    """A flow and the thread that starts it, configures its connectors, and stops it."""

    def __init__(self, flow: SourceAndTarget, around: FlowContext) -> None:
        """Take the flow. Raises BadConfigError, before anything is started."""
        self.flow = flow
        self._around = around
        self._first = FlowWorker(flow, around)
        self._worker: FlowWorker | None = None
        self._wanted = {name: around.config.connector_config(flow, name) for name in CONNECTORS}
        self._refused: set[str] = set()  # connectors whose configuration this leader's file has wrong
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"flow-{flow}", daemon=True)
        self.failure: BaseException | None = None

    def start(self) -> None:
        """Start the flow's worker on its own thread; returns at once."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        """Begin to stop; returns at once."""
        self._stop.set()

    def await_stopped(self, limit_s: float) -> None:
        """Wait until the worker has drained its tasks and left its group."""
        self._thread.join(limit_s)

    def progress(self) -> WorkerProgress | None:
        """Return what the flow's worker does now; None: it is not up."""
        herder = None if self._worker is None else self._worker.herder
        return None if herder is None else herder.views.progress()

    def _run(self) -> None:
        try:
            self._live()
        except Exception as error:  # the top of a thread: the process ends with it
            log.exception("flow=%s failed", self.flow)
            self.failure = error
            self._around.crashed.set()

    def _live(self) -> None:
        self._worker = worker = self._started()
        if worker is None or worker.herder is None:
            return
        try:
            while not self._stop.wait(LOOK_EVERY_S):
                if (failure := worker.supervisor.failure) is not None:
                    raise StartupError(f"flow {self.flow}: {failure}", exit_code=exit_code_of(failure.part))
                if worker.herder.stopped.is_set():
                    raise StartupError(f"flow {self.flow}: the tick loop has ended", exit_code=EXIT_TICK_CRASHED)
                self._configure_as_leader(worker.herder)
        finally:
            worker.stop()

    def _started(self) -> FlowWorker | None:
        """Return the worker when it has read its topics, None when the end came first. Raises StartupError."""
        worker = self._first
        while not self._stop.is_set():
            try:
                bring_up(worker)
                return worker
            except StartupError as error:
                if error.exit_code != EXIT_BROKER_UNREACHABLE:
                    raise
                log.warning("flow=%s waits for its cluster: %s", self.flow, error)
            self._stop.wait(TRY_AGAIN_S)
            worker = FlowWorker(self.flow, self._around)
        return None

    def _configure_as_leader(self, herder: DistributedHerder) -> None:
        if not herder.views.is_leader():
            self._refused.clear()
            return
        for name, wanted in self._wanted.items():
            if name not in self._refused and configuration(herder, name) != wanted:
                self._write(herder, name, wanted)

    def _write(self, herder: DistributedHerder, name: str, wanted: Mapping[str, str]) -> None:
        try:
            herder.submit(PutConfig(name, wanted)).result(WRITE_LIMIT_S)
            log.info("flow=%s connector=%s configured", self.flow, name)
        except (NotLeaderError, RetriableError, TimeoutError) as error:
            log.info("flow=%s connector=%s not configured yet: %s", self.flow, name, error)
        except ConnectError as error:
            self._refused.add(name)
            log.error("flow=%s connector=%s rejected: %s", self.flow, name, error)


def configuration(herder: DistributedHerder, name: str) -> StoredConfig | None:
    """Return a connector's configuration as the group has it, None: there is none."""
    try:
        return herder.views.connector_config(name)
    except NotFoundError:
        return None

"""The common part of both kinds of worker, and the order in which it starts and stops.

REST listens first, then the herder reads the internal topics, then Spark starts. Nothing waits for Spark but the tasks.
The kinds say what the herder is built on.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from abc import ABC, abstractmethod
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, Generic, TypeVar

from spark_connect_rt.app.deferred_runner import DeferredRunner, with_stores
from spark_connect_rt.app.operations import WorkerContext, WorkerManagement
from spark_connect_rt.app.rest.admin_api import NOTHING
from spark_connect_rt.app.rest.rest_api import RestApi, settled_listeners
from spark_connect_rt.app.wiring import ClusterId, spark_runner
from spark_connect_rt.base.exit_codes import EXIT_BROKER_UNREACHABLE
from spark_connect_rt.base.supervision import Supervisor
from spark_connect_rt.config.worker_config import Advertised, advertised
from spark_connect_rt.config.worker_settings import WorkerConfig
from spark_connect_rt.connectors.mirror.named_class import import_only
from spark_connect_rt.engine.process_plugins import import_plugins_when_named, java_asked, plugins_of
from spark_connect_rt.engine.startup.java_home import find_java
from spark_connect_rt.engine.startup.surroundings import require_surroundings
from spark_connect_rt.engine.task_runner import TaskRunner
from spark_connect_rt.errors import RetriableError, StartupError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.kafka.internal_topics import admin_of
from spark_connect_rt.kafka.logs.bulk_read_process import cpu_count
from spark_connect_rt.operations.plugin_install.group_installs import GroupInstalls
from spark_connect_rt.operations.plugin_install.report import refuse_test_jars, refuse_unlisted, tell_broken
from spark_connect_rt.operations.plugin_install.wiring import group_installs, path_watch
from spark_connect_rt.plugins.path_watch import PathWatch
from spark_connect_rt.rest.listening.free_ports import FreePorts
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.topics.offset_store import OffsetStore

BROKER_LIMIT_MS = 15_000
STOP_LIMIT_S = 60.0
FEW_CPUS = 3  # with more of them, Spark starts while a long offset topic is read: sinks do not wait for it

log = logging.getLogger(__name__)

Herder = TypeVar("Herder", bound=DistributedHerder)


class ConnectWorker(ABC, Generic[Herder]):
    """A worker and everything it owns. ``start`` returns when REST answers and the herder is on its way."""

    def __init__(self, config: WorkerConfig) -> None:
        """Take the worker's settings and log warnings about them."""
        for warning in config.warnings:
            log.warning("%s", warning)
        self.config = config
        self.address: Advertised = advertised(config.rest, socket.getfqdn())
        self._ports = FreePorts()
        self._cluster = ClusterId()
        self.supervisor = Supervisor()
        self._admin: KafkaAdmin | None = None
        self._rest: RestApi | None = None
        self._installs: GroupInstalls | None = None
        self._watch: PathWatch | None = None
        self._management: WorkerManagement | None = None
        self._runner: Any = None
        self.herder: Herder | None = None

    @property
    def admin(self) -> KafkaAdmin:
        """Return the client of the worker's cluster; there is one from ``start`` on."""
        assert self._admin is not None, "the worker was not started"
        return self._admin

    @abstractmethod
    def _dependencies(self, admin: KafkaAdmin, runner: DeferredRunner) -> HerderDependencies:
        """Return what the herder is built on. Nothing is connected yet."""

    @abstractmethod
    def _new_herder(self, dependencies: HerderDependencies) -> Herder:
        """Return the herder, not started."""

    def start(self) -> None:
        """Start everything.

        Raises StartupError with the documented exit code, after it has stopped the parts that were started.
        """
        require_surroundings(self.config.raw)
        os.environ["JAVA_HOME"] = str(find_java().home)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _bind(self) -> None:
        """Take the ports that the system chooses: from now on ``address`` is the one that others reach this worker by.

        Raises StartupError (exit code 16).
        """
        self.config = replace(self.config, rest=settled_listeners(self.config.rest, self._ports))
        self.address = advertised(self.config.rest, socket.getfqdn())

    def _start(self) -> None:
        refuse_test_jars(self.config.rest)
        self._bind()
        self._admin = admin_of(self.config)
        self._runner = DeferredRunner(self._new_runner, prepare=with_stores, report=self.supervisor.failed)
        dependencies = self._dependencies(self._admin, self._runner)
        self.herder = self._new_herder(dependencies)
        self._installs = group_installs(self.config, self.address.worker_id, self._admin, self.herder)
        dependencies.supervisor.watch(self._installs.problem)
        self._watch = path_watch(self.config)
        dependencies.supervisor.watch(self._watch.rounds.trouble)
        self._management = WorkerManagement(
            WorkerContext(self.config, self.address.worker_id, dependencies, self.herder, self._admin, self._runner)
        )
        self._rest = self._new_rest(dependencies, self.herder)
        if self._rest is not None:
            self._rest.start()
        self._reach_broker(self._admin)
        self.herder.start()
        self._installs.start()
        self._watch.start()
        self._management.start()
        self._runner.build(after=self._read(dependencies.offset_store))
        if self.config.plugins.folders:
            refuse_unlisted(self.config.plugins, plugins_of(self.config.raw))
            tell_broken(plugins_of(self.config.raw))

    def _read(self, offsets: OffsetStore) -> Future[None]:
        """Return what is done when the internal topics are read: Spark's start takes two cores, and so does that."""
        assert self.herder is not None
        started, read = self.herder.started, Future[None]()
        if cpu_count() > FEW_CPUS:
            return started

        def wait() -> None:
            try:
                started.result()
                offsets.await_loaded()
            except Exception:
                log.debug("the internal topics cannot be read", exc_info=True)
            read.set_result(None)

        threading.Thread(target=wait, name="topics-read", daemon=True).start()
        return read

    def _new_runner(self) -> TaskRunner:
        return spark_runner(self.config, report=self.supervisor.failed)

    def _new_rest(self, dependencies: HerderDependencies, herder: Herder) -> RestApi | None:
        """Return the worker's REST API; None: it has no separate one."""
        plugins = plugins_of(self.config.raw)
        import_plugins_when_named(self.config.raw)
        import_only(plugins.may_import)  # names of classes come from any client of the REST API
        return RestApi(
            self.config,
            herder,
            plugins,
            dependencies.clock.now_ms,
            dependencies.peers,
            report=self.supervisor.failed,
            installs=self._installs,
            management=self._management.parts if self._management else NOTHING,
            ports=self._ports,
        )

    def _reach_broker(self, admin: KafkaAdmin) -> None:
        try:
            admin.check_reachable(BROKER_LIMIT_MS)
            self._cluster.value = admin.cluster_id()
        except RetriableError as error:
            raise StartupError(str(error), exit_code=EXIT_BROKER_UNREACHABLE, code=error.code) from error

    def stop(self) -> None:
        """Stop in order: REST's writes, tasks (drained, committed), membership, stores, Spark."""
        if self._management is not None:
            self._management.end_streams()
        if self.herder is not None:
            self.herder.stop(STOP_LIMIT_S)
        if self._rest is not None:
            self._rest.stop()
        self._ports.close()
        if self._management is not None:
            self._management.stop()
        if self._installs is not None:
            self._installs.stop()
        if self._watch is not None:
            self._watch.rounds.stop(join_s=2.0)
        if self._runner is not None and self.supervisor.failure is None:  # else the herder has ended what it could
            self._runner.close(self.config.runtime.task_shutdown_graceful_timeout_ms)
        if (java := java_asked(self.config.raw)()) is not None:
            java.close()

"""One standalone worker: no group, no internal topics; offsets in a file (Java ``ConnectStandalone``).

The herder is the distributed one over a group of one and local logs; engine, REST API and plug-ins are the same.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spark_connect_rt.app.clock import SystemClock
from spark_connect_rt.app.connector_files import ConnectorFile, read_connector_file, refused
from spark_connect_rt.app.exit_codes import EXIT_BROKER_UNREACHABLE
from spark_connect_rt.app.late_runner import LateRunner, with_stores
from spark_connect_rt.app.logging_setup import set_up_logging
from spark_connect_rt.app.plugin_report import tell_broken
from spark_connect_rt.app.rest_api import RestApi
from spark_connect_rt.app.serving import await_end
from spark_connect_rt.app.signals import stop_asked
from spark_connect_rt.app.spark_tables import SparkTables
from spark_connect_rt.app.wiring import ClusterId, admin_of, override_policy, sink_group
from spark_connect_rt.app.worker_plugins import plugin_path, plugins_of
from spark_connect_rt.config.connector_config import SINK, SOURCE
from spark_connect_rt.config.listeners import Advertised, advertised, parse_listeners
from spark_connect_rt.config.standalone_config import parse_standalone
from spark_connect_rt.config_providers.providers import ConfigProviders
from spark_connect_rt.embedded.java import find_java
from spark_connect_rt.errors import ConnectError, RetriableError, StartupError
from spark_connect_rt.kafka.group_offsets import KafkaGroupOffsets
from spark_connect_rt.ports.task_runner import TaskRunner
from spark_connect_rt.rest.peer_client import HttpPeerClient
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.settings import HerderSettings
from spark_connect_rt.runtime.herder.solo_member import SoloMember
from spark_connect_rt.runtime.herder.standalone import StandaloneHerder
from spark_connect_rt.stores.config_store import ConfigStore
from spark_connect_rt.stores.local_log import LocalCompactedLog
from spark_connect_rt.stores.offset_file import OffsetFile
from spark_connect_rt.stores.offset_store import OffsetStore
from spark_connect_rt.stores.status_store import StatusStore

BROKER_LIMIT_MS = 15_000
STOP_LIMIT_S = 60.0
START_LIMIT_S = 60.0

log = logging.getLogger(__name__)


class StandaloneWorker:
    """A worker and everything it owns. ``start`` returns when REST answers and the herder is on its way."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        self._values, warnings = parse_standalone(raw)
        for warning in warnings:
            log.warning("%s", warning)
        self._raw = dict(raw)
        self.address: Advertised = advertised(parse_listeners(self._values["listeners"]), raw, socket.getfqdn())
        self._cluster = ClusterId()
        self._rest: RestApi | None = None
        self._runner: Any = None
        self.herder: StandaloneHerder | None = None

    def start(self) -> None:
        """Start everything. Raises StartupError with the documented exit code; what was started is stopped."""
        os.environ["JAVA_HOME"] = str(find_java().home)
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        from spark_connect_rt.app.wiring import spark_runner

        self._runner = LateRunner(lambda: spark_runner(self._raw), prepare=with_stores)
        dependencies = self._dependencies(self._runner)
        self.herder = StandaloneHerder(dependencies)
        settings = dependencies.resolve(self._raw)
        self._rest = RestApi(settings, self.herder, plugins_of(self._raw), dependencies.clock.now_ms)
        self._rest.start()
        self._reach_broker()
        self.herder.start()
        self._runner.build()
        if plugin_path(self._raw):
            tell_broken(plugins_of(self._raw))
        self._await_started()

    def _reach_broker(self) -> None:
        admin = admin_of(self._raw)
        try:
            admin.check_reachable(BROKER_LIMIT_MS)
            self._cluster.value = admin.cluster_id()
        except RetriableError as error:
            raise StartupError(str(error), exit_code=EXIT_BROKER_UNREACHABLE, code=error.code) from error

    def _await_started(self) -> None:
        assert self.herder is not None
        self.herder.started.result(START_LIMIT_S)

    def create(self, file: ConnectorFile) -> None:
        """Create the connector of a file. Raises StartupError (exit code 20)."""
        assert self.herder is not None
        request = file.request
        try:
            answer = self.herder.create(request.name, request.config, request.initial_state)
            written = answer.result(self.herder.request_limit_s)
        except (ConnectError, TimeoutError) as error:
            raise refused(file.path, error) from error
        log.info("connector=%s created from %s: %d tasks", request.name, file.path, len(written.info.tasks))

    def stop(self) -> None:
        """Stop in order: REST's writes, tasks (drained, committed), stores, Spark."""
        if self.herder is not None:
            self.herder.stop(STOP_LIMIT_S)
        if self._rest is not None:
            self._rest.stop()
        if self._runner is not None:
            self._runner.close(self._values["task.shutdown.graceful.timeout.ms"])

    def _dependencies(self, runner: TaskRunner) -> HerderDependencies:
        clock, raw, plugins = SystemClock(), self._raw, plugins_of(self._raw)
        providers = ConfigProviders.from_config(raw, plugins.class_of)
        offsets = OffsetFile(Path(self._values["offset.storage.file.filename"]))
        # Compatible: tasks go on while others are added, and nobody needs session keys.
        settings = HerderSettings.of(
            self.address.worker_id, self.address.url, {**raw, "connect.protocol": "compatible"}
        )
        return HerderDependencies(
            settings=settings,
            clock=clock,
            member=SoloMember(),
            config_store=ConfigStore(LocalCompactedLog("configs"), clock),
            status_store=StatusStore(LocalCompactedLog("statuses"), clock),
            offset_store=OffsetStore(LocalCompactedLog("offsets", offsets)),
            runner=runner,
            sink_groups=sink_group,
            plugins=plugins,
            peers=HttpPeerClient(),
            new_key=os.urandom,
            resolve=providers.resolve,
            group_offsets=KafkaGroupOffsets(),
            table_memory=SparkTables(runner),
            kafka_cluster_id=lambda: self._cluster.value,
            source_config=SOURCE,
            sink_config=SINK,
            override_policy=override_policy(raw, plugins),
        )


def run_standalone(raw: Mapping[str, str], files: Sequence[Path]) -> int:
    """Run one worker with these connector files until SIGTERM or SIGINT; return the exit code."""
    ended = stop_asked()
    set_up_logging(raw)
    worker = StandaloneWorker(raw)
    connectors = [read_connector_file(path) for path in files]  # before anything is started
    worker.start()
    assert worker.herder is not None
    log.info("worker=%s serves %s", worker.address.worker_id, worker.address.url)
    try:
        for connector in connectors:
            worker.create(connector)
        return await_end(ended, worker.herder.stopped, worker.address.worker_id)
    finally:
        worker.stop()

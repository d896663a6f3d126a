"""One distributed worker: start-up in order, signals, orderly end (Java ``ConnectDistributed``).

REST listens first, Spark starts beside everything, the herder reads the internal topics and joins. Nothing waits
for Spark but the tasks.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_connect_rt.app.exit_codes import EXIT_BAD_TOPIC, EXIT_BROKER_UNREACHABLE
from spark_connect_rt.app.late_runner import LateRunner, with_stores
from spark_connect_rt.app.logging_setup import set_up_logging
from spark_connect_rt.app.plugin_report import tell_broken
from spark_connect_rt.app.rest_api import RestApi
from spark_connect_rt.app.serving import await_end
from spark_connect_rt.app.signals import stop_asked
from spark_connect_rt.app.warm_member import WarmMember
from spark_connect_rt.app.wiring import ClusterId, admin_of, herder_dependencies
from spark_connect_rt.app.worker_plugins import plugin_path, plugins_of
from spark_connect_rt.config.distributed_config import DistributedConfig, parse_distributed
from spark_connect_rt.config.listeners import Advertised, advertised, parse_listeners
from spark_connect_rt.embedded.java import find_java
from spark_connect_rt.errors import BadConfigError, ConnectError, RetriableError, StartupError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.ports.group_member import GroupMember
from spark_connect_rt.protocol.ids import TopicPartition
from spark_connect_rt.runtime.herder.herder import DistributedHerder

BROKER_LIMIT_MS = 15_000
STOP_LIMIT_S = 60.0
START_LIMIT_S = 120.0
WARM_LIMIT_S = 180.0  # then a running group is joined with a cold engine

log = logging.getLogger(__name__)


class DistributedWorker:
    """A worker and everything it owns. ``start`` returns when REST answers and the herder is on its way."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.config: DistributedConfig = parse_distributed(settings)
        for warning in self.config.warnings:
            log.warning("%s", warning)
        self.listeners = parse_listeners(self.config.listeners)
        self.address: Advertised = advertised(self.listeners, self.config.raw, socket.getfqdn())
        self._cluster = ClusterId()
        self._admin: KafkaAdmin | None = None
        self._rest: RestApi | None = None
        self._runner: Any = None
        self.herder: DistributedHerder | None = None

    @property
    def url(self) -> str:
        """Return the advertised URL, with its trailing slash."""
        return self.address.url

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

        self._admin = admin_of(self.config.raw)
        self._runner = LateRunner(lambda: spark_runner(self.config.raw), prepare=with_stores)
        dependencies = herder_dependencies(self.config, self.address, self._admin, self._runner, self._cluster)
        self.herder = DistributedHerder(replace(dependencies, member=self._warm_member(dependencies.member)))
        settings, plugins = dependencies.resolve(self.config.raw), plugins_of(self.config.raw)
        self._rest = RestApi(settings, self.herder, plugins, dependencies.clock.now_ms, dependencies.peers)
        self._rest.start()
        self._reach_broker(self._admin)
        self.herder.start()
        self._runner.build()
        if plugin_path(self.config.raw):
            tell_broken(plugins_of(self.config.raw))

    def _warm_member(self, member: GroupMember) -> WarmMember:
        admin, runner = self._admin, self._runner
        assert admin is not None
        group = self.config.raw["group.id"]
        return WarmMember(member, lambda: admin.group_is_active(group), lambda: runner.await_warm(WARM_LIMIT_S))

    def _reach_broker(self, admin: KafkaAdmin) -> None:
        try:
            admin.check_reachable(BROKER_LIMIT_MS)
            self._cluster.value = admin.cluster_id()
        except RetriableError as error:
            raise StartupError(str(error), exit_code=EXIT_BROKER_UNREACHABLE, code=error.code) from error

    def await_started(self, limit_s: float = START_LIMIT_S) -> None:
        """Wait until the internal topics are read. Raises StartupError."""
        assert self.herder is not None
        try:
            self.herder.started.result(limit_s)
        except BadConfigError as error:
            raise StartupError(str(error), exit_code=EXIT_BAD_TOPIC, code="CRT-1086") from error
        except RetriableError as error:
            raise StartupError(str(error), exit_code=EXIT_BROKER_UNREACHABLE, code=error.code) from error

    def stop(self) -> None:
        """Stop in order: REST's writes, tasks (drained, committed), membership, stores, Spark."""
        if self.herder is not None:
            self.herder.stop(STOP_LIMIT_S)
        if self._rest is not None:
            self._rest.stop()
        if self._runner is not None:
            self._runner.close(self.config.task_shutdown_graceful_timeout_ms)

    # What the quickstart needs beyond REST.

    def spark(self) -> Any:
        """Return the worker's SparkSession, waiting for it."""
        return self._runner.real().session().newSession()

    def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic unless it exists."""
        from spark_connect_rt.kafka.admin import TopicSpec

        assert self._admin is not None
        self._admin.create_topic(TopicSpec(topic, partitions))

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Return the log end of each partition."""
        assert self._admin is not None
        count = self._admin.partition_count(topic) or 0
        ends = self._admin.end_offsets([TopicPartition(topic, number) for number in range(count)])
        return {partition.partition: end for partition, end in ends.items()}


def start_worker(settings: Mapping[str, str]) -> DistributedWorker:
    """Start a worker in this process and wait until it has read the internal topics."""
    set_up_logging(settings)
    worker = DistributedWorker(settings)
    worker.start()
    try:
        worker.await_started()
    except ConnectError:
        worker.stop()
        raise
    return worker


def run_worker(settings: Mapping[str, str]) -> int:
    """Run one worker until SIGTERM or SIGINT; return the exit code. A second signal ends the process at once."""
    ended = stop_asked()
    worker = start_worker(settings)
    assert worker.herder is not None
    log.info("worker=%s serves %s", worker.address.worker_id, worker.url)
    code = await_end(ended, worker.herder.stopped, worker.address.worker_id)
    worker.stop()
    return code

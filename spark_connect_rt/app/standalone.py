"""One standalone worker: no group, no internal topics; offsets in a file (Java ``ConnectStandalone``).

The herder is the distributed one over a group of one and local logs; engine, REST API and plug-ins are the same.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_connect_rt.app.connect_worker import ConnectWorker
from spark_connect_rt.app.connector_files import ConnectorFile, read_connector_file, refused
from spark_connect_rt.app.deferred_runner import DeferredRunner
from spark_connect_rt.app.logging_setup import set_up_logging
from spark_connect_rt.app.serving import await_end, end_failed
from spark_connect_rt.app.signals import stop_asked
from spark_connect_rt.app.wiring import WorkerState, worker_dependencies
from spark_connect_rt.base.clock import SystemClock
from spark_connect_rt.base.pandas_on_demand import load_pandas_on_demand
from spark_connect_rt.config.standalone_config import parse_standalone
from spark_connect_rt.engine.process_plugins import providers_of
from spark_connect_rt.errors import ConnectError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.solo_member import SoloMember
from spark_connect_rt.runtime.herder.standalone import StandaloneHerder
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.local_log import LocalCompactedLog
from spark_connect_rt.topics.offset_file import OffsetFile
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_store import StatusStore

START_LIMIT_S = 60.0

log = logging.getLogger(__name__)


class StandaloneWorker(ConnectWorker[StandaloneHerder]):
    """A group of one, its state in memory and in one file."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        config = parse_standalone(raw, providers_of(raw).resolve)
        super().__init__(config)
        self._offsets = OffsetFile(Path(config.offset_storage_file_filename))

    def await_started(self) -> None:
        """Wait until the herder is ready to be asked."""
        assert self.herder is not None
        self.herder.started.result(START_LIMIT_S)

    def create(self, file: ConnectorFile) -> None:
        """Create the connector of a file. Raises StartupError (exit code 20)."""
        assert self.herder is not None
        request = file.request
        try:
            written = self.herder.submit(request).result(self.herder.request_limit_s)
        except (ConnectError, TimeoutError) as error:
            raise refused(file.path, error) from error
        log.info("connector=%s created from %s: %d tasks", request.name, file.path, len(written.info.tasks))

    def _dependencies(self, admin: KafkaAdmin, runner: DeferredRunner) -> HerderDependencies:
        clock, failed = SystemClock(), self.supervisor.failed
        state = WorkerState(
            SoloMember(),
            ConfigStore(LocalCompactedLog("configs", report=failed), clock),
            StatusStore(LocalCompactedLog("statuses", report=failed), clock),
            OffsetStore(LocalCompactedLog("offsets", self._offsets, failed)),
        )
        return worker_dependencies(self.config, self.address, runner, self._cluster, self.supervisor, state)

    def _new_herder(self, dependencies: HerderDependencies) -> StandaloneHerder:
        return StandaloneHerder(dependencies)


def run_standalone(raw: Mapping[str, str], files: Sequence[Path]) -> int:
    """Run one worker with these connector files until SIGTERM or SIGINT; return the exit code."""
    load_pandas_on_demand()
    ended = stop_asked()
    set_up_logging(raw)
    worker = StandaloneWorker(raw)
    connectors = [read_connector_file(path) for path in files]  # before anything is started
    worker.start()
    assert worker.herder is not None
    log.info("worker=%s serves %s", worker.address.worker_id, worker.address.url)
    try:
        worker.await_started()
        for connector in connectors:
            worker.create(connector)
        code = await_end(ended, worker.herder.stopped, worker.address.worker_id, worker.supervisor)
        end_failed(worker.supervisor, worker.herder.stopped, code)
    finally:
        worker.stop()
    end_failed(worker.supervisor, worker.herder.stopped, code)
    return code

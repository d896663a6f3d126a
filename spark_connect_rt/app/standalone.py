"""One standalone worker: no group, no internal topics; offsets in a file (Java ``ConnectStandalone``).

The herder is the distributed one over a group of one and local logs; engine, REST API and plug-ins are the same.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_connect_rt.app.connect_worker import ConnectWorker
from spark_connect_rt.app.deferred_runner import DeferredRunner
from spark_connect_rt.app.logging_setup import set_up_logging
from spark_connect_rt.app.serving import await_end, end_failed, stop_asked
from spark_connect_rt.app.wiring import WorkerState, worker_dependencies
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.base.exit_codes import EXIT_BAD_CONNECTOR_FILE
from spark_connect_rt.base.pandas_on_demand import load_pandas_on_demand
from spark_connect_rt.config.java_properties import parse_properties
from spark_connect_rt.config.repeated_settings import warn_repeated
from spark_connect_rt.config.worker_settings import parse_standalone
from spark_connect_rt.engine.process_plugins import providers_of
from spark_connect_rt.errors import BadConfigError, BadRequestError, ConnectError, StartupError
from spark_connect_rt.kafka.admin import KafkaAdmin
from spark_connect_rt.rest.requests import read_create, with_initial_offsets
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder_requests import CreateConnector
from spark_connect_rt.runtime.herder.standalone import SoloMember, StandaloneHerder
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.local_log import LocalCompactedLog
from spark_connect_rt.topics.offset_file import OffsetFile
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_store import StatusStore

# The connector files of a standalone worker's command line: properties, or JSON of either shape.
#
# JSON is a flat configuration with its ``name``, or what ``POST /connectors`` takes. Source: Java
# ``ConnectStandalone.parseConnectorConfigurationFile``.


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """One file and the connector it asks for."""

    path: Path
    request: CreateConnector


def read_connector_file(path: Path) -> ConnectorFile:
    """Return what a file asks for. Raises StartupError (exit code 20)."""
    try:
        text = path.read_text("utf-8")
        return ConnectorFile(path, _request(text, path))
    except (OSError, ValueError, ConnectError) as error:
        raise refused(path, error) from error


def refused(path: Path, error: Exception) -> StartupError:
    """Return the error that ends the worker: its file ``path`` cannot be used."""
    if isinstance(error, BadConfigError):
        why = "; ".join(f"{key}: {', '.join(lines)}" for key, lines in error.problems.items())
    else:
        why = str(getattr(error, "strerror", None) or error)
    message = f"connector file {path}: {why}"
    return StartupError(message, exit_code=EXIT_BAD_CONNECTOR_FILE, code="CRT-1089")


def _request(text: str, path: Path) -> CreateConnector:
    fields = _json(text)
    if fields is None:
        return _from_flat(warn_repeated(parse_properties(text), path))
    if isinstance(fields.get("config"), dict):
        known = {key: fields[key] for key in ("name", "config", "initial_state", "initial_offsets") if key in fields}
        body = json.dumps(known).encode()
        request = with_initial_offsets(read_create(body), body)
        if not request.name:
            raise BadRequestError("is missing the mandatory 'name' configuration")
        return request
    return _from_flat(fields)


def _from_flat(config: dict[str, Any]) -> CreateConnector:
    name = config.get("name")
    if not name:
        raise BadRequestError("is missing the mandatory 'name' configuration")
    return read_create(json.dumps({"name": name, "config": config}).encode())


def _json(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


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

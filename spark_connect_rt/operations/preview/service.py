"""Previews a connector: checks what is asked, makes one task's launch ready, has an executor run it.

Owns what a preview may not have: a way to write. The launch that crosses holds no producer, no topic to make, no dead
letter queue; of a sink only the consumer's properties. At most two previews run side by side on a worker.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from spark_connect_rt.api.connector import Connector, SinkConnector
from spark_connect_rt.api.spark_source import SparkSourceTask
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.hidden_values import remember
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.security.carried_stores import carry_stores
from spark_connect_rt.config.secrets import secrets_in
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.engine.java_code import JavaConnector
from spark_connect_rt.engine.previews.model import (
    Preview,
    PreviewedRecord,
    PreviewOrder,
    PreviewRequest,
    PreviewRunner,
    PreviewStage,
    ShownBytes,
    ShownHeader,
    ShownHeaderBytes,
    ShownRecord,
)
from spark_connect_rt.engine.task_runner import TaskKind, TaskLaunch
from spark_connect_rt.errors import BadRequestError, ConnectError, NotFoundError, ShuttingDownError
from spark_connect_rt.operations.preview.planned_tasks import planned_config
from spark_connect_rt.operations.preview.starting_points import ListTopics, StartingPoints
from spark_connect_rt.rest.error_mapping import RestError
from spark_connect_rt.runtime.herder.api import HerderApi
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.validation import checked_config
from spark_connect_rt.runtime.worker.java_launches import java_code
from spark_connect_rt.runtime.worker.launches import (
    TaskSpec,
    connector_facts,
    executor_name,
    make_launch,
    new_connector,
    secret_settings,
)

SIDE_BY_SIDE = 2
PLANNING_S = 30.0  # of a Java connector, in the driver's JVM
NAMELESS = "preview"
FindRunner = Callable[[], PreviewRunner]
"""Waits for what runs previews. Raises ConnectError: there is none here."""


class ConnectorPreviews:
    """Implements engine.previews.model.Previews on one worker."""

    def __init__(
        self,
        deps: HerderDependencies,
        herder: HerderApi,
        runner: FindRunner,
        list_topics: ListTopics,
        side_by_side: int = SIDE_BY_SIDE,
    ) -> None:
        """Take what a worker has; nothing is started."""
        self._deps = deps
        self._runner = runner
        self._starting = StartingPoints(deps, herder, list_topics)
        self._room = threading.BoundedSemaphore(side_by_side)
        self._most = side_by_side
        self._running: set[threading.Event] = set()
        self._closed = False

    def start(self) -> None:
        """Nothing: a preview begins when it is asked for."""

    def stop(self) -> None:
        """End those that run, and begin no more: the worker stops."""
        self._closed = True
        for cancelled in tuple(self._running):
            cancelled.set()

    def preview(self, request: PreviewRequest, cancelled: threading.Event) -> Preview:
        """See Previews."""
        if self._closed:
            raise ShuttingDownError("this worker is stopping")
        if not self._room.acquire(blocking=False):
            raise RestError(
                429,
                f"this worker already runs {self._most} previews. Try again, or use another worker",
                code="CRT-1180",
            )
        self._running.add(cancelled)
        try:
            begun_s = time.monotonic()
            order = self._order(request)
            outcome = self._runner().run(order, cancelled)
            records = tuple(PreviewedRecord(tuple(map(shown_stage, stages))) for stages in outcome.records)
            seconds = round(time.monotonic() - begun_s, 3)
            return Preview(records, outcome.ended.value, outcome.error, seconds)
        finally:
            self._running.discard(cancelled)
            self._room.release()

    def _order(self, request: PreviewRequest) -> PreviewOrder:
        config = self._config(request)
        name = config["name"]
        stored, resolved = StoredConfig(config), self._deps.resolve(config)
        connector = new_connector(self._deps.plugins, resolved)
        remember(secrets_in([config], secret_settings(connector)))  # what its code says is shown
        _refuse(connector, resolved, put=request.put)
        launch = self._launch(connector, name, stored, resolved)
        if launch.task_class == executor_name(SparkSourceTask):
            raise BadRequestError(_BY_SPARK)
        is_source = launch.kind is TaskKind.SOURCE
        if isinstance(connector, JavaConnector) and is_source:
            task = planned_config(connector, resolved, min(request.seconds, PLANNING_S))
            launch = replace(launch, config=StoredConfig({**task, "task.class": connector.java_task_class}))
        named = request.name or (request.config or {}).get("name") or ""
        return PreviewOrder(
            launch,
            request.records,
            request.seconds,
            planned=isinstance(connector, JavaConnector),
            offsets=self._starting.of_source(request, named) if is_source else (),
            positions=() if is_source else self._starting.of_sink(request, name, stored, resolved),
            put=request.put,
        )

    def _config(self, request: PreviewRequest) -> dict[str, str]:
        """Return the configuration, valid and with a name. Raises NotFoundError, BadRequestError, BadConfigError."""
        if request.config is not None:
            given = dict(request.config)
            name = request.name or given.get("name") or NAMELESS
            return checked_config(self._deps, name, {**given, "name": name})
        stored = self._deps.config_store.snapshot().connector_config(request.name or "")
        if stored is None:
            raise NotFoundError(f"Connector {request.name} not found")
        return checked_config(self._deps, request.name or "", stored.written())

    def _launch(self, connector: Connector, name: str, config: StoredConfig, resolved: Mapping[str, str]) -> TaskLaunch:
        """Return the launch of a task that cannot write."""
        worker = self._deps.settings.worker
        facts = connector_facts(connector, resolved, java_code(connector, resolved, worker, self._deps.plugins))
        launch = make_launch(
            TaskSpec(ConnectorTaskId(name, 0), NO_SETTINGS, config), facts, worker, run=0, generation=0
        )
        clients = {} if launch.kind is TaskKind.SOURCE else carry_stores(launch.client_config)
        return replace(
            launch,
            client_config=clients,
            dead_letter_producer={},
            dead_letter_admin={},
            topic_admin={},
            offsets_topic="",
        )


_BY_SPARK = (
    "this connector cannot be previewed, because Spark itself reads for it on the driver. Read the same format "
    "with Spark to see its rows"
)


def _refuse(connector: Connector, config: Mapping[str, str], *, put: bool) -> None:
    """Raise BadRequestError when a preview would leave something behind, or cannot do what is asked."""
    if isinstance(connector, SinkConnector):
        if put and not _takes_back(connector):
            raise BadRequestError(
                "put: this sink cannot roll back what it writes (its task has no preview_put). Preview it without put"
            )
        return
    if put:
        raise BadRequestError("put: only valid for a sink connector")
    obstacle = connector.preview_obstacle(config)
    if obstacle:
        raise BadRequestError(f"this connector cannot be previewed: {obstacle}")


def _takes_back(connector: SinkConnector) -> bool:
    if isinstance(connector, JavaConnector):
        return False
    task_class: Any = connector.task_class()
    return getattr(task_class, "preview_put", SinkTask.preview_put) is not SinkTask.preview_put


def shown_stage(stage: Mapping[str, Any]) -> PreviewStage:
    """Return a stage of what an executor sent. Raises ConnectError: it is none."""
    try:
        record, data = stage["record"], stage.get("bytes")
        return PreviewStage(
            stage["stage"],
            None if record is None else _record(record),
            None if data is None else _bytes(data),
            stage.get("error"),
        )
    except (KeyError, TypeError) as error:
        raise ConnectError(f"the executor's answer is invalid: {error}") from error


def _record(tree: Mapping[str, Any]) -> ShownRecord:
    return ShownRecord(**{**tree, "headers": tuple(ShownHeader(**header) for header in tree["headers"])})


def _bytes(tree: Mapping[str, Any]) -> ShownBytes:
    return ShownBytes(**{**tree, "headers": tuple(ShownHeaderBytes(**header) for header in tree["headers"])})

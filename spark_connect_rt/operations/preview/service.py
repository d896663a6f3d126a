"""Previews a connector: checks what is asked, makes one task's launch ready, has an executor run it.

Owns what a preview may not have: a way to write. The launch that crosses holds no producer, no topic to make, no dead
letter queue; of a sink only the consumer's properties. At most two previews run side by side on a worker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from spark_connect_rt.api.connector import Connector, ConnectorContext, SinkConnector
from spark_connect_rt.api.spark_source import SparkSourceTask
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.hidden_values import remember, without_secrets
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.base.security.key_stores import carry_stores
from spark_connect_rt.config.client_properties import (
    connector_admin_properties,
    sink_consumer_properties,
    sink_group_id,
)
from spark_connect_rt.config.config_def import Type, parse_value
from spark_connect_rt.config.java_regex import java_pattern
from spark_connect_rt.config.secrets import secrets_in
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.engine.previews.model import OFFSETS_MAX, PreviewOrder, PreviewRunner
from spark_connect_rt.engine.task_runner import JavaConnector, TaskKind, TaskLaunch
from spark_connect_rt.errors import (
    BadConfigError,
    BadRequestError,
    ConnectError,
    DataError,
    NotFoundError,
    ShuttingDownError,
    TimedOutError,
)
from spark_connect_rt.operations.preview.model import (
    From,
    Preview,
    PreviewedRecord,
    PreviewRequest,
    PreviewStage,
    ShownBytes,
    ShownHeader,
    ShownHeaderBytes,
    ShownRecord,
)
from spark_connect_rt.rest.shapes import RestError
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies
from spark_connect_rt.runtime.herder.herder_api import HerderApi
from spark_connect_rt.runtime.herder.herder_requests import ReadOffsets
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
from spark_connect_rt.topics.offset_changes import check_source_offsets, sink_offsets

# The one task that has all of a Java connector's work, asked of an instance started in the driver's JVM.


log = logging.getLogger(__name__)


class AskedOnce(ConnectorContext):
    """The ConnectorContext of a connector that is started for one question."""

    previewed = True

    def request_task_reconfiguration(self) -> None:
        """Nothing: it is asked once."""

    def raise_error(self, error: Exception) -> None:
        """Say so; its tasks are asked for all the same."""
        log.warning("the connector reports %s", without_secrets(str(error)))

    def measured(self, values: Mapping[str, float]) -> None:
        """Do nothing: the metrics of one question are not shown."""

    def stored_offsets(self, partitions: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any] | None]:
        """Return no offset for any partition: a connector splits its work the same way without them."""
        return [None] * len(partitions)


def planned_config(connector: Connector, config: Mapping[str, str], limit_s: float) -> Mapping[str, str]:
    """Start a connector, ask it for one task's configuration, stop it.

    Raises what it does; TimedOutError: it does not return in time; ConnectError: it has no work.
    """
    found: list[Any] = []

    def plan() -> None:
        try:
            connector.context = AskedOnce()
            try:
                connector.start(config)
                found.append(connector.task_configs(1))
            finally:
                connector.stop()
        except Exception as error:
            log.info("planning a preview failed", exc_info=True)
            found.append(error)

    thread = threading.Thread(target=plan, name="preview-plan", daemon=True)
    thread.start()
    thread.join(limit_s)
    if not found:
        raise TimedOutError(f"the connector did not return its task configurations within {limit_s:.0f} s")
    if isinstance(found[0], Exception):
        raise ConnectError(f"the connector cannot start: {without_secrets(str(found[0]))}") from found[0]
    if not found[0]:
        raise ConnectError("the connector has no task: there is nothing to preview")
    return dict(found[0][0])


# Where a preview begins: stored source offsets, a consumer group's offsets, or what was given.
#
# Reads only: no group is joined, no topic made.


ListTopics = Callable[[Mapping[str, str]], Mapping[str, int]]
"""Admin properties, resolved -> partitions of each topic. Raises ConnectError. Never makes a topic."""
BEGINNING, END = -1, -2
READ_LIMIT_S = 30.0
Pairs = Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]


def topics_of(config: Mapping[str, str], there: Collection[str]) -> list[str]:
    """Return the topics of a sink's configuration, sorted; by a pattern those of it that are ``there``. Pure.

    Raises BadConfigError: the pattern cannot be understood.
    """
    named = [topic for topic in parse_value(Type.LIST, config.get("topics") or "") if topic]
    if named:
        return sorted(set(named))
    text = config.get("topics.regex") or ""
    try:
        pattern = java_pattern(text)
    except ValueError as error:
        raise BadConfigError({"topics.regex": [str(error)]}) from error
    return sorted(topic for topic in there if pattern.fullmatch(topic))


def positions_of(
    topics: Mapping[str, int], stored: Mapping[TopicPartition, int], default: int
) -> list[tuple[str, int, int]]:
    """Return where every partition of the topics (name -> partitions) is read from. Pure."""
    places = [TopicPartition(topic, number) for topic, count in sorted(topics.items()) for number in range(count)]
    return [(place.topic, place.partition, stored.get(place, default)) for place in places]


class StartingPoints:
    """Reads the stored offsets of connectors, where previews start."""

    def __init__(self, deps: HerderDependencies, herder: HerderApi, list_topics: ListTopics) -> None:
        """Take what knows offsets and topics."""
        self._deps, self._herder, self._list_topics = deps, herder, list_topics

    def of_source(self, request: PreviewRequest, name: str) -> Pairs:
        """Return (partition, offset) pairs. Raises ConnectError; BadRequestError: more than a preview takes along."""
        if request.begin is From.START:
            return ()
        if request.begin is From.GIVEN:
            try:
                check_source_offsets(request.offsets)
            except DataError as error:
                raise BadRequestError(str(error)) from error
        pairs = request.offsets if request.begin is From.GIVEN else self.stored(name)
        if len(pairs) > OFFSETS_MAX:
            raise BadRequestError(
                f"{len(pairs)} source partitions have offsets, but a preview takes at most {OFFSETS_MAX}. Send the "
                "offsets of some"
            )
        return pairs

    def stored(self, name: str) -> Pairs:
        """Return what is stored under a source connector's name, also one that is not there any more."""
        if not name:
            return ()
        if self._deps.config_store.snapshot().contains(name):
            found = self._herder.submit(ReadOffsets(name)).result(READ_LIMIT_S)
            return [(offset.partition or {}, offset.offset) for offset in found if offset.offset is not None]
        self._deps.offset_store.read(name, [])
        known = self._deps.offset_store.connector_offsets(name)
        return [(partition or {}, offset) for partition, offset in known if offset is not None]

    def of_sink(
        self, request: PreviewRequest, name: str, stored_config: StoredConfig, config: Mapping[str, str]
    ) -> list[tuple[str, int, int]]:
        """Return topic, partition and position of all that a sink reads. Raises ConnectError, BadRequestError.

        ``config``: the same as ``stored_config``, references resolved.
        """
        worker, texts = self._deps.settings.worker, stored_config.written()
        admin = self._deps.resolve(connector_admin_properties(worker, texts, name, 0))
        there = self._list_topics(admin)
        wanted = topics_of(config, there)
        missing = [topic for topic in wanted if topic not in there]
        if missing or not wanted:
            what = f"topics do not exist: {', '.join(missing)}" if missing else ("no topic matches topics.regex")
            raise BadRequestError(f"there is nothing to read: {what}")
        stored: Mapping[TopicPartition, int] = {}
        default = BEGINNING
        if request.begin is not From.START:
            consumer = self._deps.resolve(sink_consumer_properties(worker, texts, name, 0))
            reset = consumer.get("auto.offset.reset", "earliest")
            default = END if reset.strip().lower() == "latest" else BEGINNING
        if request.begin is From.GIVEN:
            given = sink_offsets(list(request.offsets))
            stored = {place: offset for place, offset in given.items() if offset is not None}
        elif request.begin is From.STORED:
            stored = self._deps.group_offsets.committed(admin, sink_group_id(config, name))
        return positions_of({topic: there[topic] for topic in wanted}, stored, default)


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
        """Run one preview and return its records. Raises RestError (429) if too many run, ShuttingDownError."""
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
        remember(secrets_in([config], secret_settings(connector)))  # its code's messages are shown without them
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
    """Return a stage of what an executor sent. Raises ConnectError: it is invalid."""
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

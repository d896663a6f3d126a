"""A herder of values: reads answer what a test put in, writes are remembered and answered at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.base.loggers import LoggerLevel
from spark_connect_rt.config.stored_config import StoredConfig
from spark_connect_rt.errors import ForbiddenError, NotFoundError
from spark_connect_rt.runtime.herder.herder_api import HerderApi
from spark_connect_rt.runtime.herder.herder_requests import Request, SetLoggerLevel
from spark_connect_rt.runtime.metric_names import MetricValue, measured
from spark_connect_rt.runtime.values import (
    ConnectorInfo,
    ConnectorStateInfo,
    Health,
    HerderEvent,
    InstanceState,
    InternalKey,
    PluginInfo,
    TaskInfo,
    TaskPace,
    TaskProgress,
    TaskState,
    WorkerProgress,
    WorkerStanding,
)
from spark_connect_rt.topics.config_records import TargetState

T = TypeVar("T")
CONFIG = {
    "connector.class": "FileStreamSource",
    "tasks.max": "1",
    "file": "in.txt",
    "topic": "lines",
    "name": "src",
}
TASK = ConnectorTaskId("src", 0)
INFO = ConnectorInfo("src", CONFIG, (TASK,), "source")
RUNNING = InstanceState("RUNNING", "h:8083", version="4.1.1")
FAILED = TaskState(0, "FAILED", "h:8083", "4.1.1", "boom\n\tat x")
STATUS = ConnectorStateInfo("src", RUNNING, (FAILED,), "source")


def answered(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


class FakeHerder:
    """Its own views. ``answers[kind of request]``: a value, an exception, or a Future of its own."""

    def __init__(self) -> None:
        self.infos = {"src": INFO}
        self.versions: dict[str, int] = {}
        self.answers: dict[type[Request[Any]], Any] = {SetLoggerLevel: ["org.x", "org.x.y"]}
        self.requests: list[Request[Any]] = []
        self.state = Health("healthy")
        self.key = InternalKey(required=False, key=None)
        self.tracking = True
        self.started = answered(None)

    @property
    def views(self) -> FakeHerder:
        return self

    def submit(self, request: Request[T]) -> Future[T]:
        self.requests.append(request)
        value = self.answers.get(type(request))
        return value if isinstance(value, Future) else answered(value)

    def kafka_cluster_id(self) -> str:
        return "cluster"

    def is_leader(self) -> bool:
        return True

    def health(self) -> Health:
        return self.state

    def events(self) -> Sequence[HerderEvent]:
        return [HerderEvent(1, "poll", "waiting for the group", 3)]

    def standing(self) -> WorkerStanding:
        return WorkerStanding("h:8083", "http://h:8083/", True, "http://h:8083/", 2, "sessioned", "g")

    def states_mark(self) -> object:
        return object()

    def status_times(self, name: str) -> Mapping[int | None, int]:
        return {None: 1_000, 0: 2_000}

    def task_paces(self) -> Sequence[TaskPace]:
        return [TaskPace(TASK, 5, 1.5, None, 0)]

    def tasks_of(self, connector: str) -> Sequence[TaskProgress]:
        return [task for task in self.progress().tasks if task.task.connector == connector]

    def connector_states(self) -> Mapping[str, str]:
        return self.progress().connectors

    def progress(self) -> WorkerProgress:
        task = TaskProgress(TASK, "RUNNING", "source", records=5, topics=("lines",))
        return WorkerProgress("h:8083", "http://h:8083/", True, None, 2, "sessioned", {"src": "RUNNING"}, (task,))

    def metrics(self) -> list[MetricValue]:
        tags = {"connector": "src", "task": "0"}
        return [
            measured("source-task-metrics", "source-record-poll-total", 7, **tags),
            measured("connector-task-metrics", "status", 1, **tags, status="running"),
            measured("connect-worker-rebalance-metrics", "epoch", 4),
        ]

    def internal_key(self) -> InternalKey:
        return self.key

    def list_connectors(self) -> list[str]:
        return sorted(self.infos)

    def connector_info(self, name: str) -> ConnectorInfo:
        if name not in self.infos:
            raise NotFoundError(f"Connector {name} not found")
        return self.infos[name]

    def connector_config(self, name: str) -> StoredConfig:
        return StoredConfig(self.connector_info(name).config)

    def connector_mark(self, name: str) -> object:
        return object()  # never as it was

    def config_version(self, name: str) -> int | None:
        return self.versions.get(name)

    def target_state(self, name: str) -> TargetState | None:
        return TargetState.STARTED

    def connector_status(self, name: str) -> ConnectorStateInfo:
        if name != "src" or name not in self.infos:
            raise NotFoundError(f"No status found for connector {name}")
        return STATUS

    def task_status(self, task: ConnectorTaskId) -> TaskState:
        if task != TASK or task.connector not in self.infos:
            raise NotFoundError(f"No status found for task {task}")
        return FAILED

    def task_infos(self, name: str) -> list[TaskInfo]:
        return [TaskInfo(task, CONFIG | {"task.class": "T"}) for task in self.connector_info(name).tasks]

    def topics(self, name: str) -> tuple[str, ...]:
        if not self.tracking:
            raise ForbiddenError("Topic tracking is disabled.")
        return ("lines",) if name == "src" else ()

    def plugins(self, connectors_only: bool) -> list[PluginInfo]:
        sink = PluginInfo("org.apache.kafka.connect.file.FileStreamSinkConnector", "sink", "4.1.1")
        return [sink] if connectors_only else [sink, PluginInfo("x.Predicate", "predicate", None)]

    def logger_levels(self) -> Mapping[str, LoggerLevel]:
        return {"root": LoggerLevel("INFO"), "org.x": LoggerLevel("DEBUG", 1_690_000_000_000)}

    def logger_level(self, name: str) -> LoggerLevel:
        if name not in self.logger_levels():
            raise NotFoundError(f"Logger {name} not found.")
        return self.logger_levels()[name]


def as_port(herder: FakeHerder) -> HerderApi:
    """Let mypy compare the fake with the port."""
    return herder

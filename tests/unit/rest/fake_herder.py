"""A herder of values: reads answer what a test put in, writes are remembered and answered at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from spark_connect_rt.config.config_def import ConfigKey
from spark_connect_rt.errors import ForbiddenError, NotFoundError
from spark_connect_rt.planning.config_infos import ConfigInfos
from spark_connect_rt.ports.herder import (
    ConfigWritten,
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStateInfo,
    Health,
    HerderApi,
    InstanceState,
    InternalKey,
    PluginInfo,
    StoryLine,
    TaskInfo,
    TaskInstanceState,
    TaskProgress,
    WorkerProgress,
)
from spark_connect_rt.ports.loggers import LoggerLevel
from spark_connect_rt.ports.metric_names import Measured, measured
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.state.target_state import TargetState

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
FAILED = InstanceState("FAILED", "h:8083", "boom\n\tat x", "4.1.1")
STATUS = ConnectorStateInfo("src", RUNNING, (TaskInstanceState(0, FAILED),), "source")


def answered(value: Any) -> Future[Any]:
    future: Future[Any] = Future()
    if isinstance(value, Exception):
        future.set_exception(value)
    else:
        future.set_result(value)
    return future


class FakeHerder:
    """``answers[operation]`` is what a write answers: a value, an exception, or a Future of its own."""

    def __init__(self) -> None:
        self.infos = {"src": INFO}
        self.answers: dict[str, Any] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.state = Health("healthy")
        self.key = InternalKey(required=False, key=None)
        self.tracking = True
        self.started = answered(None)

    def _answer(self, operation: str, *arguments: Any) -> Future[Any]:
        self.calls.append((operation, *arguments))
        value = self.answers.get(operation)
        return value if isinstance(value, Future) else answered(value)

    def catch_up(self) -> Future[None]:
        return self._answer("catch_up")

    def worker_id(self) -> str:
        return "h:8083"

    def worker_url(self) -> str:
        return "http://h:8083/"

    def kafka_cluster_id(self) -> str:
        return "cluster"

    def is_leader(self) -> bool:
        return True

    def leader_url(self) -> str | None:
        return "http://h:8083/"

    def health(self) -> Health:
        return self.state

    def story(self) -> Sequence[StoryLine]:
        return [StoryLine(1, "poll", "waiting for the group", 3)]

    def progress(self) -> WorkerProgress:
        task = TaskProgress(TASK, "RUNNING", "source", records=5, topics=("lines",))
        return WorkerProgress("h:8083", "http://h:8083/", True, None, 2, "sessioned", {"src": "RUNNING"}, (task,))

    def metrics(self) -> list[Measured]:
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

    def connector_config(self, name: str) -> Mapping[str, str]:
        return self.connector_info(name).config

    def connector_mark(self, name: str) -> object:
        return object()  # never as it was

    def connector_status(self, name: str) -> ConnectorStateInfo:
        if name != "src" or name not in self.infos:
            raise NotFoundError(f"No status found for connector {name}")
        return STATUS

    def task_status(self, task: ConnectorTaskId) -> InstanceState:
        if task != TASK or task.connector not in self.infos:
            raise NotFoundError(f"No status found for task {task}")
        return FAILED

    def task_infos(self, name: str) -> list[TaskInfo]:
        return [TaskInfo(task, CONFIG | {"task.class": "T"}) for task in self.connector_info(name).tasks]

    def topics(self, name: str) -> tuple[str, ...]:
        if not self.tracking:
            raise ForbiddenError("Topic tracking is disabled.")
        return ("lines",) if name == "src" else ()

    def reset_topics(self, name: str) -> None:
        if not self.tracking:
            raise ForbiddenError("Topic tracking reset is disabled.")
        self.calls.append(("reset_topics", name))

    def plugins(self, connectors_only: bool) -> list[PluginInfo]:
        sink = PluginInfo("org.apache.kafka.connect.file.FileStreamSinkConnector", "sink", "4.1.1")
        return [sink] if connectors_only else [sink, PluginInfo("x.Predicate", "predicate", None)]

    def plugin_settings(self, name: str, version: str | None) -> Future[list[ConfigKey]]:
        return self._answer("plugin_settings", name, version)

    def validate_config(self, config: Mapping[str, str | None]) -> Future[ConfigInfos]:
        return self._answer("validate_config", dict(config))

    def logger_levels(self) -> Mapping[str, LoggerLevel]:
        return {"root": LoggerLevel("INFO"), "org.x": LoggerLevel("DEBUG", 1_690_000_000_000)}

    def logger_level(self, name: str) -> LoggerLevel:
        if name not in self.logger_levels():
            raise NotFoundError(f"Logger {name} not found.")
        return self.logger_levels()[name]

    def set_logger_level(self, namespace: str, level: str) -> Sequence[str]:
        self.calls.append(("set_logger_level", namespace, level))
        return [namespace, f"{namespace}.y"]

    def put_logger_level(self, namespace: str, level: str) -> Future[None]:
        return self._answer("put_logger_level", namespace, level)

    def offsets(self, name: str) -> Future[list[ConnectorOffset]]:
        return self._answer("offsets", name)

    def alter_offsets(self, name: str, offsets: Sequence[Any]) -> Future[str]:
        return self._answer("alter_offsets", name, list(offsets))

    def reset_offsets(self, name: str) -> Future[str]:
        return self._answer("reset_offsets", name)

    def create(self, name: str, config: Mapping[str, str], initial_state: TargetState | None) -> Future[ConfigWritten]:
        return self._answer("create", name, dict(config), initial_state)

    def put_config(self, name: str, config: Mapping[str, str]) -> Future[ConfigWritten]:
        return self._answer("put_config", name, dict(config))

    def patch_config(self, name: str, patch: Mapping[str, str | None]) -> Future[ConfigWritten]:
        return self._answer("patch_config", name, dict(patch))

    def delete(self, name: str) -> Future[None]:
        return self._answer("delete", name)

    def pause(self, name: str) -> Future[None]:
        return self._answer("pause", name)

    def resume(self, name: str) -> Future[None]:
        return self._answer("resume", name)

    def stop_connector(self, name: str) -> Future[None]:
        return self._answer("stop_connector", name)

    def restart(self, name: str, include_tasks: bool, only_failed: bool) -> Future[ConnectorStateInfo | None]:
        return self._answer("restart", name, include_tasks, only_failed)

    def restart_task(self, task: ConnectorTaskId) -> Future[None]:
        return self._answer("restart_task", task)

    def put_task_configs(self, name: str, configs: Sequence[Mapping[str, str]]) -> Future[None]:
        return self._answer("put_task_configs", name, list(configs))

    def fence(self, name: str) -> Future[None]:
        return self._answer("fence", name)


def as_port(herder: FakeHerder) -> HerderApi:
    """Let mypy compare the fake with the port."""
    return herder

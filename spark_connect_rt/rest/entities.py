"""JSON shapes of the REST API, field for field in Java's order (Java ``rest.entities``).

Owns: what a body looks like. Where Java prints a HashMap, its order is reproduced: configurations read back
from the config topic, offsets, the expanded list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from spark_connect_rt.ports.herder import (
    ConnectorInfo,
    ConnectorOffset,
    ConnectorStateInfo,
    Health,
    InstanceState,
    PluginInfo,
    StoryLine,
    TaskInfo,
    WorkerProgress,
)
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.protocol.java_hash_order import in_java_hash_order

Json = dict[str, Any]

HEALTH_STATUS = {"healthy": 200, "starting": 503, "unhealthy": 500}
HEALTH_MESSAGE = {
    "healthy": "Worker has completed startup and is ready to handle requests.",
    "starting": "Worker is still starting up.",
    "unhealthy": "Worker was unable to handle this request and may be unable to handle other requests.",
}


def root_entity(version: str, commit: str, kafka_cluster_id: str) -> Json:
    """``GET /``."""
    return {"version": version, "commit": commit, "kafka_cluster_id": kafka_cluster_id}


def health_entity(health: Health) -> Json:
    """``GET /health``; healthy says nothing more, the others say what the worker does."""
    message = HEALTH_MESSAGE[health.status]
    if health.status != "healthy" and health.detail:
        message = f"{message} {health.detail}"
    return {"status": health.status, "message": message}


def liveness_entity(health: Health) -> Json:
    """``GET /health/live``; a worker that starts or stops in order is live, and says so."""
    if not health.live:
        return health_entity(health)
    message = "Worker is live." if health.status == "healthy" else f"Worker is live. {health.detail}".rstrip()
    return {"status": "healthy", "message": message}


def config_entity(config: Mapping[str, str]) -> Json:
    """Return a configuration as Java shows one that was read back from the topic."""
    return in_java_hash_order(config)


def info_entity(info: ConnectorInfo, *, read_back: bool = True) -> Json:
    """Return a connector; ``read_back`` False: the answer to its own write, in the order it was written."""
    return {
        "name": info.name,
        "config": config_entity(info.config) if read_back else dict(info.config),
        "tasks": [task_id_entity(task) for task in info.tasks],
        "type": info.type,
    }


def task_id_entity(task: ConnectorTaskId) -> Json:
    """Return the id of a task."""
    return {"connector": task.connector, "task": task.task}


def state_entity(info: ConnectorStateInfo) -> Json:
    """Return the status of a connector and its tasks."""
    return {
        "name": info.name,
        "connector": instance_entity(info.connector),
        "tasks": [task_state_entity(task.task, task.instance) for task in info.tasks],
        "type": info.type,
    }


def task_state_entity(task: int, instance: InstanceState) -> Json:
    """Return the status of a task."""
    return {"id": task, **instance_entity(instance)}


def instance_entity(instance: InstanceState) -> Json:
    """Return state and worker; version, trace and our own notes only where there are any."""
    entity: Json = {"state": instance.state, "worker_id": instance.worker_id}
    if instance.version:
        entity["version"] = instance.version
    if instance.trace:
        entity["trace"] = instance.trace
    return entity | dict(instance.notes)


def task_infos_entity(tasks: Iterable[TaskInfo]) -> list[Json]:
    """Return the tasks with their raw configurations."""
    return [{"id": task_id_entity(task.id), "config": config_entity(task.config)} for task in tasks]


def offsets_entity(offsets: Iterable[ConnectorOffset]) -> Json:
    """Return where a connector is."""

    def ordered(fields: Mapping[str, Any] | None) -> Json | None:
        return None if fields is None else in_java_hash_order(fields)

    entries = [{"partition": ordered(one.partition), "offset": ordered(one.offset)} for one in offsets]
    return {"offsets": entries}


def topics_entity(name: str, topics: Sequence[str]) -> Json:
    """Return the topics a connector used."""
    return {name: {"topics": list(topics)}}


def plugins_entity(plugins: Iterable[PluginInfo]) -> list[Json]:
    """Return the plug-ins; version only where there is one."""
    return [
        {"class": plugin.class_name, "type": plugin.type} | ({"version": plugin.version} if plugin.version else {})
        for plugin in plugins
    ]


def story_entity(lines: Iterable[StoryLine]) -> Json:
    """Return the herder's reasons, oldest first (ours, not Java's)."""
    return {"story": [asdict(line) for line in lines]}


def progress_entity(progress: WorkerProgress) -> Json:
    """Return what this worker does now (ours, not Java's)."""
    tasks = [asdict(task) | {"task": task_id_entity(task.task)} for task in progress.tasks]
    return asdict(progress) | {"tasks": tasks}

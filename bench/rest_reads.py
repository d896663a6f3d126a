"""The reads of the REST API alone: real stores, herder and server over topics in memory, nothing runs.

What a list of running connectors costs cannot be measured with 2,000 running tasks on a small machine; reads answer
from snapshots and never ask the engine, so their cost is the same without it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from starlette.responses import Response

from spark_connect_rt.app.rest.rest_app import create_app
from spark_connect_rt.base.concurrency import SystemClock
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.connectors.samples.mock import MockSourceConnector
from spark_connect_rt.group.peers import PeerClient
from spark_connect_rt.rest.server import RestServer
from spark_connect_rt.runtime.herder.dependencies import HerderDependencies, HerderSettings
from spark_connect_rt.runtime.herder.herder import DistributedHerder
from spark_connect_rt.testing.in_process_cluster import InProcessPeers, MemoryPlugins
from spark_connect_rt.testing.memory_compacted_log import MemoryCompactedLog, MemoryLogTopic
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics
from spark_connect_rt.testing.memory_group import MemoryGroup
from spark_connect_rt.testing.memory_sink_group import MemoryConsumerGroups, MemoryGroupOffsets
from spark_connect_rt.testing.memory_task_runner import MemoryTaskRunner
from spark_connect_rt.testing.worker_settings import worker_settings
from spark_connect_rt.topics import config_records, status_records
from spark_connect_rt.topics.config_store import ConfigStore
from spark_connect_rt.topics.offset_store import OffsetStore
from spark_connect_rt.topics.status_records import ConnectorStatus, ConnectorStatusKey, State, TaskStatusKey
from spark_connect_rt.topics.status_store import StatusStore, to_fields

MOCK = "org.apache.kafka.connect.tools.MockSourceConnector"


@contextlib.contextmanager
def running_connectors(count: int, config: dict[str, str]) -> Iterator[str]:
    """Serve ``count`` connectors with one task each, all RUNNING by their statuses; yield the URL."""
    configs, statuses = MemoryLogTopic("configs"), MemoryLogTopic("statuses", partitions=5)
    status = status_records.encode_status(to_fields(ConnectorStatus(State.RUNNING, "h:8083", 1, None, "1.0")))
    for number in range(count):
        name = f"connector-{number:04d}"
        task, named = ConnectorTaskId(name, 0), {**config, "connector.class": MOCK, "name": name}
        configs.write(
            [
                (config_records.connector_key(name), config_records.encode_properties(named)),
                (config_records.task_key(task), config_records.encode_properties({**named, "task.class": "MockTask"})),
                (config_records.commit_key(name), config_records.encode_commit(1)),
            ]
        )
        statuses.write([(status_records.encode_key(ConnectorStatusKey(name)), status)])
        statuses.write([(status_records.encode_key(TaskStatusKey(task)), status)])
    deps = memory_dependencies(configs, statuses)
    deps.config_store.start(lambda _: None)
    deps.status_store.start()
    herder = DistributedHerder(deps)
    herder.started.set_result(None)  # the stores are; nothing else of it is asked
    server = RestServer(create_app(herder), "127.0.0.1", 0)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()
        deps.status_store.stop()
        deps.config_store.stop()


@contextlib.contextmanager
def those_bytes(content: bytes) -> Iterator[str]:
    """Serve one answer from memory by the same server: what no API can be faster than; yield the URL."""

    async def app(scope: dict[str, object], receive: object, send: object) -> None:
        if scope["type"] == "http":
            await Response(content, media_type="application/json")(scope, receive, send)  # type: ignore[arg-type]

    server = RestServer(app, "127.0.0.1", 0)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.stop()


def memory_dependencies(
    configs: MemoryLogTopic,
    statuses: MemoryLogTopic,
    worker_id: str = "h:8083",
    peers: PeerClient | None = None,
) -> HerderDependencies:
    """Return what a herder stands on where the topics are in memory and nothing runs; ``peers`` None: it is alone."""
    clock, groups = SystemClock(), MemoryConsumerGroups()
    plugins = MemoryPlugins({MOCK: MockSourceConnector})
    return HerderDependencies(
        settings=HerderSettings.of(worker_id, f"http://{worker_id}/", worker_settings()),
        clock=clock,
        member=MemoryGroup().member("w"),
        config_store=ConfigStore(MemoryCompactedLog(configs), clock),
        status_store=StatusStore(MemoryCompactedLog(statuses), clock),
        offset_store=OffsetStore(MemoryCompactedLog(MemoryLogTopic("offsets"))),
        runner=MemoryTaskRunner(MemoryExecutorClients(MemoryTopics(), plugins.class_of)),
        sink_groups=groups.member,
        plugins=plugins,
        peers=peers or InProcessPeers({}),
        group_offsets=MemoryGroupOffsets(groups),
        new_key=lambda size: bytes(size),
    )

"""The tables of ``spark.read.format("connectrt").load("connectors")``: a worker group's internal topics as rows.

Owns what each table's columns hold. The topics are read where the Spark task runs, with the options as worker
properties; no worker is asked but for ``workers``, whose addresses are in the group itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from spark_connect_rt.app.offline.deployed_connectors import DEFAULTS, Deployed
from spark_connect_rt.app.offline.internal_topics import InternalTopics
from spark_connect_rt.app.offline.store_actions import offsets_of
from spark_connect_rt.config.stored_config import NO_SETTINGS
from spark_connect_rt.engine.datasource.pushed_filters import Comparison
from spark_connect_rt.engine.datasource.table_columns import DEAD_LETTERS
from spark_connect_rt.errors import DataError
from spark_connect_rt.operations.dead_letters.table import dead_letters
from spark_connect_rt.topics.config_state import ClusterConfigState
from spark_connect_rt.topics.status_records import ConnectorStatus
from spark_connect_rt.topics.status_store import StatusFold
from spark_connect_rt.topics.store_check import Stored, fold_configs

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """The contents of the topics, and the state of the group."""

    stored: Stored
    configs: ClusterConfigState
    statuses: StatusFold
    worker_urls: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusterTable:
    """Rows, as TABLE_COLUMNS names their columns, and which topics these come from."""

    rows: Callable[[Cluster], Iterator[Row]]
    kinds: tuple[str, ...]


def read_table(name: str, settings: Mapping[str, str], conditions: Sequence[Comparison] = ()) -> Iterator[Row]:
    """Yield a table's rows, as of now; ``conditions`` on the columns of FILTERED, which its rows keep to.

    Raises BadConfigError (a worker setting is missing or wrong), NotFoundError (no such connector, or it has no dead
    letter queue), ConnectError (the brokers cannot be asked).
    """
    if name.startswith(DEAD_LETTERS):
        connector = Deployed(settings).config(name.removeprefix(DEAD_LETTERS))
        yield from dead_letters(connector, DEFAULTS | dict(settings), conditions)
        return
    with InternalTopics(DEFAULTS | dict(settings)) as topics:
        stored = topics.stored(TABLES[name].kinds)
        urls = tuple(topics.worker_urls()) if name == "workers" else ()
    configs, _ = fold_configs(stored.configs)
    statuses = StatusFold()
    for _, _, key, value, _ in stored.statuses:
        try:
            statuses.apply(key, value)
        except DataError:
            continue  # ``connectrt store check`` names it
    yield from TABLES[name].rows(Cluster(stored, configs, statuses, urls))


def _connectors(cluster: Cluster) -> Iterator[Row]:
    configs = cluster.configs
    for name in configs.connectors():
        config, target = dict((configs.connector_config(name) or NO_SETTINGS).written()), configs.target_state(name)
        tasks = configs.task_count(name)
        status = cluster.statuses.connectors.get(name)
        yield (
            name,
            config.get("connector.class"),
            config,
            target.value if target else None,
            tasks,
            *_state_columns(status),
        )


def _tasks(cluster: Cluster) -> Iterator[Row]:
    configs = cluster.configs
    for name in configs.connectors():
        for task in configs.tasks(name):
            status = cluster.statuses.task(task)
            yield name, task.task, dict((configs.task_config(task) or NO_SETTINGS).written()), *_state_columns(status)


def _statuses(cluster: Cluster) -> Iterator[Row]:
    for name in sorted(cluster.statuses.known()):
        connector = cluster.statuses.connectors.get(name)
        if connector is not None:
            yield name, None, *_state_columns(connector)
        for number, status in sorted(cluster.statuses.tasks(name).items()):
            yield name, number, *_state_columns(status)


def _configs(cluster: Cluster) -> Iterator[Row]:
    configs = cluster.configs
    for name in configs.connectors():
        yield from (
            (name, None, key, value) for key, value in (configs.connector_config(name) or NO_SETTINGS).written().items()
        )
        for task in configs.tasks(name):
            yield from (
                (name, task.task, key, value)
                for key, value in (configs.task_config(task) or NO_SETTINGS).written().items()
            )


def _offsets(cluster: Cluster) -> Iterator[Row]:
    for offset in offsets_of(cluster.stored):
        written = datetime.fromisoformat(offset["written"]).astimezone(UTC)
        yield (
            offset["connector"],
            _text(offset["partition"]),
            _text(offset["offset"]),
            written,
            offset["state"] == "configured",
        )


def _workers(cluster: Cluster) -> Iterator[Row]:
    running: dict[str, int] = {}
    for name in cluster.configs.connectors():
        for task in cluster.configs.tasks(name):
            status = cluster.statuses.task(task)
            if status is not None and status.state.value == "RUNNING":
                running[status.worker_id] = running.get(status.worker_id, 0) + 1
    for url in cluster.worker_urls:
        worker_id = url.partition("//")[2].rstrip("/")
        yield url, worker_id, running.get(worker_id, 0)


def _state_columns(status: ConnectorStatus | None) -> Row:
    if status is None:
        return None, None, None, None, None
    return status.state.value, status.worker_id, status.generation, status.trace, status.version


def _text(fields: Mapping[str, Any] | None) -> str | None:
    return None if fields is None else json.dumps(fields, separators=(",", ":"), ensure_ascii=False)


TABLES = {
    "connectors": ClusterTable(_connectors, ("configs", "statuses")),
    "tasks": ClusterTable(_tasks, ("configs", "statuses")),
    "statuses": ClusterTable(_statuses, ("statuses",)),
    "configs": ClusterTable(_configs, ("configs",)),
    "offsets": ClusterTable(_offsets, ("configs", "offsets")),
    "workers": ClusterTable(_workers, ("configs", "statuses")),
}

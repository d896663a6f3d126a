"""The connector that a read or a stream names: its configuration, its tasks, where they start.

Owns where the configuration comes from: the options alone, or a deployed connector's with the options over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from spark_connect_rt.api.connector import Connector, SourceConnector
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.ports.executor_clients import ExecutorClients
from spark_connect_rt.spark.datasource.decoding import columns_ddl
from spark_connect_rt.spark.datasource.open_task import TaskPartition
from spark_connect_rt.spark.datasource.read_options import CONNECT, SourceOffset, connector_config, parse_options
from spark_connect_rt.spark.datasource.sampling import sampled_kinds
from spark_connect_rt.spark.executor.hosting import load_clients, load_named


class OffsetBook(Protocol):
    """The stored offsets of one connector name."""

    def read(self) -> Sequence[SourceOffset]:
        """Return all. Raises ConnectError."""

    def write(self, offsets: Sequence[SourceOffset]) -> None:
        """Store them; returns when they are durable. Raises ConnectError."""

    def close(self) -> None:
        """Give up its clients."""


class DeployedConnectors(Protocol):
    """What a worker group knows of its connectors; made with the options as worker properties."""

    def config(self, name: str) -> Mapping[str, str]:
        """Return a connector's configuration, references unresolved. Raises NotFoundError, ConnectError."""

    def offsets(self, name: str) -> OffsetBook:
        """Return the stored offsets of a connector, deployed or not. Raises ConnectError."""


class NamedConnector:
    """One connector; nothing of it runs yet."""

    def __init__(self, options: Mapping[str, str], clients: str, deployed: str) -> None:
        """Take Spark's options and the names of what comes from outside. Raises BadConfigError, NotFoundError."""
        self.options = parse_options(options)
        self._raw = {name.lower(): value for name, value in options.items()}
        self._clients = clients
        self._deployed = deployed
        self._connector, self._config = self._made(load_clients(clients))

    def columns(self) -> str:
        """Return the columns of its rows, as DDL; what types are not said a sample shows. Raises BadConfigError, ..."""
        decodes = self.options.decodes
        unsaid = [one for one in decodes if one.type_ddl is None]
        kinds = sampled_kinds(self.tasks(self.starting()), unsaid) if unsaid else {}
        return columns_ddl(decodes, kinds)

    def tasks(
        self, starting: Sequence[SourceOffset], kinds: Mapping[str, pa.DataType] | None = None
    ) -> list[TaskPartition]:
        """Return its tasks, to be started at stored offsets; ``kinds``: the types of decoded columns."""
        clients = load_clients(self._clients)
        most = int(self._config["tasks.max"])
        name, tasks = planned_tasks(self._connector(), self._config, clients, most)
        limits = self.options.limits
        return [
            TaskPartition(
                name,
                task,
                self._config,
                self._clients,
                limits.share(len(tasks), number),
                tuple(starting),
                self.options.decodes,
                kinds or {},
            )
            for number, task in enumerate(tasks)
        ]

    def starting(self) -> Sequence[SourceOffset]:
        """Return the stored offsets that tasks begin at. Raises ConnectError."""
        if self.options.starting != CONNECT:
            assert not isinstance(self.options.starting, str)
            return self.options.starting
        book = self.book()
        try:
            return book.read()
        finally:
            book.close()

    def book(self) -> OffsetBook:
        """Return the stored offsets under this connector's name. Raises ConnectError."""
        return self._group().offsets(self._config["name"])

    def _group(self) -> DeployedConnectors:
        make: Callable[[Mapping[str, str]], DeployedConnectors] = load_named(self._deployed)
        return make(self._raw)

    def _made(self, clients: ExecutorClients) -> tuple[type[SourceConnector], dict[str, str]]:
        config: dict[str, str] = {}
        if self.options.connector is not None:
            config = dict(self._group().config(self.options.connector))
        config |= self.options.config
        name = config.get("connector.class")
        if not name:
            raise BadConfigError({"connector.class": ["is missing: name a source connector"]})
        found: type[Any] = clients.plugin(name)
        if not issubclass(found, SourceConnector):
            raise BadConfigError({"connector.class": [f"{name} is not a source connector"]})
        return found, connector_config(config, found(), clients.plugin)


def planned_tasks(
    connector: Connector, config: Mapping[str, str], clients: ExecutorClients, most: int
) -> tuple[str, list[dict[str, str]]]:
    """Have a connector split its work; return its task class ("package.module:Class") and the tasks' configurations.

    Raises what the connector does.
    """
    task_class = connector.task_class()
    connector.start(clients.resolve(config, config))
    try:
        tasks = connector.task_configs(most)
    finally:
        connector.stop()
    return f"{task_class.__module__}:{task_class.__qualname__}", [dict(task) for task in tasks]

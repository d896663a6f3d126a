"""The connector that a read or a stream names: its configuration, its tasks, where they start.

Owns where the configuration comes from: the options alone, or a deployed connector's with the options over it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import pyarrow as pa

from spark_connect_rt.api.connector import Connector, ConnectorContext, ExactlyOnceSupport, SourceConnector
from spark_connect_rt.api.ranges import RangeSourceConnector, SourceRange
from spark_connect_rt.engine.datasource.read_columns import columns_ddl
from spark_connect_rt.engine.datasource.read_options import (
    CONNECT,
    ReadLimits,
    SourceOffset,
    connector_config,
    parse_options,
)
from spark_connect_rt.engine.datasource.stream_position import Position, TaskPartition, offsets_of
from spark_connect_rt.engine.executor.hosting import load_clients, load_named
from spark_connect_rt.errors import BadConfigError, NotFoundError
from spark_connect_rt.kafka.executor_clients import ExecutorClients

log = logging.getLogger(__name__)


class OffsetBook(Protocol):
    """The stored offsets of one connector name."""

    def read(self) -> Sequence[SourceOffset]:
        """Return every offset of the connector. Raises ConnectError."""

    def write(self, offsets: Sequence[SourceOffset]) -> None:
        """Store them; returns when they are durable. Raises ConnectError."""

    def close(self) -> None:
        """Close the clients that the book has opened."""


class DeployedConnectors(Protocol):
    """Connectors of a worker group, as the group's topics describe them. Made with the options as worker properties."""

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
        """Return the columns of its rows as DDL. Missing types are taken from a sample. Raises BadConfigError, ..."""
        decodes = self.options.decodes
        unsaid = [rule for rule in decodes if rule.type_ddl is None]
        kinds: Mapping[str, pa.DataType] = {}
        if unsaid:
            from spark_connect_rt.engine.datasource.sampling import sampled_kinds

            kinds = sampled_kinds(self.tasks(self.starting()), unsaid)
        return columns_ddl(decodes, kinds, self.options.columns)

    def tasks(
        self, starting: Sequence[SourceOffset], kinds: Mapping[str, pa.DataType] | None = None
    ) -> list[TaskPartition]:
        """Return its tasks, to be started at stored offsets; ``kinds``: the types of decoded columns."""
        name, tasks = planned_tasks(self._connector(), self._config, load_clients(self._clients), self._most)
        return self._partitions(name, tasks, self.options.limits, starting, kinds or {})

    @property
    def has_ranges(self) -> bool:
        """Whether it is one over a log."""
        return issubclass(self._connector, RangeSourceConnector)

    @property
    def exact_offsets(self) -> bool:
        """Whether it says that each of its source offsets covers exactly the rows up to it."""
        return self._connector().exactly_once_support(self._config) is ExactlyOnceSupport.SUPPORTED

    def started(self) -> RangeSourceConnector:
        """Return a connector over a log, started; the caller stops it. Raises what it does."""
        source = self._connector()
        assert isinstance(source, RangeSourceConnector)
        source.context = _Planning()
        source.start(load_clients(self._clients).resolve(self._config, self._config))
        return source

    def range_tasks(
        self,
        source: RangeSourceConnector,
        ranges: Sequence[SourceRange],
        limits: ReadLimits,
        kinds: Mapping[str, pa.DataType],
    ) -> list[TaskPartition]:
        """Return tasks that read ranges."""
        tasks = source.range_tasks(ranges, self._most)
        return self._partitions(class_name(source.task_class()), tasks, limits, (), kinds)

    @property
    def transforms(self) -> bool:
        """Whether a record may change on its way: its topic, its partition, its timestamp."""
        return bool(self._config.get("transforms"))

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

    @property
    def _most(self) -> int:
        return int(self._config["tasks.max"])

    def _partitions(
        self,
        task_class: str,
        tasks: Sequence[Mapping[str, str]],
        limits: ReadLimits,
        starting: Sequence[SourceOffset],
        kinds: Mapping[str, pa.DataType],
    ) -> list[TaskPartition]:
        return [
            TaskPartition(
                task_class,
                task,
                self._config,
                self._clients,
                limits.share(len(tasks), number),
                tuple(starting),
                self.options.decodes,
                kinds,
                self.options.columns,
            )
            for number, task in enumerate(tasks)
        ]

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
            raise BadConfigError({"connector.class": ["is missing. Set the class of a source connector"]})
        found = plugin_for_spark(clients.plugin, name)
        if not issubclass(found, SourceConnector):
            raise BadConfigError({"connector.class": [f"{name} is not a source connector"]})
        return found, connector_config(config, found(), clients.plugin)


def plugin_for_spark(plugin: Callable[[str], type[Any]], name: str) -> type[Any]:
    """Return a plug-in's class. Raises NotFoundError, which says how Spark finds a connector of the user's."""
    try:
        return plugin(name)
    except NotFoundError as error:
        # Without the names of all bundled connectors, which would hide the hint.
        why = re.sub(r", available connectors are: [^;]*", "", str(error))
        raise NotFoundError(
            f"{why}. To use your own connector, install its wheel with pip in the Python of Spark's driver and "
            "executors, and restart Spark. connectrt plugins install serves only workers"
        ) from error


def planned_tasks(
    connector: Connector, config: Mapping[str, str], clients: ExecutorClients, most: int
) -> tuple[str, list[dict[str, str]]]:
    """Have a connector split its work; return its task class ("package.module:Class") and the tasks' configurations.

    Raises what the connector does.
    """
    connector.start(clients.resolve(config, config))
    try:
        tasks = connector.task_configs(most)
    finally:
        connector.stop()
    return class_name(connector.task_class()), [dict(task) for task in tasks]


def class_name(of: type[Any]) -> str:
    """Return the name of a class as "package.module:Class"."""
    return f"{of.__module__}:{of.__qualname__}"


class _Planning(ConnectorContext):
    """The ConnectorContext of a connector that is asked for ranges: its answers are always of now."""

    def request_task_reconfiguration(self) -> None:
        """Nothing: new partitions are in the next ranges."""

    def raise_error(self, error: Exception) -> None:
        """Let the next question fail of itself."""
        log.warning("the connector reports %s", error)


# The offset topic behind a stream: it is given where the stream's batches end (``commitOffsets=connect``).


class StreamBook:
    """Stores positions; without an OffsetBook nothing."""

    def __init__(self, open_book: Callable[[], OffsetBook] | None) -> None:
        self._open = open_book
        self._book: OffsetBook | None = None
        self._stored: Position = {}

    def write(self, position: Position) -> None:
        """Store a position unless it is the last one. Raises ConnectError."""
        if self._open is None or position == self._stored:
            return
        if self._book is None:
            self._book = self._open()
        self._book.write(offsets_of(position))
        self._stored = position

    def close(self) -> None:
        """Close the book and its clients, if it was opened."""
        if self._book is not None:
            self._book.close()
            self._book = None

"""``spark.read.format("connectrt")``: a source connector's records, or a table of a worker group, as rows.

Owns the glue to Spark's Python DataSource API. Each task of the connector is one partition; a read keeps no offsets.
A table is one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from spark_connect_rt.api.connector import SourceConnector
from spark_connect_rt.api.task import SourceTask
from spark_connect_rt.errors import BadConfigError
from spark_connect_rt.pipeline.source_pipeline import SourcePipeline
from spark_connect_rt.ports.executor_clients import ExecutorClients
from spark_connect_rt.spark.datasource.read_options import (
    ReadLimits,
    SourceOffset,
    connector_config,
    parse_options,
)
from spark_connect_rt.spark.datasource.task_read import DDL, ReadContext, poll_rows
from spark_connect_rt.spark.executor.hosting import load_class, load_clients, load_named

FORMAT = "connectrt"
ReadTable = Callable[[str, Mapping[str, str]], Iterator[tuple[Any, ...]]]
"""(name of a table, worker properties) -> its rows."""


@dataclass
class TaskPartition(InputPartition):  # type: ignore[misc]
    """One task of the connector; settings are raw, secrets are looked up where the task runs."""

    task_class: str
    task_config: Mapping[str, str]
    config: Mapping[str, str]
    clients: str
    limits: ReadLimits
    starting: tuple[SourceOffset, ...]


class ConnectRt(DataSource):  # type: ignore[misc]
    """The data source; a subclass brings what comes from outside."""

    clients = ""  # names the factory of what tasks get
    tables: ClassVar[Mapping[str, str]] = {}  # name -> DDL
    read_table = ""  # "package.module:function", a ReadTable

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns. Raises BadConfigError: no such table."""
        table = self._table()
        return DDL if table is None else self.tables[table]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader. Raises BadConfigError naming every wrong option."""
        table, options = self._table(), dict(self.options)
        if table is None:
            return _Reader(options, self.clients)
        del options["path"]
        return _TableReader(table, options, self.read_table)

    def _table(self) -> str | None:
        table: str | None = self.options.get("path")
        if table is not None and table not in self.tables:
            raise BadConfigError({"path": [f"there is no table {table!r}, only {', '.join(self.tables)}"]})
        return table


class _TableReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, table: str, options: Mapping[str, str], read_table: str) -> None:
        self._table, self._options, self._read_table = table, options, read_table

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        read: ReadTable = load_named(self._read_table)
        return read(self._table, self._options)


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, options: Mapping[str, str], clients: str) -> None:
        self._options = parse_options(options)
        self._clients = clients
        self._connector, self._config = self._made(load_clients(clients))

    def _made(self, clients: ExecutorClients) -> tuple[type[SourceConnector], dict[str, str]]:
        name = self._options.config.get("connector.class")
        if not name:
            raise BadConfigError({"connector.class": ["is missing: name a source connector"]})
        found = clients.plugin(name)
        if not issubclass(found, SourceConnector):
            raise BadConfigError({"connector.class": [f"{name} is not a source connector"]})
        return found, connector_config(self._options.config, found(), clients.plugin)

    def partitions(self) -> Sequence[InputPartition]:
        clients = load_clients(self._clients)
        connector = self._connector()
        task_class = connector.task_class()
        connector.start(clients.resolve(self._config, self._config))
        try:
            tasks = connector.task_configs(int(self._config["tasks.max"]))
        finally:
            connector.stop()
        name = f"{task_class.__module__}:{task_class.__qualname__}"
        limits, starting = self._options.limits, self._options.starting
        return [
            TaskPartition(name, task, self._config, self._clients, limits.share(len(tasks), number), starting)
            for number, task in enumerate(tasks)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskPartition)
        clients = load_clients(partition.clients)
        config = clients.resolve(partition.config, partition.config)
        task: SourceTask = load_class(partition.task_class)()
        context = task.context = ReadContext(partition.starting)
        pipeline = context.pipeline = SourcePipeline.from_config(config, config, clients.plugin)
        try:
            task.start(clients.resolve(partition.task_config, partition.config))
            yield from poll_rows(task, pipeline, partition.limits)
        finally:
            task.stop()
            pipeline.close()

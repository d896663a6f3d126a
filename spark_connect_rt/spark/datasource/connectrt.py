"""``spark.read.format("connectrt")``: a source connector's records as rows, without any worker.

Owns the glue to Spark's Python DataSource API. Each task of the connector is one partition; a read keeps no offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

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
from spark_connect_rt.spark.executor.hosting import load_class, load_clients

FORMAT = "connectrt"


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
    """The data source; ``clients`` names the factory of what tasks get from outside."""

    clients = ""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns."""
        return DDL

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader. Raises BadConfigError naming every wrong option."""
        return _Reader(dict(self.options), self.clients)


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

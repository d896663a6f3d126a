"""``format("connectrt")``: a source connector's records, or a table of a worker group, as rows; rows into a sink.

Owns the glue to Spark's Python DataSource API. Each task of the connector is one partition; a read keeps no offsets.
A table is one partition.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import StructType

from spark_connect_rt.engine.datasource.named_connector import NamedConnector
from spark_connect_rt.engine.datasource.pushed_filters import Comparison, kept_rows, since_ms, taken
from spark_connect_rt.engine.datasource.range_stream import non_empty, wanted
from spark_connect_rt.engine.datasource.read_columns import columns_ddl, given_kinds
from spark_connect_rt.engine.datasource.read_options import LATEST, SourceOffset, parse_options
from spark_connect_rt.engine.datasource.stream_position import TaskPartition
from spark_connect_rt.engine.datasource.table_columns import DEPLOYED, READ_TABLE, TABLE_COLUMNS
from spark_connect_rt.engine.datasource.table_columns import FILTERED as FILTERED_FORMAT_SOURCE
from spark_connect_rt.engine.executor.hosting import load_named
from spark_connect_rt.engine.executor_clients import FACTORY
from spark_connect_rt.engine.startup.spark_version import STREAM_LIMITS, has
from spark_connect_rt.errors import BadConfigError, NotFoundError

if TYPE_CHECKING:
    from spark_connect_rt.engine.datasource.open_task import OpenTask
    from spark_connect_rt.engine.datasource.row_writer import KafkaPlan, SinkPlan

FORMAT = "connectrt"
REPEAT_IDLE_MS = 30_000
MAX_WAIT_MS = 10_000  # of a stream's micro-batch that has rows, unless maxWaitMs says otherwise
ReadTable = Callable[[str, Mapping[str, str], Sequence[Comparison]], Iterator[tuple[Any, ...]]]
"""(name of a table, worker properties, conditions that all its rows must keep to) -> its rows."""
FILTERED = ("topic", "partition", "timestamp")  # columns of a read whose filters are taken


class ConnectRt(DataSource):  # type: ignore[misc]
    """The data source; a subclass brings what comes from outside."""

    clients = ""  # names the factory of what tasks get
    tables: ClassVar[Mapping[str, str]] = {}  # name -> DDL; "kind:" is the name of every table "kind:something"
    filtered: ClassVar[Mapping[str, Sequence[str]]] = {}  # name, as above -> columns whose filters its reader takes
    read_table = ""  # "package.module:function", a ReadTable
    deployed = ""  # "package.module:function", a DeployedConnectors

    @classmethod
    def name(cls) -> str:
        """Return the name under which Spark registers the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns. Raises BadConfigError: no such table, wrong options."""
        table = self._table()
        if table is not None:
            return self.tables[_kind_of(table)]
        options = parse_options(dict(self.options))
        if options.decodes:  # reported by load(), not by a query that fails later
            return self._connector().columns()
        return columns_ddl((), {}, options.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader. Raises BadConfigError naming every wrong option."""
        table, options = self._table(), dict(self.options)
        if table is None:
            connector = self._connector()
            reader = _FilteringReader if filters_are_handed_over() else _Reader
            return reader(connector, given_kinds(connector.options, schema))
        del options["path"]
        columns = self.filtered.get(_kind_of(table), ())
        if columns and filters_are_handed_over():
            return _FilteringTableReader(table, options, self.read_table, columns)
        return _TableReader(table, options, self.read_table)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of a stream. Raises BadConfigError naming every wrong option."""
        if self._table() is not None:
            raise BadConfigError({"path": ["tables can only be read with spark.read, not with readStream"]})
        from spark_connect_rt.engine.datasource.stream_limits import OlderStreamReader

        reader = self._limited_stream(schema)
        return reader if has(STREAM_LIMITS) else OlderStreamReader(reader)

    def _limited_stream(self, schema: StructType) -> DataSourceStreamReader:
        connector = self._connector()
        kinds = given_kinds(connector.options, schema)
        if connector.has_ranges:
            from spark_connect_rt.engine.datasource.range_stream import RangeStreamReader

            return RangeStreamReader(connector, kinds)
        from spark_connect_rt.engine.datasource.open_task import open_task
        from spark_connect_rt.engine.datasource.stream_position import POSITION_COLUMNS
        from spark_connect_rt.engine.datasource.stream_reader import StreamPlan, StreamReader

        def open_tasks(starting: Sequence[SourceOffset]) -> list[OpenTask]:
            return [open_task(task, also=POSITION_COLUMNS) for task in connector.tasks(starting, kinds)]

        book = connector.book if connector.options.commit_offsets else None
        max_records = connector.options.limits.max_records
        exact = connector.exact_offsets
        columns = connector.options.columns
        max_wait_ms = connector.options.max_wait_ms
        if max_wait_ms is None and has(STREAM_LIMITS):  # before, a query of availableNow is one batch: not cut by time
            max_wait_ms = MAX_WAIT_MS
        plan = StreamPlan(
            open_tasks, connector.starting, max_records, REPEAT_IDLE_MS, exact, book, columns, max_wait_ms
        )
        return StreamReader(plan)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a batch. Raises BadConfigError naming every wrong option."""
        from spark_connect_rt.engine.datasource.row_writer import RowWriter

        return RowWriter(self._write_plan(schema, overwrite))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """Return the writer of a stream. Raises BadConfigError naming every wrong option."""
        from spark_connect_rt.engine.datasource.row_writer import RowStreamWriter

        return RowStreamWriter(self._write_plan(schema, overwrite))

    def _write_plan(self, schema: StructType, overwrite: bool) -> SinkPlan | KafkaPlan:
        if overwrite:
            raise BadConfigError({"mode": ["rows can only be added. Use mode append"]})
        from spark_connect_rt.engine.datasource.row_writer import write_plan

        return write_plan(dict(self.options), schema, self.clients)

    def _connector(self) -> NamedConnector:
        return NamedConnector(dict(self.options), self.clients, self.deployed)

    def _table(self) -> str | None:
        table: str | None = self.options.get("path")
        if table is not None and (_kind_of(table) not in self.tables or table.endswith(":")):
            there = (f"{name}<connector>" if name.endswith(":") else name for name in self.tables)
            raise BadConfigError({"path": [f"there is no table {table!r}, only {', '.join(there)}"]})
        if table is not None and "columns" in {name.lower() for name in self.options}:
            raise BadConfigError(
                {"columns": ["only applies to connectors. A table always has all of its columns, so select some"]}
            )
        return table


def _kind_of(table: str) -> str:
    """Return the name by which the columns of a table are known: "dlq:" of "dlq:files"."""
    kind, colon, _ = table.partition(":")
    return kind + colon


def filters_are_handed_over() -> bool:
    """Return whether this process plans a read with filters (``spark.sql.python.filterPushdown.enabled``, Spark 4.1).

    Without that setting Spark refuses every reader that could take some, so readers that do are made only there.
    """
    return "pyspark.sql.worker.data_source_pushdown_filters" in sys.modules


class _TableReader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, table: str, options: Mapping[str, str], read_table: str, columns: Sequence[str] = ()) -> None:
        self._table, self._options, self._read_table = table, options, read_table
        self._columns = columns
        self._conditions: list[Comparison] = []

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        read: ReadTable = load_named(self._read_table)
        return read(self._table, self._options, self._conditions)


class _FilteringTableReader(_TableReader):
    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        self._conditions, left = taken(filters, self._columns)
        return left


class _Reader(DataSourceReader):  # type: ignore[misc]
    def __init__(self, connector: NamedConnector, kinds: Mapping[str, pa.DataType]) -> None:
        self._connector, self._kinds = connector, kinds
        self._conditions: list[Comparison] = []

    def partitions(self) -> Sequence[InputPartition]:
        starting, limits = self._connector.starting(), self._connector.options.limits
        if not self._connector.has_ranges:
            return self._connector.tasks(starting, self._kinds)
        source = self._connector.started()
        try:
            if absent := source.absent():
                raise NotFoundError(f"{', '.join(absent)}. Create what is missing, or correct the name.")
            known = () if self._connector.transforms else self._conditions
            ranges = wanted(source.ranges(starting, since_ms(known)), known)
            ranges = non_empty(ranges) if limits.until == LATEST else [replace(range_, end=None) for range_ in ranges]
            return self._connector.range_tasks(source, ranges, limits, self._kinds)
        finally:
            source.stop()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TaskPartition):  # Spark's own, where there is none
            return
        from spark_connect_rt.engine.datasource.open_task import task_rows

        for batch in task_rows(partition):
            kept = kept_rows(batch, self._conditions)
            if kept.num_rows:
                yield kept


class _FilteringReader(_Reader):
    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        self._conditions, left = taken(filters, FILTERED)
        return left


# ``format("connectrt")`` with what this package brings: its plug-ins' clients and the tables of a worker group.


class FormatSource(ConnectRt):
    """The data source with the plug-ins of this machine's Python."""

    clients = FACTORY
    tables: ClassVar = TABLE_COLUMNS
    filtered: ClassVar = FILTERED_FORMAT_SOURCE
    read_table = READ_TABLE
    deployed = DEPLOYED

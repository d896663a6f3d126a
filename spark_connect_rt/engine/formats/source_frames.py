"""Reads of a Spark source: frames of whole tables and of the rows beyond a value, and sending a frame's rows.

Owns the Spark jobs of one run. Knows no thread and no offset store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from spark_connect_rt.config.spark_connectors import STREAM, SparkSourceConfig
from spark_connect_rt.engine.executor.frame_sender import SENT_DDL, FrameJob, send_rows
from spark_connect_rt.engine.formats.driver_tasks import is_data_error, last_error_line
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError

ATTEMPTS = 3  # a lost executor is not the task's fault; sent rows are sent again
INTEGERS = ("tinyint", "smallint", "int", "bigint")
ORDERED = (*INTEGERS, "float", "double", "string", "date", "timestamp", "timestamp_ntz")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SentCounts:
    """The counts of one batch that was sent to Kafka."""

    records: int
    skipped: int
    data_bytes: int
    topics: tuple[str, ...]


class SourceFrames:
    """Reads and sends for one launch."""

    def __init__(self, launch: TaskLaunch, config: SparkSourceConfig, spark: Any, clients: str) -> None:
        """Take the launch (secrets unresolved), its typed settings (resolved) and a session of the run's own."""
        self._launch = launch
        self._config = config
        self._spark = spark
        self._clients = clients
        self._job_group = f"connectrt-{launch.task}-{launch.run}"
        self.cancelled = False

    @property
    def connector(self) -> str:
        """Return the name of the connector they belong to."""
        return self._launch.task.connector

    def whole(self) -> Any:
        """Return everything there is. Raises ConnectError: it cannot be read."""
        return self._explain(self._load)

    def stream(self) -> Any:
        """Return the stream. Raises ConnectError."""
        return self._explain(lambda: self._loaded(self._spark.readStream))

    def _load(self) -> Any:
        if self._config.table:
            self._spark.catalog.refreshTable(self._config.table)  # else files that came since are not seen
        return self._loaded(self._spark.read)

    def _loaded(self, reader: Any) -> Any:
        config = self._config
        if config.table:
            return reader.options(**config.options).table(config.table)
        reader = reader.format(config.format).options(**config.options)
        if config.schema:
            reader = reader.schema(config.schema)
        return reader.load(config.path) if config.path else reader.load()

    def beyond(self, stored: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]] | None:
        """Return the next rows beyond a stored offset, in the column's order, and the offset behind them.

        None: there are none. Raises ConnectError: no such column, a type without an order, an offset of no use.
        """
        return self._explain(lambda: self._beyond(stored))

    def _beyond(self, stored: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]] | None:
        from pyspark.sql import functions as sql

        frame, name = self._load(), self._config.column or ""
        kind = _kind_of(frame, name)
        if kind == "string" and self._config.format.lower() == "jdbc":
            raise ConnectError(
                f"column {name} is text, which a database orders differently than Spark (setting "
                "'spark.incremental.column')"
            )
        column = sql.col(_quoted(name))
        rest = frame.where(column.isNotNull())
        if stored is not None:
            rest = frame.where(column > sql.lit(str(stored["value"])).cast(kind))
        self._describe("look")
        greatest = sql.max(column).cast("string")
        rows, end = rest.agg(sql.count(column), greatest).collect()[0]
        if not rows:
            return None
        if rows > self._config.batch_max_records:
            # The batch ends at a value, not at a count: rows with the same value stay together.
            first = rest.select(column).orderBy(column).limit(self._config.batch_max_records)
            (end,) = first.agg(greatest).collect()[0]
        offset = {"column": name, "type": kind, "value": int(end) if kind in INTEGERS else end}
        return rest.where(column <= sql.lit(end).cast(kind)), offset

    def send(self, frame: Any, offset: Mapping[str, Any]) -> SentCounts:
        """Send the rows of a batch; when it returns they are acknowledged.

        Raises ConnectError: there is no such key column, or what the last attempt raised.
        """
        missing = [name for name in self._config.key_columns if name not in frame.columns]
        if missing:
            raise ConnectError(f"column {', '.join(missing)} does not exist (setting 'key.columns')")
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._attempt(frame, offset)
            except Exception as error:
                if self.cancelled or attempt == ATTEMPTS or is_data_error(error):
                    raise self._explained(error) from error
        raise AssertionError("unreachable")

    def _attempt(self, frame: Any, offset: Mapping[str, Any]) -> SentCounts:
        config = self._config
        job = FrameJob(self._clients, self._launch, config.topic, config.key_columns, config.partition(), dict(offset))
        frame = frame.coalesce(config.parallelism)
        if config.column and config.parallelism == 1 and not frame.isStreaming:
            frame = frame.sortWithinPartitions(_quoted(config.column))
        self._describe("send")
        rows = frame.mapInArrow(lambda batches: send_rows(job, batches), SENT_DDL).collect()
        return SentCounts(
            sum(row.records for row in rows),
            sum(row.skipped for row in rows),
            sum(row.bytes for row in rows),
            tuple(sorted({topic for row in rows for topic in row.topics})),
        )

    def cancel(self) -> None:
        """Cancel the running Spark job. Any thread."""
        self.cancelled = True
        self._spark.sparkContext.cancelJobGroup(self._job_group)

    def _describe(self, what: str) -> None:
        if self._config.mode == STREAM:
            return  # its thread belongs to the query, which cancels its jobs by its own group
        self._spark.sparkContext.setJobGroup(self._job_group, f"connectrt {self._launch.task}: {what}", True)

    def _explain(self, read: Callable[[], T]) -> T:
        try:
            return read()
        except ConnectError:
            raise
        except Exception as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> ConnectError:
        place = " ".join(f"{name}={value}" for name, value in self._config.partition().items())
        return ConnectError(
            f"connector={self._launch.task.connector} task={self._launch.task.task}: {place} could not be sent: "
            f"{last_error_line(error)}. No offset has moved, and the batch will be read again.",
            code="CRT-1059",
        )


def _kind_of(frame: Any, name: str) -> str:
    """Return the type of the incremental column, in Spark's words."""
    field = next((field for field in frame.schema.fields if field.name == name), None)
    if field is None:
        raise ConnectError(f"column {name} does not exist (setting 'spark.incremental.column')")
    kind = str(field.dataType.simpleString())
    if kind not in ORDERED and not kind.startswith("decimal"):
        raise ConnectError(
            f"column {name} is {kind}, which cannot identify new rows (setting 'spark.incremental.column')"
        )
    return kind


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"

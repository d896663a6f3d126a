"""Runs a sink connector and one task in memory: for a connector author's tests. No Kafka, no Spark.

Records come from topics in memory, through the converters and transformations that the configuration names; a batch
that ``put`` refuses is halved, reported and dead-lettered by the same code as in a worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import pyarrow as pa

from spark_connect_rt.api.connector import SinkConnector
from spark_connect_rt.api.data.schema import Schema
from spark_connect_rt.api.task import NoPluginMetrics, SinkTask
from spark_connect_rt.app.plugin_scan import bundled_plugins
from spark_connect_rt.config.worker.own_settings import OF_SINKS_ONLY, REFUSALS_MAX
from spark_connect_rt.pipeline.connector_converters import ConnectorConverters
from spark_connect_rt.pipeline.dead_letters import ReportSettings
from spark_connect_rt.pipeline.sink_pipeline import SinkPipeline
from spark_connect_rt.protocol.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.spark.executor.errant_reports import ErrantReports, SinkErrantReporter
from spark_connect_rt.spark.executor.sinks.hosted_sink import Outcome
from spark_connect_rt.spark.executor.sinks.put_delivery import PutDelivery
from spark_connect_rt.spark.executor.sinks.sink_context import TaskContext
from spark_connect_rt.spark.executor.sinks.sink_rows import by_partition
from spark_connect_rt.spark.executor.task_meter import TaskMeter
from spark_connect_rt.testing.connector_harness import PLAIN_JSON, FindPlugin, HostedConnector
from spark_connect_rt.testing.memory_executor_clients import MemoryExecutorClients, MemoryTopics, Row, consume_batch

FLUSH_TIMEOUT_MS = 5_000


class SinkHarness:
    """``with SinkHarness(MySink, {...}) as sink: sink.send("orders", {"id": 1}); sink.deliver(); sink.commit()``."""

    def __init__(
        self,
        connector_class: type[SinkConnector],
        config: Mapping[str, str],
        worker_config: Mapping[str, str] = PLAIN_JSON,
        find_plugin: FindPlugin | None = None,
    ) -> None:
        """Take a connector; nothing is started yet. Arguments as of SourceHarness."""
        self.hosted = HostedConnector(connector_class, config)
        self.topics = MemoryTopics()
        self.committed: dict[TopicPartition, int] = {}
        """Next offset of each partition, as the consumer group holds it."""
        self._clients = MemoryExecutorClients(self.topics, find_plugin or bundled_plugins().class_of)
        self._converters = ConnectorConverters.from_config(self.hosted.config, worker_config, self._clients.plugin)
        self._worker_config = worker_config
        self._settings = ReportSettings.from_config(self.hosted.config)
        self._task: SinkTask | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def task(self) -> SinkTask:
        """The task that runs now."""
        assert self._task is not None, "the harness is not started"
        return self._task

    def start(self) -> None:
        """Start the connector and the first of its tasks, at the committed offsets."""
        self.hosted.start()
        config = self.hosted.task_configs()[0]
        self._pipeline = SinkPipeline.from_config(
            self.hosted.config, self._worker_config, self._clients.plugin, keeps_originals=self._settings.reports
        )
        task_id = ConnectorTaskId(self.hosted.config["name"], 0)
        self._reports = ErrantReports(task_id, self._settings, self._clients, {})
        reporter = SinkErrantReporter(self._reports, self._pipeline) if self._settings.reports else None
        self._context = TaskContext(NoPluginMetrics())
        self._context.reporter = reporter
        self._context.take_config(config)
        self._task = self.hosted.connector.task_class()()
        self.task.context = self._context
        most_refusals: int = OF_SINKS_ONLY.parse(self.hosted.config)[REFUSALS_MAX]
        self._delivery = PutDelivery(
            task_id, self.task, self._pipeline, self._reports, most_refusals, lambda: False, TaskMeter("writer")
        )
        self._positions = dict(self.committed)
        self._refused: list[pa.RecordBatch] = []
        try:
            self.task.start(config)
        except Exception:
            self.stop()
            raise

    def stop(self) -> None:
        """Close the partitions and stop; what was not committed is delivered again after the next start."""
        task, self._task = self._task, None
        if task is not None:
            if self._context.partitions:
                task.close(sorted(self._context.partitions))
            task.stop()
            self._reports.close(FLUSH_TIMEOUT_MS)
        self.hosted.connector.stop()

    def restart(self) -> None:
        """Stop and start with new objects, as after a crash of the worker: only committed offsets are kept."""
        self.stop()
        self.start()

    def send(
        self,
        topic: str,
        value: Any,
        *,
        key: Any = None,
        schema: Schema | None = None,
        key_schema: Schema | None = None,
        partition: int = 0,
        timestamp_ms: int | None = None,
    ) -> None:
        """Put a record into a topic. Bytes go as they are, other values through the connector's converters."""
        converters = self._converters
        row = {
            "topic": topic,
            "partition": partition,
            "timestamp": timestamp_ms,
            "key": key if isinstance(key, bytes) else converters.key.from_connect_data(topic, key_schema, key),
            "value": value if isinstance(value, bytes) else converters.value.from_connect_data(topic, schema, value),
        }
        self.topics.append([row])

    def deliver(self) -> bool:
        """Put everything new in the topics of ``topics``; False: the task asks to be given the same again.

        Raises what fails the task: DataError of a converter, and what ``put`` raised where it is not tolerated.
        """
        if not self._refused:
            self._delivery.forget()
            rows = self._new_rows()
            self._open(frozenset(TopicPartition(row["topic"], row["partition"]) for row in rows))
            batch = consume_batch(rows)
            apart = by_partition(batch) if rows else [batch]
            self._refused = self._delivery.parts(apart[0] if len(apart) == 1 else batch)  # as a consumer returns them
        while self._refused:
            if not self._deliver(self._refused[0]):
                return False
            del self._refused[0]
        return True

    def _deliver(self, batch: pa.RecordBatch) -> bool:
        columns = self._delivery.columns(batch)
        converted = columns or self._pipeline.convert(batch)
        outcome = self._delivery.deliver(converted)
        if outcome is Outcome.BY_RECORDS:
            converted = self._pipeline.convert(batch)
            outcome = self._delivery.deliver(converted)
        if outcome is Outcome.AGAIN:
            return False
        self._reports.tell(converted.errants)
        self._positions.update(converted.next_offsets)
        return True

    def _new_rows(self) -> list[Row]:
        names = {name.strip() for name in self.hosted.config.get("topics", "").split(",")}
        found = sorted(partition for partition in self.topics.partitions if partition.topic in names)
        return [row for one in found for row in self.topics.read(one, self._positions.get(one, 0), 1 << 30)]

    def _open(self, partitions: frozenset[TopicPartition]) -> None:
        new = partitions - self._context.partitions
        self._context.partitions |= new
        if new:
            self.task.open(sorted(new))

    def commit(self) -> dict[TopicPartition, int]:
        """Ask the task what is safe and commit that; return everything that is committed.

        Raises what ``pre_commit`` raises; ``deliver`` then puts all since the last commit again, as a worker does.
        """
        self._reports.flush(FLUSH_TIMEOUT_MS)
        held = {one: self._positions[one] for one in self._context.partitions if one in self._positions}
        try:
            self.committed.update(self.task.pre_commit(held))
        except Exception:
            self._positions, self._refused = dict(self.committed), []
            raise
        return self.committed

    def dead_letters(self) -> list[Row]:
        """Return what the dead letter queue holds: rows with key, value and headers."""
        self._reports.flush(FLUSH_TIMEOUT_MS)
        partition = TopicPartition(self._settings.topic, 0)
        return self.topics.read(partition, 0, self.topics.end(partition))

"""Rows handed to a sink connector's task inside one Spark task.

Owns the life of the task for one partition of the write: started, opened, given everything, flushed, closed. As in a
worker a put that asks for it is repeated, refused records are looked for and reported (``errors.*``); the end of the
Spark task is the commit: it ends well only when the task says that everything is safe.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from spark_connect_rt.api.task import NoPluginMetrics, SinkTask
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.config.config_def import prefixed
from spark_connect_rt.config.connectrt_config import OF_SINKS_ONLY, REFUSALS_MAX
from spark_connect_rt.engine.datasource.row_form import RecordForm, ValueForm, form_of
from spark_connect_rt.engine.executor.errant_reports import ErrantReports, SinkErrantReporter
from spark_connect_rt.engine.executor.hosting import load_class, load_clients, monotonic_ms
from spark_connect_rt.engine.executor.put_delivery import PutDelivery
from spark_connect_rt.engine.executor.sink_context import TaskContext
from spark_connect_rt.errors import ConnectError, TimedOutError
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.retry_tolerance import Waiting
from spark_connect_rt.records.pipeline.sink_pipeline import SinkConverted, SinkPipeline

RETRY_FIRST_S, RETRY_LAST_S = 0.1, 5.0
FLUSH_TIMEOUT_MS = 30_000


@dataclass(frozen=True, slots=True)
class SinkPlan:
    """What every Spark task of a write needs; settings are raw, secrets are looked up where it runs."""

    task_class: str
    task_config: Mapping[str, str]
    config: Mapping[str, str]
    clients: str
    topic: str | None
    patience_ms: int  # of a put that asks to be repeated, and of the last flush


class SinkWrite:
    """One partition of a write."""

    def __init__(self, plan: SinkPlan, partition: int, first_offset: int) -> None:
        """Start a task. ``partition`` and ``first_offset``: where its records seem to come from.

        Raises what the task does.
        """
        clients = load_clients(plan.clients)
        config = clients.resolve(plan.config, plan.config)
        settings = ReportSettings.from_config(config)
        self._plan, self._partition, self._next = plan, partition, first_offset
        self._form: RecordForm | ValueForm | None = None
        self._pipeline = SinkPipeline.from_config(
            config, config, clients.plugin, Waiting(monotonic_ms, _wait), keeps_originals=settings.reports
        )
        task_id = ConnectorTaskId(config["name"], partition)
        self._reports = ErrantReports(task_id, settings, clients, dead_letter_producer(config))
        self._context = TaskContext(NoPluginMetrics())
        self._context.reporter = SinkErrantReporter(self._reports, self._pipeline) if settings.reports else None
        task_config = clients.resolve(plan.task_config, plan.config)
        self._context.take_config(task_config)
        self._task: SinkTask = load_class(plan.task_class)()
        self._task.context = self._context
        most: int = OF_SINKS_ONLY.parse(config)[REFUSALS_MAX]
        self._delivery = PutDelivery(task_id, self._task, self._pipeline, self._reports, most, lambda: False)
        self._offsets: dict[TopicPartition, int] = {}
        self.refused = 0
        try:
            self._task.start(task_config)
        except BaseException:
            self._end()
            raise

    def write(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Deliver everything and return the count of rows, refused ones too. Raises what fails a task in a worker."""
        begin = self._next
        try:
            for batch in batches:
                if batch.num_rows:
                    self._put(self._converted(batch))
                    self._next += batch.num_rows
            self._commit()
        finally:
            self._end()
        return self._next - begin

    def _converted(self, batch: pa.RecordBatch) -> SinkConverted:
        self._form = self._form or form_of(batch.schema, self._plan.topic)
        if isinstance(self._form, RecordForm):
            return self._pipeline.convert(self._form.consumed(batch, self._partition, self._next))
        return self._pipeline.transform(self._form.as_records(batch, self._partition, self._next))

    def _put(self, converted: SinkConverted) -> None:
        new = frozenset(converted.next_offsets) - self._context.partitions
        self._context.partitions |= new
        if new:
            self._task.open(sorted(new))
        self._reports.tell(converted.errants)
        self._delivery.forget()
        wait_s, end_s = RETRY_FIRST_S, time.monotonic() + self._plan.patience_ms / 1000
        while not self._delivery.put(converted.records):
            if time.monotonic() > end_s:
                raise TimedOutError(
                    f"the sink kept asking for the same records for {self._plan.patience_ms} ms. Its target seems "
                    "to be unavailable"
                )
            time.sleep(wait_s)
            wait_s = min(RETRY_LAST_S, wait_s * 2)
        self.refused += self._delivery.refused + converted.skipped
        self._offsets.update(converted.next_offsets)

    def _commit(self) -> None:
        """Return when the task says that all of it is safe."""
        end_s = time.monotonic() + self._plan.patience_ms / 1000
        while self._offsets:
            flushed = self._reports.flush(FLUSH_TIMEOUT_MS)
            safe = self._task.pre_commit(dict(self._offsets)) if flushed else {}
            if flushed and all(safe.get(partition, -1) >= offset for partition, offset in self._offsets.items()):
                return
            if time.monotonic() > end_s:
                raise ConnectError(f"the sink did not make all records durable within {self._plan.patience_ms} ms")
            self._task.put([])  # tasks that write by time expect to be called
            time.sleep(RETRY_FIRST_S)

    def _end(self) -> None:
        try:
            if self._context.partitions:
                self._task.close(sorted(self._context.partitions))
        finally:
            try:
                self._task.stop()
            finally:
                self._pipeline.close()
                self._reports.close(FLUSH_TIMEOUT_MS)


def dead_letter_producer(config: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a dead letter queue's producer: there is no worker to take them from."""
    return prefixed(config, "producer.override.")


def _wait(wait_ms: int) -> bool:
    time.sleep(wait_ms / 1000)
    return True

"""A Python sink task behind the seam of ``hosted_sink.py``: its pipeline, its puts, its reporter of errant records."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import pyarrow as pa

from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.config.connectrt_config import OF_SINKS_ONLY, REFUSALS_MAX
from spark_connect_rt.engine.executor.errant_reports import ErrantReports, SinkErrantReporter
from spark_connect_rt.engine.executor.hosted_sink import HostedSink, Outcome, SinkParts
from spark_connect_rt.engine.executor.hosting import load_class, monotonic_ms
from spark_connect_rt.engine.executor.put_delivery import PutDelivery
from spark_connect_rt.errors import DataError
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.errant_records import RetryInterrupted, Waiting
from spark_connect_rt.records.pipeline.sink_pipeline import SinkConverted, SinkPipeline


class PythonSink(HostedSink):
    """A ``SinkTask`` in this process."""

    def __init__(self, parts: SinkParts, task_class: type[SinkTask]) -> None:
        """See HostedSink: the pipeline. ``task_class``: what ``parts.launch`` names."""
        super().__init__(parts)
        self._task_class = task_class
        self._task: SinkTask | None = None
        self._reporter: SinkErrantReporter | None = None
        self._counts = (0, 0)
        self._flush_timeout_ms = parts.launch.flush.offset_flush_timeout_ms
        self._pipeline = SinkPipeline.from_config(
            parts.connector_config,
            parts.worker_config,
            parts.clients.plugin,
            Waiting(monotonic_ms, parts.wait_ms),
            keeps_originals=ReportSettings.from_config(parts.connector_config).reports,
            guard=threading.RLock(),  # converters and transformations are made for one thread
        )

    def start(self, reports: ErrantReports) -> None:
        """See HostedSink."""
        launch, context = self.parts.launch, self.parts.context
        self._reports = reports
        if reports.settings.reports:
            self._reporter = context.reporter = SinkErrantReporter(reports, self._pipeline)
        self._task = task = self._task_class()
        config = self.parts.clients.resolve(launch.config, launch.worker_config)
        context.take_config(config)
        task.context = context
        most_refusals: int = OF_SINKS_ONLY.parse(self.parts.connector_config)[REFUSALS_MAX]
        self._delivery = PutDelivery(
            launch.task, task, self._pipeline, reports, most_refusals, self.parts.must_not_wait, self.parts.meter
        )
        task.start(config)

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        """See HostedSink."""
        self.running.open(partitions)

    @property
    def running(self) -> SinkTask:
        """The task, between ``start`` and ``stop``."""
        assert self._task is not None
        return self._task

    def batches(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        """See HostedSink: a task that takes columns gets each partition for itself."""
        return self._delivery.parts(batch)

    def prepare(self, batch: pa.RecordBatch, *, by_records: bool) -> SinkConverted | None:
        """See HostedSink: converts. Raises DataError: a record that is not tolerated, reported before."""
        converted = self._convert(batch, by_records)
        if converted is not None:
            self._delivery.forget()
        return converted

    def _convert(self, batch: pa.RecordBatch, by_records: bool) -> SinkConverted | None:
        if not by_records and (columns := self._delivery.columns(batch)) is not None:
            return columns
        return converted_and_reported(self._pipeline, batch, self._reports, self._flush_timeout_ms)

    def most_records(self) -> int | None:
        """See HostedSink: as the user says, else the task."""
        launch = self.parts.launch
        own = self.parts.clients.resolve(launch.client_config, launch.worker_config).get("max.poll.records")
        return self.running.largest_put() if own is None else int(own)

    def make_ready(self, batch: pa.RecordBatch) -> SinkConverted | None:
        """See HostedSink: columns only, as records may be errant."""
        return self._delivery.columns_ahead(batch)

    def accept(self, ready: SinkConverted) -> SinkConverted | None:
        """See HostedSink."""
        if not self._delivery.takes_columns:
            return None
        self._delivery.forget()
        return ready

    def may_look_ahead(self, prepared: SinkConverted) -> bool:
        """See HostedSink: columns are likely to be followed by columns."""
        return prepared.columns is not None

    def deliver(self, prepared: SinkConverted) -> Outcome:
        """See HostedSink."""
        outcome = self._delivery.deliver(prepared)
        refused = self._delivery.refused
        self._counts = prepared.count - refused, prepared.skipped + refused
        return outcome

    @property
    def counts(self) -> tuple[int, int]:
        """See HostedSink."""
        return self._counts

    def put_nothing(self) -> None:
        """See HostedSink."""
        self._delivery.put([])

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """See HostedSink."""
        return self.running.pre_commit(offsets)

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        """See HostedSink."""
        self.running.close(partitions)

    def take_reported(self) -> int:
        """See HostedSink."""
        return 0 if self._reporter is None else self._reporter.take_count()

    def stop(self) -> None:
        """See HostedSink."""
        task, self._task = self._task, None
        if task is not None:
            with ExitStack() as last_first:
                last_first.callback(self._pipeline.close)
                last_first.callback(task.stop)


def converted_and_reported(
    pipeline: SinkPipeline, batch: pa.RecordBatch, reports: ErrantReports, flush_timeout_ms: int
) -> SinkConverted | None:
    """Return the records of a batch, the errant ones reported; None: something could not wait for an attempt.

    Raises DataError: a record is errant and not tolerated, which was reported before.
    """
    try:
        converted = pipeline.convert(batch)
    except RetryInterrupted:
        pipeline.take_errants()  # found again when the batch is
        return None
    except DataError:
        reports.tell(pipeline.take_errants())  # as Java: also the one that fails the task
        reports.flush(flush_timeout_ms)
        raise
    reports.tell(converted.errants)
    return converted


def hosted_sink(parts: SinkParts) -> HostedSink:
    """Return what hosts the task of a launch: its class, if that is behind the seam, else this process.

    Raises NotFoundError; BadConfigError: no such converter or transformation.
    """
    found = load_class(parts.launch.task_class)
    return found(parts) if issubclass(found, HostedSink) else PythonSink(parts, found)

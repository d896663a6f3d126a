"""Hands converted batches to a sink task, and finds what it refuses (engine.executor.put_isolation does the finding)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pyarrow as pa

from spark_connect_rt.api.records import SinkBatch, SinkRecord
from spark_connect_rt.api.task import SinkTask
from spark_connect_rt.base.adaptive_fallback import BackedOffTries
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.executor.errant_reports import ErrantReports
from spark_connect_rt.engine.executor.hosted_sink import Outcome
from spark_connect_rt.engine.executor.put_isolation import PutIsolation, blames_records
from spark_connect_rt.engine.executor.sink_rows import by_partition, is_of_one_partition
from spark_connect_rt.engine.executor.task_meter import TaskMeter
from spark_connect_rt.errors import RetriableError
from spark_connect_rt.records.pipeline.errant_records import Errant, errant_put
from spark_connect_rt.records.pipeline.sink_pipeline import SinkConverted, SinkPipeline, place_of, place_of_record

log = logging.getLogger(__name__)


class PutDelivery:
    """One task's puts. One thread."""

    def __init__(
        self,
        task_id: ConnectorTaskId,
        task: SinkTask,
        pipeline: SinkPipeline,
        reports: ErrantReports,
        most_refusals: int,
        interrupted: Callable[[], bool],
        meter: TaskMeter | None = None,
    ) -> None:
        """Take the parts.

        Args:
            most_refusals: in a row, before the fault is not the records' (0: never look for the records to blame).
            interrupted: whether something must not wait for the end of the search.
        """
        self._task_id = task_id
        self._task = task
        self._pipeline = pipeline
        self._reports = reports
        self._most_refusals = most_refusals
        self._interrupted = interrupted
        self._meter = meter or TaskMeter("writer")
        self._isolates = reports.settings.tolerates_all and most_refusals > 0
        self._isolation: PutIsolation | None = None
        self._refused_in_a_row = 0
        self._column_tries = BackedOffTries()
        self.takes_columns = False  # the last ``parts`` may go as columns
        self.refused = 0  # of the batch delivered last

    def parts(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        """Return a batch in consume form as it is to be converted: maybe a part for each partition, for columns."""
        takes_columns = type(self._task).put_batch is not SinkTask.put_batch and self._column_tries.due()
        parts = by_partition(batch) if takes_columns and self._task.wants_partitions_apart() else [batch]
        self.takes_columns = takes_columns and all(map(is_of_one_partition, parts))
        return parts

    def columns(self, batch: pa.RecordBatch) -> SinkConverted | None:
        """Return one of the last ``parts`` as columns; None: it is to go by records."""
        if not self.takes_columns:
            return None
        converted = self.columns_ahead(batch)
        if converted is None:
            self._column_tries.failed()
        return converted

    def columns_ahead(self, batch: pa.RecordBatch) -> SinkConverted | None:
        """Return a batch as columns as ``columns`` may do later; nothing is counted. Any thread."""
        task = self._task
        return self._pipeline.columns(
            batch,
            absent_values=task.takes_absent_values(),
            headers_matter=task.reads_headers(),
            with_headers=task.takes_headers(),
        )

    def deliver(self, converted: SinkConverted) -> Outcome:
        """Put what was converted, or go on with it. Raises what fails the task."""
        if converted.columns is not None:
            return self._put_batch(converted.columns)
        return Outcome.TAKEN if self.put(converted.records) else Outcome.AGAIN

    def _put_batch(self, batch: SinkBatch) -> Outcome:
        self.refused = 0
        if not len(batch.values):
            return Outcome.TAKEN
        try:
            with self._meter.call("put"):
                taken = self._task.put_batch(batch)
        except RetriableError as error:
            self._say_again(error)
            return Outcome.AGAIN
        except Exception as error:
            if not self._may_isolate(error):
                raise
            self._column_tries.failed()
            return Outcome.BY_RECORDS  # the record to blame is found there
        if not taken:
            self._column_tries.failed()
            return Outcome.BY_RECORDS
        self._column_tries.worked()
        self._meter.moved("put", len(batch.values))
        self._refused_in_a_row = 0
        return Outcome.TAKEN

    def _say_again(self, error: Exception) -> None:
        log.warning("task=%s: put will be retried: %s", self._task_id, error)

    def put(self, records: Sequence[SinkRecord]) -> bool:
        """Put a batch, or go on with it; False: the task asks for it again. Raises what fails the task."""
        try:
            self._put(records)
        except RetriableError as error:
            self._say_again(error)
            return False
        return True

    def forget(self) -> None:
        """The batch is given up or cut: the next ``put`` begins from scratch."""
        self._isolation = None

    def _put(self, records: Sequence[SinkRecord]) -> None:
        self.refused = 0
        if self._isolation is None:
            try:
                self._put_metered(records)
            except Exception as error:
                if not records or not self._may_isolate(error):
                    raise
                self._isolation = self._begin(records, error)
            else:
                if records:
                    self._refused_in_a_row = 0
                return
        self._isolation.run(self._put_half)
        isolation, self._isolation = self._isolation, None
        self._refused_in_a_row = isolation.in_a_row
        self.refused = len(isolation.refused)
        self._reports.tell(
            self._errant(refused_record.record, refused_record.error) for refused_record in isolation.refused
        )

    def _may_isolate(self, error: Exception) -> bool:
        """Return whether the records to blame for an error of a put are looked for."""
        if not self._isolates or isinstance(error, RetriableError):
            return False
        if not blames_records(error):
            log.warning(
                "task=%s: put raised %s, which does not name a bad record, so the task fails and no record is "
                "dead-lettered. A sink raises DataError for a record that it cannot process.",
                self._task_id,
                type(error).__name__,
            )
            return False
        return self._task.may_put_halves()

    def _put_half(self, records: Sequence[SinkRecord]) -> None:
        if self._interrupted():
            raise RetriableError("partitions leave, or the task ends")
        self._put_metered(records)

    def _put_metered(self, records: Sequence[SinkRecord]) -> None:
        with self._meter.call("put"):
            self._task.put(records)
        if records:
            self._meter.moved("put", len(records))

    def _begin(self, records: Sequence[SinkRecord], error: Exception) -> PutIsolation:
        log.warning(
            "task=%s: put rejected %d records, searching for the bad ones: %s: %s",
            self._task_id,
            len(records),
            type(error).__name__,
            error,
        )
        return PutIsolation(records, error, self._most_refusals, self._refused_in_a_row)

    def _errant(self, record: SinkRecord, error: Exception) -> Errant:
        if self._reports.settings.reports:
            original = self._pipeline.original_of(record)
            return errant_put(place_of(original), error, original)
        return errant_put(place_of_record(record), error, None)

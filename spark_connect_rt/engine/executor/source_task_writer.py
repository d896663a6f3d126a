"""Writes one source task's batches to Kafka and reports them durable (Java ``AbstractWorkerSourceTask``, sending).

Owns one producer, made at the first batch: idle tasks have none, and a failed delivery is certainly this task's. A
batch is durable when ``flush`` returned; under load flushes are spaced, when the reader is idle they are prompt.
Records that are read meanwhile would wait behind a flush. If the producer reports when it has nothing in flight, the
writer waits for that report without a flush, until the oldest batch is too old.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import orjson

from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.config.client_settings import client_setting
from spark_connect_rt.engine.executor.errant_reports import ErrantLog
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind
from spark_connect_rt.engine.executor.new_topics import NewTopics
from spark_connect_rt.engine.executor.task_writer import Report, TaskWriter, now_s
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import ConnectError, TimedOutError
from spark_connect_rt.kafka.executor_clients import (
    BatchProducer,
    DeliveryReports,
    ExecutorClients,
    IdleNotifier,
    SkipsRefused,
)
from spark_connect_rt.records.pipeline.columns import ProduceRows
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters, ReportSettings
from spark_connect_rt.records.pipeline.delivery_runs import metadata_runs
from spark_connect_rt.records.pipeline.errant_records import errant_produced

if TYPE_CHECKING:
    import pyarrow as pa

FLUSH_EACH_S = 0.25  # under load: longest age of an unflushed batch
FLUSH_APART_S = 0.05  # reader idle: flush at once unless the last flush was this recently
AT_ONCE_BYTES = 64 << 10  # a larger batch is worth a thread that sends it while the next one is read
LAST_FLUSH_S = 0.3  # of a stop whose time is up: by then the broker's records are most likely acknowledged
log = logging.getLogger(__name__)


class SourceTaskWriter(TaskWriter):
    """Producer task writer of one source task."""

    def __init__(self, host: int, launch: TaskLaunch, report: Report, clients: ExecutorClients) -> None:
        super().__init__(host, launch, report)
        self._clients = clients
        self._producer: BatchProducer | None = None
        self._says_when_empty: IdleNotifier | None = None  # the same, if it does
        self._refusing: SkipsRefused | None = None  # the same, where it leaves refused records out
        self._whereabouts_of_refused: dict[str, Any] = {}  # taken before dead letters followed
        self._new_topics = NewTopics(launch, clients)
        self._delivery_reports = DeliveryReports.NOTHING
        self._pending = Pending()
        self._flush_at_s: float | None = None  # when the task writer looks, None: nothing is pending
        self._flush_by_s = 0.0  # when the oldest batch is flushed, whatever is in flight
        self._flushed_s = 0.0
        self._timeout_ms: int = client_setting("producer", "delivery.timeout.ms")

    def begin(self) -> None:
        """Nothing yet: the producer is made when there is something to produce."""

    def on_row(self, row: Row) -> None:
        """Produce a batch, or pass on RUNNING and PAUSED behind what came before them."""
        if row.kind is RowKind.BATCH:
            self._produce(row)
        elif row.kind in (RowKind.RUNNING, RowKind.PAUSED):
            self.drain()
            self.report(row.kind.name.lower())

    def _produce(self, row: Row) -> None:
        head = BatchHead.decode(row.head)
        batch = row.records()
        if batch is not None:
            self._new_topics.ensure(head.topics)
            self._open_producer(head.delivery_reports).produce(batch)
        self._pending.add(head, row.data_bytes())
        now = now_s()
        if self._flush_at_s is None:
            self._flush_at_s = self._flush_by_s = now + FLUSH_EACH_S
        if now >= self._flush_at_s:
            self._drain_or_wait()

    def is_ready_for(self, head: BatchHead, batch: pa.RecordBatch) -> bool:
        """See TaskWriter: a small batch that a producer with nothing in flight takes at once."""
        if self._says_when_empty is None or self._flush_at_s is not None or self._end_by_s is not None:
            return False
        is_spaced = (
            now_s() >= self._flushed_s + FLUSH_APART_S
        )  # else the task writer's own thread has to wait for a while
        return is_spaced and batch.nbytes < AT_ONCE_BYTES and self._new_topics.are_there(head.topics)

    def on_batch(self, head: BatchHead, batch: pa.RecordBatch) -> None:
        """See TaskWriter. Its thread sleeps on: the producer says when the batch is acknowledged, or has failed."""
        self._open_producer(head.delivery_reports).produce(batch)
        self._pending.add(head, batch.nbytes)
        self._flush_at_s = self._flush_by_s = now_s() + FLUSH_EACH_S
        self._drain_or_wait()

    def _open_producer(self, delivery_reports: DeliveryReports) -> BatchProducer:
        if self._producer is None:
            config = self._clients.resolve(self.launch.client_config, self.launch.worker_config)
            self._timeout_ms = client_setting("producer", "delivery.timeout.ms", config)
            self._delivery_reports = delivery_reports
            self._producer = self._clients.producer({**config, **delivery_reports.properties})
            self._skip_refused(self._producer)
            self._says_when_empty = self._producer if isinstance(self._producer, IdleNotifier) else None
            if self._end_by_s is not None:
                self._producer.hurry(self._end_by_s)
        return self._producer

    def _skip_refused(self, producer: BatchProducer) -> None:
        """Have records that Kafka refuses left out where errors are tolerated (Java ``WorkerSourceTask``)."""
        settings = ReportSettings.from_config(
            self._clients.resolve(self.launch.connector_config, self.launch.worker_config)
        )
        if settings.tolerates_all and isinstance(producer, SkipsRefused):
            producer.skip_refused()
            self._refusing = producer
            self._errant_log = ErrantLog(self.launch.task, settings, self._clients, self.meter)
            self._letters = DeadLetters(settings, self.launch.task, self._clients.name_of, without_secrets)

    def _bury_refused(self) -> int | None:
        """Count, log and dead-letter the records that were left out, and return how many there are.

        None: a stop cannot wait until the dead letters are durable. Raises ConnectError: the queue refuses one.
        """
        if self._refusing is None:
            return 0
        refused, task = self._refusing.refused(), str(self.launch.task)
        self._errant_log.write(errant_produced(f"of {task} {record}", record.error) for record in refused)
        if not refused or not self._letters.settings.topic:
            return len(refused)
        assert self._producer is not None
        self._whereabouts_of_refused = self._whereabouts()  # the letters' own are of no task's record
        rows = ProduceRows()
        for record in refused:
            rows.append(self._letters.of_refused(record))
        self.meter.count("dead_letters.records", len(rows))
        self._producer.produce(rows.take())
        if not self._flushed(self._producer):
            return None
        if again := self._refusing.refused():
            self.meter.count("dead_letters.refused", len(again))
            queue = self._letters.settings.topic
            raise ConnectError(
                f"dead letter queue {queue} does not take a record: {again[0].error}", code="CRT-1057"
            ) from again[0].error
        self._whereabouts()
        return len(refused)

    def hurry(self, end_by_s: float) -> None:
        """Have the producer wait no longer than that."""
        if (producer := self._producer) is not None:
            producer.hurry(end_by_s)

    def on_reader_idle(self) -> None:
        """Flush now, or soon if a flush was only just made (else each small row would cost one)."""
        if self._flush_at_s is not None:
            self._flush_at_s = min(self._flush_at_s, self._flushed_s + FLUSH_APART_S)
            if now_s() >= self._flush_at_s:
                self._drain_or_wait()

    def on_time(self) -> None:
        """Flush or wait, because a flush is due."""
        self._drain_or_wait()

    def _drain_or_wait(self) -> None:
        """Flush; if that would wait and may be done later, wait until the producer reports that it would not."""
        is_late = now_s() >= self._flush_by_s or self._end_by_s is not None
        if is_late or self._says_when_empty is None or self._says_when_empty.is_empty(self._acknowledged):
            self.drain()
        else:
            self._flush_at_s = self._flush_by_s

    def look_again(self) -> None:
        """Wake the writer's own thread by an empty row. Any thread."""
        self._rows.put(None)

    def _acknowledged(self) -> None:
        if self.joint is None:
            self.look_again()
        else:
            self.joint.acknowledged(self)

    def settle(self, report: Report) -> bool:
        """See ``joint_reports.Settling``: on its thread, so only where a flush would not wait."""
        if not self._serving.acquire(blocking=False):
            return False
        says = self._says_when_empty
        if self._unserved or says is None or not says.is_empty(self._acknowledged):
            self._serving.release()
            return False
        self._out = report
        self._guarded(self.drain)
        return True

    def settled(self) -> None:
        """Report by the own channel again and let the writer's thread continue."""
        self._out = self._report
        self._serving.release()

    def wait_s(self) -> float | None:
        """Wait forever when nothing is pending."""
        return None if self._flush_at_s is None else max(0.0, self._flush_at_s - now_s())

    def drain(self) -> None:
        """Flush, then report everything pending as one durable batch."""
        if self._flush_at_s is None:
            return
        self._flush_at_s = None
        if self._producer is not None and not self._flushed(self._producer):
            return
        self._flushed_s = now_s()
        buried = self._bury_refused()
        if buried is None:
            return
        pending, self._pending = self._pending, Pending()
        pending.skip(buried)
        whereabouts, self._whereabouts_of_refused = self._whereabouts_of_refused or self._whereabouts(), {}
        self.report_durable(pending.records, **pending.fields(), **whereabouts)

    def _flushed(self, producer: BatchProducer) -> bool:
        """Flush; False: a stop cannot wait for it. Pending records are then never reported, and are delivered again."""
        try:
            if self._end_by_s is not None:
                producer.hurry(max(self._end_by_s, now_s() + LAST_FLUSH_S))
            producer.flush(self._timeout_ms)
        except TimedOutError as error:
            if self._end_by_s is None:
                raise
            log.warning(
                "task=%s stops without draining, so records may be delivered twice: %s", self.launch.task, error
            )
            self._dropped, self._pending = True, Pending()
            return False
        return True

    def _whereabouts(self) -> dict[str, Any]:
        if self._producer is None:
            return {}
        if self._delivery_reports is DeliveryReports.RECORDS:
            return {"metadata": metadata_runs(self._producer.metadata())}
        return {"delivered": list(map(tuple, self._producer.delivered()))}

    def finish(self) -> None:
        """Close the producer. Records that are not flushed are given up and will be read again."""
        if self._producer is not None:
            self._producer.close()
            self._producer = self._says_when_empty = None


class Pending:
    """Batches produced and not yet durable; per source partition only the last offset matters."""

    def __init__(self) -> None:
        self.records = 0
        self._data_bytes = 0
        self.skipped = 0
        self._rows = 0
        self._topics: set[str] = set()
        self._offsets: dict[bytes, tuple[Any, Any]] = {}

    def add(self, head: BatchHead, data_bytes: int) -> None:
        """Take in one BATCH row."""
        self.records += head.records
        self._data_bytes += data_bytes + (head.written or 0)
        self.skipped += head.skipped
        self._rows += 1
        self._topics.update(head.topics)
        for partition, offset in head.source_offsets:
            key = orjson.dumps(partition, option=orjson.OPT_SORT_KEYS)
            self._offsets[key] = (partition, offset)

    def skip(self, records: int) -> None:
        """So many of the records were refused, and left out."""
        self.records -= records
        self.skipped += records

    def drop_records(self) -> None:
        """Their transaction was aborted: only how far the source is stays."""
        self.records = self._data_bytes = self.skipped = 0
        self._topics.clear()

    def source_offsets(self) -> list[tuple[Any, Any]]:
        """Return the last (source partition, source offset) of each partition."""
        return list(self._offsets.values())

    def fields(self) -> dict[str, Any]:
        """Return the fields of the durable report."""
        return {
            "bytes": self._data_bytes,
            "skipped": self.skipped,
            "rows": self._rows,
            "topics": sorted(self._topics),
            "source_offsets": self.source_offsets(),
        }

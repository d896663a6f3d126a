"""Writes one source task's batches and its source offsets in transactions (Java ``ExactlyOnceWorkerSourceTask``).

Owns one transactional producer under the task's own id. The reader says where transactions may end (COMMIT rows);
several polls share one while the reader is ahead, unless their ends are the connector's own. Offsets are records of
the same transaction, so what is reported durable is committed already, offsets included (decision 0008).
"""

from __future__ import annotations

import logging
import math
from typing import Any

import pyarrow as pa

from spark_connect_rt.api.records import RecordMetadata
from spark_connect_rt.engine.executor.frames import EXACT, BatchHead, Row, RowKind
from spark_connect_rt.engine.executor.new_topics import NewTopics
from spark_connect_rt.engine.executor.source_task_writer import Pending
from spark_connect_rt.engine.executor.task_writer import Report, TaskWriter, now_s
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.kafka.executor_clients import DeliveryReports, ExecutorClients, TransactionalProducer
from spark_connect_rt.records.pipeline.columns import columns_batch
from spark_connect_rt.records.pipeline.delivery_runs import metadata_runs
from spark_connect_rt.topics.offset_records import encode_key, encode_value

COMMIT_EACH_S = 0.25  # under load: polls that come sooner behind an end share a transaction
COMMIT_APART_S = 0.05  # reader idle: commit at once unless the last one was this recently
CLAIM_LIMIT_MS = 90_000
END_LIMIT_MS = 120_000  # of one commit or abort
LAST_ABORT_MS = 5_000  # of a task that failed
log = logging.getLogger(__name__)


class TransactionalTaskWriter(TaskWriter):
    """Producer task writer of one exactly-once source task."""

    def __init__(self, host: int, launch: TaskLaunch, report: Report, clients: ExecutorClients) -> None:
        super().__init__(host, launch, report)
        self._clients = clients
        self._producer: TransactionalProducer | None = None
        self._new_topics = NewTopics(launch, clients)
        self._pending = Pending()
        self._delivery_reports = DeliveryReports.NOTHING
        self._metadata: list[RecordMetadata | None] = []  # of rows that are not reported yet, those of open ones apart
        self._open = False
        self._may_end = True  # nothing has come since the last COMMIT row
        self._due_s: float | None = None  # when the transaction ends if it may
        self._ended_s = -math.inf

    def begin(self) -> None:
        """Nothing yet: the reader says when to claim, behind whatever it waits for."""

    def on_row(self, row: Row) -> None:
        """Produce, end a transaction, or pass on news behind what came before it."""
        match row.kind:
            case RowKind.BATCH:
                self._produce(row)
            case RowKind.COMMIT:
                self._on_commit(exact=row.head == EXACT)
            case RowKind.ABORT:
                self._abort()
            case RowKind.CLAIM:
                self._claim(DeliveryReports(int(row.head or b"0")))
            case RowKind.RUNNING | RowKind.PAUSED:
                self._end_if_due(now_s(), at_once=True)
                self.report(row.kind.name.lower())

    def _claim(self, delivery_reports: DeliveryReports) -> None:
        self._delivery_reports = delivery_reports
        config = self._clients.resolve(self.launch.client_config, self.launch.worker_config)
        self._producer = self._clients.transactional_producer({**config, **delivery_reports.properties})
        # T1: from here on no earlier producer of this task can commit, and what it left open is aborted; only then
        # may the task read where it is.
        self._producer.claim(CLAIM_LIMIT_MS)
        if self._end_by_s is not None:
            self._producer.hurry(self._end_by_s)
        self.report("claimed")

    def hurry(self, end_by_s: float) -> None:
        """Have the producer wait no longer than that for room."""
        if (producer := self._producer) is not None:
            producer.hurry(end_by_s)

    def _produce(self, row: Row) -> None:
        self._may_end = False  # also if this is interrupted in the middle: an end would make half of it visible
        head = BatchHead.decode(row.head)
        batch = row.records()
        if batch is not None:
            self._new_topics.ensure(head.topics)
            self._opened().produce(batch)
        self._pending.add(head, row.data_bytes())

    def _opened(self) -> TransactionalProducer:
        """Return the producer with a transaction open."""
        assert self._producer is not None, "CLAIM comes first"
        if not self._open:
            self._producer.begin()
            self._open = True
        return self._producer

    def _on_commit(self, *, exact: bool) -> None:
        now = now_s()
        self._may_end = True
        if self._due_s is None and self._has_something():
            # Counted from the end before: the first transaction, and one behind a pause, would take up all that the
            # producer's buffer has room for, and readers of committed data would wait until that is written.
            self._due_s = self._ended_s + COMMIT_EACH_S
        self._end_if_due(now, at_once=exact)

    def _has_something(self) -> bool:
        return self._open or bool(self._pending.source_offsets()) or self._pending.skipped > 0

    def _end_if_due(self, now: float, *, at_once: bool = False) -> None:
        if self._may_end and self._due_s is not None and (at_once or now >= self._due_s):
            self._commit()

    def _commit(self) -> None:
        """T2: records and the offsets behind them become visible together, or not at all."""
        pending, whereabouts = self._pending, dict[str, Any]()
        offsets = [(encode_key(self.launch.task.connector, p), encode_value(o)) for p, o in pending.source_offsets()]
        if offsets or self._open:
            producer = self._opened()
            if offsets:
                keys, values = (pa.array(column, pa.binary()) for column in zip(*offsets, strict=True))
                producer.produce(columns_batch(self.launch.offsets_topic, values, keys))
            producer.commit(END_LIMIT_MS)
            self.meter.moved("transaction", pending.records)
            self.meter.reached("transaction.least_negated", -pending.records)
            whereabouts = self._whereabouts(producer, len(offsets))
        self._open, self._due_s, self._pending = False, None, Pending()
        self._ended_s = now_s()
        self.report_durable(pending.records, **pending.fields(), **whereabouts)

    def _whereabouts(self, producer: TransactionalProducer, offset_records: int) -> dict[str, Any]:
        if self._delivery_reports is not DeliveryReports.RECORDS:
            return {"delivered": list(map(tuple, producer.delivered()))}
        written, self._metadata = [*self._metadata, *producer.metadata()], []
        return {"metadata": metadata_runs(written[: len(written) - offset_records])}

    def _abort(self) -> None:
        if self._open:
            log.info("task=%s aborts a transaction at the request of its connector", self.launch.task)
            self._drop(END_LIMIT_MS)
        self._pending.drop_records()

    def _drop(self, limit_ms: int) -> None:
        assert self._producer is not None
        self._producer.abort(limit_ms)
        if self._delivery_reports is DeliveryReports.RECORDS:
            self._metadata += self._producer.metadata()  # None for each: readers never see these records
        else:
            self._producer.delivered()  # dropped for the same reason
        self._open = False

    def on_reader_idle(self) -> None:
        """End now, or soon if a transaction only just ended (else each small poll would cost one)."""
        if self._due_s is not None:
            self._due_s = min(self._due_s, self._ended_s + COMMIT_APART_S)
            self._end_if_due(now_s())

    def on_time(self) -> None:
        """The open transaction is due."""
        self._end_if_due(now_s())

    def wait_s(self) -> float | None:
        """Wait forever when nothing may end."""
        return max(0.0, self._due_s - now_s()) if self._may_end and self._due_s is not None else None

    def drain(self) -> None:
        """Commit records whose transaction may end here. The others are dropped and read again at the next start."""
        self._end_if_due(now_s(), at_once=True)
        if self._open:
            self._drop(END_LIMIT_MS)

    def finish(self) -> None:
        """Close the producer. A transaction that is open still would hold up readers of committed data."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        try:
            if self._open:
                producer.abort(LAST_ABORT_MS)
        finally:
            producer.close()

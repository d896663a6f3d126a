"""The life of one sink task on an executor (Java ``WorkerSinkTask``, the half that delivers).

Read it downward: rows arrive, the task starts, a batch is taken and put, the task is asked what may be committed, its
partitions leave, it stops. The task itself is behind the contract of ``python_sink.py``.

Every call of the task comes from one thread. Nothing is committed here: the runner reports offsets, and the group
member in the driver commits them under its generation.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import orjson
import pyarrow as pa

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.engine.executor.control_wire import encode_offsets
from spark_connect_rt.engine.executor.errant_reports import ErrantReports, ensure_dead_letter_queue
from spark_connect_rt.engine.executor.frames import BatchHead, Row, RowKind, decode_partitions, decode_starts
from spark_connect_rt.engine.executor.hosting import HostLostError
from spark_connect_rt.engine.executor.put_batcher import PutBatch, PutBatcher, PutBatchQueue
from spark_connect_rt.engine.executor.python_sink import HostedSink, PutOutcome, SinkParts, make_hosted_sink
from spark_connect_rt.engine.executor.sink_context import WorkerSinkTaskContext
from spark_connect_rt.engine.executor.task_meter import MeteredPluginMetrics
from spark_connect_rt.engine.executor.task_writer import Report, TaskWriter, now_s
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.kafka.executor_clients import ExecutorClients
from spark_connect_rt.kafka.interfaces import GroupGeneration
from spark_connect_rt.records.pipeline.dead_letters import ReportSettings
from spark_connect_rt.records.pipeline.sink_pipeline import first_offsets, next_offsets, without_partitions

RETRY_FIRST_S, RETRY_LAST_S = 0.1, 5.0  # wait before a batch is put again: doubled from the first to the last
PUT_EMPTY_EACH_S = 1.0  # tasks that buffer by time expect empty puts, as Java's poll loop makes them
COMMIT_EACH_S = 1.0  # under load; less if offset.flush.interval.ms is less
COMMIT_APART_S = 0.2  # when the reader is idle: at once, but not sooner than this after the last time
Partitions = frozenset[TopicPartition]
Offsets = dict[TopicPartition, int]
log = logging.getLogger(__name__)


class SinkTaskRunner(TaskWriter):
    """Runs one sink task: its queue, its thread, and every decision about its next call."""

    step_name = ""  # a step includes waits between two puts, so the calls of the task are measured one by one
    make_sink = staticmethod(make_hosted_sink)

    def __init__(self, host: int, launch: TaskLaunch, report: Report, clients: ExecutorClients) -> None:
        super().__init__(host, launch, report)
        self._rows = rows = PutBatchQueue()
        self._batcher = PutBatcher(rows, launch.task)
        self._clients = clients
        self._context = WorkerSinkTaskContext(MeteredPluginMetrics(self.meter))
        self._sink: HostedSink | None = None
        self._generation: GroupGeneration | None = None
        self._reports: ErrantReports | None = None
        self._offsets = SinkOffsets()
        self._rewound: frozenset[TopicPartition] = frozenset()  # by a failed commit, while a batch is being put
        self._uncommitted = UncommittedPuts()
        self._commits = CommitSchedule()
        self._put_s = now_s()  # when the task was called last
        self._call_at_s: float | None = None  # when the task asked to be called again (context.timeout)
        self._hurry = threading.Event()  # set by a revocation or a stop, which must not wait for a retry
        self._revocations = PendingRevocations()
        self._ending = False

    # -- rows arrive, on the thread that reads

    def give(self, row: Row) -> None:
        """Queue a row, and note at once the news that must not wait behind a batch that is being retried.

        A revocation or a stop ends the wait of a retry. A new group generation skips the queue.
        """
        if row.kind is RowKind.REVOKED:
            self._revocations.add(decode_partitions(row.head))
        elif row.kind is RowKind.GENERATION:  # it fences the task's own transactions, so it must not wait behind data
            self._generation = GroupGeneration(**orjson.loads(row.head))
            self._pass_on_generation()
            return
        self._ending = self._ending or row.kind is RowKind.ENDED
        super().give(row)
        if row.kind in (RowKind.REVOKED, RowKind.ENDED):
            self._hurry.set()

    def _pass_on_generation(self) -> None:
        sink, generation = self._sink, self._generation
        if sink is not None and generation is not None:
            sink.note_generation(generation)

    def abandon(self) -> None:
        """Stop at once because the slice is over: a retry ends, and so does the call that a Java task is in."""
        self._ending = True
        super().abandon()
        self._hurry.set()
        if (sink := self._sink) is not None:
            sink.abandon()

    # -- start, on the task's thread, like everything below

    def begin(self) -> None:
        """Make the task, create its dead letter queue if that is missing, and start the task.

        Raises BadConfigError and NotFoundError for its settings and classes, ConnectError for the dead letter queue,
        and whatever ``start`` of the task raises.
        """
        worker_config = self._clients.resolve(self.launch.worker_config, self.launch.worker_config)
        connector_config = self._clients.resolve(self.launch.connector_config, self.launch.worker_config)
        settings = ReportSettings.from_config(connector_config)
        parts = SinkParts(
            self.launch,
            self._clients,
            connector_config,
            worker_config,
            self._context,
            self.meter,
            self._wait_ms,
            self._must_not_wait,
            lambda: self._ending,
        )
        sink = self.make_sink(parts)
        self._flush_timeout_ms = self.launch.flush.offset_flush_timeout_ms
        self._reports = self._open_reports(settings)
        self._sink = sink
        self._pass_on_generation()
        sink.start(self._reports)
        began_s = now_s() if sink.pre_commit_has_effects else None
        self._commits = CommitSchedule(self.launch.flush.offset_flush_interval_ms / 1000, effects_since_s=began_s)
        self._batcher.begin(sink)
        if not self.launch.paused:  # a paused task is reported by its PAUSED row
            self.report("running")

    def _open_reports(self, settings: ReportSettings) -> ErrantReports:
        launch, resolve = self.launch, self._clients.resolve
        admin = resolve(launch.dead_letter_admin, launch.worker_config)
        ensure_dead_letter_queue(self._clients, settings, admin)
        producer = resolve(launch.dead_letter_producer, launch.worker_config)
        return ErrantReports(launch.task, settings, self._clients, producer, self.meter)

    # -- a row is taken from the queue

    def on_row(self, row: Row) -> None:
        """Put a batch, or handle a change of partitions or of the pause after all data that came before it."""
        match row.kind:
            case RowKind.BATCH:
                for wait_s in self.put_with_retries(self._batcher.take(row)):
                    self._hurry.wait(wait_s)
                    self._hurry.clear()
            case RowKind.ASSIGNED:
                self._context.note_repositioned(decode_partitions(row.head))
                self._open(row.head)
            case RowKind.REVOKED:
                self._on_revoked(decode_partitions(row.head))
            case RowKind.PAUSED:
                self._commit()
                self.report("paused")
            case RowKind.RUNNING:
                self.report("running")

    def _open(self, head: bytes) -> None:
        """Open the partitions of an ASSIGNED row that the task does not have yet."""
        assert self._sink is not None
        new = decode_partitions(head) - self._context.partitions
        starts = {partition: at for partition, at in decode_starts(head).items() if partition in new}
        if self._sink.pre_commit_has_effects:  # as in Java, it is also asked about partitions without a put
            self._offsets.note_position(starts)
        self._context.note_positions(starts)
        self._context.partitions |= new
        if new:
            self._sink.open(sorted(new))
            self._apply_requests()

    # -- put a batch, and put it again for as long as the task asks for it

    def put_with_retries(self, put_batch: PutBatch) -> Iterator[float]:
        """Put everything of a batch, in the parts that the sink takes.

        Yields how long to wait, in s, before the same records are put again. The caller waits, so that a test can pass
        the time by itself. Raises what fails the task.
        """
        assert self._sink is not None
        row_bytes = put_batch.data_bytes / max(1, put_batch.batch.num_rows)
        try:
            for part in self._sink.split(put_batch.batch):
                yield from self._put_until_taken(self._drop_unwanted(part), row_bytes)
        finally:
            for row in put_batch.rows[1:]:
                self._done_with(row)
        for row in put_batch.rows:
            self.meter.moved("taken", BatchHead.decode(row.head).records)

    def _put_until_taken(self, batch: pa.RecordBatch, row_bytes: float) -> Iterator[float]:
        """Put one part until the task has taken it, or until its partitions leave. Yields each wait in s.

        The outer loop converts what is left of the part, the inner loop puts it. A revocation, a stop or a rewind leads
        back to the outer loop, which drops the rows that the task must not get any more.
        """
        wait_s, as_records = RETRY_FIRST_S, False
        self._rewound = frozenset()
        while not self._ending:  # the next owner reads again what is not put
            leaving = self._revocations.snapshot()
            self._release_partitions(self._revocations.unreleased(leaving))  # a target that is down must not hold them
            batch = without_partitions(batch, leaving | self._rewound | self._context.moving())
            if not batch.num_rows:
                return
            prepared = self._batcher.prepare(batch, as_records=as_records)
            if prepared is None:  # a retry of a converter was interrupted: find out by what
                self._hurry.clear()
                continue
            rewound, moving = self._rewound, self._context.moving()
            while not self._must_not_wait():
                outcome, batch = self._deliver(prepared, batch, row_bytes)
                if outcome is PutOutcome.TAKEN:
                    return
                if outcome is not PutOutcome.RETRY:
                    as_records = outcome is PutOutcome.AS_RECORDS
                    break
                # put raised RetriableError. Before it did, the task may have set the wait by context.timeout, paused
                # or moved partitions, or asked for a commit. If that commit failed, the batch is read again. Rows of a
                # partition that was moved must not come before those of its new offset.
                self._apply_requests()
                if self._rewound is not rewound or self._context.moving() != moving:
                    break
                yield self._until_called_s(wait_s)
                wait_s = min(RETRY_LAST_S, wait_s * 2)

    def _must_not_wait(self) -> bool:
        return self._ending or self._revocations.has_new

    def _until_called_s(self, otherwise_s: float) -> float:
        """Return the wait in s that the task asked for by ``context.timeout``, once; ``otherwise_s`` if it did not."""
        call_at_s, self._call_at_s = self._call_at_s, None
        return otherwise_s if call_at_s is None else max(0.0, call_at_s - now_s())

    def _deliver(self, prepared: Any, batch: pa.RecordBatch, row_bytes: float) -> tuple[PutOutcome, pa.RecordBatch]:
        """Put a prepared batch once. Returns the outcome, and the rows of the batch that were not put.

        Rows that were put count as put even if the call raises, so their offsets are committed when the task fails.
        """
        assert self._sink is not None
        try:
            outcome = self._batcher.deliver(prepared)
        except BaseException:
            self._note_put(batch.slice(0, self._sink.rows_taken), row_bytes)
            raise
        rows = batch.num_rows if outcome is PutOutcome.TAKEN else self._sink.rows_taken
        rest = batch.slice(rows)
        if rows:
            self._note_put(batch.slice(0, rows), row_bytes)
            self._after_put()
            rest = self._drop_unwanted(rest) if outcome is PutOutcome.PARTIAL else rest
        return outcome, rest

    def _note_put(self, taken: pa.RecordBatch, row_bytes: float) -> None:
        """Count rows as put: their offsets, and their number and bytes for the next report."""
        assert self._sink is not None
        if not taken.num_rows:
            return
        self._offsets.note_put(taken, reached := next_offsets(taken))
        if self._sink.pre_commit_has_effects:
            self.meter.uses({partition.topic for partition in reached})
        self._uncommitted.add(self._sink.counts, taken.num_rows * row_bytes)

    def _after_put(self) -> None:
        self._put_s = now_s()
        self._commits.note_put(self._put_s)
        self._apply_requests()
        if self._commits.due_under_load(now_s()):
            self._commit()

    def _wait_ms(self, wait_ms: int) -> bool:
        """Wait between two attempts at converting a record. Returns False if a revocation or a stop ended the wait."""
        hurried = self._hurry.wait(wait_ms / 1000)
        self.meter.count_attempt(again=not hurried)
        return not hurried

    # -- the requests that the task made by its context during a call

    def _apply_requests(self) -> None:
        """Do what the task asked for in its last call: hold or move partitions, set a timeout, commit."""
        self._apply_reader_changes()
        if self._context.take_commit_request():
            self._commit()

    def _apply_reader_changes(self) -> None:
        self._offsets.note_position(self._context.take_rewinds())
        hold, seek = self._context.take_reader_changes()
        if hold or seek:
            held = [(tp.topic, tp.partition) for tp in sorted(hold)]
            self.report("steer", hold=held, seek=[(tp.topic, tp.partition, at) for tp, at in sorted(seek.items())])
        timeout_s = self._context.take_timeout_s()
        if timeout_s is not None:
            self._call_at_s = now_s() + timeout_s

    def _drop_unwanted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch without the partitions that the task has paused or moved. The reader reads them again."""
        unwanted = self._context.unwanted()
        for partition, first_offset in first_offsets(batch, unwanted).items():
            self._context.note_dropped(partition, first_offset)
        return without_partitions(batch, unwanted)

    # -- there is nothing to put

    def on_reader_idle(self) -> None:
        """Commit soon, because no more records are on the way."""
        if self._commits.note_idle(now_s()):
            self._commit()

    def on_time(self) -> None:
        """Make an empty put if that is due, also while the task holds offsets back, and commit if that is due."""
        now = now_s()
        if now >= self._next_call_s():
            self._put_s, self._call_at_s = now, None
            if self._sink is not None and self._context.partitions:
                self._sink.put_empty()
                self._apply_requests()
        if self._commits.due(now):
            self._commit()

    def _next_call_s(self) -> float:
        empty_s = self._put_s + PUT_EMPTY_EACH_S
        return empty_s if self._call_at_s is None else min(empty_s, self._call_at_s)

    def wait_s(self) -> float | None:
        """Return the time in s until the next empty put or commit."""
        due_s, commit_at_s = self._next_call_s(), self._commits.at_s
        return max(0.0, (due_s if commit_at_s is None else min(due_s, commit_at_s)) - now_s())

    # -- commit: ask the task, report the safe offsets, and rewind when the task cannot answer

    def _commit(self) -> None:
        """Ask the task which offsets are safe, and report them. It is asked again later about offsets that are not."""
        if self._commits.dirty:
            self._report_committable(self._pre_commit(self._context.partitions, closing=False))

    def _pre_commit(self, partitions: frozenset[TopicPartition], *, closing: bool) -> dict[TopicPartition, int] | None:
        """Return the next offsets of these partitions that the task says are safe; None if it was not asked or failed.

        No offset is safe before every dead letter is acknowledged, so these are flushed first. As in Java, an error of
        the task fails nothing: the runner rewinds to the last commit. With ``closing`` the partitions leave the task,
        and their next owner reads from there.
        """
        assert self._sink is not None
        assert self._reports is not None
        asked = self._offsets.put_of(partitions)
        if not asked:
            return None
        self._commits.note_asked(now_s())
        if not self._reports.flush(self._flush_timeout_ms):
            return None
        try:
            with self.meter.call("pre_commit"):
                answered = self._sink.pre_commit(asked)
        except HostLostError:
            raise
        except BaseException:  # noqa: BLE001 - as in Java, no error of preCommit fails the task
            self._commit_failed(closing=closing)
            return None
        self._apply_reader_changes()
        return self._offsets.committable(answered)

    def _commit_failed(self, *, closing: bool) -> None:
        """Rewind every partition to its last commit (Java ``commitOffsets``). Partitions that are closed stay."""
        self.meter.count("pre_commit.failed")
        if closing:
            log.warning("task=%s: offset commit failed during close", self.launch.task, exc_info=True)
            return
        log.exception("task=%s: offset commit failed, rewinding to the last committed offsets", self.launch.task)
        self._apply_reader_changes()  # the task's own rewinds count first
        back = self._offsets.rewind_positions()
        self._context.offset(back)
        self._apply_reader_changes()
        self._rewound = self._rewound.union(back)
        self._uncommitted.forget_records()
        self._commits.note_failed(now_s())

    def _report_committable(self, safe: dict[TopicPartition, int] | None) -> None:
        """Report safe offsets that are new, behind the dead letters that ``pre_commit`` itself may have reported."""
        assert self._reports is not None
        if safe is None or not self._reports.flush(self._flush_timeout_ms):
            return
        self._commits.note_answered(all_safe=self._offsets.are_all_safe(safe))
        if changed := self._offsets.note_reported(safe):
            self._report_offsets(changed)

    def _report_offsets(self, offsets: dict[TopicPartition, int]) -> None:
        counts = self._uncommitted.take(0 if self._sink is None else self._sink.take_reported_count())
        topics = sorted({tp.topic for tp in offsets})
        self.report_durable(**counts, rows=1, topics=topics, sink_offsets=encode_offsets(offsets))

    # -- partitions leave

    def _on_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Release the partitions of a REVOKED row. No row of theirs is behind it, so they may be assigned again."""
        self._release_partitions(self._revocations.unreleased(partitions))
        self._revocations.confirm(partitions)

    def _release_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Commit and close partitions, and report them as released (I4), including those that were never open."""
        assert self._sink is not None
        if not partitions:
            return
        held = partitions & self._context.partitions
        self._close_partitions(held)
        self._apply_reader_changes()  # close may move partitions that stay, for example after a commit was fenced
        self._offsets.forget(held)
        self._revocations.mark_released(partitions)
        self.report("released", partitions=[(tp.topic, tp.partition) for tp in sorted(partitions)])

    def _close_partitions(self, held: frozenset[TopicPartition]) -> None:
        """Ask the task for safe offsets, close, then report, in Java's order.

        If ``close`` raises, nothing is committed. If ``pre_commit`` fails, the partitions are closed all the same. The
        context forgets them in either case, so that a second call does nothing.
        """
        assert self._sink is not None
        safe: dict[TopicPartition, int] | None = None
        try:
            safe = self._pre_commit(held, closing=True)
        finally:
            try:
                if held:
                    self._sink.close(sorted(held))
            finally:
                self._context.forget(held)
        self._report_committable(safe)

    # -- stop

    def drain(self) -> None:
        """Commit everything that was put, and close every partition."""
        self._close_partitions(self._context.partitions)

    def close_failed(self) -> None:
        """Commit what was put before the failure, and close every partition (Java ``closeAllPartitions``)."""
        if self._sink is not None:
            self.drain()

    def finish(self) -> None:
        """Stop the task, whose partitions are closed by now, and close the producer of its dead letters."""
        self._batcher.discard_prepared()
        sink, self._sink = self._sink, None
        with ExitStack() as last_first:
            if self._reports is not None:
                last_first.callback(self._reports.close, self._flush_timeout_ms)
            if sink is not None:
                last_first.callback(sink.stop)


class SinkOffsets:
    """The position of a task in each open partition. Pure. The task's thread.

    It holds two next offsets of each partition: after the last put, and after the last commit as far as the executor
    knows (Java ``WorkerSinkTask``, its ``currentOffsets`` and ``lastCommittedOffsets``).
    """

    def __init__(self) -> None:
        self._put: Offsets = {}
        self._committed: Offsets = {}  # the first offset that was read, until something was reported

    def note_put(self, batch: pa.RecordBatch, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Count a batch in consume form as put. ``next_offsets`` are the offsets after it."""
        new = next_offsets.keys() - self._committed.keys()
        self._committed.update(first_offsets(batch, new))
        self._put.update(next_offsets)

    def put_of(self, partitions: AbstractSet[TopicPartition]) -> Offsets:
        """Return the next offsets after the last put of these partitions."""
        return {partition: offset for partition, offset in self._put.items() if partition in partitions}

    def committable(self, answered: Mapping[TopicPartition, int]) -> Offsets:
        """Return a task's answer without partitions and offsets that the task was not given."""
        return {
            partition: min(offset, self._put[partition])
            for partition, offset in answered.items()
            if partition in self._put
        }

    def note_reported(self, safe: Mapping[TopicPartition, int]) -> Offsets:
        """Count ``safe`` as committed, and return the offsets that are new."""
        changed = {partition: offset for partition, offset in safe.items() if self._committed.get(partition) != offset}
        self._committed.update(changed)
        return changed

    def are_all_safe(self, safe: Mapping[TopicPartition, int]) -> bool:
        """Return whether nothing is left to commit after ``safe``."""
        return self._put == safe

    def rewind_positions(self) -> Offsets:
        """Return where each partition has to be read again if no put since the last commit counts."""
        return {
            partition: self._committed[partition]
            for partition, offset in self._put.items()
            if self._committed[partition] != offset
        }

    def note_position(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Note that partitions are read from here, newly opened or moved. As in Java, a rewind goes back to here."""
        self._put.update(offsets)
        self._committed.update(offsets)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget partitions that left the task."""
        for partition in partitions:
            self._put.pop(partition, None)
            self._committed.pop(partition, None)


@dataclass(slots=True)
class UncommittedPuts:
    """The numbers of the puts that are not yet reported as durable. The task's thread."""

    records: int = 0
    data_bytes: float = 0.0
    skipped: int = 0  # tolerated errant records that the task was not given

    def add(self, counts: tuple[int, int], data_bytes: float) -> None:
        """Add a put: its records, its skipped records, and the bytes that held both."""
        self.records += counts[0]
        self.skipped += counts[1]
        self.data_bytes += data_bytes

    def forget_records(self) -> None:
        """Forget records that will be read again. Skipped records stay counted."""
        self.records, self.data_bytes = 0, 0.0

    def take(self, reported: int) -> dict[str, int]:
        """Return the fields of a report and start again at zero.

        ``reported`` is the number of records among them that the task itself reported as errant.
        """
        records = max(0, self.records - reported) if reported else self.records
        fields = {"records": records, "bytes": round(self.data_bytes), "skipped": self.skipped + reported}
        self.records, self.data_bytes, self.skipped = 0, 0.0, 0
        return fields


class CommitSchedule:
    """When a task is asked for its safe offsets: soon after its reader is idle, else about once a second. Pure.

    A Java task whose ``flush`` or ``preCommit`` has effects (it writes a file, or commits elsewhere) is asked only each
    ``offset.flush.interval.ms``, as Java's ``WorkerSinkTask.iteration`` does. Times are s of the monotonic clock. The
    task's thread.
    """

    def __init__(self, flush_interval_s: float = 60.0, *, effects_since_s: float | None = None) -> None:
        """Take the interval of the settings.

        Args:
            flush_interval_s: ``offset.flush.interval.ms``, in s.
            effects_since_s: when a task was started whose ``pre_commit`` has effects; None for any other task.
        """
        self._has_effects = effects_since_s is not None
        self._each_s = flush_interval_s if self._has_effects else min(COMMIT_EACH_S, flush_interval_s)
        self._max_s = flush_interval_s
        self._asked_s = effects_since_s or 0.0
        self._failures = 0  # in a row
        self.dirty = False  # something may be left to commit
        self._at_s: float | None = None

    @property
    def at_s(self) -> float | None:
        """When to ask next; None while nothing is left to commit."""
        return self._at_s if self.dirty else None

    def due(self, now_s: float) -> bool:
        """Return whether the task is to be asked now."""
        at_s = self.at_s
        return at_s is not None and now_s >= at_s

    def note_put(self, now_s: float) -> None:
        """Note that there is something to commit."""
        self.dirty = True
        if self._at_s is None:
            self._at_s = max(self._asked_s + self._each_s, now_s)

    def due_under_load(self, now_s: float) -> bool:
        """Return whether the task is to be asked between two puts. The haste of an idle reader does not count here."""
        return self.dirty and now_s >= self._asked_s + self._each_s

    def note_idle(self, now_s: float) -> bool:
        """Note that no more records are on the way. Returns whether the task is to be asked now."""
        if self.dirty and not self._has_effects:
            self._at_s = self._asked_s + COMMIT_APART_S
        return self.due(now_s)

    def note_asked(self, now_s: float) -> None:
        """Note that the task is being asked. It is asked again later about offsets that are not safe yet."""
        self._asked_s = now_s
        self._at_s = now_s + self._each_s

    def note_answered(self, *, all_safe: bool) -> None:
        """Note an answer. With ``all_safe`` nothing is left to commit."""
        self._failures = 0
        if all_safe:
            self.dirty, self._at_s = False, None

    def note_failed(self, now_s: float) -> None:
        """Note that the task could not answer, so everything is put again.

        The interval doubles with each failure in a row, up to the interval of Java.
        """
        wait_s = min(self._each_s * 2**self._failures, self._max_s)
        self._failures = min(self._failures + 1, 30)
        self._asked_s = now_s + wait_s - self._each_s
        self.dirty, self._at_s = False, None


class PendingRevocations:
    """The partitions whose REVOKED row is in the queue, known long before that row is taken.

    A put that waits checks them, so that a target that is down does not hold up a revocation. ``add`` is called by the
    thread that queues rows, everything else by the task's thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: Counter[TopicPartition] = Counter()
        self.partitions: Partitions = frozenset()  # another object after each change
        self._snapshot = self.partitions  # as the batch that is being put has been filtered
        self._released: Partitions = frozenset()  # released before their row was taken

    def add(self, partitions: Partitions) -> None:
        """Note that a REVOKED row of these partitions is queued."""
        with self._lock:
            self._rows.update(partitions)
            self.partitions = frozenset(self._rows)

    def snapshot(self) -> Partitions:
        """Return the partitions of now, and compare with them in ``has_new`` from now on."""
        self._snapshot = self.partitions
        return self._snapshot

    @property
    def has_new(self) -> bool:
        """Whether a REVOKED row was queued since ``snapshot``."""
        return self.partitions is not self._snapshot

    def unreleased(self, partitions: Partitions) -> Partitions:
        """Return the ones of these partitions that were not released before their row was taken."""
        return partitions - self._released

    def mark_released(self, partitions: Partitions) -> None:
        """Note that these partitions are closed and reported."""
        self._released |= partitions

    def confirm(self, partitions: Partitions) -> None:
        """Note that the row of these partitions was taken, so that they may be assigned again."""
        self._released -= partitions
        with self._lock:
            self._rows -= Counter(partitions)  # a count, as another REVOKED row of them may be in the queue
            self.partitions = frozenset(self._rows)

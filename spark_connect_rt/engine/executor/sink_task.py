"""Runs one sink task in a slot's writer process (Java ``WorkerSinkTask``, its delivery half).

Owns the task's life (start, open, put, pre_commit, close, stop, all on one thread) and which offsets may be
committed. It commits nothing itself: it reports, the driver's group member commits under its generation.
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

PUT_EMPTY_EACH_S = 1.0  # tasks that buffer by time expect empty puts, as Java's poll loop makes them
RETRY_FIRST_S, RETRY_LAST_S = 0.1, 5.0
COMMIT_EACH_S = 1.0  # at most; less if offset.flush.interval.ms is less
COMMIT_APART_S = 0.2  # reader idle: at once unless the last was this recently
Partitions = frozenset[TopicPartition]
Offsets = dict[TopicPartition, int]
log = logging.getLogger(__name__)


class SinkTaskRunner(TaskWriter):
    """One sink task, hosted."""

    step_name = ""  # the waits between two puts are no one's call
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
        self._rewound: frozenset[TopicPartition] = frozenset()  # by a failed commit, while a batch is in hand
        self._uncommitted = UncommittedPuts()
        self._commits = CommitSchedule()
        self._put_s = now_s()  # when the task was called last
        self._call_at_s: float | None = None  # when it asked to be called again
        self._hurry = threading.Event()  # a revocation or the end waits: retries must not hold it up
        self._revocations = PendingRevocations()
        self._ending = False

    # -- rows arrive, on the thread that reads

    def give(self, row: Row) -> None:
        """Queue a row; news that must not wait behind a retried batch is noted at once."""
        if row.kind is RowKind.REVOKED:
            self._revocations.add(decode_partitions(row.head))
        elif row.kind is RowKind.GENERATION:  # it must not wait behind data: it fences transactions of the task's
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
        """Give up at once, also a retried put."""
        self._ending = True
        super().abandon()
        self._hurry.set()
        if (sink := self._sink) is not None:
            sink.abandon()

    # -- start, on the task's thread, as everything below

    def begin(self) -> None:
        """Make and start the task."""
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
        if not self.launch.paused:  # else the feed's PAUSED row says so
            self.report("running")

    def _open_reports(self, settings: ReportSettings) -> ErrantReports:
        launch, resolve = self.launch, self._clients.resolve
        admin = resolve(launch.dead_letter_admin, launch.worker_config)
        ensure_dead_letter_queue(self._clients, settings, admin)
        producer = resolve(launch.dead_letter_producer, launch.worker_config)
        return ErrantReports(launch.task, settings, self._clients, producer, self.meter)

    # -- a row's turn has come

    def on_row(self, row: Row) -> None:
        """Serve data, or pass on changes behind what came before them."""
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
        assert self._sink is not None
        new = decode_partitions(head) - self._context.partitions
        if self._sink.pre_commit_has_effects:  # it is asked about partitions of which nothing was put, too, as by Java
            self._offsets.note_position(
                {partition: at for partition, at in decode_starts(head).items() if partition in new}
            )
        self._context.partitions |= new
        if new:
            self._sink.open(sorted(new))
            self._apply_requests()

    # -- put a batch, and put it again for as long as the task asks

    def put_with_retries(self, put_batch: PutBatch) -> Iterator[float]:
        """Deliver what was read, in the batches the task takes; yield each wait (s) before the same is put again."""
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
        """Deliver one batch; tried again for as long as the task asks, or until its partitions leave."""
        wait_s, as_records = RETRY_FIRST_S, False
        self._rewound = frozenset()
        while not self._ending:  # what is not put is read again by the next owner
            leaving = self._revocations.snapshot()
            self._release_partitions(self._revocations.unreleased(leaving))  # a target that refuses must not hold them
            batch = without_partitions(batch, leaving | self._rewound)
            if not batch.num_rows:
                return
            prepared = self._batcher.prepare(batch, as_records=as_records)
            if prepared is None:  # something could not wait
                self._hurry.clear()
                continue
            rewound = self._rewound
            while not self._must_not_wait():
                outcome, batch = self._deliver(prepared, batch, row_bytes)
                if outcome is PutOutcome.TAKEN:
                    return
                if outcome is not PutOutcome.RETRY:
                    as_records = outcome is PutOutcome.AS_RECORDS
                    break
                self._apply_requests()
                if self._rewound is not rewound:
                    break
                yield self._until_called_s(wait_s)
                wait_s = min(RETRY_LAST_S, wait_s * 2)

    def _must_not_wait(self) -> bool:
        return self._ending or self._revocations.has_new

    def _until_called_s(self, otherwise_s: float) -> float:
        """Return how long to wait, as the task asked once, else ``otherwise_s``."""
        call_at_s, self._call_at_s = self._call_at_s, None
        return otherwise_s if call_at_s is None else max(0.0, call_at_s - now_s())

    def _deliver(self, prepared: Any, batch: pa.RecordBatch, row_bytes: float) -> tuple[PutOutcome, pa.RecordBatch]:
        """Deliver what was prepared of a batch; return what became of it, and what is left of it."""
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
        """Note that these rows were put."""
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
        """Wait between attempts at converting one record; False when a revocation or the end waits."""
        hurried = self._hurry.wait(wait_ms / 1000)
        self.meter.count_attempt(again=not hurried)
        return not hurried

    # -- what the task asked for during a call

    def _apply_requests(self) -> None:
        """Do what the task asked for in its last call."""
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
        """Return the batch without partitions that the task paused or moved: they are read again."""
        unwanted = self._context.unwanted()
        for partition, first_offset in first_offsets(batch, unwanted).items():
            self._context.note_dropped(partition, first_offset)
        return without_partitions(batch, unwanted)

    # -- nothing to put

    def on_reader_idle(self) -> None:
        """Commit soon: nothing more is on the way."""
        if self._commits.note_idle(now_s()):
            self._commit()

    def on_time(self) -> None:
        """Let the task look at its clock, also while it holds offsets back; commit if due."""
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
        """Wait until the next commit or the next empty put."""
        due_s, commit_at_s = self._next_call_s(), self._commits.at_s
        return max(0.0, (due_s if commit_at_s is None else min(due_s, commit_at_s)) - now_s())

    # -- commit: ask the task, report what is safe; rewind when it cannot answer

    def _commit(self) -> None:
        """Ask the task what is safe and report it; what is not yet safe is asked again a second later."""
        if self._commits.dirty:
            self._report_committable(self._pre_commit(self._context.partitions, closing=False))

    def _pre_commit(self, partitions: frozenset[TopicPartition], *, closing: bool) -> dict[TopicPartition, int] | None:
        """Return what the task says is safe of these; None: it was not asked, or failed.

        Nothing is safe before every dead letter is acknowledged. ``closing``: they go. An error of the task's fails
        nothing, as in Java: all since the last commit is read again, of what goes by its next owner.
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
        except BaseException:  # noqa: BLE001 - whatever it is, as in Java
            self._commit_failed(closing=closing)
            return None
        self._apply_reader_changes()
        return self._offsets.committable(answered)

    def _commit_failed(self, *, closing: bool) -> None:
        """Have everything since the last commit read again; not of what closes (Java ``commitOffsets``)."""
        self.meter.count("pre_commit.failed")
        if closing:
            log.warning("task=%s: offset commit failed during close", self.launch.task, exc_info=True)
            return
        log.exception("task=%s: offset commit failed, rewinding to the last committed offsets", self.launch.task)
        self._apply_reader_changes()  # where the task itself wants to go, it goes
        back = self._offsets.rewind_positions()
        self._context.offset(back)
        self._apply_reader_changes()
        self._rewound = self._rewound.union(back)
        self._uncommitted.forget_records()
        self._commits.note_failed(now_s())

    def _report_committable(self, safe: dict[TopicPartition, int] | None) -> None:
        assert self._reports is not None
        if safe is None or not self._reports.flush(self._flush_timeout_ms):  # pre_commit may have reported some
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
        """The REVOKED row: nothing of these partitions is behind it; they may be assigned again."""
        self._release_partitions(self._revocations.unreleased(partitions))
        self._revocations.confirm(partitions)

    def _release_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Flush, report, close, in Java's order; also partitions that were never open are reported."""
        assert self._sink is not None
        if not partitions:
            return
        held = partitions & self._context.partitions
        self._close_partitions(held)
        self._offsets.forget(held)
        self._revocations.mark_released(partitions)
        self.report("released", partitions=[(tp.topic, tp.partition) for tp in sorted(partitions)])

    def _close_partitions(self, held: frozenset[TopicPartition]) -> None:
        """Ask, close, report, in Java's order: a close that fails commits nothing. Nothing of it is done twice."""
        assert self._sink is not None
        safe: dict[TopicPartition, int] | None = None
        try:
            safe = self._pre_commit(held, closing=True)
        finally:  # as Java: what could not be committed is closed, too
            try:
                if held:
                    self._sink.close(sorted(held))
            finally:
                self._context.forget(held)
        self._report_committable(safe)

    # -- stop

    def drain(self) -> None:
        """Commit what was put and close every partition."""
        self._close_partitions(self._context.partitions)

    def close_failed(self) -> None:
        """Commit what was put before the failure and close every partition (Java ``closeAllPartitions``)."""
        if self._sink is not None:
            self.drain()

    def finish(self) -> None:
        """Stop the task; its partitions are closed."""
        self._batcher.discard_prepared()
        sink, self._sink = self._sink, None
        with ExitStack() as last_first:
            if self._reports is not None:
                last_first.callback(self._reports.close, self._flush_timeout_ms)
            if sink is not None:
                last_first.callback(sink.stop)


# How far one sink task is: what it was put, what of it was reported, and where a failed commit goes back to. Pure.
#
# Owns the next offset of each open partition, twice: behind the last put, and behind what is committed as far as the
# executor knows (Java ``WorkerSinkTask``, its ``currentOffsets`` and ``lastCommittedOffsets``).


class SinkOffsets:
    """Of the partitions that are open. The lane's thread."""

    def __init__(self) -> None:
        self._put: Offsets = {}
        self._committed: Offsets = {}  # where it began, until something was reported

    def note_put(self, batch: pa.RecordBatch, next_offsets: Mapping[TopicPartition, int]) -> None:
        """A batch in consume form was put; ``next_offsets`` is behind it."""
        new = next_offsets.keys() - self._committed.keys()
        self._committed.update(first_offsets(batch, new))
        self._put.update(next_offsets)

    def put_of(self, partitions: AbstractSet[TopicPartition]) -> Offsets:
        """Return the next offsets behind what was put of these."""
        return {partition: offset for partition, offset in self._put.items() if partition in partitions}

    def committable(self, answered: Mapping[TopicPartition, int]) -> Offsets:
        """Return what of a task's answer may be committed: nothing that it was not put."""
        return {
            partition: min(offset, self._put[partition])
            for partition, offset in answered.items()
            if partition in self._put
        }

    def note_reported(self, safe: Mapping[TopicPartition, int]) -> Offsets:
        """Take ``safe`` as committed; return what of it is new."""
        changed = {partition: offset for partition, offset in safe.items() if self._committed.get(partition) != offset}
        self._committed.update(changed)
        return changed

    def are_all_safe(self, safe: Mapping[TopicPartition, int]) -> bool:
        """Tell whether nothing else is left to commit."""
        return self._put == safe

    def rewind_positions(self) -> Offsets:
        """Return where each partition goes back to when nothing that was put since may count."""
        return {
            partition: self._committed[partition]
            for partition, offset in self._put.items()
            if self._committed[partition] != offset
        }

    def note_position(self, offsets: Mapping[TopicPartition, int]) -> None:
        """These are read from there, newly opened or sought: a later failure goes back to there, too, as in Java."""
        self._put.update(offsets)
        self._committed.update(offsets)

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """These are the task's no more."""
        for partition in partitions:
            self._put.pop(partition, None)
            self._committed.pop(partition, None)


# What a sink task was put and is not yet reported as durable, in numbers.


@dataclass(slots=True)
class UncommittedPuts:
    """Of one task. The lane's thread."""

    records: int = 0
    data_bytes: float = 0.0
    skipped: int = 0  # tolerated errant records, given up before the put

    def add(self, counts: tuple[int, int], data_bytes: float) -> None:
        """Count a put: records and skipped ones, and the bytes that held them."""
        self.records += counts[0]
        self.skipped += counts[1]
        self.data_bytes += data_bytes

    def forget_records(self) -> None:
        """They are read again."""
        self.records, self.data_bytes = 0, 0.0

    def take(self, reported: int) -> dict[str, int]:
        """Return the fields of a report, once; ``reported``: of the records, by the task itself as errant."""
        records = max(0, self.records - reported) if reported else self.records
        fields = {"records": records, "bytes": round(self.data_bytes), "skipped": self.skipped + reported}
        self.records, self.data_bytes, self.skipped = 0, 0.0, 0
        return fields


# When a sink task is asked what may be committed: soon after its reader is idle, else about once a second. Pure.
#
# A Java task that acts when it is asked (writes a file in ``flush``, commits elsewhere in ``preCommit``) is asked each
# ``offset.flush.interval.ms`` only, as by Java ``WorkerSinkTask.iteration``. Times are s on the monotonic clock.


class CommitSchedule:
    """Of one task. The lane's thread."""

    def __init__(self, flush_interval_s: float = 60.0, *, effects_since_s: float | None = None) -> None:
        """Take how often Java asks.

        Args:
            flush_interval_s: ``offset.flush.interval.ms``, in s.
            effects_since_s: when a task that acts when it is asked was started; None: asking costs nothing.
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
        """When to ask next; None: nothing is left to commit."""
        return self._at_s if self.dirty else None

    def due(self, now_s: float) -> bool:
        """Tell whether it is time."""
        at_s = self.at_s
        return at_s is not None and now_s >= at_s

    def note_put(self, now_s: float) -> None:
        """Take note of a put."""
        self.dirty = True
        if self._at_s is None:
            self._at_s = max(self._asked_s + self._each_s, now_s)

    def due_under_load(self, now_s: float) -> bool:
        """Tell whether it is time while more is on the way: what a reader that was idle for a moment hurried waits."""
        return self.dirty and now_s >= self._asked_s + self._each_s

    def note_idle(self, now_s: float) -> bool:
        """Nothing more is on the way: tell whether it is time."""
        if self.dirty and not self._has_effects:
            self._at_s = self._asked_s + COMMIT_APART_S
        return self.due(now_s)

    def note_asked(self, now_s: float) -> None:
        """The task is asked now; what is not safe yet is asked again."""
        self._asked_s = now_s
        self._at_s = now_s + self._each_s

    def note_answered(self, *, all_safe: bool) -> None:
        """The task answered; ``all_safe``: nothing is left."""
        self._failures = 0
        if all_safe:
            self.dirty, self._at_s = False, None

    def note_failed(self, now_s: float) -> None:
        """The task could not: everything is put again. It is asked ever more seldom, at last as seldom as by Java."""
        wait_s = min(self._each_s * 2**self._failures, self._max_s)
        self._failures = min(self._failures + 1, 30)
        self._asked_s = now_s + wait_s - self._each_s
        self.dirty, self._at_s = False, None


# Partitions that leave a sink task: known as soon as their REVOKED row is queued, long before it is served.
#
# Owns the count of such rows. What waits for a put looks here, so that a target that refuses does not hold them up.


class PendingRevocations:
    """Of one task. ``note`` comes from the thread that queues rows, everything else from the lane's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: Counter[TopicPartition] = Counter()
        self.partitions: Partitions = frozenset()  # another object with each row
        self._snapshot = self.partitions  # when the batch in hand was cut
        self._released: Partitions = frozenset()  # ahead of their row

    def add(self, partitions: Partitions) -> None:
        """Their row is queued."""
        with self._lock:
            self._rows.update(partitions)
            self.partitions = frozenset(self._rows)

    def snapshot(self) -> Partitions:
        """Return those of now; what comes later is news."""
        self._snapshot = self.partitions
        return self._snapshot

    @property
    def has_new(self) -> bool:
        """Whether a row was queued since ``see``."""
        return self.partitions is not self._snapshot

    def unreleased(self, partitions: Partitions) -> Partitions:
        """Return those of them that are not released ahead of their row."""
        return partitions - self._released

    def mark_released(self, partitions: Partitions) -> None:
        """They are closed and reported."""
        self._released |= partitions

    def confirm(self, partitions: Partitions) -> None:
        """Their row is served: nothing of them is behind it; they may be assigned again."""
        self._released -= partitions
        with self._lock:
            self._rows -= Counter(partitions)  # counted: another revocation of the same may be queued
            self.partitions = frozenset(self._rows)

"""The life of one Java source task in a JVM of this process (Java ``AbstractWorkerSourceTask``).

Read it downward. ``JavaSourceTask`` makes the task, starts it after earlier producers are fenced, and polls while there
is room. It stops the task in two steps, so that its hooks learn of the last durable records. Its parts follow in the
order in which a record meets them: frames and room, failed records, held offsets, records that are not durable yet.

Batches come as columns, converted by Java's own converters. Claims, transactions, rows and offsets belong to
``SourceTaskRunner`` (``engine/executor/source_task.py``).
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from spark_connect_rt.api.records import RecordMetadata, SourceRecord
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.config.worker_settings import Boundary
from spark_connect_rt.engine.executor.errant_reports import ErrantLog, ensure_dead_letter_queue
from spark_connect_rt.engine.executor.hosting import HostLostError, monotonic_ms
from spark_connect_rt.engine.executor.source_task import (
    Durable,
    HostedSource,
    LookUpEndedError,
    SourceOutput,
    SourceParts,
)
from spark_connect_rt.engine.java_host.chains import Segment, SourceChain
from spark_connect_rt.engine.java_host.heartbeats import OnMeter
from spark_connect_rt.engine.java_host.jvm_pool import HostedNumber, slot_hosts
from spark_connect_rt.engine.java_host.latest_config import latest_config, refers
from spark_connect_rt.engine.java_host.plugin_folders import jvm_worker_config
from spark_connect_rt.engine.java_host.process import JavaHostGoneError
from spark_connect_rt.engine.java_host.sink_calls import plugin_error
from spark_connect_rt.engine.java_host.wire import Frame, FromJava, ToJava, one_batch, produce_batches
from spark_connect_rt.errors import BadConfigError, DataError, JavaPluginError, ShuttingDownError, TimedOutError
from spark_connect_rt.kafka.executor_clients import DeliveryReports
from spark_connect_rt.records.pipeline.columns import TOPIC, ProduceRows, produce_batch
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters, Headers, ReportSettings, Written
from spark_connect_rt.records.pipeline.delivery_runs import metadata_runs
from spark_connect_rt.records.pipeline.errant_records import FailedRecord, RetryInterrupted, RetryWait, Stage
from spark_connect_rt.records.pipeline.source_pipeline import (
    JOINED_BYTES,
    ConvertedBatch,
    SourceOffsets,
    SourcePipeline,
    place_of,
)
from spark_connect_rt.records.pipeline.transaction_boundaries import End, TransactionBoundaries

ABANDONED_MS = 5_000  # for the stop of a task whose slice is over
UNDURABLE_BYTES = 16 << 20  # the JVM keeps records of at most so many bytes for commitRecord
FAILED_MS = 30_000  # for the stop of a task that failed
INTERVAL_LOOK_S = 0.5  # between two checks of the end of a transaction by time
STACK_LIMIT_S = 1.0
_ENDS = {None: End.NONE, "commit": End.COMMIT, "abort": End.ABORT}
log = logging.getLogger(__name__)


class JavaSourceTask(HostedSource):
    """One Java source task in a JVM of this process."""

    def __init__(self, parts: SourceParts) -> None:
        """Take the parts, and make nothing yet. Raises BadConfigError if the launch has no Java code."""
        super().__init__(parts)
        if parts.launch.java is None:
            raise BadConfigError({"connector.class": ["this task is started without its Java plug-in"]})
        self._java = parts.launch.java
        self._task = parts.launch.task
        self._calls = SourceCalls(parts.switches.nudge)
        self._calls.meter = parts.meter
        self._sent = SentFrames()
        self._held = HeldOffsets(parts.output, self._note_row, lambda: self._calls.alive_at_s)
        # A transaction holds its own offsets. With those of the batch before, its records would come twice.
        self._send = parts.output.send if parts.launch.offsets_topic else self._held.send
        self._moved_keys = MovedKeys()
        self._key_ends_at_s: float | None = None  # when a moved key without its insert is taken for whole
        self._errants: list[Frame] = []  # of the next batch
        self._boundaries: TransactionBoundaries | None = None
        self._chain: SourceChain | None = None
        self._given_up = False  # all further batches are dropped, because a record before them was
        self._polled = 0  # records of the current poll
        self._stop_sent = self._idle = self._over = self._ended = self._failed = False
        self._end_by_ms: int | None = None  # of ``stop``, if the switches have no time

    # -- start

    def prepare(self) -> None:
        """Get a JVM and have it make the task. Raises JavaHostGoneError if there is no JVM for it."""
        parts, launch, switches = self.parts, self.parts.launch, self.parts.switches
        worker_config = parts.resolved(launch.worker_config)
        config = {"name": self._task.connector, **parts.resolved(launch.connector_config)}
        self._settings = ReportSettings.from_config(config)
        self._errant_log = ErrantLog(self._task, self._settings, parts.clients, parts.meter)
        self._letters = self._dead_letters()
        waiting = RetryWait(monotonic_ms, self._wait_ms)
        self._chain = SourceChain(config, worker_config, parts.clients, waiting, self._letters)
        location, worker = parts.clients.plugin_location, jvm_worker_config(worker_config)
        try:
            jvm = slot_hosts().acquire(self._java, worker, location, self._calls, lambda: not switches.stopping)
        except ShuttingDownError as error:
            raise LookUpEndedError(str(error)) from error
        self._calls.begin(jvm)
        self._claims = bool(launch.offsets_topic)
        start = {
            "name": self._task.connector,
            "number": self._task.task,
            "sink": False,
            "connector": self._chain.java,
            "task": parts.resolved(launch.config),
            "refers": refers(launch.config.written()),
            "claims": self._claims,
            "flush_ms": launch.flush.offset_flush_interval_ms,
            "transactions": self._claims and Boundary.of(config) is Boundary.CONNECTOR,
            "letters": self._letters is not None,
        }
        self._calls.send(ToJava.START, start)
        if self._claims:
            self._take_wishes(self._await(FromJava.MADE))

    def _dead_letters(self) -> DeadLetters | None:
        """Create the topic of dead letters, and return their maker. None: the connector has no queue."""
        if not self._settings.topic:
            return None
        clients = self.parts.clients
        ensure_dead_letter_queue(clients, self._settings, self.parts.resolved(self.parts.launch.dead_letter_admin))
        return DeadLetters(self._settings, self._task, clients.name_of, without_secrets)

    def _wait_ms(self, wait_ms: int) -> bool:
        """Wait between attempts at one record in the Python part. Returns False if the task has to stop."""
        goes_on = self.parts.switches.wait_ms(wait_ms)
        self.parts.meter.count_attempt(again=goes_on)
        return goes_on

    def _take_wishes(self, about: Mapping[str, Any]) -> None:
        self.delivery_reports = DeliveryReports.RECORDS if about["commits_records"] else DeliveryReports.NOTHING
        self.wants_commits = about["commits_records"] or about["commits"]

    def start(self, boundaries: TransactionBoundaries | None) -> None:
        """Let the task start, and wait until it has. Raises LookUpEndedError if it has to stop before."""
        self._boundaries = boundaries
        if self._claims:
            self._calls.send(ToJava.GO)
        about = self._await(FromJava.STARTED)
        self._take_wishes(about)
        log.info("task=%s of Java version=%s is started", self._task, about["version"])

    def _await(self, kind: FromJava) -> Mapping[str, Any]:
        """Serve frames until one of this kind, and return its head. Raises LookUpEndedError if the task has to stop."""
        while True:
            frame = self._next_or_wait()
            if frame is not None and frame.kind is kind:
                return frame.head  # type: ignore[no-any-return]
            if frame is not None:
                self._serve(frame)
            if self._over:
                raise LookUpEndedError("the task was stopped before it started")

    def _next_or_wait(self) -> Frame | None:
        """Return the next frame, or None if none came for a while. Passes a stop on to the JVM.

        Raises JavaHostGoneError if the JVM is gone, or if the time of a stop is over. Then the JVM is killed.
        """
        switches = self.parts.switches
        if switches.stopping and not self._stop_sent:
            self._stop_sent = True
            self._calls.send(ToJava.STOP, {"last": False})
        if (frame := self._calls.next()) is not None:
            return frame
        end_by_ms = self._end_by_ms if switches.end_by_ms is None else switches.end_by_ms
        left_ms = None if end_by_ms is None else end_by_ms - monotonic_ms()
        if left_ms is not None and left_ms <= 0:
            raise self._hung()
        switches.wait(None if left_ms is None else left_ms / 1000)
        return None

    def _hung(self) -> HostLostError:
        """Kill the JVM of a task that does not return in time, with its other tasks, and return the error to raise."""
        stacks = self._calls.stacks(self._task, STACK_LIMIT_S)
        why = f"task {self._task} did not stop in time, so its Java host was killed"
        self._calls.kill(f"a neighbour hung: {why}")
        return JavaHostGoneError(f"{why}; the task was at\n{stacks}")

    # -- polls

    def poll(self) -> None:
        """Grant polls while there is room, and serve the next frame. Waits if there is none."""
        if self._sent.data_bytes <= UNDURABLE_BYTES or not self._keeps_records():
            self._calls.grant()
        frame = self._calls.next()
        if frame is not None:
            self._serve(frame)
            return
        by_time = self._boundaries is not None and self._boundaries.boundary is Boundary.INTERVAL
        if by_time and not self._polled:
            self._end_poll()
        if self._key_ends_at_s is not None and time.monotonic() >= self._key_ends_at_s:
            self._end_moved_key()
        self._held.release(at_once=False)
        key_s = None if self._key_ends_at_s is None else max(0.0, self._key_ends_at_s - time.monotonic())
        waits = [
            wait_s for wait_s in (INTERVAL_LOOK_S if by_time else self._held.wait_s(), key_s) if wait_s is not None
        ]
        self.parts.switches.wait(min(waits, default=None))

    def _note_row(self) -> None:
        if self.wants_commits:
            self._sent.add_row()

    def _keeps_records(self) -> bool:
        """Return whether the JVM keeps records until they are durable, and can do so without further polls."""
        own_ends = self._boundaries is not None and self._boundaries.requests is not None
        return self.delivery_reports is DeliveryReports.RECORDS and not own_ends

    def _serve(self, frame: Frame) -> None:
        match frame.kind:
            case FromJava.BATCH:
                self._hand_over(frame)
            case FromJava.ERRANT:
                self._errants.append(frame)
            case FromJava.OFFSETS:
                self._answer(frame.head)
            case FromJava.CONFIG:
                now = latest_config(lambda: self.parts.resolved(self.parts.launch.config))
                self._calls.send(ToJava.CONFIG, {"question": frame.head["question"], **now})
            case FromJava.IDLE:
                self._idle, self._over = True, self._over or frame.head.get("last", False)
            case FromJava.RETRIED | FromJava.QUIET:
                self._on_empty_poll(failed=frame.kind is FromJava.RETRIED)
            case FromJava.FAILED:
                self._fail(frame.head)
            case FromJava.ENDED:
                self._ended = self._over = self._idle = True
                if not self._stop_sent:
                    raise HostLostError("the task's thread has ended unexpectedly")
            case other:
                log.error("task=%s: unexpected frame %s, ignored", self._task, other.name)

    def _on_empty_poll(self, *, failed: bool) -> None:
        if self._moved_keys.is_open and not failed:
            # Debezium's own thread may only have lost the processor between the parts, so one such poll proves nothing.
            self._key_ends_at_s = self._key_ends_at_s or time.monotonic() + MOVED_KEY_S
            return
        self._held.poll_brought_nothing(failed=failed)

    def _end_moved_key(self) -> None:
        """Note that the insert of a moved key does not come: a transformation has filtered it out."""
        self._key_ends_at_s = None
        self._moved_keys.is_open = False
        self._held.poll_brought_nothing(failed=False)
        if self._boundaries is not None and self._boundaries.requests is None:
            self._end_poll()

    def _fail(self, head: Mapping[str, Any]) -> None:
        self._failed = True
        if self._stop_sent:  # as in Java: it had to stop anyway
            log.warning("task=%s failed after it was stopped: %s", self._task, head["trace"])
            return
        if self._errants:
            self._send_last(self._take_errants())
        self._held.release()
        raise plugin_error(head)

    def _answer(self, head: Mapping[str, Any]) -> None:
        question = {"question": head["question"]}
        try:
            found = self.parts.driver.ask_offsets(self.parts.host, head["partitions"])
        except TimedOutError as error:
            self._calls.send(ToJava.OFFSETS, question | {"error": str(error)})
        else:
            self._calls.send(ToJava.OFFSETS, question | {"offsets": found})

    def _hand_over(self, frame: Frame) -> None:
        if self._given_up:
            return
        self._key_ends_at_s = None
        head = frame.head
        rows = [self._send_errants()] if self._errants else []
        if self._chain is not None and self._chain.pipeline is not None:
            try:
                sent, segments = self._send_converted(self._chain, self._chain.pipeline, frame)
            except RetryInterrupted:
                self._given_up = True  # this poll and all later ones are polled again after the next start
                return
        else:
            sent, segments = self._send_batches(frame)
        rows += sent
        if self.wants_commits and (durable := self._sent.add(rows, segments, len(frame.data))) is not None:
            self._calls.send(ToJava.DURABLE, durable)
        self._count(head)
        end = _ENDS[head.get("end")]
        if self._boundaries is not None:
            if self._boundaries.requests is None and head["poll_ends"]:
                self._end_poll()
            else:
                self.parts.output.end(end)
        self._calls.taken(len(frame.data), poll_ends=head["poll_ends"])

    def _send_converted(
        self, chain: SourceChain, pipeline: SourcePipeline, frame: Frame
    ) -> tuple[list[tuple[int, int]], list[Segment]]:
        """Convert the rest of the chain in Python, and send the result as ``_send_batches`` does."""
        try:
            batches, segments = chain.converted(frame)
        except DataError:
            last = pipeline.give_up()
            if last is not None:
                self._send_last(last)
            self._held.release()
            raise
        for batch in batches:
            self._errant_log.write(batch.errants)
            self._send(batch)
        self._moved_keys.note([batch.batch for batch in batches])
        return [(batch.records, batch.batch.num_rows) for batch in batches], segments

    def _send_last(self, converted: ConvertedBatch) -> None:
        """Send the reports of the record that fails the task, as Java does."""
        self._errant_log.write(converted.errants)
        self._send(converted)
        if self._boundaries is not None and self._boundaries.requests is None:
            self.parts.output.end(End.COMMIT)

    def _send_batches(self, frame: Frame) -> tuple[list[tuple[int, int]], list[Segment]]:
        """Send the records of a frame.

        Returns for each BATCH row the number of the task's records and of all records, and the segments of the frame.
        """
        batches = list(produce_batches(frame.head["sections"], frame.data))
        self._moved_keys.note(batches)
        if len(batches) > 1 and len(frame.data) <= JOINED_BYTES:  # each row has a price
            batches = [one_batch(batches)]
        offsets = tuple((partition, offset) for partition, offset in frame.head["offsets"])
        topics = tuple(section["topic"] for section in frame.head["sections"])
        for number, batch in enumerate(batches, 1):
            last = number == len(batches)
            of_batch = _topics_of(batch) or topics
            self._send(ConvertedBatch(batch, offsets if last else (), batch.num_rows, 0, of_batch))
        segments: list[Segment] = [
            (section["topic"], section["rows"], section["rows"]) for section in frame.head["sections"]
        ]
        return [(batch.num_rows, batch.num_rows) for batch in batches], segments

    def _take_errants(self) -> ConvertedBatch:
        errants, self._errants = self._errants, []
        return given_up(errants, self._letters, tolerated=self._settings.tolerates_all)

    def _send_errants(self) -> tuple[int, int]:
        converted = self._take_errants()
        self._errant_log.write(converted.errants)
        self._send(converted)
        return 0, converted.batch.num_rows

    def _end_poll(self) -> None:
        """Let a transaction end behind a poll, but not between the parts of a moved key."""
        if not self._moved_keys.is_open:
            self.parts.output.end(self._end_of_poll())

    def _end_of_poll(self) -> End:
        assert self._boundaries is not None
        return self._boundaries.cut((), monotonic_ms())[-1][1]

    def _count(self, head: Mapping[str, Any]) -> None:
        meter = self.parts.meter
        self._polled += head["polled"]
        if head["poll_ends"]:
            if self._polled:
                meter.moved("poll", self._polled)
            meter.count("poll.calls", head["polls"])
            meter.count("poll.ms", head["poll_us"] / 1000)
            self._polled = 0

    # -- pause and end

    def settle(self) -> None:
        """Stop polling, and serve frames until no poll is running.

        Raises JavaHostGoneError if the poll does not return within the time of a stop.
        """
        if not self.parts.switches.stopping:
            self._idle = False
            self._calls.call_back()
        while not self._idle or (self.parts.switches.stopping and not self._over):
            frame = self._next_or_wait()
            if frame is not None:
                self._serve(frame)
        if not self._moved_keys.is_open:
            self._held.release()

    def is_within_change(self) -> bool:
        """Return whether the insert of a moved key is still to come."""
        return self._moved_keys.is_open

    def durable(self, reports: Sequence[Durable]) -> None:
        """Send the places of durable records to the JVM, which calls the hooks on a separate thread."""
        for rows, _, metadata in reports:
            head = self._sent.durable(rows, metadata)
            if head is not None:
                self._calls.send(ToJava.DURABLE, head)

    def abandon(self) -> None:
        """Bound the stop by ``ABANDONED_MS``, because the slice is over."""
        self._end_by_ms = monotonic_ms() + ABANDONED_MS

    def stop(self) -> None:
        """Stop the task if it lives, and release the JVM. Errors are logged."""
        try:
            if self._calls.has_jvm and not self._ended:
                self._end()
        except JavaHostGoneError as error:
            log.warning("task=%s ends with its Java host: %s", self._task, error)
        except Exception:
            log.exception("task=%s: stop failed, ignored", self._task)
            self._calls.kill("a task could not be stopped")
        finally:
            self._calls.release()
            if self._chain is not None:
                self._chain.close()

    def _end(self) -> None:
        if self._end_by_ms is None and not self.parts.switches.stopping:  # the task failed
            self._end_by_ms = monotonic_ms() + FAILED_MS
        if self._over and not self._failed:
            self.durable(self.parts.output.take_durable())
        self._stop_sent = True
        self._calls.send(ToJava.STOP, {"last": True})
        while not self._ended:
            frame = self._next_or_wait()
            if frame is not None and frame.kind is not FromJava.BATCH:  # a batch that is too late is polled again
                self._serve(frame)


def _topics_of(batch: pa.RecordBatch) -> tuple[str, ...]:
    """Return the topic of a batch. Empty if each row has its own topic."""
    metadata = batch.schema.metadata or {}
    return (metadata[TOPIC].decode(),) if TOPIC in metadata else ()


# The frames that cross for one task, in their order, and the room that it has for polls. Any frame wakes its thread.


MOST_POLLS, FEWEST_POLLS = 16, 2  # granted ahead
AHEAD_BYTES = 4 << 20  # of polls ahead, by the size of the last poll


@dataclass(frozen=True, slots=True)
class _Gone:
    reason: str


class SourceCalls(OnMeter):
    """Receives and sends the frames of one task. The task's thread, except for ``on_frame`` and ``on_gone``."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """``wake`` is called on the JVM's thread after each frame and after the end of the JVM."""
        self._wake = wake
        self._came: deque[Frame | _Gone] = deque()
        self._jvm: HostedNumber | None = None
        self._granted = 0  # polls that may still come
        self._poll_bytes = 0  # of the current poll
        self._most = FEWEST_POLLS
        self._gone = False
        self.alive_at_s = -math.inf  # the last heartbeat, time.monotonic()

    def on_heartbeat(self, head: Mapping[str, Any], pid: int) -> None:
        """Note that the JVM lives, and show what it says of the task. The JVM's thread."""
        self.alive_at_s = time.monotonic()
        super().on_heartbeat(head, pid)

    def on_frame(self, frame: Frame) -> None:
        """Queue a frame, and wake the task's thread. The JVM's thread."""
        self._came.append(frame)
        self._wake()

    def on_gone(self, reason: str) -> None:
        """Queue the end of the JVM behind its frames, and wake the task's thread. The JVM's thread."""
        self._came.append(_Gone(reason))
        self._wake()

    def begin(self, jvm: HostedNumber) -> None:
        """Send to this JVM from now on."""
        self._jvm = jvm

    @property
    def has_jvm(self) -> bool:
        """Return whether there is a JVM that lives, as far as is known."""
        return self._jvm is not None and not self._gone

    def next(self) -> Frame | None:
        """Return the next frame, or None if there is none yet. Raises JavaHostGoneError."""
        if not self._came:
            return None
        frame = self._came.popleft()
        if isinstance(frame, _Gone):
            self._gone = True
            raise JavaHostGoneError(f"the Java host is gone: {frame.reason}")
        return frame

    def send(self, kind: ToJava, head: Any = None) -> None:
        """Send a frame to the JVM. Raises JavaHostGoneError."""
        assert self._jvm is not None
        self._jvm.send(kind, head)

    def taken(self, data_bytes: int, *, poll_ends: bool) -> None:
        """Note that a batch was sent, so that there is room for another."""
        self._poll_bytes += data_bytes
        if poll_ends:
            self._granted -= 1
            self._most = max(FEWEST_POLLS, min(MOST_POLLS, AHEAD_BYTES // max(1, self._poll_bytes)))
            self._poll_bytes = 0

    def grant(self) -> None:
        """Allow the task some polls ahead, if few are left."""
        if self._granted <= self._most // 2:
            self.send(ToJava.ROOM, self._most - self._granted)
            self._granted = self._most

    def call_back(self) -> None:
        """Allow no poll until the next ``grant``. The JVM answers with IDLE when no poll is running."""
        self.send(ToJava.ROOM, 0)
        self._granted = 0

    def stacks(self, task: object, limit_s: float) -> str:
        """Return the stacks of the threads of the task. Waits at most ``limit_s`` for each."""
        assert self._jvm is not None
        threads = [stack for kind in ("task", "commit") for stack in self._jvm.stacks(f"{kind}-{task}", limit_s)]
        return "\n".join(f"{thread['thread']}\n    " + "\n    ".join(thread["stack"]) for thread in threads)

    def kill(self, reason: str) -> None:
        """Kill the JVM. Its other tasks are lost, too, and start again in another."""
        assert self._jvm is not None
        self._gone = True
        self._jvm.kill_jvm(reason)

    def release(self) -> None:
        """Give the JVM back to the pool, if there is one."""
        if self._jvm is not None:
            self._jvm.release()


# Failed records of a source task in a JVM: their frames become the reports and dead letters of every source.


def errant_of(head: dict[str, Any]) -> FailedRecord:
    """Return the failed record that the head of an ERRANT frame describes."""
    record = _record(head)
    said = head["error"] or {"class": "", "message": None, "trace": ""}
    error = JavaPluginError(said["class"], said["message"], said["trace"])
    return FailedRecord(
        place_of(record), Stage(head["stage"]), error, head["executing_class"] or "", record, text=head["text"]
    )


def _record(head: dict[str, Any]) -> SourceRecord:
    return SourceRecord(
        _map(head["source_partition"]),
        _map(head["source_offset"]),
        head["topic"],
        partition=head["partition"],
        timestamp_ms=head["timestamp"],
    )


def _map(stored: Any) -> dict[str, Any]:
    """Return a source partition or offset. One without a JSON form comes as Java's text."""
    return stored if isinstance(stored, dict) else {} if stored is None else {"text": stored}


def given_up(frames: Sequence[Frame], letters: DeadLetters | None, *, tolerated: bool) -> ConvertedBatch:
    """Return the failed records of ERRANT frames and their dead letters as one batch without offsets."""
    errants, rows = [], ProduceRows()
    for frame in frames:
        errant = errant_of(frame.head)
        errants.append(errant)
        if letters is not None and isinstance(errant.record, SourceRecord):
            key, value, headers = _contents(frame)
            rows.append(letters.of_written(errant, errant.record, key, value, headers))
    batch = rows.take() if len(rows) else produce_batch("", pa.array([], pa.binary()))
    return ConvertedBatch(batch, (), 0, len(errants) if tolerated else 0, (), tuple(errants))


def _contents(frame: Frame) -> tuple[Written, Written, Headers]:
    """Return key, value and headers of an ERRANT frame with data."""
    at = 0

    def part(size: int) -> bytes | None:
        nonlocal at
        if size < 0:
            return None
        at += size
        return bytes(frame.data[at - size : at])

    head = frame.head
    key, value = ((part(size), encoding) for size, encoding in (head["key"], head["value"]))
    return key, value, [(header["name"], part(header["value"][0])) for header in head["headers"]]


# A changed primary key of Debezium is a delete, a tombstone and an insert, all at one place in the log. Once a
# transaction with that place has ended, Debezium resumes behind all three. So no transaction may end between them,
# although they may come in two polls. Java Connect ends one there, and a kill at that moment loses the insert.


MOVED_KEY_S = 5.0  # without records, until an insert that is missing is taken for filtered out
NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"
"""Headers of Debezium's delete and insert of a changed primary key."""


@dataclass(slots=True)
class MovedKeys:
    """Whether the last records of a task are the first part of a moved key."""

    is_open: bool = False

    def note(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Look at the last two records of each topic: a delete with the new key, perhaps with a tombstone behind it.

        Args:
            batches: of one frame, in produce form. Rows of one topic are together.
        """
        ends = [end for batch in batches for end in _ends_of_topics(batch)]
        if not ends:
            return
        was_open, self.is_open = self.is_open, False
        for end in ends:
            names = [{header["key"] for header in headers or ()} for headers in end.headers]
            moved = max((number for number, found in enumerate(names) if NEW_KEY in found), default=-1)
            if any(OLD_KEY in found for found in names[moved + 1 :]):
                continue
            self.is_open = self.is_open or moved >= 0 or (was_open and end.is_tombstone_alone)


class _TopicEnd(NamedTuple):
    """The headers of a topic's last records in a frame, and whether they are one tombstone."""

    headers: Sequence[Sequence[Mapping[str, Any]] | None]
    is_tombstone_alone: bool


def _ends_of_topics(batch: pa.RecordBatch) -> Iterator[_TopicEnd]:
    """Yield the end of each topic of a batch."""
    rows = batch.num_rows
    if not rows:
        return
    starts = [0, rows]
    if batch.schema.get_field_index("topic") >= 0:
        topics = batch.column("topic")
        changes = pc.not_equal(topics.slice(1), topics.slice(0, rows - 1))
        starts = [0, *(number + 1 for number, changed in enumerate(changes.to_pylist()) if changed), rows]
    for start, end in pairwise(starts):
        last = batch.slice(max(start, end - 2), min(2, end - start))
        headers = last.column("headers").to_pylist() if "headers" in last.schema.names else [None] * last.num_rows
        yield _TopicEnd(headers, last.num_rows == 1 and not last.column("value")[0].is_valid)


# A batch's offsets, held back until the next batch follows it or the task surely has nothing more.
#
# Several records of one offset may come in two polls. For a changed primary key, Debezium makes a delete, a tombstone
# and an insert, all at the place of the change in the log. It takes all of them for sent once that offset is stored.
# Java Connect stores offsets a minute apart, so the other records have long been sent. Here offsets go out with each
# batch, and without the hold a kill between the two polls lost the insert. So did a poll that failed: the records that
# Debezium had ready were lost, and it started again from the stored offsets. Exactly-once sources hold nothing, because
# a transaction has its offsets (`MovedKeys`).
#
# Time alone proves nothing. A JVM that was killed, or gets no processor, is silent while the insert waits in it. So the
# JVM says when a poll after the batch has brought nothing. If no poll returns, offsets go out after as long as in Java
# Connect, and only if the JVM lived then.


HOLD_S = 0.25  # at least, behind the last batch
LONG_HOLD_S = 60.0  # after a failed poll, or while no poll returns: the default interval of Java Connect
_RECHECK_S = 1.0  # until the next heartbeat
_NOTHING = pa.RecordBatch.from_arrays([], names=[])


class HeldOffsets:
    """Holds the offsets of the last batch of one task. The task's thread."""

    def __init__(
        self,
        output: SourceOutput,
        add_row: Callable[[], None],
        alive_at_s: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Hold no offsets yet.

        Args:
            output: takes the batches.
            add_row: is called before a row that has offsets only.
            alive_at_s: returns when the JVM was last known to live, by ``clock``.
            clock: returns seconds.
        """
        self._output, self._add_row, self._alive_at_s, self._clock = output, add_row, alive_at_s, clock
        self._held: SourceOffsets = ()
        self._until_s = self._long_until_s = 0.0
        self._is_quiet = False  # a poll after the held batch has brought nothing

    def send(self, converted: ConvertedBatch) -> None:
        """Send a batch with the offsets of the batches before it, and hold its own. Raises the errors of the output."""
        if converted.source_offsets:
            given, self._held = self._held, converted.source_offsets
            now_s, self._is_quiet = self._clock(), False
            self._until_s, self._long_until_s = now_s + HOLD_S, now_s + LONG_HOLD_S
            converted = replace(converted, source_offsets=given)
        self._output.send(converted)

    def poll_brought_nothing(self, *, failed: bool) -> None:
        """Note that the task was polled after the held batch, and returned nothing or failed.

        After a failure the offsets are held longer: the connector may start again from these offsets although records
        before them are missing.
        """
        self._is_quiet = self._is_quiet or not failed
        if failed:
            self._until_s = self._long_until_s = self._clock() + LONG_HOLD_S

    def wait_s(self) -> float | None:
        """Return in how many seconds ``release`` may be due. None: no offsets are held."""
        if not self._held:
            return None
        if self._is_quiet:
            return max(0.0, self._until_s - self._clock())
        return max(_RECHECK_S, self._long_until_s - self._clock())

    def release(self, *, at_once: bool = True) -> None:
        """Send the held offsets without records, if nothing can follow them any more or ``at_once``."""
        if self._held and (at_once or self._is_due()):
            given, self._held = self._held, ()
            self._add_row()
            self._output.send(ConvertedBatch(_NOTHING, given, 0, 0, ()))

    def _is_due(self) -> bool:
        if self._is_quiet:
            return self._clock() >= self._until_s
        return self._alive_at_s() >= self._long_until_s


# Records that were sent and are not durable yet: from BATCH rows back to the batches of the JVM. Pure.
#
# A batch of the JVM becomes some BATCH rows, or none. It is durable when the last of them is.


@dataclass(slots=True)
class _Row:
    """A BATCH row of ``rows`` Kafka records. The first ``records`` are the task's, the others are dead letters."""

    records: int
    rows: int
    segments: Sequence[Segment] = ()  # of a JVM batch's last row
    ends: int = 0  # JVM batches that end with it
    data_bytes: int = 0  # of those batches


class SentFrames:
    """The BATCH rows of one task that are not durable yet, in order. The task's thread."""

    def __init__(self) -> None:
        """Start without a row, as for a new task."""
        self.data_bytes = 0  # not durable yet
        self._rows: deque[_Row] = deque()
        self._places: deque[RecordMetadata | None] = deque()  # of a JVM batch that is durable in part

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, rows: Sequence[tuple[int, int]], segments: Sequence[Segment], data_bytes: int = 0
    ) -> dict[str, Any] | None:
        """Remember a batch of the JVM. Returns the DURABLE head if it is durable at once, because it has no row.

        Args:
            rows: the number of the task's records and of all records, for each BATCH row.
            segments: the task's records of all rows, in their order.
            data_bytes: its approximate size.
        """
        if not rows:
            if not self._rows:
                return {"batches": 1, "places": {}}
            self._rows[-1].ends += 1
            return None
        self._rows.extend(_Row(*row) for row in rows)
        last = self._rows[-1]
        last.segments, last.ends, last.data_bytes = segments, 1, data_bytes
        self.data_bytes += data_bytes
        return None

    def add_row(self) -> None:
        """Remember a BATCH row without records, which belongs to none of the JVM's batches."""
        self._rows.append(_Row(0, 0))

    def durable(self, rows: int, metadata: Iterable[RecordMetadata | None]) -> dict[str, Any] | None:
        """Return the DURABLE head after so many more BATCH rows became durable. None: no batch of the JVM did.

        Args:
            metadata: the places of all Kafka records of these rows, in order.
        """
        found = iter(metadata)
        batches, places = 0, dict[str, list[RecordMetadata | None]]()
        for _ in range(min(rows, len(self._rows))):
            row = self._rows.popleft()
            self._places.extend(list(islice(found, row.rows))[: row.records])
            for topic, count, wanted in row.segments:
                taken = [self._places.popleft() for _ in range(min(count, len(self._places)))][:wanted]
                places.setdefault(topic, []).extend(taken + [None] * (wanted - len(taken)))
            if row.ends:
                self._places.clear()
            batches += row.ends
            self.data_bytes -= row.data_bytes
        return {"batches": batches, "places": {t: _runs(ones) for t, ones in places.items()}} if batches else None


def _runs(places: Sequence[RecordMetadata | None]) -> list[tuple[int, int, int, int, str]]:
    """Return [partition, first offset, records, timestamp, topic] for each run. Offset -1: not readable."""
    return [
        (partition, first, count, -1 if timestamp_ms is None else timestamp_ms, topic)
        for topic, partition, first, timestamp_ms, count in metadata_runs(places)
    ]

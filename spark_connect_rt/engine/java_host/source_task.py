"""A Java source task behind the seam of sources (Java ``AbstractWorkerSourceTask``).

Owns the task's life in its JVM: made, let go once earlier producers are shut out, polled while there is room, called
back, ended in two steps so that its hooks learn what became durable last. Batches come as columns, converted by Java's
own converters; everything else (claims, transactions, rows, offsets) is the host's.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import pyarrow as pa

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

ABANDONED_MS = 5_000  # for the end of a task whose slice is over
UNDURABLE_BYTES = 16 << 20  # the JVM keeps the records of so much at most, for commitRecord
FAILED_MS = 30_000  # for the end of a task that failed
INTERVAL_LOOK_S = 0.5  # whether a transaction's time is up
STACK_LIMIT_S = 1.0
_ENDS = {None: End.NONE, "commit": End.COMMIT, "abort": End.ABORT}
log = logging.getLogger(__name__)


class JavaSourceTask(HostedSource):
    """One Java source task in a JVM of this process."""

    def __init__(self, parts: SourceParts) -> None:
        """See HostedSource. Raises BadConfigError: the launch holds no Java code."""
        super().__init__(parts)
        if parts.launch.java is None:
            raise BadConfigError({"connector.class": ["this task is started without its Java plug-in"]})
        self._java = parts.launch.java
        self._task = parts.launch.task
        self._calls = SourceCalls(parts.switches.nudge)
        self._calls.meter = parts.meter
        self._sent = SentFrames()
        self._held = HeldOffsets(parts.output, self._note_row)
        # A transaction holds its own offsets: with those of the one before, its records would come twice.
        self._send = parts.output.send if parts.launch.offsets_topic else self._held.send
        self._errants: list[Frame] = []  # of the batch that comes
        self._boundaries: TransactionBoundaries | None = None
        self._chain: SourceChain | None = None
        self._given_up = False  # what comes is dropped: a record before it was
        self._polled = 0  # records of the poll that comes
        self._stop_sent = self._idle = self._over = self._ended = self._failed = False
        self._end_by_ms: int | None = None  # of ``stop``, where the switches say nothing

    # -- start

    def prepare(self) -> None:
        """See HostedSource: the task is made. Raises JavaHostGoneError: there is no JVM for it."""
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
        """Return what makes dead letters, their topic created; None without a queue."""
        if not self._settings.topic:
            return None
        clients = self.parts.clients
        ensure_dead_letter_queue(clients, self._settings, self.parts.resolved(self.parts.launch.dead_letter_admin))
        return DeadLetters(self._settings, self._task, clients.name_of, without_secrets)

    def _wait_ms(self, wait_ms: int) -> bool:
        """Wait between attempts at one record, in Python's part; False when the task is to stop."""
        goes_on = self.parts.switches.wait_ms(wait_ms)
        self.parts.meter.count_attempt(again=goes_on)
        return goes_on

    def _take_wishes(self, about: Mapping[str, Any]) -> None:
        self.delivery_reports = DeliveryReports.RECORDS if about["commits_records"] else DeliveryReports.NOTHING
        self.wants_commits = about["commits_records"] or about["commits"]

    def start(self, boundaries: TransactionBoundaries | None) -> None:
        """See HostedSource."""
        self._boundaries = boundaries
        if self._claims:
            self._calls.send(ToJava.GO)
        about = self._await(FromJava.STARTED)
        self._take_wishes(about)
        log.info("task=%s of Java version=%s is started", self._task, about["version"])

    def _await(self, kind: FromJava) -> Mapping[str, Any]:
        """Serve frames until one of this kind, and return its head. Raises LookUpEndedError: it stops before."""
        while True:
            frame = self._next_or_wait()
            if frame is not None and frame.kind is kind:
                return frame.head  # type: ignore[no-any-return]
            if frame is not None:
                self._serve(frame)
            if self._over:
                raise LookUpEndedError("the task was stopped before it started")

    def _next_or_wait(self) -> Frame | None:
        """Return a frame, None: none came for a while; says to the JVM when the task is to stop.

        Raises JavaHostGoneError; it is killed, too, when a stop's time is up.
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
        """End a JVM whose task does not return in time, whatever else it hosts; return the error that says so."""
        stacks = self._calls.stacks(self._task, STACK_LIMIT_S)
        why = f"task {self._task} did not stop in time, so its Java host was killed"
        self._calls.kill(f"a neighbour hung: {why}")
        return JavaHostGoneError(f"{why}; the task was at\n{stacks}")

    # -- polls

    def poll(self) -> None:
        """See HostedSource."""
        if self._sent.data_bytes <= UNDURABLE_BYTES or not self._keeps_records():
            self._calls.grant()
        frame = self._calls.next()
        if frame is not None:
            self._serve(frame)
            return
        by_time = self._boundaries is not None and self._boundaries.boundary is Boundary.INTERVAL
        if by_time and not self._polled:
            self.parts.output.end(self._end_of_poll())
        self._held.release(at_once=False)
        self.parts.switches.wait(INTERVAL_LOOK_S if by_time else self._held.wait_s())

    def _note_row(self) -> None:
        if self.wants_commits:
            self._sent.add_row()

    def _keeps_records(self) -> bool:
        """Tell whether the JVM keeps records until they are durable, which does not wait for more polls itself."""
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
            case FromJava.RETRIED:
                self._held.poll_failed()
            case FromJava.FAILED:
                self._fail(frame.head)
            case FromJava.ENDED:
                self._ended = self._over = self._idle = True
                if not self._stop_sent:
                    raise HostLostError("the task's thread has ended unexpectedly")
            case other:
                log.error("task=%s: unexpected frame %s, ignored", self._task, other.name)

    def _fail(self, head: Mapping[str, Any]) -> None:
        self._failed = True
        if self._stop_sent:  # as in Java: it was to end anyway
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
        head = frame.head
        rows = [self._send_errants()] if self._errants else []
        if self._chain is not None and self._chain.pipeline is not None:
            try:
                sent, segments = self._send_converted(self._chain, self._chain.pipeline, frame)
            except RetryInterrupted:
                self._given_up = True  # what was polled, and all behind it, is polled again after the next start
                return
        else:
            sent, segments = self._send_batches(frame)
        rows += sent
        if self.wants_commits and (durable := self._sent.add(rows, segments, len(frame.data))) is not None:
            self._calls.send(ToJava.DURABLE, durable)
        self._count(head)
        end = _ENDS[head.get("end")]
        if self._boundaries is not None:
            by_host = self._boundaries.requests is None
            self.parts.output.end(self._end_of_poll() if by_host and head["poll_ends"] else end)
        self._calls.taken(len(frame.data), poll_ends=head["poll_ends"])

    def _send_converted(
        self, chain: SourceChain, pipeline: SourcePipeline, frame: Frame
    ) -> tuple[list[tuple[int, int]], list[Segment]]:
        """As ``_send_batches``, of a chain whose rest is in Python."""
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
        return [(batch.records, batch.batch.num_rows) for batch in batches], segments

    def _send_last(self, converted: ConvertedBatch) -> None:
        """As Java: also the record that fails the task is reported."""
        self._errant_log.write(converted.errants)
        self._send(converted)
        if self._boundaries is not None and self._boundaries.requests is None:
            self.parts.output.end(End.COMMIT)

    def _send_batches(self, frame: Frame) -> tuple[list[tuple[int, int]], list[Segment]]:
        """Send a frame's records; return (the task's records, all records) of each row, and whose they are."""
        batches = list(produce_batches(frame.head["sections"], frame.data))
        if len(batches) > 1 and len(frame.data) <= JOINED_BYTES:  # each row has its price
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
        """See HostedSource. Raises JavaHostGoneError: its poll does not return before a stop's time is up."""
        if not self.parts.switches.stopping:
            self._idle = False
            self._calls.call_back()
        while not self._idle or (self.parts.switches.stopping and not self._over):
            frame = self._next_or_wait()
            if frame is not None:
                self._serve(frame)
        self._held.release()

    def durable(self, reports: Sequence[Durable]) -> None:
        """See HostedSource: on a thread of their own in the JVM."""
        for rows, _, metadata in reports:
            head = self._sent.durable(rows, metadata)
            if head is not None:
                self._calls.send(ToJava.DURABLE, head)

    def abandon(self) -> None:
        """See HostedSource."""
        self._end_by_ms = monotonic_ms() + ABANDONED_MS

    def stop(self) -> None:
        """See HostedSource."""
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
        if self._end_by_ms is None and not self.parts.switches.stopping:  # it failed
            self._end_by_ms = monotonic_ms() + FAILED_MS
        if self._over and not self._failed:
            self.durable(self.parts.output.take_durable())
        self._stop_sent = True
        self._calls.send(ToJava.STOP, {"last": True})
        while not self._ended:
            frame = self._next_or_wait()
            if frame is not None and frame.kind is not FromJava.BATCH:  # a poll that came too late comes again
                self._serve(frame)


def _topics_of(batch: pa.RecordBatch) -> tuple[str, ...]:
    """Return the one topic of a batch; none where each row has its own."""
    metadata = batch.schema.metadata or {}
    return (metadata[TOPIC].decode(),) if TOPIC in metadata else ()


# The frames that cross for one task.


MOST_POLLS, FEWEST_POLLS = 16, 2  # granted ahead
AHEAD_BYTES = 4 << 20  # as far as it is known how large a poll is


@dataclass(frozen=True, slots=True)
class _Gone:
    reason: str


class SourceCalls(OnMeter):
    """What crosses for one task. The task's thread, but for ``on_frame`` and ``on_gone``."""

    def __init__(self, wake: Callable[[], None]) -> None:
        """``wake`` is called when something came, on the JVM's thread."""
        self._wake = wake
        self._came: deque[Frame | _Gone] = deque()
        self._jvm: HostedNumber | None = None
        self._granted = 0  # polls that may still come
        self._poll_bytes = 0  # of the poll that comes
        self._most = FEWEST_POLLS
        self._gone = False

    def on_frame(self, frame: Frame) -> None:
        """See jvm_pool.Hosted."""
        self._came.append(frame)
        self._wake()

    def on_gone(self, reason: str) -> None:
        """See jvm_pool.Hosted."""
        self._came.append(_Gone(reason))
        self._wake()

    def begin(self, jvm: HostedNumber) -> None:
        """Speak to this JVM from now on."""
        self._jvm = jvm

    @property
    def has_jvm(self) -> bool:
        """Whether there is one that lives, as far as is known."""
        return self._jvm is not None and not self._gone

    def next(self) -> Frame | None:
        """Return the next frame, None: there is none yet. Raises JavaHostGoneError."""
        if not self._came:
            return None
        frame = self._came.popleft()
        if isinstance(frame, _Gone):
            self._gone = True
            raise JavaHostGoneError(f"the Java host is gone: {frame.reason}")
        return frame

    def send(self, kind: ToJava, head: Any = None) -> None:
        """Send a frame. Raises JavaHostGoneError."""
        assert self._jvm is not None
        self._jvm.send(kind, head)

    def taken(self, data_bytes: int, *, poll_ends: bool) -> None:
        """Take note of a batch that was handed over: there is room for more."""
        self._poll_bytes += data_bytes
        if poll_ends:
            self._granted -= 1
            self._most = max(FEWEST_POLLS, min(MOST_POLLS, AHEAD_BYTES // max(1, self._poll_bytes)))
            self._poll_bytes = 0

    def grant(self) -> None:
        """Let the task poll, some polls ahead."""
        if self._granted <= self._most // 2:
            self.send(ToJava.ROOM, self._most - self._granted)
            self._granted = self._most

    def call_back(self) -> None:
        """Let it poll no more, until ``grant``; IDLE says that no poll is under way."""
        self.send(ToJava.ROOM, 0)
        self._granted = 0

    def stacks(self, task: object, limit_s: float) -> str:
        """Return what the task's threads are doing."""
        assert self._jvm is not None
        threads = [stack for kind in ("task", "commit") for stack in self._jvm.stacks(f"{kind}-{task}", limit_s)]
        return "\n".join(f"{thread['thread']}\n    " + "\n    ".join(thread["stack"]) for thread in threads)

    def kill(self, reason: str) -> None:
        """End the JVM; its other tasks are lost, too, and hosted again."""
        assert self._jvm is not None
        self._gone = True
        self._jvm.kill_jvm(reason)

    def release(self) -> None:
        """Let the JVM go."""
        if self._jvm is not None:
            self._jvm.release()


# Errant records of a source task in a JVM: what its frames say, as the errants and dead letters of every source.


def errant_of(head: dict[str, Any]) -> FailedRecord:
    """Return the errant record that an ERRANT frame's head tells of."""
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
    """Return a source partition or offset; what has no JSON came as Java's text."""
    return stored if isinstance(stored, dict) else {} if stored is None else {"text": stored}


def given_up(frames: Sequence[Frame], letters: DeadLetters | None, *, tolerated: bool) -> ConvertedBatch:
    """Return the errant records of some ERRANT frames, and their dead letters, as one batch without offsets."""
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


# A batch's offsets, held back until the next batch is on its way behind it.
#
# Owns when the offsets of a Java source that is no exactly-once source go out. Several records of one offset may come
# in two polls: Debezium makes of a moved primary key a delete, a tombstone and an insert, each at the change's place
# in the log, and takes all of them for sent once that offset is stored. Java Connect stores offsets a minute apart, so
# what follows has long been sent; here they go out behind each batch, and a kill between the two polls lost the
# insert. So did a poll that failed: what Debezium had ready is gone then, and it starts again from the offsets that
# are stored.


HOLD_S = 0.25  # behind the last batch, when nothing follows
FAILED_HOLD_S = 60.0  # when a poll failed behind it: as long as Java Connect has by default
_NOTHING = pa.RecordBatch.from_arrays([], names=[])


class HeldOffsets:
    """Batches and offsets of one task, on their way to its output. The task's thread."""

    def __init__(self, output: SourceOutput, add_row: Callable[[], None], clock: Callable[[], float] = time.monotonic):
        """Hold nothing yet.

        Args:
            output: takes the batches.
            add_row: is called before a row of offsets alone is sent.
            clock: seconds.
        """
        self._output, self._add_row, self._clock = output, add_row, clock
        self._held: SourceOffsets = ()
        self._until_s = 0.0

    def send(self, converted: ConvertedBatch) -> None:
        """Send a batch with the offsets of those before it; its own are held. May raise what the output raises."""
        if converted.source_offsets:
            given, self._held = self._held, converted.source_offsets
            self._until_s = self._clock() + HOLD_S
            converted = replace(converted, source_offsets=given)
        self._output.send(converted)

    def poll_failed(self) -> None:
        """Hold what is held for longer: the connector may begin again there, though records before it are missing."""
        self._until_s = self._clock() + FAILED_HOLD_S

    def wait_s(self) -> float | None:
        """Return in how many seconds to call ``release``; None: nothing is held."""
        return max(0.0, self._until_s - self._clock()) if self._held else None

    def release(self, *, at_once: bool = True) -> None:
        """Send what is held, if its time has come or ``at_once``: nothing follows it."""
        if self._held and (at_once or self._clock() >= self._until_s):
            given, self._held = self._held, ()
            self._add_row()
            self._output.send(ConvertedBatch(_NOTHING, given, 0, 0, ()))


# What a JVM's source task sent and is not durable yet: from BATCH rows back to the JVM's own batches. Pure.
#
# A JVM batch becomes some BATCH rows, maybe none; when the last of them is durable, so is the batch.


@dataclass(slots=True)
class _Row:
    """One BATCH row: ``rows`` Kafka records, of which the first ``records`` are the task's, the others dead letters."""

    records: int
    rows: int
    segments: Sequence[Segment] = ()  # of a JVM batch's last row
    ends: int = 0  # JVM batches that end with it
    data_bytes: int = 0  # of those batches


class SentFrames:
    """Of one task, in order. The task's thread."""

    def __init__(self) -> None:
        """Start with nothing sent."""
        self.data_bytes = 0  # not durable yet
        self._rows: deque[_Row] = deque()
        self._places: deque[RecordMetadata | None] = deque()  # of a JVM batch that is durable in part

    def __len__(self) -> int:
        return len(self._rows)

    def add(
        self, rows: Sequence[tuple[int, int]], segments: Sequence[Segment], data_bytes: int = 0
    ) -> dict[str, Any] | None:
        """Remember a JVM batch; return the DURABLE head if it is durable at once: nothing of it is sent.

        Args:
            rows: (the task's records, all records) of each BATCH row.
            segments: the task's records of all its rows, in their order.
            data_bytes: how large it is, about.
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
        """Remember a BATCH row without records, which belongs to no JVM batch."""
        self._rows.append(_Row(0, 0))

    def durable(self, rows: int, metadata: Iterable[RecordMetadata | None]) -> dict[str, Any] | None:
        """Return the DURABLE head now that so many more BATCH rows are durable; None: no JVM batch is.

        Args:
            metadata: of each Kafka record of these rows, in order.
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
    """Return [partition, first offset, records, timestamp, topic]; of what no one can read the offset is -1."""
    return [
        (partition, first, count, -1 if timestamp_ms is None else timestamp_ms, topic)
        for topic, partition, first, timestamp_ms, count in metadata_runs(places)
    ]

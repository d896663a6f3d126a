"""A compacted topic as a log with one reader thread (Java ``KafkaBasedLog``).

Owns: one consumer of all partitions without a group, one producer, one thread. Must not: decode anything.

How the end is known: the consumer's next offset per partition is compared with the log end. It moves with each
record and with each end-of-partition event, which lies behind transaction markers that are never delivered.
Start offsets are asked for and given as numbers: librdkafka takes 1 s to find "the beginning" by itself.
End offsets come from the admin client, because a broker answers nothing on a connection whose fetch it holds back.
The reader thread also collects delivery reports: a new record wakes it when its append was acknowledged.
It notices partitions that are added while the log is open, and reads them from their beginning.
It replaces a client that has lost all its brokers (``lost_brokers``): the new consumer reads on from the positions. An
append that the lost producer has not sent fails with a RetriableError, as after a delivery timeout.

With a ``LatestLoad`` a start checks the topic and returns; ``read_to_end`` waits for what was there. The records that
it reads are delivered at its end, in one batch, without those that a later record of their key replaces. Of a long
topic most is read in whole record batches (``bulk_read``), which takes a third of the consumer's time.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka import TopicPartition as _ClientPartition

from spark_connect_rt.base.ids import TopicPartition
from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere
from spark_connect_rt.config.client_properties import LogClientProperties
from spark_connect_rt.errors import ConnectError, RetriableError, TimedOutError
from spark_connect_rt.kafka.admin import KafkaAdmin, TopicSpec
from spark_connect_rt.kafka.client_lifetime import SharedClient
from spark_connect_rt.kafka.error_mapping import connect_error, is_code
from spark_connect_rt.kafka.logs.bulk_read import BulkReadEndedError
from spark_connect_rt.kafka.logs.bulk_read_process import SharedRead
from spark_connect_rt.kafka.logs.compaction import Latest
from spark_connect_rt.kafka.logs.log_clients import LogClients
from spark_connect_rt.kafka.logs.log_load import LOAD_BATCH_COUNT, LOAD_WAIT_S, EndProbe, LatestLoad, to_records
from spark_connect_rt.kafka.records.partitioning import partition_of_key
from spark_connect_rt.topics.compacted_log import LogRecord, OnAppended, OnRecords
from spark_connect_rt.topics.key_places import KeyPlaces, Write
from spark_connect_rt.topics.log_snapshot import LogFacts

# The positions of a producer's records, as its delivery reports name them: the records to be read back.


class OwnAppends:
    """The ends of this log's own appends. Any thread."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._lock = threading.Lock()
        self._ends: dict[TopicPartition, int] = {}
        self._some_unknown = False

    def acknowledged(self, message: Any) -> None:
        """Take the report of a record; a retry that the broker recognized is acknowledged without its offset."""
        offset = message.offset() if message is not None else None
        with self._lock:
            if offset is None or offset < 0:
                self._some_unknown = True
            else:
                where = TopicPartition(self._topic, message.partition())
                self._ends[where] = max(offset + 1, self._ends.get(where, 0))

    def end_is_asked(self) -> None:
        """Take that the topic's end is asked for now: it lies behind every record acknowledged so far."""
        with self._lock:
            self._some_unknown = False

    def are_beyond(self, partitions: int) -> bool:
        """Return whether a record came to lie in a partition that was added: there were so many."""
        with self._lock:
            return any(place.partition >= partitions for place in self._ends)

    def ends(self) -> Mapping[TopicPartition, int] | None:
        """Return the offset behind the last of them, by partition; None: not every report said where."""
        with self._lock:
            return None if self._some_unknown else dict(self._ends)


# One append to a compacted topic: its records are handed over, and the last of their delivery reports answers it.


ROOM_WAIT_S = 0.05


class AppendAck:
    """Counts the reports, which any thread may serve."""

    __slots__ = ("_done", "_error", "_left", "_lock", "_own", "_topic")

    def __init__(self, topic: str, count: int, own: OwnAppends, done: Callable[[Exception | None], None]) -> None:
        """``done`` is called once: with the first error, None when all ``count`` records are durable."""
        self._topic = topic
        self._left = count
        self._own = own
        self._done = done
        self._lock = threading.Lock()
        self._error: Exception | None = None

    def __call__(self, error: Any, message: Any) -> None:
        with self._lock:
            if error is not None and self._error is None:
                self._error = _append_error(error, f"appending to {self._topic}")
            self._left -= 1
            is_last = self._left == 0
        if error is None:
            self._own.acknowledged(message)
        if is_last:
            self._done(self._error)


def _append_error(error: Any, doing: str) -> ConnectError:
    """Return the error of a record. One that a producer gave up when it was replaced or closed may be sent again."""
    found = connect_error(error, doing)
    return RetriableError(str(found)) if is_code(error, "_PURGE_QUEUE", "_PURGE_INFLIGHT") else found


def produced(producer: Any, topic: str, write: Write, answer: AppendAck, until_s: float) -> bool:
    """Hand over one record; return False when there was no room until then (s, monotonic): it is answered so."""
    key, value, partition, at_ms = write
    while True:
        try:
            producer.produce(topic, value, key, partition, on_delivery=answer, timestamp=at_ms)
        except BufferError:
            if time.monotonic() >= until_s:
                answer(KafkaError(KafkaError._QUEUE_FULL), None)
                return False
            producer.poll(ROOM_WAIT_S)
        except KafkaException as error:
            answer(error, None)
            return True
        else:
            return True


# Asks the brokers what says whether a snapshot of a log is of this log, and young enough.


@dataclass(frozen=True, slots=True)
class LogDescriber:
    """Describes one topic for a snapshot."""

    admin: KafkaAdmin
    topic: str
    committed: bool  # whether its reader sees committed records only
    limit_ms: int

    def facts(self, beginning: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], asks: bool) -> LogFacts:
        """Return them; without asking, where no snapshot wants them, only where the log begins and ends."""
        begins, ends = (
            {partition.partition: offset for partition, offset in found.items()} for found in (beginning, end)
        )
        if not asks:
            return LogFacts("", self.topic, "", begins, ends, 0)
        described = self.admin.describe_topic(self.topic, self.limit_ms)
        settings = self.admin.topic_settings(self.topic, self.limit_ms) or {}  # not allowed to know: none is young
        retention_ms = int(settings.get("delete.retention.ms") or 0)
        topic_id = described.topic_id if described is not None else ""
        cluster = self.admin.cluster_id(self.limit_ms)
        return LogFacts(cluster, self.topic, topic_id, begins, ends, retention_ms, self.committed)


# One request for all callers that need its answer at the same time.
#
# Callers that come while a request is in flight share the next one, which the first of them sends once the present one
# is answered. So each has an answer to a request that was sent after it came. A thousand
# tasks that start ask a thousand times for the end of the offset topic.


T = TypeVar("T")


@dataclass(slots=True)
class _Round(Generic[T]):
    """Those who came between two questions."""

    answer: T | None = None
    over: bool = False
    failed: bool = False


class SingleFlight(Generic[T]):
    """Puts a question once for all who ask at the same time. Any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._under_way = False
        self._next: _Round[T] = _Round()

    def ask(self, put: Callable[[float], T], limit_s: float) -> T:
        """Return the answer to a question that is put from now on; ``put`` takes how many s are left, and may raise.

        A failure is only its own asker's: the others put the question again. Raises TimeoutError: others' questions
        took all the time.
        """
        end_s = time.monotonic() + limit_s
        while True:
            with self._changed:
                mine = self._next
                while self._under_way and not mine.over:
                    if (left_s := end_s - time.monotonic()) <= 0 or not self._changed.wait(left_s):
                        raise TimeoutError
                if not mine.over:  # no append completes these
                    self._under_way, self._next = True, _Round()
                    break
                if not mine.failed:
                    return mine.answer  # type: ignore[return-value]
        mine.failed = True
        try:
            mine.answer = put(max(0.0, end_s - time.monotonic()))
            mine.failed = False
            return mine.answer
        finally:
            with self._changed:
                mine.over, self._under_way = True, False
                self._changed.notify_all()


_log = logging.getLogger(__name__)

READ_BATCH_COUNT = 1_000  # more costs time in the garbage collector, less in calls
IDLE_WAIT_S = 0.2  # of one wake-up: confluent-kafka takes longer waits in turns of 200 ms; records end it at once
PROBE_AFTER_S = 0.02
PENDING_WAIT_S = 0.005  # while an append is not answered yet
BLOCK_LIMIT_S = 30.0  # an append larger than the producer's queue waits that long for room behind its own records
STOP_LIMIT_S = 10.0  # for the reader's end: a reader that hangs, in librdkafka or a listener, ends with the process
PARTITIONS_CHECK_S = 30.0  # between two looks for added partitions
PARTITIONS_LIMIT_MS = 1_000  # for the answer: the reader collects delivery reports, too
STALLED_MS = 30_000  # a start that reads nothing for so long fails


class _HistoryError(Exception):
    """The snapshot was of another history."""


class KafkaCompactedLog:
    """A CompactedLog on Kafka. ``append``, ``flush`` and ``read_to_end`` from any thread but the reader's."""

    def __init__(
        self,
        spec: TopicSpec,
        admin: KafkaAdmin,
        clients: LogClientProperties,
        *,
        exact_partitions: int | None = None,
        start_timeout_ms: int = 30_000,
        load: LatestLoad | None = None,
        report: Report = report_nowhere,
    ) -> None:
        """``report`` is called when the reader ends by an error: then nothing of the topic is known any more."""
        self.topic = spec.name
        self._report = report
        self._spec = spec
        self._admin = admin
        self._clients = clients
        self._exact_partitions = exact_partitions
        self._start_timeout_ms = start_timeout_ms
        self._load = load
        self._loading: Mapping[TopicPartition, int] = {}  # the ends at which the load is over; empty: it is
        self._changed = threading.Condition()
        self._positions: dict[int, int] = {}  # partition -> next offset to read
        self._begun_at: Mapping[TopicPartition, int] = {}  # the ends when reading began
        self._assigned_all = False
        self._unanswered = 0  # appends
        self._failed: Exception | None = None  # of the appends since the last flush
        self._own = OwnAppends(spec.name)
        self._end = SingleFlight[Mapping[TopicPartition, int]]()
        self._probe = EndProbe(spec.name, clients.consumer) if self._is_transactional() else None
        self._broken: Exception | None = None  # the reader ended by this
        self._stopping = False
        self._places = KeyPlaces(1, partition_of_key)
        self._partitions_checked_s = 0.0
        self._has_too_many_partitions = False
        self._on_records: OnRecords = _ignore
        self._consumer: Any = None
        self._producers: SharedClient[Any] | None = None  # closed when appends and the reader have left it
        self._made = LogClients(spec.name, clients, is_transactional=self._is_transactional())
        self._thread: threading.Thread | None = None

    def start(self, on_records: OnRecords) -> None:
        """Check or create the topic, then read it to its end; with a load, in the background. Raises as the port."""
        self._admin.check_reachable(self._start_timeout_ms)
        count = self._admin.ensure_compacted(self._spec, self._exact_partitions, self._start_timeout_ms)
        partitions = [TopicPartition(self.topic, number) for number in range(count)]
        beginning = self._admin.earliest_offsets(partitions, self._start_timeout_ms)
        end = self._admin.end_offsets(partitions, self._start_timeout_ms)
        self._places = KeyPlaces(count, partition_of_key, may_grow=self._exact_partitions is None)
        self._partitions_checked_s = time.monotonic()
        self._on_records = self._places.reading(on_records)
        self._producers = self._made.shared_producer()
        self._consumer = self._made.new_consumer()
        self._positions, self._begun_at = {place.partition: offset for place, offset in beginning.items()}, end
        if self._load is not None:
            asked = LogDescriber(self._admin, self.topic, self._is_transactional(), self._start_timeout_ms)
            self._positions = self._load.begin(asked.facts(beginning, end, self._load.wants_facts))
            self._loading = {} if self._reached(end) else end  # nothing there: nothing to wait for
        self._thread = threading.Thread(target=self._run, name=f"log-{self.topic}", daemon=True)
        self._thread.start()
        if self._load is not None:
            return
        try:
            self._wait_progressing(end)
        except BaseException:
            self.stop()
            raise

    def append(self, records: Sequence[tuple[bytes, bytes | None]], on_appended: OnAppended | None = None) -> None:
        """See the port. A queue that others have filled refuses at once: the tick and the engine's loop append, too."""
        if self._stopping or self._producers is None:
            raise ConnectError(f"topic {self.topic}: the log is stopped")
        with self._producers.use() as producer:
            with self._changed:
                self._unanswered += 1
            if not records:
                self._answer(on_appended, None)
                return
            writes = self._places.writes(records)
            answer = AppendAck(self.topic, len(writes), self._own, lambda error: self._answer(on_appended, error))
            limit_s, has_room = time.monotonic() + BLOCK_LIMIT_S, False
            for write in writes:
                has_room = produced(producer, self.topic, write, answer, limit_s if has_room else 0.0)

    def flush(self, timeout_ms: int) -> None:
        """Wait until all appends are acknowledged. Raises TimedOutError, or RetriableError if a send failed."""
        deadline = time.monotonic() + timeout_ms / 1000
        if self._producers is not None and not self._stopping:
            with self._producers.use() as producer:
                producer.flush(timeout_ms / 1000)
        with self._changed:
            while self._unanswered:  # reports may still be in the hands of the reader's thread
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not self._changed.wait(left_s):
                    raise TimedOutError(self._late("acknowledge every append", timeout_ms))
            failed, self._failed = self._failed, None
        if failed is not None:
            raise RetriableError(str(failed)) from failed

    def read_to_end(self, timeout_ms: int) -> None:
        """Flush, then wait until every record that was in the topic at the call is read. Raises TimedOutError."""
        if loading := self._loading:
            self._wait_progressing(loading)
        deadline = time.monotonic() + timeout_ms / 1000
        self.flush(timeout_ms)
        try:
            end = self._end.ask(self._ask_end, deadline - time.monotonic())
        except TimeoutError:
            raise TimedOutError(self._late("ask for the end", timeout_ms)) from None
        self._wait_until(end, deadline, timeout_ms)

    def _ask_end(self, left_s: float) -> Mapping[TopicPartition, int]:
        self._own.end_is_asked()
        return self._admin.end_offsets(
            [TopicPartition(self.topic, number) for number in self._positions], max(1, int(left_s * 1000))
        )

    def read_back(self, timeout_ms: int) -> None:
        """Flush, then wait until all earlier appends of this log are read. Raises as ``read_to_end`` and ``flush``."""
        deadline = time.monotonic() + timeout_ms / 1000
        self.flush(timeout_ms)
        ends = self._own.ends()
        if ends is None or self._loading:
            self.read_to_end(max(1, int((deadline - time.monotonic()) * 1000)))
        else:
            self._wait_until(ends, deadline, timeout_ms)

    def _wait_until(self, end: Mapping[TopicPartition, int], deadline: float, timeout_ms: int) -> None:
        if self._probe is not None and not self._awaited(end, min(deadline, time.monotonic() + PROBE_AFTER_S)):
            self._look_ahead(self._probe, end, deadline)
        if not self._awaited(end, deadline):
            raise TimedOutError(self._late("read to the end", timeout_ms))

    def _awaited(self, end: Mapping[TopicPartition, int], until_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._reached(end), max(0.0, until_s - time.monotonic()))

    def _look_ahead(self, probe: EndProbe, end: Mapping[TopicPartition, int], deadline: float) -> None:
        late = {place.partition: at for place in end if (at := self._positions[place.partition]) < end[place]}
        silent = probe.silent_until(late, deadline - time.monotonic()) if late else {}
        with self._changed:  # a thread that read on meanwhile, or began again, has newer positions
            self._positions.update(
                {number: to for number, to in silent.items() if self._positions[number] == late[number] < to}
            )
            self._changed.notify_all()

    def delete_leftovers(self, keys: Sequence[bytes]) -> None:
        """Delete older records of these keys in other partitions, as far as they were read. Returns at once."""
        writes = self._places.leftovers(keys)
        if not writes or self._stopping or self._producers is None:
            return

        def answered(error: Any, _message: Any) -> None:
            if error is not None:
                _log.warning("topic %s: older records of a key cannot be deleted: %s", self.topic, error)

        with self._producers.use() as producer, contextlib.suppress(BufferError, KafkaException):  # next time, then
            for key, value, partition, at_ms in writes:
                producer.produce(self.topic, value, key, partition, on_delivery=answered, timestamp=at_ms)

    def stop(self) -> None:
        """Flush for a few seconds, end the reader thread and drop unanswered appends."""
        was_stopping, self._stopping = self._stopping, True
        if was_stopping or self._producers is None:
            return
        if self._probe is not None:
            self._probe.close()
        with self._producers.use() as producer:
            producer.flush(5)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_LIMIT_S)
            if self._thread.is_alive():
                _log.error("topic %s: the reader has not ended within %d s", self.topic, STOP_LIMIT_S)
        if self._unanswered:
            with self._producers.use() as producer:
                producer.purge()
                producer.flush(1)  # every append is answered, be it with an error
        self._producers.close()

    def _answer(self, on_appended: OnAppended | None, error: Exception | None) -> None:
        if on_appended is not None:
            on_appended(error)
        with self._changed:
            self._unanswered -= 1
            self._failed = self._failed or error
            self._changed.notify_all()

    def _wait_progressing(self, end: Mapping[TopicPartition, int]) -> None:
        with self._changed:
            while not self._reached(end):
                if self._stopping:
                    raise ConnectError(f"topic {self.topic}: the log is stopped")
                before = dict(self._positions)
                if not self._changed.wait(STALLED_MS / 1000) and before == self._positions:
                    raise RetriableError(self._late("read on", STALLED_MS))

    def _reached(self, end: Mapping[TopicPartition, int]) -> bool:
        if self._broken is not None:
            raise ConnectError(f"topic {self.topic}: the reader failed: {self._broken}") from self._broken
        return _reaches(self._positions, end)

    def _assign(self) -> None:
        """Read on. At first only partitions that were behind: a fetch of the others alone is held, and all wait."""
        behind = {place.partition for place, at in self._begun_at.items() if self._positions[place.partition] < at}
        self._assigned_all = not behind
        wanted = behind or self._positions
        self._consumer.assign([_ClientPartition(self.topic, number, self._positions[number]) for number in wanted])

    def _is_transactional(self) -> bool:
        return self._clients.consumer.get("isolation.level", "").lower() == "read_committed"

    def _late(self, doing: str, timeout_ms: int) -> str:
        why = f"; the client's last error: {self._made.last_error}" if self._made.last_error else ""
        return f"topic {self.topic}: could not {doing} in {timeout_ms} ms{why}"

    def _run(self) -> None:
        try:
            self._read()
        except Exception as error:  # noqa: BLE001 - top of the thread: every waiter is notified
            _log.exception("topic %s: the reader failed", self.topic)
            with self._changed:
                self._broken = error
                self._changed.notify_all()
            self._report(SupervisedPart.LOG, ConnectError(f"topic {self.topic}: {type(error).__name__}: {error}"))
        finally:
            self._consumer.close()
            with self._changed:
                self._changed.notify_all()

    def _read(self) -> None:
        assert self._producers is not None
        with self._producers.use() as producer:
            self._read_in_bulk(producer)
        self._assign()
        while not self._stopping:
            with self._producers.use() as producer:
                self._read_with(producer)
        if self._load is not None and not self._loading:
            self._load.save()

    def _read_with(self, producer: Any) -> None:
        """Read until the log is stopped or another producer has to replace this one."""
        while not self._stopping:
            messages = self._next_messages()
            producer.poll(0)
            if messages:
                self._take(messages)
            if self._made.consumer_watch.is_lost():
                self._replace_consumer()
            if not self._assigned_all and self._reached(self._begun_at):
                self._assign()
            if self._is_time_for_partitions():
                self._look_for_partitions()
            if self._made.producer_watch.is_lost():
                assert self._producers is not None
                self._made.replace_producer(self._producers, producer)
                return

    def _is_time_for_partitions(self) -> bool:
        if self._loading:
            return False
        waited_s = time.monotonic() - self._partitions_checked_s
        return waited_s >= PARTITIONS_CHECK_S or self._own.are_beyond(len(self._positions))

    def _look_for_partitions(self) -> None:
        """Read added partitions, too: a consumer without a group reads only what it is assigned."""
        self._partitions_checked_s = time.monotonic()
        known = len(self._positions)
        try:
            count = self._admin.partition_count(self.topic, PARTITIONS_LIMIT_MS) or known
            if count <= known or self._has_too_many_partitions:
                return
            if self._exact_partitions is not None:
                self._has_too_many_partitions = True
                _log.error(
                    "topic %s has %d partitions and must have %d. This worker uses only the first ones, and refuses to "
                    "start again. Stop all workers and copy the topic into one with %d partitions.",
                    self.topic,
                    count,
                    self._exact_partitions,
                    self._exact_partitions,
                )
                return
            added = [TopicPartition(self.topic, number) for number in range(known, count)]
            beginning = self._admin.earliest_offsets(added, PARTITIONS_LIMIT_MS)
        except ConnectError as error:
            _log.debug("topic %s: looking for added partitions: %s", self.topic, error)
            return
        _log.info("topic %s has %d partitions now, %d before", self.topic, count, known)
        begins = {place.partition: at for place, at in beginning.items()}
        self._places.grow(count)
        if self._load is not None:
            self._load.grow(begins)
        with self._changed:
            self._positions.update(begins)
        self._assign()

    def _replace_consumer(self) -> None:
        self._made.consumer_watch.replaced()
        lost, self._consumer = self._consumer, self._made.new_consumer()
        self._assign()
        lost.close()

    def _read_in_bulk(self, producer: Any) -> None:
        """Read most of a long topic in whole record batches. The consumer reads the rest, and every other topic."""
        load, ends = self._load, {place.partition: end for place, end in self._loading.items()}
        left = sum(max(0, end - self._positions[number]) for number, end in ends.items())
        if load is None or left < load.bulk_from:
            return

        def take(number: int, latest: Latest) -> None:
            producer.poll(0)
            if not load.take_latest(number, latest):
                raise _HistoryError
            moved = {number: latest.next_offset}
            if _reaches({**self._positions, **moved}, self._loading):
                self._end_load(load)
            with self._changed:
                self._positions.update(moved)
                self._changed.notify_all()

        bulk = SharedRead(self.topic, self._clients.consumer, lambda: self._stopping, load.share_from)
        try:
            bulk.run(self._positions, ends, take)
        except _HistoryError:
            with self._changed:
                self._positions = load.restart()
        except BulkReadEndedError as error:
            _log.info("%s", error)

    def _end_load(self, load: LatestLoad) -> None:
        if records := load.finish():  # before the positions move: a thread that waits for the end must find them all
            self._on_records(records)
        self._loading = {}

    def _next_messages(self) -> Sequence[Any]:
        if self._loading:  # full batches: each costs as much as handling a hundred messages
            return cast(Sequence[Any], self._consumer.consume(LOAD_BATCH_COUNT, LOAD_WAIT_S))
        # Not poll: it returns to the interpreter every 200 ms, in each of a worker's logs.
        first = self._consumer.consume(1, PENDING_WAIT_S if self._unanswered else IDLE_WAIT_S)
        return [*first, *self._consumer.consume(READ_BATCH_COUNT, 0)] if first else []

    def _take(self, messages: Sequence[Any]) -> None:
        errors = list(map(Message.error, messages))
        good = messages
        if any(errors):  # never compare them: KafkaError == None breaks the interpreter
            good = [message for message, error in zip(messages, errors, strict=True) if error is None]
        last = dict(zip(map(Message.partition, good), good, strict=True))
        moved = {partition: message.offset() + 1 for partition, message in last.items()}
        if len(good) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._take_event(message, moved)
        if self._deliver(good, last, moved):
            with self._changed:
                self._positions.update(moved)
                if not self._loading:  # no reader waits for the middle of a load
                    self._changed.notify_all()

    def _deliver(self, messages: Sequence[Any], last: Mapping[int, Any], moved: Mapping[int, int]) -> bool:
        """Hand records over, at once or at the end of the load; return False when reading begins again."""
        if self._load is None or not self._loading:
            if messages:
                records = to_records(messages)
                self._on_records(records)
                if self._load is not None:
                    self._load.follow(records)
            return True
        if not self._load.take(messages, last):
            with self._changed:
                self._positions = self._load.restart()
            self._assign()
            return False
        if _reaches({**self._positions, **moved}, self._loading):
            self._end_load(self._load)
        return True

    def _take_event(self, message: Any, moved: dict[int, int]) -> None:
        error = message.error()
        if error.code() == KafkaError._PARTITION_EOF:
            at = message.offset()
            moved[message.partition()] = max(at, moved.get(message.partition(), 0))
        else:
            self._made.note(error)
            _log.warning("topic %s: %s", self.topic, self._made.last_error)


def _reaches(positions: Mapping[int, int], end: Mapping[TopicPartition, int]) -> bool:
    return all(positions.get(place.partition, 0) >= offset for place, offset in end.items())


def _ignore(records: Sequence[LogRecord]) -> None: ...

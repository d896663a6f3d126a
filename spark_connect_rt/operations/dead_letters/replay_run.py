"""One worker carrying out one replay: letters read, edited, sent, marked, a transaction after the other.

Owns the exactness. The producer's transactional id is the queue's: claiming it shuts out any worker that replayed the
queue before and aborts what that left open, and only then is read how far it was. Letters, their marks and the new
position are one transaction. So a letter is sent by exactly one committed transaction, whichever worker dies when.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from spark_connect_rt.errors import DataError
from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer
from spark_connect_rt.operations.dead_letters.letter import Letter, LetterFilter
from spark_connect_rt.operations.dead_letters.letter_edit import EditedRecord
from spark_connect_rt.operations.dead_letters.letter_topics import DeadLetterTopics, LetterReader, LetterTopics, Queue
from spark_connect_rt.operations.dead_letters.replay_ledger import (
    DONE,
    FAILED,
    RUNNING,
    NewReplayedOffsets,
    ReplayLog,
    ReplayProgress,
    ReplayRequest,
    ReplayStatus,
    no_topic,
    progress_record,
)
from spark_connect_rt.records.pipeline.columns import ProduceRow, ProduceRows

CLAIM_MS = COMMIT_MS = 30_000
BATCH_COUNT, BATCH_BYTES, BATCH_S = 500, 4 * 2**20, 0.5
SIGN_OF_LIFE_S = 3.0
_SLICE_S = 0.2


class Edit(Protocol):
    """What makes of a letter what is sent (letter_edit.LetterEdit)."""

    def apply(self, letter: Letter, connector: str | None) -> EditedRecord | None:
        """Raises DataError, ExternalError."""

    def close(self) -> None:
        """Close it."""


class ConnectorFeed(Protocol):
    """A connector of a replay's own, which feeds a sink (connector_feed)."""

    def can_begin(self) -> bool:
        """Return whether this worker may make connectors now: it leads the group."""

    def begin(self, name: str, config: Mapping[str, str]) -> None:
        """Make the connector, or leave it as it is. Raises RetriableError, BadConfigError, ConnectError."""

    def config_of(self, connector: str) -> Mapping[str, str]:
        """Return a connector's configuration, references unresolved. Raises NotFoundError."""

    def trouble(self, name: str) -> str:
        """Return why it FAILED; empty: it did not."""

    def committed(self, name: str) -> Mapping[str, int]:
        """Return topic -> offset that its group committed in partition 0. Raises ConnectError."""

    def end(self, name: str) -> None:
        """Delete the connector. Raises ConnectError."""

    def forget(self, name: str) -> None:
        """Delete what its group committed. Raises ConnectError."""


@dataclass(frozen=True, slots=True)
class ReplayClients:
    """What every replay of a worker stands on."""

    worker: str
    queues: DeadLetterTopics
    topics: LetterTopics
    log: ReplayLog
    new_producer: Callable[[str], KafkaTransactionalProducer]  # of a queue
    new_edit: Callable[[ReplayRequest], Edit]
    try_edit: Callable[[ReplayRequest], Edit]  # for a dry run: nothing is registered anywhere
    now_ms: Callable[[], int]
    feed: ConnectorFeed | None = None  # of target sink; None: this worker cannot


@dataclass(slots=True)
class Entry:
    """A wanted letter: what is sent for it, None: nothing; or why it cannot be."""

    letter: Letter
    row: ProduceRow | None = None
    error: str = ""
    size: int = 0


@dataclass(slots=True)
class _Batch:
    entries: list[Entry] = field(default_factory=list)
    bytes: int = 0
    begun_s: float = 0.0


class ReplayRun:
    """One run. ``run`` on a thread of its own; ``must_end`` from any."""

    def __init__(self, parts: ReplayClients, replay: ReplayRequest, must_end: Callable[[], bool]) -> None:
        """``must_end``: this worker stops, or somebody stopped the replay."""
        self._parts = parts
        self._replay = replay
        self._must_end = must_end
        self._filter = LetterFilter.of(replay.filter)
        self._letters = None if replay.letters is None else frozenset(replay.letters)
        self._producer: KafkaTransactionalProducer | None = None
        self._progress = ReplayProgress()
        self._marks: NewReplayedOffsets | None = None
        self._batch = _Batch()
        self._partitions: dict[str, int | None] = {}
        self._committed_s = 0.0
        self._paid_s = 0.0  # until when the rate allows nothing

    def run(self) -> None:
        """Carry it out from where it is. Raises FencedError: another worker does; ConnectError: it cannot go on now."""
        parts, replay = self._parts, self._replay
        self._producer = parts.new_producer(replay.topic)
        try:
            self._producer.claim(CLAIM_MS)
            parts.log.catch_up()
            standing = parts.log.read(lambda records: records.standing(replay.id))
            if standing is not None and standing.state not in (DONE, FAILED) and not self._must_end():
                self._carry_out(standing)
        finally:
            self._producer.close()

    def fail(self, why: str) -> None:
        """Write that the replay failed, in a transaction of its own. Raises FencedError, ConnectError."""
        self._producer = self._parts.new_producer(self._replay.topic)
        try:
            self._producer.claim(CLAIM_MS)
            self._parts.log.catch_up()
            standing = self._parts.log.read(lambda records: records.standing(self._replay.id))
            if standing is not None:
                self._progress = standing.progress
                self._commit([], self._progress.positions, replace(self._progress, state=FAILED, worker="", error=why))
        finally:
            self._producer.close()

    @contextmanager
    def looking(self) -> Iterator[tuple[Queue, LetterReader]]:
        """Read the queue as ``run`` does from its beginning, for a dry run: nothing is claimed or sent."""
        queue, ends, positions = self._span(ReplayProgress())
        with self._parts.topics.reading(self._replay.topic, positions, ends) as reading:
            yield queue, reading

    def _carry_out(self, standing: ReplayStatus) -> None:
        queue, ends, positions = self._span(standing.progress)
        edit = self._parts.new_edit(self._replay)
        try:
            self._commit([], positions)  # says who carries it out
            with self._parts.topics.reading(self._replay.topic, positions, ends) as reading:
                over = self._read(queue, reading, edit)
                self._end(over, dict(reading.positions) if over else self._progress.positions)
        finally:
            edit.close()

    def _end(self, over: bool, positions: Mapping[int, int]) -> None:
        """Say that the queue was read to its end, or that this run ends before; nobody holds the replay then."""
        self._commit([], positions, replace(self._progress, state=DONE if over else RUNNING, worker=""))

    def _span(self, progress: ReplayProgress) -> tuple[Queue, Mapping[int, int], Mapping[int, int]]:
        """Return the queue, where it ends for this replay, and where to read on. Raises ConnectError."""
        replay, topics = self._replay, self._parts.topics
        queue = self._parts.queues.find(replay.connector, replay.topic)
        found = topics.describe(replay.topic)
        if queue is None or found is None:
            raise no_topic(replay.topic)
        numbers = [partition for partition in range(len(found.replicas)) if self._reads(partition)]
        span = topics.span(replay.topic, numbers, self._filter.from_ms)
        if not progress.topic_id:
            progress = replace(progress, topic_id=found.topic_id, positions=span.begins, ends=span.ends)
        elif progress.topic_id != found.topic_id:
            raise DataError(f"topic {replay.topic} was deleted and created again since the replay started")
        self._progress = replace(progress, worker=self._parts.worker, state=RUNNING, error=None)
        known = self._parts.log.read(lambda records: records.marks)
        self._marks = NewReplayedOffsets(found.topic_id, replay.id, known)
        begins = {number: max(span.begins.get(number, 0), at) for number, at in progress.positions.items()}
        return queue, progress.ends, begins

    def _reads(self, number: int) -> bool:
        return self._filter.partition in (None, number) and (
            self._replay.numbers is None or number in self._replay.numbers
        )

    def _read(self, queue: Queue, reading: LetterReader, edit: Edit) -> bool:
        """Read on until the end (True), or until this run must end."""
        for letter in reading:
            if letter is not None and self.wants(queue, letter):
                self._add(letter, edit)
            if (self._is_due() and not self._send_batch(reading.positions)) or self._must_end():
                return False
        return self._send_batch(reading.positions)

    def wants(self, queue: Queue, letter: Letter) -> bool:
        """Return whether the replay wants a letter: its filter does, and no replay delivered it before."""
        place = (letter.partition, letter.offset)
        if not queue.holds(letter) or (self._letters is not None and place not in self._letters):
            return False
        topic_id = self._progress.topic_id
        mark = self._parts.log.read(lambda records: records.marks.of(topic_id, *place))
        if mark is not None and not self._replay.again and self._filter.replayed is not True:
            return False
        return self._filter.lets(letter, mark is not None)

    def _add(self, letter: Letter, edit: Edit) -> None:
        entry = Entry(letter)
        try:
            record = edit.apply(letter, self._replay.connector)
            entry.row = None if record is None else self.row(letter, record)
        except DataError as error:
            entry.error = str(error)
        entry.size = letter.size
        if not self._batch.entries:
            self._batch.begun_s = time.monotonic()
        self._batch.entries.append(entry)
        self._batch.bytes += entry.size

    def row(self, letter: Letter, record: EditedRecord) -> ProduceRow:
        """Return what is produced. Raises DataError: not to that topic."""
        topic = record.topic
        if not self._parts.queues.may_be_written(topic):
            raise DataError(f"its target would be {topic}, an internal topic of the workers or the brokers")
        if topic not in self._partitions:
            self._partitions[topic] = self._parts.topics.admin.partition_count(topic)
        count = self._partitions[topic]
        if count is None:
            raise DataError(f"topic {topic} does not exist")
        number = letter.origin_partition
        keeps = topic == letter.origin_topic and not record.key_changed and number is not None and number < count
        return topic, number if keeps else None, record.key, record.value, record.headers or None, letter.at_ms

    def _is_due(self) -> bool:
        entries, now_s, rate = self._batch.entries, time.monotonic(), self._replay.rate
        most = BATCH_COUNT if rate is None else max(1, min(BATCH_COUNT, int(rate)))
        if not entries:
            return now_s - self._committed_s >= SIGN_OF_LIFE_S
        return len(entries) >= most or self._batch.bytes >= BATCH_BYTES or now_s - self._batch.begun_s >= BATCH_S

    def _send_batch(self, positions: Mapping[int, int]) -> bool:
        """Send what was gathered, no faster than the rate allows; False: this run must end, nothing of it was sent."""
        batch, self._batch = self._batch, _Batch()
        if batch.entries and not self._wait_for_rate():
            return False
        if self._replay.rate:
            self._paid_s = max(self._paid_s, time.monotonic()) + len(batch.entries) / self._replay.rate
        self._send(batch.entries, dict(positions))
        return True

    def _wait_for_rate(self) -> bool:
        """Wait, with signs of life; False: this run must end."""
        while (left_s := self._paid_s - time.monotonic()) > 0:
            if self._must_end():
                return False
            if time.monotonic() - self._committed_s >= SIGN_OF_LIFE_S:
                self._commit([], self._progress.positions)
            time.sleep(min(_SLICE_S, left_s))
        return True

    def _send(self, entries: Sequence[Entry], positions: Mapping[int, int]) -> None:
        """Send entries in one transaction; if Kafka refuses one of them, each in its own."""
        try:
            self._commit(entries, positions)
        except DataError as error:
            assert self._producer is not None
            self._producer.abort(COMMIT_MS)
            if not any(entry.row for entry in entries):
                raise
            if len(entries) == 1:
                failed = Entry(entries[0].letter, error=str(error))
                self._commit([failed], positions)
                return
            for entry in entries:
                self._send([entry], {**self._progress.positions, entry.letter.partition: entry.letter.offset + 1})
            self._commit([], positions)

    def _commit(
        self, entries: Sequence[Entry], positions: Mapping[int, int], progress: ReplayProgress | None = None
    ) -> None:
        """Commit one transaction: letters, marks, progress. Raises DataError, FencedError, ConnectError."""
        made = replace(progress or self._progress, positions=dict(positions))
        made = replace(made, matched=made.matched + len(entries))
        for entry in entries:
            if entry.error:
                made = made.failing(entry.letter.partition, entry.letter.offset, entry.error)
        sent = [entry.row for entry in entries if entry.row is not None and not entry.error]
        self._write(sent, self._delivered(entries), self._with_sent(made, entries))

    def _delivered(self, entries: Sequence[Entry]) -> list[tuple[int, int]]:
        """Return the letters that are where they belong once these entries are committed."""
        return [(entry.letter.partition, entry.letter.offset) for entry in entries if not entry.error]

    def _with_sent(self, progress: ReplayProgress, _entries: Sequence[Entry]) -> ReplayProgress:
        """Return the progress with what else it must say of entries that are being sent."""
        return progress

    def _write(self, sent: Sequence[ProduceRow], done: list[tuple[int, int]], made: ReplayProgress) -> None:
        """Commit records, the marks of letters that are done, and the progress; all or nothing."""
        assert self._producer is not None
        now_ms, log = self._parts.now_ms(), self._parts.log.topic
        made = replace(made, done=made.done + len(done), at_ms=now_ms)
        marks = self._marks.records(done, now_ms) if self._marks is not None else []
        rows = ProduceRows()
        for row in sent:
            rows.append(row)
        for key, value in [*marks, progress_record(self._replay.id, made)]:
            rows.append((log, 0, key, value, None, now_ms))
        self._producer.begin()
        self._producer.produce(rows.take())
        self._producer.commit(COMMIT_MS)
        self._progress, self._committed_s = made, time.monotonic()
        if self._marks is not None:
            self._marks.keep(done)

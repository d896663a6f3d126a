"""The life of a replay of dead letters, from the request to the last mark.

Read it downward. ``LetterReplays`` takes the request and writes it to the topic of replays, and its thread starts every
replay that is due, on this worker or after the crash of another. Then come the check of the request, the dry run, and
``ReplayRun``, which reads, edits, sends and marks letters in transactions. The end deletes letters that were replayed.

Every worker follows the topic. If a replay made no progress for ``LEASE_S``, or if its worker released it, another
worker resumes it. ``ReplayRun`` says why each letter is still sent once.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.base.supervision import ended
from spark_connect_rt.errors import (
    BadRequestError,
    ConnectError,
    DataError,
    ExternalError,
    FencedError,
    NotFoundError,
    RetriableError,
    TimedOutError,
)
from spark_connect_rt.kafka.writing.transactional_producer import KafkaTransactionalProducer
from spark_connect_rt.operations.dead_letters.letter import Letter, LetterFilter, LetterForms, Plugin
from spark_connect_rt.operations.dead_letters.letter_edit import EditedRecord, check_edit, shown_letter, shown_record
from spark_connect_rt.operations.dead_letters.letter_topics import (
    DeadLetterTopics,
    LetterReader,
    LetterTopics,
    Queue,
    Span,
)
from spark_connect_rt.operations.dead_letters.model import (
    SINK,
    TOPIC,
    ConnectorFeed,
    DeletedLetters,
    DryRun,
    EditedLetter,
    FailedLetter,
    ReplayInfo,
    WantedReplay,
)
from spark_connect_rt.operations.dead_letters.replay_ledger import (
    DONE,
    FAILED,
    RUNNING,
    STOPPED,
    NewReplayedOffsets,
    ReplayLog,
    ReplayProgress,
    ReplayRequest,
    ReplayStatus,
    definition_record,
    forgetting,
    may_take,
    no_topic,
    progress_record,
    wish_record,
)
from spark_connect_rt.records.pipeline.columns import ProduceRow, ProduceRows

LEASE_S = 10.0  # without progress: another worker may resume the replay then
LOOK_S = 10.0  # between two checks for a topic that does not exist
TURN_S = 1.0
RETRY_S = 5.0
STOP_S = 15.0
LETTERS_SHOWN = 100
log = logging.getLogger(__name__)


class Edit(Protocol):
    """Makes the record to send from a letter (``letter_edit.LetterEdit``)."""

    def apply(self, letter: Letter, connector: str | None) -> EditedRecord | None:
        """Return the edited record, or None if a transformation dropped it. Raises DataError and ExternalError."""

    def close(self) -> None:
        """Close the transformations and converters of the edit."""


@dataclass(frozen=True, slots=True)
class ReplayClients:
    """The clients and functions that all replays of a worker use."""

    worker: str
    queues: DeadLetterTopics
    topics: LetterTopics
    log: ReplayLog
    new_producer: Callable[[str], KafkaTransactionalProducer]  # from the topic of a queue
    new_edit: Callable[[ReplayRequest], Edit]
    try_edit: Callable[[ReplayRequest], Edit]  # for a dry run: it registers no schema
    now_ms: Callable[[], int]
    sink_run: SinkRun  # carries out a replay into a sink
    feed: ConnectorFeed | None = None  # for the target sink. None: this worker has no such replays


SinkRun = Callable[[ReplayClients, ReplayRequest, Callable[[], bool]], "ReplayRun"]
"""The class that carries out a replay into a sink. It has the arguments of ``ReplayRun``."""


@dataclass(slots=True)
class _Running:
    thread: threading.Thread
    replay_id: str


class LetterReplays:
    """The replays of one worker (``model.DeadLetterReplays``). Each queue that it replays has a thread."""

    def __init__(
        self, parts: ReplayClients, forms: Sequence[LetterForms], plugin: Plugin, lease_s: float = LEASE_S
    ) -> None:
        """Take the parts, and start no thread yet.

        Args:
            parts: clients of the worker.
            forms: forms of letters. The first is for dry runs, and ``stop`` closes all of them.
            plugin: returns the class of a plug-in by its name.
            lease_s: the longest silence of a worker before another resumes its replay.
        """
        self._parts = parts
        self._forms = forms
        self._plugin = plugin
        self._lease_s = lease_s
        self._lock = threading.Lock()
        self._running: dict[str, _Running] = {}  # by queue
        self._again_s: dict[str, float] = {}  # replay -> monotonic time before which it is not tried again
        self._problems: dict[str, str] = {}
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread that starts replays."""
        self._thread = threading.Thread(target=self._look_after, name="replays", daemon=True)
        self._thread.start()

    def trouble(self) -> str:
        """Return why no replay is started any more. Empty: the thread runs."""
        return "" if self._stopping else ended(self._thread, "replays of dead letters are not processed any more")

    def stop(self) -> None:
        """Release every replay, so that another worker resumes it, and close the clients."""
        self._stopping = True
        with self._lock:
            threads = [running.thread for running in self._running.values()]
        end_s = time.monotonic() + STOP_S
        for thread in [*threads, *([self._thread] if self._thread else [])]:
            while thread.is_alive() and time.monotonic() < end_s:
                self._parts.log.wake()  # repeatedly: the thread may only now begin to wait
                thread.join(0.1)
        self._parts.log.stop()
        for forms in self._forms:
            forms.close()

    # -- requests, on any thread

    def dry_run(self, wanted: WantedReplay) -> DryRun:
        """Return the effect of a replay without sending anything. Raises the errors of ``start_replay``."""
        replay = self._replay(wanted, "")
        self._parts.log.catch_up()
        return dry_run(self._parts, self._forms[0], replay)

    def start_replay(self, wanted: WantedReplay, who: str) -> ReplayInfo:
        """Check a replay, and write it to the topic of replays. The thread starts it.

        Raises NotFoundError, BadRequestError, ForbiddenError and BadConfigError for an invalid request.
        Raises ConnectError if the topic cannot be written.
        """
        replay = self._replay(wanted, who)
        self._parts.log.catch_up()
        old = self._parts.log.read(lambda records: records.forgettable())
        self._parts.log.append([definition_record(replay), *forgetting(old)])
        log.info("dead letters of %s: replay %s by %s", replay.topic, replay.id, who)
        found = self._parts.log.read(lambda records: records.standing(replay.id))
        return self._info(found or ReplayStatus(replay, ReplayProgress(), is_stopped=False, changes=0))

    def replays(self) -> Sequence[ReplayInfo]:
        """Return every remembered replay, newest first."""
        self._parts.log.look()
        return [self._info(entry) for entry in reversed(self._parts.log.read(lambda records: records.all()))]

    def replay(self, replay_id: str) -> ReplayInfo:
        """Return a replay and its progress. Raises NotFoundError."""
        return self._info(self._standing(replay_id))

    def stop_replay(self, replay_id: str) -> ReplayInfo:
        """Stop a replay on whichever worker runs it. Raises NotFoundError, and BadRequestError if it has ended."""
        return self._steered(replay_id, {RUNNING, STOPPED}, stopped=True)

    def resume_replay(self, replay_id: str) -> ReplayInfo:
        """Resume a replay that was stopped or failed. Raises NotFoundError, and BadRequestError if it is done."""
        return self._steered(replay_id, {RUNNING, STOPPED, FAILED}, stopped=False)

    def delete(self, connector: str | None, topic: str | None) -> DeletedLetters:
        """Delete the letters of a queue up to the first that was not replayed, as ``delete_replayed`` does."""
        self._parts.log.catch_up()
        return delete_replayed(self._parts, connector, topic)

    def _replay(self, wanted: WantedReplay, who: str) -> ReplayRequest:
        _ = self._parts.log.topic  # raises if the worker has none
        replay = wanted_replay(wanted, self._parts, self._plugin)
        # Only the leader makes the connector that feeds a sink. It finds the replay on the topic.
        worker = self._parts.worker if replay.is_exact else ""
        return replace(replay, id=uuid.uuid4().hex[:12], who=who, worker=worker)

    def _standing(self, replay_id: str) -> ReplayStatus:
        self._parts.log.look()
        found = self._parts.log.read(lambda records: records.standing(replay_id))
        if found is None:
            raise NotFoundError(f"replay {replay_id} does not exist")
        return found

    def _steered(self, replay_id: str, states: set[str], *, stopped: bool) -> ReplayInfo:
        standing = self._standing(replay_id)
        if standing.state not in states:
            raise BadRequestError(f"replay {replay_id} is {standing.state} and can be neither stopped nor resumed")
        self._again_s.pop(replay_id, None)
        self._parts.log.append([wish_record(standing, stopped=stopped)])
        return self.replay(replay_id)

    def _info(self, entry: ReplayStatus) -> ReplayInfo:
        replay, progress = entry.replay, entry.progress
        first = self._parts.log.read(lambda records: {it.replay.topic: it.replay.id for it in records.due()})
        waits = entry.state == RUNNING and first.get(replay.topic) != replay.id
        waiting = f"waits for replay {first.get(replay.topic)} of the same queue" if waits else None
        if entry.state == RUNNING and not waits and not replay.is_exact and not entry.worker:
            waiting = "waits for the leader of the group, which must not be a Java worker"
        problem = self._problems.get(replay.id) if entry.state == RUNNING else None
        return ReplayInfo(
            id=replay.id,
            connector=replay.connector,
            topic=replay.topic,
            target=replay.target,
            state=entry.state,
            matched=progress.matched,
            done=progress.done,
            failed=progress.failed,
            rate=replay.rate,
            error=progress.error or problem or waiting,
            delivery="exactly once" if replay.is_exact else "at least once",
            who=replay.who,
            worker_id=entry.worker if entry.state == RUNNING else "",
            created_ms=replay.created_ms,
            changed_ms=progress.at_ms or replay.created_ms,
            filter=dict(replay.filter),
            letters=_shown(replay),
            edit=dict(replay.edit),
            failures=[FailedLetter(*failure) for failure in progress.failures],
        )

    # -- the thread that starts replays, also after another worker crashed

    def _look_after(self) -> None:
        said = ""
        while not self._stopping:
            limit_s = LOOK_S
            try:
                if self._parts.log.follow():
                    self._begin_due()
                    limit_s = TURN_S
                said = ""
            except Exception as error:  # noqa: BLE001 - top of the thread: any error is retried
                if str(error) != said:
                    log.warning("replays of dead letters cannot be checked, retrying: %s", error)
                said = str(error)
            self._parts.log.wait(limit_s)

    def _begin_due(self) -> None:
        now_s = time.monotonic()
        for entry in self._parts.log.read(lambda records: records.due()):
            replay = entry.replay
            with self._lock:
                running = self._running.get(replay.topic)
                if running is not None and running.thread.is_alive():
                    continue
                silent_s = self._parts.log.silent_s(replay.id, now_s)
                if self._stopping or now_s < self._again_s.get(replay.id, 0.0):
                    continue
                if not may_take(entry, self._parts.worker, silent_s, self._lease_s) or not self._can(replay):
                    continue
                thread = threading.Thread(
                    target=self._carry_out, args=(replay,), name=f"replay-{replay.id}", daemon=True
                )
                self._running[replay.topic] = _Running(thread, replay.id)
                thread.start()

    def _can(self, replay: ReplayRequest) -> bool:
        """Return whether this worker may carry out a replay. Only the leader of the group replays into a sink."""
        feed = self._parts.feed
        return replay.is_exact or (feed is not None and feed.can_begin())

    def _carry_out(self, replay: ReplayRequest) -> None:
        run = new_run(self._parts, replay, lambda: self._must_end(replay.id))
        try:
            run.run()
            self._problems.pop(replay.id, None)
        except FencedError:
            log.info("replay %s continues on another worker", replay.id)
            self._again_s[replay.id] = time.monotonic() + self._lease_s
        except (RetriableError, TimedOutError, ExternalError) as error:
            log.warning("replay %s failed, retrying in %.0f s: %s", replay.id, RETRY_S, error)
            self._problems[replay.id] = without_secrets(str(error))
            self._again_s[replay.id] = time.monotonic() + RETRY_S
        except Exception as error:  # any error fails this replay, and the worker continues
            log.warning("replay %s failed", replay.id, exc_info=not isinstance(error, ConnectError))
            self._fail(run, replay, without_secrets(f"{error}" or type(error).__name__))
        self._parts.log.wake()

    def _fail(self, run: ReplayRun, replay: ReplayRequest, why: str) -> None:
        try:
            run.fail(why)
        except Exception as error:  # noqa: BLE001 - the replay is retried, and fails again
            log.warning("replay %s: its failure cannot be written: %s", replay.id, error)
            self._problems[replay.id] = why
            self._again_s[replay.id] = time.monotonic() + RETRY_S

    def _must_end(self, replay_id: str) -> bool:
        if self._stopping:
            return True
        found = self._parts.log.read(lambda records: records.standing(replay_id))
        return found is None or found.state in (STOPPED, DONE)


def _shown(replay: ReplayRequest) -> list[dict[str, int]] | None:
    if replay.letters is None:
        return None
    return [{"partition": partition, "offset": offset} for partition, offset in replay.letters[:LETTERS_SHOWN]]


# The check of a request, and the dry run: the effect of a replay without sending anything.


LETTERS_MAX = 10_000
RATE_MAX = 1e6
_BROKERS = "consumer.override.bootstrap.servers"


def wanted_replay(wanted: WantedReplay, parts: ReplayClients, plugin: Plugin) -> ReplayRequest:
    """Return the replay of a valid request, still without an id.

    Raises BadRequestError, BadConfigError, NotFoundError and ForbiddenError for an invalid request.
    """
    if wanted.target not in (TOPIC, SINK):
        raise BadRequestError(f"target: must be {TOPIC} or {SINK}")
    if wanted.rate is not None and not 0 < wanted.rate <= RATE_MAX:
        raise BadRequestError(f"rate: must be a number of letters per second above 0 and at most {RATE_MAX:.0f}")
    if wanted.target == SINK:
        _check_sink(wanted.connector, parts)
    if wanted.letters is not None and not 0 < len(wanted.letters) <= LETTERS_MAX:
        raise BadRequestError(
            f"letters: must be 1 to {LETTERS_MAX} pairs of partition and offset. Use a filter for more"
        )
    wanted_filter = LetterFilter.of(wanted.filter)
    check_edit(wanted.edit, plugin)
    queue = parts.queues.find(wanted.connector, wanted.topic)
    if queue is None:
        raise BadRequestError(f"connector {wanted.connector} has no dead letter queue")
    if parts.topics.describe(queue.topic) is None:
        raise no_topic(queue.topic)
    return ReplayRequest(
        id="",
        connector=wanted.connector,
        topic=queue.topic,
        target=wanted.target,
        filter=wanted_filter.as_fields(),
        letters=None if wanted.letters is None else tuple(sorted(set(wanted.letters))),
        edit={name: value for name, value in wanted.edit.items() if value is not None},
        rate=wanted.rate,
        again=wanted.again,
        who="",
        worker="",
        created_ms=parts.now_ms(),
    )


def _check_sink(connector: str | None, parts: ReplayClients) -> None:
    if parts.feed is None:
        raise BadRequestError("this worker replays dead letters to topics only")
    config = parts.feed.config_of(connector) if connector else {}
    if not config.get("topics") and not config.get("topics.regex"):
        raise BadRequestError(
            f"target {SINK} needs a sink connector. Dead letters of a topic without a connector "
            f"can only be replayed to {TOPIC}"
        )
    check_brokers(config)


def check_brokers(config: Mapping[str, str]) -> None:
    """Raise BadRequestError for a sink that reads from other brokers than the worker's, where the copies are."""
    if config.get(_BROKERS):
        raise BadRequestError(
            f"connector {config.get('name')} reads from another cluster ({_BROKERS}), but copies of dead letters "
            "can only be written to the worker's own. Replay them to their topics instead"
        )


def new_run(parts: ReplayClients, replay: ReplayRequest, must_end: Callable[[], bool]) -> ReplayRun:
    """Return the run of a replay to its target."""
    make = parts.sink_run if replay.target == SINK else ReplayRun
    return make(parts, replay, must_end)


SAMPLE_COUNT, SAMPLE_BYTES = 10, 16_384
DRY_RUN_LOOK_S = 5.0


def dry_run(parts: ReplayClients, forms: LetterForms, replay: ReplayRequest) -> DryRun:
    """Return the effect of a replay on the first letters, and the number of letters found. Raises ConnectError."""
    run = new_run(parts, replay, lambda: False)
    edit = parts.try_edit(replay)
    matched, scanned, complete, sample = 0, 0, False, list[EditedLetter]()
    try:
        with run.looking() as (queue, reading):
            end_s = time.monotonic() + DRY_RUN_LOOK_S
            for letter in reading:
                scanned += letter is not None
                if letter is not None and run.wants(queue, letter):
                    matched += 1
                    if len(sample) < SAMPLE_COUNT:
                        sample.append(_edited(run, forms, replay, letter, edit))
                if time.monotonic() >= end_s:
                    break
            else:
                complete = True
    finally:
        edit.close()
    return DryRun(matched=matched, scanned=scanned, complete=complete, sample=sample)


def _edited(run: ReplayRun, forms: LetterForms, replay: ReplayRequest, letter: Letter, edit: Edit) -> EditedLetter:
    form = forms.of(letter, replay.connector)
    before = shown_letter(letter, form, SAMPLE_BYTES)
    made: dict[str, Any] = {"topic": letter.topic, "partition": letter.partition, "offset": letter.offset}
    made["before"] = before
    try:
        record = edit.apply(letter, replay.connector)
        if record is None:
            return EditedLetter(**made, after=None, to=None, error=None)
        run.row(letter, record)
    except DataError as error:
        return EditedLetter(**made, after=None, to=None, error=str(error))
    return EditedLetter(**made, after=shown_record(letter, form, record, SAMPLE_BYTES), to=record.topic, error=None)


# One worker carries out one replay. It reads, edits, sends and marks letters, one transaction after the other.
#
# Each letter is sent by exactly one committed transaction, whichever worker dies at any time. The queue has one
# transactional id. To claim it fences every worker that replayed the queue before, and aborts its open transaction.
# Only then the run reads how far the replay is. Letters, their marks and the new position are one transaction.


CLAIM_MS = COMMIT_MS = 30_000
BATCH_COUNT, BATCH_BYTES, BATCH_S = 500, 4 * 2**20, 0.5
SIGN_OF_LIFE_S = 3.0
_SLICE_S = 0.2


@dataclass(slots=True)
class Entry:
    """A selected letter, with the record to send for it or the reason why it cannot be sent.

    Without both, a transformation dropped it.
    """

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
    """One run of a replay. ``run`` has a separate thread, and ``must_end`` may be called on any."""

    def __init__(self, parts: ReplayClients, replay: ReplayRequest, must_end: Callable[[], bool]) -> None:
        """``must_end`` returns whether this worker stops, or a request stopped the replay."""
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
        self._paid_s = 0.0  # the rate allows no letter before this time

    def run(self) -> None:
        """Resume the replay at its last position, and run it to its end.

        Raises FencedError if another worker has claimed it, and ConnectError if it cannot continue now.
        """
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
        """Write that the replay failed, in a separate transaction. Raises FencedError and ConnectError."""
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
        """Read the queue from its beginning as ``run`` does, but claim and send nothing. For a dry run."""
        queue, ends, positions = self._span(ReplayProgress())
        with self._parts.topics.reading(self._replay.topic, positions, ends) as reading:
            yield queue, reading

    def _carry_out(self, standing: ReplayStatus) -> None:
        queue, ends, positions = self._span(standing.progress)
        edit = self._parts.new_edit(self._replay)
        try:
            self._commit([], positions)  # says which worker carries it out
            with self._parts.topics.reading(self._replay.topic, positions, ends) as reading:
                over = self._read(queue, reading, edit)
                self._end(over, dict(reading.positions) if over else self._progress.positions)
        finally:
            edit.close()

    def _end(self, over: bool, positions: Mapping[int, int]) -> None:
        """Write that the queue was read to its end, or that this run ends before, and release the replay."""
        self._commit([], positions, replace(self._progress, state=DONE if over else RUNNING, worker=""))

    def _span(self, progress: ReplayProgress) -> tuple[Queue, Mapping[int, int], Mapping[int, int]]:
        """Return the queue, its end for this replay, and the positions to resume at. Raises ConnectError."""
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
        """Send letters until the end of the queue. Returns False if this run must end before."""
        for letter in reading:
            if letter is not None and self.wants(queue, letter):
                self._add(letter, edit)
            if (self._is_due() and not self._send_batch(reading.positions)) or self._must_end():
                return False
        return self._send_batch(reading.positions)

    def wants(self, queue: Queue, letter: Letter) -> bool:
        """Return whether the replay selects a letter: it passes the filter, and no replay delivered it before."""
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
        """Return the row to produce. Raises DataError if its topic does not exist or is internal."""
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
        """Send the batch, no faster than the rate allows. Returns False if this run must end and sent nothing of it."""
        batch, self._batch = self._batch, _Batch()
        if batch.entries and not self._wait_for_rate():
            return False
        if self._replay.rate:
            self._paid_s = max(self._paid_s, time.monotonic()) + len(batch.entries) / self._replay.rate
        self._send(batch.entries, dict(positions))
        return True

    def _wait_for_rate(self) -> bool:
        """Wait until the rate allows a batch, with signs of life. Returns False if this run must end."""
        while (left_s := self._paid_s - time.monotonic()) > 0:
            if self._must_end():
                return False
            if time.monotonic() - self._committed_s >= SIGN_OF_LIFE_S:
                self._commit([], self._progress.positions)
            time.sleep(min(_SLICE_S, left_s))
        return True

    def _send(self, entries: Sequence[Entry], positions: Mapping[int, int]) -> None:
        """Send entries in one transaction. If Kafka rejects one of them, send each in a separate transaction."""
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
        """Commit letters, marks and progress in one transaction. Raises DataError, FencedError and ConnectError."""
        made = replace(progress or self._progress, positions=dict(positions))
        made = replace(made, matched=made.matched + len(entries))
        for entry in entries:
            if entry.error:
                made = made.failing(entry.letter.partition, entry.letter.offset, entry.error)
        sent = [entry.row for entry in entries if entry.row is not None and not entry.error]
        self._write(sent, self._delivered(entries), self._with_sent(made, entries))

    def _delivered(self, entries: Sequence[Entry]) -> list[tuple[int, int]]:
        """Return the letters that are delivered when these entries are committed."""
        return [(entry.letter.partition, entry.letter.offset) for entry in entries if not entry.error]

    def _with_sent(self, progress: ReplayProgress, _entries: Sequence[Entry]) -> ReplayProgress:
        """Return the progress with further facts about the entries. Replays into a sink add them."""
        return progress

    def _write(self, sent: Sequence[ProduceRow], done: list[tuple[int, int]], made: ReplayProgress) -> None:
        """Commit records, the marks of delivered letters and the progress in one transaction."""
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


# The deletion of replayed letters from their queue, up to the first letter that was not replayed.


def delete_replayed(parts: ReplayClients, connector: str | None, topic: str | None) -> DeletedLetters:
    """Delete all records before the first letter that was not replayed, whichever connector wrote it.

    Raises NotFoundError, BadRequestError and ForbiddenError for an invalid request, and ConnectError if the worker may
    not delete records.
    """
    queue = parts.queues.find(connector, topic)
    if queue is None:
        raise BadRequestError(f"connector {connector} has no dead letter queue")
    found = parts.topics.describe(queue.topic)
    if found is None:
        raise no_topic(queue.topic)
    span = parts.topics.span(queue.topic, range(len(found.replicas)))
    up_to = _replayed_to(parts, queue, found.topic_id, span)
    wanted = {number: at for number, at in up_to.items() if at > span.begins[number]}
    parts.topics.admin.delete_records(queue.topic, wanted)
    old = parts.log.read(lambda records: list(records.marks.before(found.topic_id, up_to)))
    if old:
        parts.log.append([(key, None) for key in old])
    deleted = sum(at - span.begins[number] for number, at in wanted.items())
    return DeletedLetters(queue.topic, deleted, {str(number): at for number, at in sorted(up_to.items())})


def _replayed_to(parts: ReplayClients, queue: Queue, topic_id: str, span: Span) -> dict[int, int]:
    """Return for each partition the offset of the first letter that was not replayed, or the end."""
    up_to: dict[int, int] = {}
    with parts.topics.reading(queue.topic, span.begins, span.ends) as reading:
        for letter in reading:
            if letter is not None and letter.partition not in up_to and not _is_replayed(parts, topic_id, letter):
                up_to[letter.partition] = letter.offset
            if len(up_to) == len(span.ends):
                break
        reached = dict(reading.positions)
    return {number: up_to.get(number, min(reached[number], end)) for number, end in span.ends.items()}


def _is_replayed(parts: ReplayClients, topic_id: str, letter: Letter) -> bool:
    return parts.log.read(lambda records: records.marks.of(topic_id, letter.partition, letter.offset)) is not None

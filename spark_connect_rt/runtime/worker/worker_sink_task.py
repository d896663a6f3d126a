"""A sink task's membership in its consumer group, in the driver (Java ``WorkerSinkTask``'s consumer half).

Owns: joining, telling the engine what to read, draining before partitions go, committing what is durable, lag.
Fetches nothing. One thread per sink task drives its SinkGroup; the engine's reports come in from other threads.
"""

from __future__ import annotations

import logging
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_connect_rt.base.concurrency import MACHINE_THREADS, Clock, RunningThread, Threads
from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.base.loggers import working_for
from spark_connect_rt.config.client_settings import client_setting
from spark_connect_rt.config.stored_config import NO_SETTINGS, StoredConfig
from spark_connect_rt.engine.task_runner import Assign, NoteGeneration, Revoke, TaskRunner
from spark_connect_rt.errors import ConnectError, FencedError, RetriableError
from spark_connect_rt.kafka.interfaces import GroupGeneration, SinkGroup, SinkGroupFactory

log = logging.getLogger(__name__)

SUBSCRIPTION = ("topics", "topics.regex")
BEGINNING, END = -1, -2
WARN_EACH_S = 30.0
_RESET_OFFSETS = {"earliest": BEGINNING, "latest": END}


_KILL_MARGIN_MS = 15_000


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """How one sink task's membership works."""

    consumer_config: Mapping[str, str]  # Java names; group.id, client.id, auto.offset.reset ...
    subscription: StoredConfig = NO_SETTINGS  # topics, topics.regex
    topics: tuple[str, ...] = ()  # this and the next: topics and pattern that ``resolved`` finds in the subscription
    pattern: str | None = None
    commit_interval_ms: int = 1_000
    lag_interval_ms: int = 5_000
    poll_ms: int = 200
    release_timeout_ms: int = 0  # a revoked partition is drained or its task killed by then; 0: by the consumer's own
    reports_generation: bool = False  # the task is to know its group member's generation
    resolve: Callable[[Mapping[str, str]], Mapping[str, str]] = dict  # may block, may raise

    def resolved(self) -> SinkSettings:
        """Return the settings as the consumer gets them; may block (a vault), raises what a provider raises."""
        consumer = self.resolve(self.consumer_config)
        poll_ms = client_setting("consumer", "max.poll.interval.ms", consumer)
        limit_ms = self.release_timeout_ms or release_timeout_ms(poll_ms)
        settings = replace(self, consumer_config=consumer, release_timeout_ms=limit_ms)
        return settings.subscribed(self.subscription.resolved(self.resolve)) if self.subscription else settings

    def subscribed(self, subscription: Mapping[str, str]) -> SinkSettings:
        """Return the settings with the topics, else the pattern, of a resolved subscription."""
        topics = tuple(filter(None, map(str.strip, (subscription.get("topics") or "").split(","))))
        return replace(self, topics=topics, pattern=None if topics else subscription.get("topics.regex"))


def release_timeout_ms(max_poll_interval_ms: int) -> int:
    """Return when what holds on to a revoked partition is killed, so that it is dead before the group moves it.

    The group waits for ``max.poll.interval.ms`` (I4) from its own start of the rebalance, which a member learns a
    heartbeat later. Neighbours are drained for 1.5 s, and a process without a connection may take 6 s to end.
    """
    return max(max_poll_interval_ms // 2, max_poll_interval_ms - _KILL_MARGIN_MS)


class SinkTaskMembership:
    """One member of ``connect-<name>``; ``on_left`` is called once, when it is out of the group.

    ``on_failed`` has the run ended, and ``leave`` called when it has.
    """

    def __init__(
        self,
        task: ConnectorTaskId,
        settings: SinkSettings,
        groups: SinkGroupFactory,
        runner: TaskRunner,
        clock: Clock,
        on_left: Callable[[], None],
        on_failed: Callable[[str], None],
        threads: Threads = MACHINE_THREADS,
    ) -> None:
        self._task = task
        self._settings = settings
        self._groups = groups
        self._runner = runner
        self._clock = clock
        self._on_left = on_left
        self._on_failed = on_failed
        self._threads = threads
        self.on_commit: Callable[[int, bool], None] = lambda took_ms, good: None
        self._changed = threads.condition()
        self._positions: dict[TopicPartition, int] = {}  # assigned -> next offset durable or committed
        self._uncommitted: dict[TopicPartition, int] = {}
        self._owed: dict[TopicPartition, int] = {}  # durable, and not known to be committed; also what was lost
        self._ends: dict[TopicPartition, int] = {}
        self._read: dict[TopicPartition, int] = {}  # where the engine reads, past markers; of what was reported
        self._undrained: Counter[TopicPartition] = Counter()  # revocations that the engine has not answered
        self._generation: GroupGeneration | None = None  # as the engine knows it
        self._leaving = False
        self._commit_at_end = True
        self._thread: RunningThread | None = None

    @property
    def lag(self) -> int | None:
        """Records between what is durable and the log ends as last seen; None while the ends are unknown."""
        with self._changed:
            if not self._ends:
                return None
            # Where nothing is durable yet, BEGINNING counts the whole partition and END none of it.
            starts = {BEGINNING: 0}
            return sum(
                max(0, self._ends[p] - starts.get(at, at)) if at != END else 0
                for p, at in self._positions.items()
                if p in self._ends
            )

    @property
    def partition_count(self) -> int:
        """How many partitions it holds."""
        return len(self._positions)

    @property
    def behind(self) -> bool:
        """Whether anything lies between where the engine has read and the log ends; transaction markers are nothing."""
        with self._changed:
            reached = {p: max(at, self._read.get(p, at)) for p, at in self._positions.items()}
            return any(at >= 0 and self._ends.get(p, at) > at for p, at in reached.items())

    @property
    def committed(self) -> bool:
        """Whether the group holds every offset that was durable."""
        with self._changed:
            return not self._owed

    def read_to(self, positions: Mapping[TopicPartition, int]) -> None:
        """The engine will read these offsets next."""
        with self._changed:
            self._read = {partition: at for partition, at in positions.items() if partition in self._positions}

    def join(self) -> None:
        """Join the group; further calls do nothing."""
        with self._changed:
            if self._thread is not None or self._leaving:
                return
            self._thread = self._threads.start(f"sink-group-{self._task}", self._run)

    def durable(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Remember next offsets to commit; those of partitions this member does not hold are refused."""
        with self._changed:
            self._owed.update(offsets)
            for partition, offset in offsets.items():
                # I2: a partition that was lost may be written by its new owner already.
                if partition in self._positions:
                    self._positions[partition] = offset
                    self._uncommitted[partition] = offset

    def released(self, partitions: frozenset[TopicPartition]) -> None:
        """The engine flushed and closed these partitions, or nothing of the task is alive that could write them."""
        with self._changed:
            self._undrained -= Counter(partitions)
            self._changed.notify_all()

    def leave(self, commit: bool) -> None:
        """Commit what is durable (if ``commit``) and leave the group. Returns at once."""
        with self._changed:
            self._leaving = True
            self._commit_at_end = commit
            self._changed.notify_all()
            never_joined = self._thread is None
        if never_joined:
            self._on_left()

    # The methods below run on the membership's thread.

    def _run(self) -> None:
        group: SinkGroup | None = None
        working_for(self._task)
        try:
            self._settings = self._settings.resolved()  # here: a vault may be slow
            group = self._groups(self._settings.consumer_config)
            topics, pattern = self._settings.topics, self._settings.pattern
            group.subscribe(
                topics,
                pattern,
                lambda found: self._assigned(group, found),
                lambda p: self._revoked(group, p),
                self._lost,
            )
            self._serve(group)
        except Exception:  # noqa: BLE001 - top of a thread: it becomes the task's FAILED status
            self._on_failed(traceback.format_exc())
            with self._changed:  # I4: partitions are held while the run is being ended, and its last offsets come
                self._changed.wait_for(lambda: self._leaving)
        finally:
            self._close(group)
            self._on_left()

    def _serve(self, group: SinkGroup) -> None:
        now_ms = self._clock.monotonic_ms()
        commit_at_ms, lag_at_ms = now_ms + self._settings.commit_interval_ms, now_ms
        while not self._leaving:
            try:
                group.poll(self._settings.poll_ms)
                self._note_generation(group)
            except RetriableError as error:
                log.warning("task=%s consumer group: %s", self._task, error)
                with self._changed:
                    self._changed.wait_for(lambda: self._leaving, timeout=1.0)
            now_ms = self._clock.monotonic_ms()
            if now_ms >= commit_at_ms:
                self._commit(group)
                commit_at_ms = now_ms + self._settings.commit_interval_ms
            if now_ms >= lag_at_ms and self._positions:
                self._read_ends(group)
                lag_at_ms = now_ms + self._settings.lag_interval_ms

    def _note_generation(self, group: SinkGroup) -> None:
        generation = group.generation() if self._settings.reports_generation else None
        if generation is not None and generation != self._generation:
            self._generation = generation
            self._runner.do(NoteGeneration(self._task, generation))

    def _assigned(self, group: SinkGroup, committed: Mapping[TopicPartition, int]) -> None:
        self._note_generation(group)
        reset = self._settings.consumer_config.get("auto.offset.reset", "earliest")
        missing = sorted(str(p) for p, offset in committed.items() if offset < 0)
        if missing and reset not in _RESET_OFFSETS:
            raise ConnectError(
                f"task {self._task}: no committed offset for {', '.join(missing)} and auto.offset.reset={reset}"
            )
        starts = {p: offset if offset >= 0 else _RESET_OFFSETS[reset] for p, offset in committed.items()}
        with self._changed:
            self._positions.update(starts)
        log.info("task=%s assigned %s", self._task, ", ".join(f"{p}@{o}" for p, o in sorted(starts.items())))
        if starts:
            self._runner.do(Assign(self._task, starts))

    def _revoked(self, group: SinkGroup | None, partitions: Sequence[TopicPartition]) -> None:
        # I4: partitions are drained and committed before the callback returns, that is before they go.
        self._drain(partitions)
        if group is not None and self._commit_at_end:
            self._commit(group)
        self._forget(partitions)

    def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._forget(partitions)
        self._revoke(partitions)

    def _drain(self, partitions: Sequence[TopicPartition]) -> None:
        """Wait for as long as it takes: the engine kills what holds on to a partition at the end of its time."""
        self._revoke(partitions)
        with self._changed:
            while not self._changed.wait_for(lambda: self._drained(partitions), timeout=WARN_EACH_S):
                log.warning("task=%s is still draining: %s", self._task, ", ".join(map(str, sorted(self._undrained))))

    def _drained(self, partitions: Sequence[TopicPartition]) -> bool:
        return self._leaving or not any(self._undrained[partition] for partition in partitions)

    def _revoke(self, partitions: Sequence[TopicPartition]) -> None:
        with self._changed:
            if self._leaving or not partitions:
                return  # the run ended: nothing is read any more, its last offsets are here
            self._undrained.update(partitions)
        self._runner.do(Revoke(self._task, tuple(partitions), self._settings.release_timeout_ms))

    def _forget(self, partitions: Sequence[TopicPartition]) -> None:
        with self._changed:
            for partition in partitions:
                self._positions.pop(partition, None)
                self._uncommitted.pop(partition, None)

    def _commit(self, group: SinkGroup) -> None:
        with self._changed:
            offsets, self._uncommitted = self._uncommitted, {}
        if not offsets:
            return
        began_ms, good = self._clock.monotonic_ms(), False
        try:
            group.commit(offsets)
            good = True
            with self._changed:
                self._owed = {p: at for p, at in self._owed.items() if offsets.get(p) != at}
        except FencedError as error:
            log.warning("task=%s offsets are not committed, because its generation is over: %s", self._task, error)
        except RetriableError as error:
            log.warning("task=%s offsets cannot be committed, retrying: %s", self._task, error)
            with self._changed:
                for partition, offset in offsets.items():
                    if partition in self._positions:
                        self._uncommitted.setdefault(partition, offset)
        self.on_commit(self._clock.monotonic_ms() - began_ms, good)

    def _read_ends(self, group: SinkGroup) -> None:
        with self._changed:
            partitions = list(self._positions)
        try:
            ends = group.end_offsets(partitions)
        except ConnectError:  # the lag is for show only: nothing about it may end the task
            ends = {}  # an old one is worse than none
        with self._changed:
            self._ends = ends

    def _close(self, group: SinkGroup | None) -> None:
        with self._changed:
            self._leaving = True
            self._ends = {}  # not read any more: a lag made of these would not change while records arrive
        if group is None:
            return
        try:
            if self._commit_at_end:
                self._commit(group)
            group.close()
        except Exception:
            log.warning("task=%s could not leave its consumer group cleanly", self._task, exc_info=True)

"""A sink task's membership in its consumer group, in the driver (Java ``WorkerSinkTask``'s consumer half).

Owns: joining, telling the engine what to read, draining before partitions go, committing what is durable, lag.
Fetches nothing. One thread per sink task drives its SinkGroup; the engine's reports come in from other threads.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_connect_rt.errors import ConnectError, FencedError, RetriableError
from spark_connect_rt.ports.clock import Clock
from spark_connect_rt.ports.sink_group import SinkGroup, SinkGroupFactory
from spark_connect_rt.ports.task_runner import TaskRunner
from spark_connect_rt.ports.threads import MACHINE_THREADS, RunningThread, Threads
from spark_connect_rt.protocol.ids import ConnectorTaskId, TopicPartition

log = logging.getLogger(__name__)

BEGINNING, END = -1, -2
_RESET_OFFSETS = {"earliest": BEGINNING, "latest": END}


@dataclass(frozen=True, slots=True)
class SinkSettings:
    """How one sink task's membership works."""

    consumer_config: Mapping[str, str]  # Java names; group.id, client.id, auto.offset.reset ...
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    commit_interval_ms: int = 1_000
    lag_interval_ms: int = 5_000
    poll_ms: int = 200
    release_timeout_ms: int = 30_000  # how long a rebalance waits for the engine to drain
    resolve: Callable[[Mapping[str, str]], Mapping[str, str]] = dict  # of consumer_config; may block, may raise


class SinkTaskMembership:
    """One member of ``connect-<name>``; ``on_left`` is called once, when it is out of the group."""

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
        self._ends: dict[TopicPartition, int] = {}
        self._read: dict[TopicPartition, int] = {}  # where the engine reads, past markers; of what was told
        self._draining: set[TopicPartition] = set()
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
            for partition, offset in offsets.items():
                # I2: a partition that was lost may be written by its new owner already.
                if partition in self._positions:
                    self._positions[partition] = offset
                    self._uncommitted[partition] = offset

    def released(self, partitions: frozenset[TopicPartition]) -> None:
        """The engine flushed and closed these partitions."""
        with self._changed:
            self._draining -= partitions
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

    # What follows runs on the membership's thread.

    def _run(self) -> None:
        group: SinkGroup | None = None
        try:
            consumer_config = self._settings.resolve(self._settings.consumer_config)  # here: a vault may be slow
            self._settings = replace(self._settings, consumer_config=consumer_config)
            group = self._groups(consumer_config)
            topics, pattern = self._settings.topics, self._settings.pattern
            group.subscribe(topics, pattern, self._assigned, lambda p: self._revoked(group, p), self._lost)
            self._serve(group)
        except Exception:  # noqa: BLE001 - top of a thread: it becomes the task's FAILED status
            self._on_failed(traceback.format_exc())
        finally:
            self._close(group)
            self._on_left()

    def _serve(self, group: SinkGroup) -> None:
        now_ms = self._clock.monotonic_ms()
        commit_at_ms, lag_at_ms = now_ms + self._settings.commit_interval_ms, now_ms
        while not self._leaving:
            try:
                group.poll(self._settings.poll_ms)
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

    def _assigned(self, committed: Mapping[TopicPartition, int]) -> None:
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
            self._runner.assign(self._task, starts)

    def _revoked(self, group: SinkGroup | None, partitions: Sequence[TopicPartition]) -> None:
        # I4: partitions are drained and committed before the callback returns, that is before they go.
        self._drain(partitions)
        if group is not None and self._commit_at_end:
            self._commit(group)
        self._forget(partitions)

    def _lost(self, partitions: Sequence[TopicPartition]) -> None:
        self._forget(partitions)
        if not self._leaving:
            self._runner.revoke(self._task, partitions)

    def _drain(self, partitions: Sequence[TopicPartition]) -> None:
        with self._changed:
            if self._leaving or not partitions:
                return  # the run ended: nothing is read any more, its last offsets are here
            self._draining = set(partitions)
        self._runner.revoke(self._task, partitions)
        with self._changed:
            drained = self._changed.wait_for(
                lambda: not self._draining or self._leaving, timeout=self._settings.release_timeout_ms / 1000
            )
            if not drained:
                log.warning("task=%s gave up partitions undrained: %s", self._task, sorted(self._draining))
            self._draining = set()

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
        except FencedError as error:
            log.warning("task=%s offsets not committed, its generation is over: %s", self._task, error)
        except RetriableError as error:
            log.warning("task=%s offsets not committed, tried again: %s", self._task, error)
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
        if group is None:
            return
        try:
            if self._commit_at_end:
                self._commit(group)
            group.close()
        except Exception:
            log.warning("task=%s could not leave its consumer group in order", self._task, exc_info=True)

"""A Python source task behind the seam of ``hosted_source.py``: its polls, its pipeline, its commit hooks."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.api.records import Delivered, Polled, SourceBatch, Written
from spark_connect_rt.api.task import OffsetReader, OwnWrites, PluginMetrics, SourceTask, SourceTaskContext
from spark_connect_rt.base.hidden_values import without_secrets
from spark_connect_rt.config.client_properties import SHARED_CLIENT
from spark_connect_rt.engine.executor.errant_reports import ErrantLog, ensure_dead_letter_queue
from spark_connect_rt.engine.executor.hosted_source import DriverLink, Durable, HostedSource, SourceParts
from spark_connect_rt.engine.executor.hosting import monotonic_ms
from spark_connect_rt.engine.executor.idle_looks import IDLE_LOOKS
from spark_connect_rt.engine.executor.sent_records import SentRecords, delivery_reports_of, wants_commits, wants_offsets
from spark_connect_rt.engine.executor.task_meter import MeteredPluginMetrics
from spark_connect_rt.engine.task_runner import TaskLaunch
from spark_connect_rt.errors import DataError, RetriableError
from spark_connect_rt.kafka.executor_clients import DeliveryReports
from spark_connect_rt.records.pipeline.dead_letters import DeadLetters, ReportSettings
from spark_connect_rt.records.pipeline.delivery_runs import DeliveryRuns
from spark_connect_rt.records.pipeline.errant_records import RetryInterrupted, Waiting
from spark_connect_rt.records.pipeline.source_pipeline import ConvertedBatch, SourcePipeline
from spark_connect_rt.records.pipeline.transaction_boundaries import End, TransactionBoundaries

# One after the other: tasks of a process that have a little to do at the same instant.
#
# Python runs one thread at a time. Tasks that look at the instants they share would hand the interpreter to each other
# at every call that lets go of it: 43 switches for a batch of thirty lines instead of 6. Who has more to do takes no
# turn, and nobody waits long for one: a task that hangs in its turn keeps no other from working. They wake a little
# apart, too: threads that wake at once wake each other again until each had the interpreter.


PATIENCE_S = 0.02  # then it works beside the one that has the turn
LITTLE_S = 0.01  # who worked for longer takes no turn the next time
SHARED_WAIT_S = 0.1  # who waited so long looks at instants that others share
PLACES, APART_S = 25, 0.001  # of tasks around such an instant


class Turns:
    """The turns of one process. Any thread."""

    def __init__(self) -> None:
        """Nobody has the turn."""
        self.taken = threading.Lock()
        self._tasks = itertools.count()

    def place_s(self) -> float:
        """Return how long after an instant one more task looks."""
        return next(self._tasks) % PLACES * APART_S


class TakesTurns:
    """Whether one task works in its turn; its own thread's."""

    def __init__(self, turns: Turns, clock_s: Callable[[], float] = time.monotonic) -> None:
        """``clock_s``: monotonic."""
        self._turns = turns
        self._clock_s = clock_s
        self._place_s = turns.place_s()
        self._waited = self._is_slow = False

    def waits(self, wait_s: float) -> float:
        """Take note that the task waits so long before it works again; return how long it does, with others near."""
        self._waited = wait_s >= SHARED_WAIT_S
        return wait_s + self._place_s if self._waited else wait_s

    def run(self, work: Callable[[], bool]) -> bool:
        """Return what ``work`` returns, and raise what it raises; in its turn, if it has little to do."""
        has_turn = self._waited and not self._is_slow and self._turns.taken.acquire(timeout=PATIENCE_S)
        begun_s = self._clock_s()
        try:
            return work()
        finally:
            if has_turn:
                self._turns.taken.release()
            self._is_slow = self._clock_s() - begun_s > LITTLE_S


TURNS = Turns()

_RETRY_WAIT_S = 0.1  # Java: a retriable poll counts as an empty one
log = logging.getLogger(__name__)


class _OffsetReader(OffsetReader):
    """Asks the driver, which reads the offset store to its end."""

    def __init__(self, host: int, driver: DriverLink) -> None:
        self._host = host
        self._driver = driver

    def offsets(self, partitions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any] | None]:
        return self._driver.ask_offsets(self._host, partitions)


class _Context(SourceTaskContext):
    """The task's SourceTaskContext."""

    def __init__(self, launch: TaskLaunch, offset_reader: OffsetReader, metrics: PluginMetrics) -> None:
        self.offset_reader = offset_reader
        self.metrics = metrics
        self.own_writes = OwnWrites()
        self.pipeline: SourcePipeline | None = None
        self._task = launch.task

    def report_errant(self, place: str, error: Exception, data: bytes | None = None) -> None:
        assert self.pipeline is not None
        self.pipeline.report_errant(f"task {self._task}: unreadable input at {place}", error, data)


class PythonSource(HostedSource):
    """A ``SourceTask`` in this process."""

    def __init__(self, parts: SourceParts, task_class: type[SourceTask]) -> None:
        """See HostedSource."""
        super().__init__(parts)
        self.delivery_reports = delivery_reports_of(task_class)
        self._task_class = task_class
        self._task: SourceTask | None = None
        self._sent = SentRecords()  # only of tasks with commit_record
        self._boundaries: TransactionBoundaries | None = None
        self._turns = TakesTurns(TURNS)

    def start(self, boundaries: TransactionBoundaries | None) -> None:
        """See HostedSource."""
        parts, launch = self.parts, self.parts.launch
        context = _Context(launch, _OffsetReader(parts.host, parts.driver), MeteredPluginMetrics(parts.meter))
        context.previewed = parts.previewed
        task = self._task_class()
        self.wants_commits = wants_commits(self._task_class)
        task.context = context
        worker_config = parts.resolved(launch.worker_config)
        connector_config = parts.resolved(launch.connector_config)
        waiting = Waiting(monotonic_ms, self._wait_ms)
        settings = ReportSettings.from_config(connector_config)
        self._errant_log = ErrantLog(launch.task, settings, parts.clients, parts.meter)
        letters = self._dead_letters(settings)
        pipeline = SourcePipeline.from_config(connector_config, worker_config, parts.clients.plugin, waiting, letters)
        self._pipeline = context.pipeline = pipeline
        self._boundaries = boundaries
        context.own_writes = self._own_writes(pipeline.onlookers(), boundaries is not None)
        if boundaries is not None:
            context.transaction_context = boundaries.requests
        self._task = task
        task.start(parts.resolved(launch.config))

    def _own_writes(self, onlookers: Sequence[str], exactly_once: bool) -> OwnWrites:
        obstacles = [*onlookers, *(["exactly.once.source.support"] if exactly_once else [])]
        if obstacles:
            return OwnWrites(None, obstacles)
        # The task writes with its own connections, so it does not matter whether task writers share theirs.
        properties = self.parts.resolved(self.parts.launch.client_config)
        return OwnWrites({name: text for name, text in properties.items() if name not in SHARED_CLIENT}, obstacles)

    def settle(self) -> None:
        """See HostedSource: its own writes are awaited, as those of its task writer are."""
        task, switches = self._task, self.parts.switches
        while task is not None and task.is_writing():
            if switches.stopping and switches.end_by_ms is not None and monotonic_ms() >= switches.end_by_ms:
                log.warning(
                    "task=%s stops without draining: records without an acknowledgement will be read again",
                    self.parts.launch.task,
                )
                return
            written = task.finish_writing()
            if written:
                self.parts.meter.moved("poll", _count(written))
                for converted in self._pipeline.convert(written):
                    self._send(converted)

    def _wait_ms(self, wait_ms: int) -> bool:
        """Wait between attempts at converting one record; False when the task is to stop."""
        goes_on = self.parts.switches.wait_ms(wait_ms)
        self.parts.meter.count_attempt(again=goes_on)
        return goes_on

    def _dead_letters(self, settings: ReportSettings) -> DeadLetters | None:
        """Return what makes dead letters, their topic created; None without a queue."""
        if not settings.topic:
            return None
        clients, launch = self.parts.clients, self.parts.launch
        ensure_dead_letter_queue(clients, settings, self.parts.resolved(launch.dead_letter_admin))
        return DeadLetters(settings, launch.task, clients.name_of, without_secrets)

    @property
    def _running(self) -> SourceTask:
        assert self._task is not None
        return self._task

    def poll(self) -> None:
        """See HostedSource."""
        if self._turns.run(self._poll_once):
            self._wait_idle(self._running)

    def _poll_once(self) -> bool:
        """Hand over what the task has; return whether it had nothing."""
        task, output = self._running, self.parts.output
        try:
            polled = self._polled(task)
            if polled is None:
                return False
            pieces, rows_of_each = self._converted(polled)
        except RetryInterrupted:
            self._pipeline.give_up()  # what was polled is polled again after the next start
            return False
        except DataError:
            last = self._pipeline.give_up()
            if last is not None:  # as Java: also the record that fails the task is reported
                self._send(last)
                if self._boundaries is not None and self._boundaries.requests is None:
                    output.end(End.COMMIT)
            raise
        if self.delivery_reports is DeliveryReports.RECORDS:
            sent = [(batch.records, batch.batch.num_rows) for batches, _ in pieces for batch in batches]
            self._sent.add(polled, rows_of_each, sent)
        for batches, end in pieces:
            for converted in batches:
                self._send(converted)
            output.end(end)
        return not polled

    def _wait_idle(self, task: SourceTask) -> None:
        wait_s = self._turns.waits(task.idle_wait_ms() / 1000)
        # A transaction may be due to end: only a poll sees to that.
        look = task.idle_look() if self._boundaries is None else None
        if look is None:
            self.parts.switches.wait(wait_s)
        else:
            IDLE_LOOKS.wait(self.parts.switches, look, wait_s)

    def _converted(self, polled: Sequence[Polled]) -> tuple[list[tuple[list[ConvertedBatch], End]], list[int]]:
        """Return what a poll brought, cut where transactions end, and how many Kafka records each piece became."""
        pieces, rows_of_each = [], list[int]()
        for piece, end in self._cut(polled):
            pieces.append((self._pipeline.convert(piece), end))
            rows_of_each += self._pipeline.rows_of_each
        return pieces, rows_of_each

    def _polled(self, task: SourceTask) -> Sequence[Polled] | None:
        """Return what a poll brought; None: it is to be tried again."""
        try:
            return self._metered_poll(task)
        except RetriableError as error:
            log.warning("task=%s: poll will be retried: %s", self.parts.launch.task, error)
            self.parts.switches.wait(_RETRY_WAIT_S)
            return None

    def _metered_poll(self, task: SourceTask) -> Sequence[Polled]:
        with self.parts.meter.call("poll"):
            polled = task.poll() or ()
        if polled:
            self.parts.meter.moved("poll", _count(polled))
        return polled

    def _cut(self, polled: Sequence[Polled]) -> Sequence[tuple[Sequence[Any], End]]:
        return ((polled, End.NONE),) if self._boundaries is None else self._boundaries.cut(polled, monotonic_ms())

    def _send(self, converted: ConvertedBatch) -> None:
        self._errant_log.write(converted.errants)
        self.parts.output.send(converted)

    def durable(self, reports: Sequence[Durable]) -> None:
        """See HostedSource: on the task's own thread."""
        task = self._running
        any_rows, delivered, runs = False, list[Delivered](), DeliveryRuns()
        for rows, where, metadata in reports:
            any_rows = any_rows or rows > 0
            delivered += where
            if self.delivery_reports is DeliveryReports.RECORDS:
                for record, place in self._sent.durable(rows, metadata):
                    self._hook(task.commit_record, record, place)
                    if place is not None:
                        runs.note(place.topic, place.partition, place.offset)
        delivered += runs.take()
        if delivered and wants_offsets(type(task)):
            task.commit_offsets(delivered)
        if any_rows:
            self._hook(task.commit)

    def _hook(self, hook: Callable[..., None], *arguments: object) -> None:
        try:
            hook(*arguments)
        except BaseException:
            log.exception("task=%s: %s failed, ignored", self.parts.launch.task, hook.__name__)

    def _take_last_reports(self) -> None:
        self.durable(self.parts.output.take_durable())

    def stop(self) -> None:
        """See HostedSource."""
        if self._task is None:
            return
        steps: tuple[Callable[[], object], ...] = (self._take_last_reports, self._task.stop, self._pipeline.close)
        for step in steps:
            try:
                step()
            except BaseException:
                log.exception("task=%s: stop failed, ignored", self.parts.launch.task)


def _count(polled: Sequence[Polled]) -> int:
    return sum(map(_records_of, polled))


def _records_of(piece: Polled) -> int:
    if isinstance(piece, SourceBatch):
        return len(piece.values)
    return piece.records if isinstance(piece, Written) else 1

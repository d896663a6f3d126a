"""Tasks that live in the driver because their work is whole Spark jobs: their life, and the table of them.

Each has its own thread; a command acts between two steps. Same commands and events as any other task.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.base.ids import ConnectorTaskId, TopicPartition
from spark_connect_rt.base.loggers import working_for
from spark_connect_rt.engine.executor.hosting import trace_of
from spark_connect_rt.engine.executor.task_logs import hide_secrets
from spark_connect_rt.engine.task_runner import (
    Assign,
    OnTaskEvent,
    PartitionsReleased,
    Pause,
    Resume,
    Revoke,
    Start,
    Stop,
    TaskCommand,
    TaskEnded,
    TaskEvent,
    TaskFailed,
    TaskLaunch,
    TaskPaused,
    TaskRunning,
)
from spark_connect_rt.errors import DataError

CANCEL_MARGIN_S = 5.0
log = logging.getLogger(__name__)


class DriverTask(ABC):
    """One run of one task."""

    def __init__(self, launch: TaskLaunch, on_event: OnTaskEvent, kind: str) -> None:
        self.launch = launch
        self._on_event = on_event
        self._wake = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._paused = launch.paused
        self._stopping = False
        self._records = 0
        self._thread = threading.Thread(target=self._run, name=f"{kind}-{launch.task}", daemon=True)

    def do(self, command: TaskCommand) -> None:
        """Carry out a command between two steps, but for a stop's deadline. Returns at once; any thread."""
        match command:
            case Start():
                hide_secrets(self.launch)
                self._thread.start()
            case Pause() | Resume():
                self._later(lambda: self._set_paused(isinstance(command, Pause)))
            case Stop(_, timeout_ms):
                self._stop(timeout_ms)
            case Assign(_, offsets):
                self._assign(offsets)
            case Revoke(_, partitions, timeout_ms):
                self._revoke(partitions, timeout_ms)

    def _assign(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Sinks: take these partitions too."""

    def _revoke(self, partitions: Sequence[TopicPartition], timeout_ms: int) -> None:
        """Sinks: release these partitions. The default releases them at once."""
        self._on_event(PartitionsReleased(self.launch.task, self.launch.run, frozenset(partitions)))

    def _stop(self, timeout_ms: int) -> None:
        """End after the running batch; at the deadline its Spark job is cancelled."""
        self._stopping = True  # at once, so that an error of a cancelled job does not fail the task
        self._later(lambda: None)
        threading.Thread(target=self._cancel_at, args=(timeout_ms,), daemon=True).start()

    def _cancel_at(self, timeout_ms: int) -> None:
        self._thread.join(timeout_ms / 1000)
        if self._thread.is_alive():
            self._cancel()

    def _later(self, act: Callable[[], None]) -> None:
        """Do this on the task's own thread, between two steps."""
        with self._wake:
            self._commands.append(act)
            self._wake.notify_all()

    def _run(self) -> None:
        drained = True
        working_for(self.launch.task)
        try:
            self._open()
            self._on_event((TaskPaused if self._paused else TaskRunning)(self.launch.task, self.launch.run))
            while not self._stopping:
                self._step()
        except Exception as error:  # noqa: BLE001 - top of a task's thread: becomes FAILED with its trace
            drained = False
            if not self._stopping:
                self._on_event(TaskFailed(self.launch.task, self.launch.run, trace_of(error)))
        finally:
            self._quietly(lambda: self._obey(0))  # a revocation that came with the stop still wants its answer
            self._quietly(lambda: self._close(drained))
            forget = self._when_committed() if drained else None
            self._on_event(TaskEnded(self.launch.task, self.launch.run, drained, self._records, forget))

    def _quietly(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Exception:
            log.exception("task=%s: its end failed, ignored", self.launch.task)

    def _obey(self, timeout_ms: int) -> None:
        """Carry out the commands of now, or the first ones that come within the time."""
        with self._wake:
            if not self._commands:
                self._wake.wait(timeout_ms / 1000)
            taken, self._commands = self._commands, []
        for act in taken:
            act()

    def _set_paused(self, paused: bool) -> None:
        if paused != self._paused:
            self._paused = paused
            self._on_event((TaskPaused if paused else TaskRunning)(self.launch.task, self.launch.run))

    @abstractmethod
    def _open(self) -> None:
        """Make what the task needs."""

    @abstractmethod
    def _step(self) -> None:
        """Obey, then do one batch if it is time."""

    @abstractmethod
    def _close(self, drained: bool) -> None:
        """Give back what was made, also after a failure; nothing of this run may be alive when it returns."""

    def _when_committed(self) -> Callable[[], None] | None:
        """Return what is left to do once the consumer group holds every offset of the run; after ``_close``."""
        return None

    @abstractmethod
    def _cancel(self) -> None:
        """Cancel the running Spark job, if there is one. Any thread."""


class DriverTasks(ABC):
    """Hosts every task of one kind on this worker."""

    def __init__(self, clients: str) -> None:
        self._clients = clients
        self._tasks: dict[ConnectorTaskId, DriverTask] = {}
        self._changed = threading.Condition()
        self._on_event: OnTaskEvent
        self._session: Callable[[], Any]

    @abstractmethod
    def _new_task(self, launch: TaskLaunch) -> DriverTask:
        """Return a run that is not started; its events go to ``_forward``."""

    def open(self, on_event: OnTaskEvent, session: Callable[[], Any]) -> None:
        """Begin; events go to ``on_event``."""
        self._on_event = on_event
        self._session = session

    def do(self, command: TaskCommand) -> None:
        """Carry out a command; one for a task that has no run here is dropped, as its end was reported."""
        with self._changed:
            if isinstance(command, Start):
                self._tasks[command.task] = self._new_task(command.launch)
            run = self._tasks.get(command.task)
        if run is not None:
            run.do(command)

    def close(self, timeout_ms: int) -> None:
        """Stop every run and wait for its end."""
        with self._changed:
            tasks = list(self._tasks.values())
        for task in tasks:
            task.do(Stop(task.launch.task, timeout_ms))
        with self._changed:
            self._changed.wait_for(lambda: not self._tasks, timeout=timeout_ms / 1000 + CANCEL_MARGIN_S)

    def _forward(self, event: TaskEvent) -> None:
        if isinstance(event, TaskEnded):
            with self._changed:
                run = self._tasks.get(event.task)
                if run is not None and run.launch.run == event.run:
                    del self._tasks[event.task]
                self._changed.notify_all()
        self._on_event(event)


def set_active(spark: Any) -> None:
    """Make a session that of the calling thread: one of py4j's has none, and writers look formats up there."""
    spark._jvm.org.apache.spark.sql.SparkSession.setActiveSession(spark._jsparkSession)


def is_data_error(error: Exception) -> bool:
    """Return whether a Spark job failed by a record: trying again would not help."""
    return isinstance(error, DataError) or "spark_connect_rt.errors.DataError" in str(error)


def last_error_line(error: Exception) -> str:
    """Return the sentence of a Spark error that says what happened, out of pages of traces."""
    text = str(error)
    return next((line for line in reversed(text.splitlines()) if "Error" in line), text[:500]).strip()

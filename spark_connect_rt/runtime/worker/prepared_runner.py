"""A TaskRunner before which some launches have to be prepared: older producers are fenced, an offset topic opened.

Owns the launches that are being prepared; a thread each. To the worker such a run is one of the engine's: it can be
paused and stopped meanwhile, and one that cannot be prepared has FAILED.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import replace

from spark_connect_rt.base.concurrency import Threads
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.task_runner import (
    OnTaskEvent,
    Pause,
    ReadOffsets,
    Resume,
    Start,
    Stop,
    TaskCommand,
    TaskEnded,
    TaskFailed,
    TaskLaunch,
    TaskRunner,
)

Prepare = Callable[[TaskLaunch], None]
"""Blocks until the launch may start; raises why it may not."""


class PreparedRunner:
    """Port TaskRunner over another one."""

    def __init__(
        self, runner: TaskRunner, needs: Callable[[TaskLaunch], bool], prepare: Prepare, threads: Threads
    ) -> None:
        """Take the real runner, which launches to prepare, and how."""
        self._runner = runner
        self._needs = needs
        self._prepare = prepare
        self._threads = threads
        self._lock = threading.Lock()
        self._preparing: dict[ConnectorTaskId, TaskLaunch] = {}

    def open(self, on_event: OnTaskEvent, read_offsets: ReadOffsets) -> None:
        """Open the wrapped runner and keep ``on_event`` for the events of launches in preparation."""
        self._on_event = on_event
        self._runner.open(on_event, read_offsets)

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        """Pass the lease check on to the wrapped runner."""
        self._runner.live_while(holds_lease)

    def do(self, command: TaskCommand) -> None:
        """Keep a launch back until it is prepared, and act on commands for it meanwhile; pass on the rest."""
        if isinstance(command, Start) and self._needs(command.launch):
            self._begin(command.launch)
        elif not self._done_here(command):
            self._runner.do(command)

    def close(self, timeout_ms: int) -> None:
        """End the launches in preparation, then close the wrapped runner."""
        with self._lock:
            waiting = list(self._preparing)
        for task in waiting:
            self._done_here(Stop(task, 0))
        self._runner.close(timeout_ms)

    def _begin(self, launch: TaskLaunch) -> None:
        with self._lock:
            self._preparing[launch.task] = launch
        self._threads.start(f"prepare-{launch.task}", lambda: self._run(launch))

    def _done_here(self, command: TaskCommand) -> bool:
        """Act on a command for a run that is being prepared; False: the run is the engine's, or is over."""
        with self._lock:
            launch = self._preparing.get(command.task)
            if launch is None:
                return False
            match command:
                case Pause() | Resume():
                    self._preparing[command.task] = replace(launch, paused=isinstance(command, Pause))
                    return True
                case Stop():
                    del self._preparing[command.task]
                case _:
                    return False
        self._on_event(TaskEnded(launch.task, launch.run, drained=True))
        return True

    def _run(self, launch: TaskLaunch) -> None:
        trace = ""
        try:
            self._prepare(launch)
        except BaseException:  # noqa: BLE001 - top of a thread: the task's failure
            trace = traceback.format_exc()
        with self._lock:
            now = self._preparing.get(launch.task)
            if now is None or now.run != launch.run:
                return  # stopped meanwhile; its TaskEnded went out
            if not trace:
                trace = self._start_prepared(now)
            del self._preparing[launch.task]
        if not trace:
            return
        self._on_event(TaskFailed(launch.task, launch.run, trace))
        self._on_event(TaskEnded(launch.task, launch.run, drained=True))

    def _start_prepared(self, launch: TaskLaunch) -> str:
        """Hand a launch to the engine; return why it failed, empty if it did not.

        Called under the lock, so that a later stop of the task finds the launch there.
        """
        try:
            self._runner.do(Start(launch))
        except BaseException:  # noqa: BLE001 - any error of the engine is the task's failure
            return traceback.format_exc()
        return ""

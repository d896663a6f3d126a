"""A TaskRunner that is built a moment later, so that pyspark's import does not delay the REST API.

Calls made before ``build`` are kept in order and handed on; afterwards it only passes through.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import Any

from spark_connect_rt.base.supervision import Report, SupervisedPart, report_nowhere
from spark_connect_rt.engine.task_runner import OnTaskEvent, ReadOffsets, Start, TaskCommand, TaskLaunch, TaskRunner

HELD_BACK_S = 10.0  # at most


def with_stores(launch: TaskLaunch) -> TaskLaunch:
    """Return the launch with the trust and key stores that its clients name, for executors without these files."""
    from spark_connect_rt.base.security.key_stores import carry_stores

    return replace(launch, client_config=carry_stores(launch.client_config))


class DeferredRunner:
    """Port TaskRunner in front of one that ``factory`` makes on its own thread.

    ``prepare`` changes each launch before the runner sees it, to add facts that executors cannot find for themselves.
    """

    def __init__(
        self,
        factory: Callable[[], TaskRunner],
        prepare: Callable[[TaskLaunch], TaskLaunch] = lambda launch: launch,
        report: Report = report_nowhere,
    ) -> None:
        """``report`` is called if no runner can be built. Waiting calls are then dropped, as the worker ends."""
        self._report = report
        self._factory = factory
        self._prepare = prepare
        self._built: Future[TaskRunner] = Future()
        self._lock = threading.Lock()
        self._waiting: list[Callable[[TaskRunner], None]] = []
        self._thread: threading.Thread | None = None

    def build(self, after: Future[Any] | None = None) -> None:
        """Begin to build, when ``after`` is done or has taken its time; returns at once."""
        self._thread = threading.Thread(target=self._build, args=(after,), name="task-runner", daemon=True)
        self._thread.start()

    def real(self, timeout_s: float | None = None) -> Any:
        """Wait for the runner behind. Raises what building it raised."""
        return self._built.result(timeout_s)

    def await_warm(self, timeout_s: float) -> bool:
        """Wait until a task would run at once; False: not in time, or the runner could not be built."""
        begun = time.monotonic()
        try:
            runner = self.real(timeout_s)
        except Exception:  # noqa: BLE001 - the thread that built it has reported it
            return False
        return bool(runner.await_warm(max(0.0, timeout_s - (time.monotonic() - begun))))

    def _build(self, after: Future[Any] | None) -> None:
        if after is not None:
            wait([after], HELD_BACK_S)
        try:
            runner = self._factory()
        except BaseException as error:  # noqa: BLE001 - top of the thread: reported
            with self._lock:
                self._waiting = []
                self._built.set_exception(error)
            self._report(SupervisedPart.SPARK, error)
            return
        with self._lock:
            for call in self._waiting:
                call(runner)
            self._waiting = []
            self._built.set_result(runner)

    def _call(self, call: Callable[[TaskRunner], None]) -> None:
        with self._lock:
            if not self._built.done():
                self._waiting.append(call)
                return
        if self._built.exception() is None:
            call(self._built.result())

    def open(self, on_event: OnTaskEvent, read_offsets: ReadOffsets) -> None:
        """Open the runner, now or as soon as it is built."""
        self._call(lambda runner: runner.open(on_event, read_offsets))

    def live_while(self, holds_lease: Callable[[], bool]) -> None:
        """Pass the lease check on to the runner, now or as soon as it is built."""
        self._call(lambda runner: runner.live_while(holds_lease))

    def do(self, command: TaskCommand) -> None:
        """Pass a command on to the runner in order; a launch is prepared before."""
        prepared = Start(self._prepare(command.launch)) if isinstance(command, Start) else command
        self._call(lambda runner: runner.do(prepared))

    def close(self, timeout_ms: int) -> None:
        """Close what was built, if it was begun."""
        if self._thread is not None and self._built.exception() is None:
            self._built.result().close(timeout_ms)

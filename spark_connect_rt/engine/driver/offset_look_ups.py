"""Source offsets that tasks ask the driver for, read beside the engine's loop: a read may block.

Owns the threads that read. As in Java, brokers that are away fail no task: a read is tried while the run is wanted.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spark_connect_rt.base.concurrency import MACHINE_THREADS, Threads
from spark_connect_rt.base.ids import ConnectorTaskId
from spark_connect_rt.engine.driver.reports import offsets_answer
from spark_connect_rt.engine.executor.control_wire import Message
from spark_connect_rt.engine.task_runner import ReadOffsets
from spark_connect_rt.errors import RetriableError

AT_A_TIME = 32  # some may wait long for a cluster that is away
PAUSE_S = 0.2
log = logging.getLogger(__name__)


class OffsetLookUps:
    """Reads offsets on threads of its own, which end when nothing is left to read."""

    def __init__(self, threads: Threads = MACHINE_THREADS) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._thread_count = 0
        self._closed = threads.event()

    def open(self, read: ReadOffsets) -> None:
        """Take how offsets are read."""
        self._read = read

    def close(self) -> None:
        """Read no more; answers that are still to come are of no use."""
        self._closed.set()
        with self._lock:
            self._waiting.clear()

    def begin(
        self,
        task: ConnectorTaskId,
        question: Message,
        wanted: Callable[[], bool],
        on_answer: Callable[[Message], None],
    ) -> None:
        """Answer a task's question, on one of the threads. ``wanted``: whether to go on while brokers are away."""

        def read() -> None:
            partitions = question["partitions"]
            on_answer(offsets_answer(task, question["id"], lambda: self._patiently(task, partitions, wanted)))

        with self._lock:
            self._waiting.append(read)
            if self._thread_count == AT_A_TIME:
                return
            self._thread_count += 1
        self._threads.start("engine-offsets", self._read_all)

    def _read_all(self) -> None:
        while (read := self._next()) is not None:
            read()

    def _next(self) -> Callable[[], None] | None:
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._thread_count -= 1
            return None

    def _patiently(
        self, task: ConnectorTaskId, partitions: Sequence[Mapping[str, Any]], wanted: Callable[[], bool]
    ) -> list[Mapping[str, Any] | None]:
        while True:
            try:
                return self._read(task, partitions)
            except RetriableError as error:
                if not wanted():
                    raise
                log.warning("task=%s: reading source offsets again: %s", task, error)
                self._closed.wait(PAUSE_S)

"""Source offsets that tasks ask the driver for, read beside the engine's loop: a read may block.

Owns the threads that read. As in Java, brokers that are away fail no task: a read is tried while the run is wanted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from spark_connect_rt.errors import RetriableError
from spark_connect_rt.ports.task_runner import ReadOffsets
from spark_connect_rt.protocol.ids import ConnectorTaskId
from spark_connect_rt.spark.driver.reports import offsets_answer
from spark_connect_rt.spark.executor.control_wire import Message

AT_A_TIME = 32  # some may wait long for a cluster that is away
PAUSE_S = 0.2
log = logging.getLogger(__name__)


class OffsetLookUps:
    """Reads offsets on threads of its own."""

    def __init__(self) -> None:
        self._readers = ThreadPoolExecutor(AT_A_TIME, thread_name_prefix="engine-offsets")
        self._closed = threading.Event()

    def open(self, read: ReadOffsets) -> None:
        """Take how offsets are read."""
        self._read = read

    def close(self) -> None:
        """Read no more; answers that are still to come are of no use."""
        self._closed.set()
        self._readers.shutdown(wait=False, cancel_futures=True)

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

        self._readers.submit(read)

    def _patiently(
        self, task: ConnectorTaskId, partitions: Sequence[Mapping[str, Any]], wanted: Callable[[], bool]
    ) -> list[Mapping[str, Any] | None]:
        while True:
            try:
                return self._read(task, partitions)
            except RetriableError as error:
                if not wanted():
                    raise
                log.warning("task=%s: source offsets are read again: %s", task, error)
                self._closed.wait(PAUSE_S)

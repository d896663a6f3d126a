"""What a worker's main thread does while its herder works: wait until somebody wants the end, and say which one."""

from __future__ import annotations

import logging
import os
from typing import Protocol

from spark_connect_rt.app.exit_codes import EXIT_TICK_CRASHED

LOOK_EVERY_S = 0.5

log = logging.getLogger(__name__)


class Flag(Protocol):
    """As ``threading.Event``."""

    def is_set(self) -> bool:
        """Return whether it is up."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for it; return whether it is up."""


def await_end(stop_asked: Flag, tick_ended: Flag, worker_id: str) -> int:
    """Wait for a signal, for spark-submit's end, or for the tick thread's; return the exit code."""
    submitted_by = os.getppid() if "PYSPARK_GATEWAY_PORT" in os.environ else None
    while not stop_asked.wait(LOOK_EVERY_S):
        if submitted_by is not None and os.getppid() != submitted_by:
            log.warning("worker=%s spark-submit is gone: the worker stops", worker_id)
            break
        if tick_ended.is_set():  # nobody asked for it: the tick thread is gone
            return EXIT_TICK_CRASHED
    return 0
